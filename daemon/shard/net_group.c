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

#include "inbox.h"
#include "net_sock.h"
#include "spare.h"

struct net_group {
	struct net_group *next;
	struct net_sock *sock;
	unsigned n; /* members */
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
	unsigned slot = DEVICES_MAX * RDMAD_GIDS; /* behind those of GIDs */
	struct net_sock *s;
	int err, yes = 1;

	while (slot < NET_SLOTS && net->by_slot[slot])
		slot++;
	if (slot == NET_SLOTS)
		return ENOBUFS;
	s = calloc(1, sizeof(*s));
	if (!s)
		return ENOMEM;
	s->slot = slot;
	s->dev = dev;
	memcpy(s->gid, mgid, 16);
	s->ifindex = ifindex;
	s->ipv6 = !gid_is_v4(mgid);
	s->group = true;
	s->fd = spare_take(s->ipv6);
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

static int group_set(struct net *net, struct device *dev, const uint8_t *mgid, unsigned ifindex, bool in)
{
	struct net_group **p = &net->groups, *g;
	int err;

	while (*p && ((*p)->sock->dev != dev || (*p)->sock->ifindex != ifindex || memcmp((*p)->sock->gid, mgid, 16)))
		p = &(*p)->next;
	g = *p;
	if (!in) {
		if (!g)
			return ENOENT;
		if (--g->n)
			return 0;
		*p = g->next;
		sock_close(net, g->sock);
		free(g);
		return 0;
	}
	if (!g) {
		g = calloc(1, sizeof(*g));
		if (!g)
			return ENOMEM;
		err = group_open(net, dev, mgid, ifindex, &g->sock);
		if (err) {
			free(g);
			return err;
		}
		*p = g;
	}
	g->n++;
	return 0;
}

void net_groups_free(struct net *net)
{
	struct net_group *g;

	while ((g = net->groups)) {
		net->groups = g->next;
		free(g);
	}
}

struct group_arg {
	struct device *dev;
	const uint8_t *mgid;
	unsigned ifindex;
	bool in;
	int err;
};

static void group_call(struct shard *s, void *arg)
{
	struct group_arg *a = arg;

	a->err = group_set(s->net, a->dev, a->mgid, a->ifindex, a->in);
}

int net_group(struct device *dev, const uint8_t *mgid, unsigned ifindex, bool in)
{
	struct group_arg a = { dev, mgid, ifindex, in, 0 };

	shard_call(shards[0], group_call, &a);
	return a.err;
}
