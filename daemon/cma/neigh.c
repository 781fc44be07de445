/* SPDX-License-Identifier: MIT */
/*
 * neigh.c - rtnetlink: RTM_GETROUTE tells the next hop, RTM_GETNEIGH what is known of it.
 *
 *	VALID	an address is known (perhaps an old one, which the host will check itself)
 *	else	none, or it is being asked for, or did not answer
 */
#include "neigh.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define VALID   (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP)
#define DISCARD 9u

struct hop {
	int family;
	unsigned ifindex;
	uint8_t addr[16];
	size_t len;
};

struct msg {
	struct nlmsghdr h;
	union {
		struct rtmsg rt;
		struct ndmsg nd;
	};
	uint8_t attrs[256];
};

static int nl = -1; /* stays open: to make one costs more than a question */

static void attr_put(struct msg *m, uint16_t type, const void *data, size_t len)
{
	struct rtattr *a = (struct rtattr *)((uint8_t *)m + NLMSG_ALIGN(m->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	m->h.nlmsg_len = NLMSG_ALIGN(m->h.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

static const struct rtattr *attr_get(const struct nlmsghdr *h, size_t head, uint16_t type)
{
	const struct rtattr *a = (const struct rtattr *)((const uint8_t *)NLMSG_DATA(h) + NLMSG_ALIGN(head));
	size_t left = h->nlmsg_len - NLMSG_LENGTH(head);

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == type)
			return a;
	return NULL;
}

/* The answer is there when send() is back; before it may be one that came too late for its question. */
static int exchange(const struct msg *m, void *buf, size_t len)
{
	const struct nlmsghdr *h = buf;
	ssize_t n;

	if (send(nl, m, m->h.nlmsg_len, 0) < 0)
		return errno;
	do {
		n = recv(nl, buf, len, MSG_DONTWAIT);
		if (n < 0)
			return errno;
		if (!NLMSG_OK(h, (size_t)n))
			return EIO;
	} while (h->nlmsg_seq != m->h.nlmsg_seq);
	return 0;
}

void neigh_begin(void)
{
	if (nl < 0)
		nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
}

void neigh_end(void)
{
	if (nl >= 0)
		close(nl);
	nl = -1;
}

/* One question, one answer into buf; 0 or errno. */
static int ask(struct msg *m, void *buf, size_t len)
{
	static uint32_t seq;
	const struct nlmsghdr *h = buf;
	int err;

	m->h.nlmsg_flags = NLM_F_REQUEST;
	m->h.nlmsg_seq = ++seq;
	err = exchange(m, buf, len);
	if (!err)
		return h->nlmsg_type == NLMSG_ERROR ? -((const struct nlmsgerr *)NLMSG_DATA(h))->error : 0;
	neigh_end();
	neigh_begin();
	return err;
}

static bool is_group(const union cmm_addr *a)
{
	return a->sa.sa_family == AF_INET ? IN_MULTICAST(ntohl(a->in.sin_addr.s_addr))
					  : IN6_IS_ADDR_MULTICAST(&a->in6.sin6_addr);
}

/* 0, or as neigh_answers(); hop->ifindex 0: there is no hop to ask. */
static int hop_get(const union cmm_addr *src, const union cmm_addr *dst, struct hop *hop)
{
	_Alignas(struct nlmsghdr) uint8_t buf[4096];
	const struct nlmsghdr *h = (const void *)buf;
	const struct rtattr *via, *oif;
	bool v4 = dst->sa.sa_family == AF_INET;
	size_t len = v4 ? 4 : 16;
	const void *to = v4 ? (const void *)&dst->in.sin_addr : (const void *)&dst->in6.sin6_addr;
	const void *from = v4 ? (const void *)&src->in.sin_addr : (const void *)&src->in6.sin6_addr;
	struct msg m = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(m.rt)), .nlmsg_type = RTM_GETROUTE } };
	const struct rtmsg *rt;
	int err;

	*hop = (struct hop){ .family = dst->sa.sa_family, .len = len };
	m.rt = (struct rtmsg){ .rtm_family = (unsigned char)dst->sa.sa_family,
			       .rtm_dst_len = (unsigned char)(8 * len),
			       .rtm_src_len = (unsigned char)(8 * len) };
	attr_put(&m, RTA_DST, to, len);
	attr_put(&m, RTA_SRC, from, len);
	if (!v4 && dst->in6.sin6_scope_id)
		attr_put(&m, RTA_OIF, &dst->in6.sin6_scope_id, sizeof(dst->in6.sin6_scope_id));
	err = ask(&m, buf, sizeof(buf));
	if (err == ENETUNREACH || err == EHOSTUNREACH)
		return is_group(dst) ? 0 : err;
	if (err || h->nlmsg_type != RTM_NEWROUTE)
		return 0;
	rt = NLMSG_DATA(h);
	oif = attr_get(h, sizeof(*rt), RTA_OIF);
	if (rt->rtm_type != RTN_UNICAST || !oif || attr_get(h, sizeof(*rt), RTA_VIA))
		return 0;
	via = attr_get(h, sizeof(*rt), RTA_GATEWAY);
	if (via && RTA_PAYLOAD(via) != len)
		return 0;
	memcpy(&hop->ifindex, RTA_DATA(oif), sizeof(hop->ifindex));
	memcpy(hop->addr, via ? RTA_DATA(via) : to, len);
	return 0;
}

static bool if_asks(unsigned ifindex)
{
	struct ifreq r = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return false;
	ret = if_indextoname(ifindex, r.ifr_name) ? ioctl(fd, SIOCGIFFLAGS, &r) : -1;
	close(fd);
	return ret == 0 && !(r.ifr_flags & (IFF_LOOPBACK | IFF_NOARP | IFF_POINTOPOINT));
}

/* Of enum NUD_*; 0: no entry.  Where it cannot be known: VALID. */
static unsigned hop_state(const struct hop *hop)
{
	_Alignas(struct nlmsghdr) uint8_t buf[4096];
	const struct nlmsghdr *h = (const void *)buf;
	struct msg m = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(m.nd)), .nlmsg_type = RTM_GETNEIGH } };
	int err;

	m.nd = (struct ndmsg){ .ndm_family = (unsigned char)hop->family, .ndm_ifindex = (int)hop->ifindex };
	attr_put(&m, NDA_DST, hop->addr, hop->len);
	err = ask(&m, buf, sizeof(buf));
	if (err == ENOENT)
		return 0;
	if (err || h->nlmsg_type != RTM_NEWNEIGH)
		return VALID;
	return ((const struct ndmsg *)NLMSG_DATA(h))->ndm_state;
}

static void hop_kick(const union cmm_addr *src, const union cmm_addr *dst)
{
	union cmm_addr from = *src, to = *dst;
	socklen_t len = dst->sa.sa_family == AF_INET ? sizeof(to.in) : sizeof(to.in6);
	int fd = socket(dst->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	if (to.sa.sa_family == AF_INET) {
		from.in.sin_port = 0;
		to.in.sin_port = htons(DISCARD);
	} else {
		from.in6.sin6_port = 0;
		to.in6.sin6_port = htons(DISCARD);
	}
	if (!bind(fd, &from.sa, len))
		(void)!sendto(fd, "", 0, MSG_NOSIGNAL, &to.sa, len);
	close(fd);
}

/* A mapped address as that of IPv4: the way there is one of IPv4's routes. */
static union cmm_addr unmapped(const union cmm_addr *a)
{
	union cmm_addr v4 = { .in.sin_family = AF_INET };

	if (a->sa.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr))
		return *a;
	memcpy(&v4.in.sin_addr, &a->in6.sin6_addr.s6_addr[12], 4);
	return v4;
}

int neigh_answers(const union cmm_addr *src, const union cmm_addr *dst)
{
	const union cmm_addr from = unmapped(src), to = unmapped(dst);
	struct hop hop;
	unsigned state;
	int err;

	if (from.sa.sa_family != to.sa.sa_family)
		return 0;
	err = hop_get(&from, &to, &hop);
	if (err || !hop.ifindex || !if_asks(hop.ifindex))
		return err;
	state = hop_state(&hop);
	if (state & VALID)
		return 0;
	if (!(state & NUD_INCOMPLETE))
		hop_kick(&from, &to);
	return EAGAIN;
}

unsigned neigh_interface(const union cmm_addr *src, const union cmm_addr *dst)
{
	const union cmm_addr from = unmapped(src), to = unmapped(dst);
	struct hop hop;

	return from.sa.sa_family == to.sa.sa_family && !hop_get(&from, &to, &hop) ? hop.ifindex : 0;
}
