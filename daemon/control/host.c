/* SPDX-License-Identifier: MIT */
/* host.c - getifaddrs(3), or what is older than netlink; sorted, and some ioctls. */
#include "host.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_arp.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/gid.h>

static int ask(unsigned long what, struct ifreq *r, const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return -1;
	snprintf(r->ifr_name, sizeof(r->ifr_name), "%s", name);
	ret = ioctl(fd, what, r);
	close(fd);
	return ret;
}

static void if_mac(struct host_if *f, size_t len, const void *mac)
{
	memcpy(f->mac, mac, sizeof(f->mac));
	f->has_mac = len == sizeof(f->mac) && memcmp(f->mac, (uint8_t[6]){ 0 }, sizeof(f->mac));
}

/* Every interface has one entry of AF_PACKET, or, where there is no hardware address (WireGuard, tun), of no address at all. */
static void ifs_read(struct host *h, const struct ifaddrs *list)
{
	const struct sockaddr_ll *ll;
	struct host_if *f;

	for (; list && h->if_n < HOST_IFS; list = list->ifa_next) {
		if (list->ifa_addr && list->ifa_addr->sa_family != AF_PACKET)
			continue;
		ll = (const struct sockaddr_ll *)list->ifa_addr;
		f = &h->ifs[h->if_n++];
		strncpy(f->name, list->ifa_name, sizeof(f->name) - 1);
		f->index = ll ? (unsigned)ll->sll_ifindex : if_nametoindex(f->name);
		f->flags = list->ifa_flags;
		if (ll)
			if_mac(f, ll->sll_halen, ll->sll_addr);
	}
}

/* Nobody is reached by an interface without a link, as docker0 is on a host without containers. */
static unsigned addr_rank(const struct host_addr *a)
{
	return (a->dev->flags & IFF_LOOPBACK ? 4u : host_if_up(a->dev) ? 0u : 2u) + !gid_is_v4(a->gid);
}

static int addr_order(const void *a, const void *b)
{
	const struct host_addr *x = a, *y = b;
	unsigned rx = addr_rank(x), ry = addr_rank(y);

	if (rx != ry)
		return rx < ry ? -1 : 1;
	if (x->dev->index != y->dev->index)
		return x->dev->index < y->dev->index ? -1 : 1;
	return memcmp(x->gid, y->gid, 16);
}

static bool addr_get(const struct sockaddr *sa, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (sa && sa->sa_family == AF_INET) {
		gid[10] = gid[11] = 0xff;
		memcpy(gid + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
		return true;
	}
	if (sa && sa->sa_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
		return true;
	}
	return false;
}

/* An alias, as eth0:1, is its interface's. */
static void name_take(char name[IF_NAMESIZE], const char *from)
{
	snprintf(name, IF_NAMESIZE, "%s", from);
	name[strcspn(name, ":")] = '\0';
}

static void addrs_read(struct host *h, const struct ifaddrs *list)
{
	char name[IF_NAMESIZE];
	struct host_addr *a;

	for (; list && h->addr_n < HOST_ADDRS; list = list->ifa_next) {
		a = &h->addr[h->addr_n];
		if (!addr_get(list->ifa_addr, a->gid))
			continue;
		name_take(name, list->ifa_name);
		a->dev = host_if_find(h, name);
		if (a->dev)
			h->addr_n++;
	}
}

/* ---- without netlink --------------------------------------------------------------- */

/*
 * Sandboxes refuse its sockets (firejail --protocol, RestrictAddressFamilies of systemd).  Then SIOCGIFCONF tells the addresses of
 * IPv4, /proc/net/if_inet6 those of IPv6; of interfaces those are known that have one.
 */
static const struct host_if *if_get(struct host *h, const char *from)
{
	struct host_if *f = &h->ifs[h->if_n];
	const struct host_if *there;
	struct ifreq r = { 0 };
	char name[IF_NAMESIZE];

	name_take(name, from);
	there = host_if_find(h, name);
	if (there || h->if_n == HOST_IFS || ask(SIOCGIFINDEX, &r, name) < 0)
		return there;
	memcpy(f->name, name, sizeof(f->name));
	f->index = (unsigned)r.ifr_ifindex;
	if (ask(SIOCGIFFLAGS, &r, name) == 0)
		f->flags = (unsigned short)r.ifr_flags;
	if (ask(SIOCGIFHWADDR, &r, name) == 0)
		if_mac(f, r.ifr_hwaddr.sa_family == ARPHRD_ETHER ? 6 : 0, r.ifr_hwaddr.sa_data);
	h->if_n++;
	return f;
}

static void addr_put(struct host *h, const char *name, const uint8_t gid[16])
{
	struct host_addr *a = &h->addr[h->addr_n];

	if (h->addr_n == HOST_ADDRS)
		return;
	memcpy(a->gid, gid, 16);
	a->dev = if_get(h, name);
	if (a->dev)
		h->addr_n++;
}

static int v4_ask(struct host *h)
{
	const size_t len = HOST_ADDRS * sizeof(struct ifreq);
	struct ifconf c = { .ifc_len = (int)len, .ifc_buf = malloc(len) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = !c.ifc_buf ? ENOMEM : fd < 0 || ioctl(fd, SIOCGIFCONF, &c) < 0 ? errno : 0;
	uint8_t gid[16];

	for (size_t i = 0; !err && i < (size_t)c.ifc_len / sizeof(*c.ifc_req); i++)
		if (addr_get(&c.ifc_req[i].ifr_addr, gid))
			addr_put(h, c.ifc_req[i].ifr_name, gid);
	if (fd >= 0)
		close(fd);
	free(c.ifc_buf);
	return err;
}

/* Each line: the address, then in hexadecimal index, length of the prefix, scope and flags, then the name. */
static void v6_ask(struct host *h)
{
	FILE *f = fopen("/proc/net/if_inet6", "re");
	char line[128], name[IF_NAMESIZE];
	uint8_t gid[16];

	while (f && fgets(line, sizeof(line), f)) {
		for (unsigned i = 0; i < 16; i++)
			if (sscanf(line + 2 * i, "%2hhx", &gid[i]) != 1)
				break;
		if (sscanf(line, "%*32s %*x %*x %*x %*x %15s", name) == 1)
			addr_put(h, name, gid);
	}
	if (f)
		fclose(f);
}

static int ask_all(struct host *h)
{
	int err = v4_ask(h);

	if (!err)
		v6_ask(h);
	return err;
}

int host_read(struct host *h)
{
	struct ifaddrs *list;
	int err = 0;

	memset(h, 0, sizeof(*h));
	if (getifaddrs(&list) == 0) {
		ifs_read(h, list);
		addrs_read(h, list);
		freeifaddrs(list);
	} else {
		err = ask_all(h);
	}
	qsort(h->addr, h->addr_n, sizeof(*h->addr), addr_order);
	return err;
}

const struct host_if *host_if_find(const struct host *h, const char *name)
{
	for (unsigned i = 0; i < h->if_n; i++)
		if (!strcmp(h->ifs[i].name, name))
			return &h->ifs[i];
	return NULL;
}

uint32_t host_if_mtu(const char *name)
{
	struct ifreq r = { 0 };

	return ask(SIOCGIFMTU, &r, name) < 0 || r.ifr_mtu < 0 ? 0 : (uint32_t)r.ifr_mtu;
}

uint32_t host_if_mbps(const char *name)
{
	struct ethtool_cmd cmd = { .cmd = ETHTOOL_GSET };
	struct ifreq r = { .ifr_data = (void *)&cmd };
	uint32_t speed;

	if (ask(SIOCETHTOOL, &r, name) < 0)
		return 0;
	speed = (uint32_t)cmd.speed_hi << 16 | cmd.speed; /* ethtool_cmd_speed() shifts a signed number */
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

bool host_addr_usable(const uint8_t gid[16], unsigned ifindex)
{
	bool is_v4 = gid_is_v4(gid);
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return false;
	memcpy(&in.sin_addr, gid + 12, 4);
	memcpy(&in6.sin6_addr, gid, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
		in6.sin6_scope_id = ifindex;
	ret = is_v4 ? bind(fd, (struct sockaddr *)&in, sizeof(in)) : bind(fd, (struct sockaddr *)&in6, sizeof(in6));
	close(fd);
	return ret == 0;
}
