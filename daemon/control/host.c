/* SPDX-License-Identifier: MIT */
/* host.c - getifaddrs(3), sorted, and some ioctls. */
#include "host.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/gid.h>

static int if_order(const void *a, const void *b)
{
	const struct host_if *x = a, *y = b;

	return x->index < y->index ? -1 : x->index > y->index;
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
		if (!ll)
			continue;
		memcpy(f->mac, ll->sll_addr, sizeof(f->mac));
		f->has_mac = ll->sll_halen == 6 && memcmp(f->mac, (uint8_t[6]){ 0 }, 6);
	}
	qsort(h->ifs, h->if_n, sizeof(*h->ifs), if_order);
}

static unsigned addr_rank(const struct host_addr *a)
{
	return (a->dev->flags & IFF_LOOPBACK ? 2 : 0) + !gid_is_v4(a->gid);
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

static void addrs_read(struct host *h, const struct ifaddrs *list)
{
	char name[IF_NAMESIZE];
	struct host_addr *a;

	for (; list && h->addr_n < HOST_ADDRS; list = list->ifa_next) {
		a = &h->addr[h->addr_n];
		if (!addr_get(list->ifa_addr, a->gid))
			continue;
		strncpy(name, list->ifa_name, sizeof(name) - 1);
		name[sizeof(name) - 1] = '\0';
		name[strcspn(name, ":")] = '\0'; /* an alias is its interface's */
		a->dev = host_if_find(h, name);
		if (a->dev)
			h->addr_n++;
	}
	qsort(h->addr, h->addr_n, sizeof(*h->addr), addr_order);
}

int host_read(struct host *h)
{
	struct ifaddrs *list;

	memset(h, 0, sizeof(*h));
	if (getifaddrs(&list) < 0)
		return errno;
	ifs_read(h, list);
	addrs_read(h, list);
	freeifaddrs(list);
	return 0;
}

const struct host_if *host_if_find(const struct host *h, const char *name)
{
	for (unsigned i = 0; i < h->if_n; i++)
		if (!strcmp(h->ifs[i].name, name))
			return &h->ifs[i];
	return NULL;
}

static int ask(unsigned long what, struct ifreq *r, const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return -1;
	strncpy(r->ifr_name, name, sizeof(r->ifr_name) - 1);
	ret = ioctl(fd, what, r);
	close(fd);
	return ret;
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
