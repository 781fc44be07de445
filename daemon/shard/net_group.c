/* SPDX-License-Identifier: MIT */
/*
 * net_group.c - IP multicast groups: a socket of shard 0 for each group, interface and device.
 *
 * It is bound to the group's address, so that its packets have the GID of the group, and in the group on that
 * interface only.  Other devices and daemons of the host have sockets of their own at the same address: each
 * gets each datagram, those that the host sends itself included.
 */
#include "net_group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "../base/quota.h"
#include "inbox.h"
#include "net_sock.h"
#include "spare.h"

/* One user's members. */
struct part {
	struct part *next;
	uid_t uid;
	unsigned n;
	struct bill bill;
};

struct net_group {
	struct net_group *next;
	struct net_sock *sock;
	struct part *parts;
};

static int opt(int fd, int level, int name, const void *value, socklen_t len)
{
	return setsockopt(fd, level, name, value, len) < 0 ? errno : 0;
}

static int join4(const struct net_sock *s)
{
	struct ip_mreqn m = { .imr_ifindex = (int)s->ifindex };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	int no = 0, err;

	memcpy(&m.imr_multiaddr, s->gid + 12, 4);
	in.sin_addr = m.imr_multiaddr;
	err = bind(s->fd, (struct sockaddr *)&in, sizeof(in)) < 0 ? errno : 0;
	opt(s->fd, SOL_IP, IP_MULTICAST_ALL, &no, sizeof(no));
	return err ? err : opt(s->fd, SOL_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m));
}

static int join6(const struct net_sock *s)
{
	struct ipv6_mreq m = { .ipv6mr_interface = s->ifindex };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT) };
	int no = 0, err;

	memcpy(&m.ipv6mr_multiaddr, s->gid, 16);
	in6.sin6_addr = m.ipv6mr_multiaddr;
	if (IN6_IS_ADDR_MC_LINKLOCAL(&in6.sin6_addr) || IN6_IS_ADDR_MC_NODELOCAL(&in6.sin6_addr))
		in6.sin6_scope_id = s->ifindex;
	err = bind(s->fd, (struct sockaddr *)&in6, sizeof(in6)) < 0 ? errno : 0;
	opt(s->fd, SOL_IPV6, IPV6_MULTICAST_ALL, &no, sizeof(no));
	return err ? err : opt(s->fd, SOL_IPV6, IPV6_ADD_MEMBERSHIP, &m, sizeof(m));
}

static int group_open(struct net *net, struct device *dev, const uint8_t *mgid, unsigned ifindex, struct net_sock **out)
{
	unsigned slot = DEVICES_MAX * RDMAD_GIDS, end = slot + GROUPS_MAX; /* behind those of GIDs */
	struct net_sock *s;
	int err, yes = 1;

	while (slot < end && net->by_slot[slot])
		slot++;
	if (slot == end)
		return ENOMEM;
	s = calloc(1, sizeof(*s));
	if (!s)
		return ENOMEM;
	s->slot = slot;
	s->dev = dev;
	memcpy(s->gid, mgid, 16);
	s->ifindex = ifindex;
	s->ipv6 = !gid_is_v4(mgid);
	s->group = true;
	s->fd = spare_take(s->ipv6, true);
	err = s->fd < 0 ? errno : sock_options(net, s);
	if (!err)
		err = opt(s->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (!err)
		err = s->ipv6 ? join6(s) : join4(s);
	if (!err)
		err = sock_add(net, s);
	if (err)
		sock_close(net, s);
	else
		*out = s;
	return err;
}

static struct part **part_find(struct net_group *g, uid_t uid)
{
	struct part **p = &g->parts;

	while (*p && (*p)->uid != uid)
		p = &(*p)->next;
	return p;
}

static int part_join(struct net_group *g, uid_t uid)
{
	static const struct cost cost = {
		{ [QUOTA_GROUPS] = 1, [QUOTA_HEAP] = sizeof(struct part) + sizeof(*g) + sizeof(*g->sock) }
	};
	struct part **at = part_find(g, uid), *p = *at;
	int err;

	if (!p) {
		p = calloc(1, sizeof(*p));
		err = p ? bill_open(&p->bill, uid, &cost) : ENOMEM;
		if (err) {
			free(p);
			return err;
		}
		p->uid = uid;
		*at = p;
	}
	p->n++;
	return 0;
}

static void part_leave(struct net_group *g, uid_t uid)
{
	struct part **at = part_find(g, uid), *p = *at;

	if (!p || --p->n)
		return;
	*at = p->next;
	bill_close(&p->bill);
	free(p);
}

static struct net_group **group_find(struct net *net, const struct device *dev, const uint8_t *mgid, unsigned ifindex)
{
	struct net_group **p = &net->groups;

	while (*p && ((*p)->sock->dev != dev || (*p)->sock->ifindex != ifindex || !gid_same((*p)->sock->gid, mgid)))
		p = &(*p)->next;
	return p;
}

static int group_enter(struct net *net, struct device *dev, const uint8_t *mgid, unsigned ifindex, uid_t uid)
{
	struct net_group **at = group_find(net, dev, mgid, ifindex), *g = *at ? *at : calloc(1, sizeof(*g));
	int err = g ? part_join(g, uid) : ENOMEM;

	if (!err && !g->sock) {
		err = group_open(net, dev, mgid, ifindex, &g->sock);
		if (err)
			part_leave(g, uid);
	}
	if (!*at && err)
		free(g);
	else
		*at = g;
	return err;
}

static int group_leave(struct net *net, struct device *dev, const uint8_t *mgid, unsigned ifindex, uid_t uid)
{
	struct net_group **at = group_find(net, dev, mgid, ifindex), *g = *at;

	if (!g)
		return ENOENT;
	part_leave(g, uid);
	if (g->parts)
		return 0;
	*at = g->next;
	sock_close(net, g->sock);
	free(g);
	return 0;
}

void net_groups_free(struct net *net)
{
	struct net_group *g;

	while ((g = net->groups)) {
		net->groups = g->next;
		while (g->parts) {
			g->parts->n = 1;
			part_leave(g, g->parts->uid);
		}
		free(g);
	}
}

struct group_arg {
	struct device *dev;
	const uint8_t *mgid;
	unsigned ifindex;
	uid_t uid;
	bool in;
	int err;
};

static void group_call(struct shard *s, void *arg)
{
	struct group_arg *a = arg;

	a->err = (a->in ? group_enter : group_leave)(s->net, a->dev, a->mgid, a->ifindex, a->uid);
}

int net_group(struct device *dev, const uint8_t *mgid, unsigned ifindex, uid_t uid, bool in)
{
	struct group_arg a = { dev, mgid, ifindex, uid, in, 0 };

	shard_call(shards[0], group_call, &a);
	return a.err;
}
