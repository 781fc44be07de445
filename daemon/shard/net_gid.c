/* SPDX-License-Identifier: MIT */
/* net_gid.c - from a GID to its device and socket. */
#include "net_gid.h"

#include <string.h>

#include <rdmad/gid.h>

#include "net.h"

unsigned gid_hash(const uint8_t gid[16])
{
	uint64_t a, b;

	memcpy(&a, gid, 8);
	memcpy(&b, gid + 8, 8);
	return (unsigned)(((a ^ b * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u) >> 40) & (GIDS_HASH - 1);
}

const struct gid_slot *net_gid_find(const struct net *net, const uint8_t gid[16])
{
	unsigned i = gid_hash(gid);

	for (; net->gids[i].dev; i = (i + 1) & (GIDS_HASH - 1))
		if (gid_same(net->gids[i].gid, gid))
			return &net->gids[i];
	return NULL;
}

/* A GID that two rows have is that of the one with a socket. */
static void gid_insert(struct net *net, struct device *dev, unsigned row)
{
	struct net_sock *sock = net->by_slot[dev->index * RDMAD_GIDS + row];
	const uint8_t *gid = dev->gid[row].gid;
	unsigned i = gid_hash(gid);

	while (net->gids[i].dev && !gid_same(net->gids[i].gid, gid))
		i = (i + 1) & (GIDS_HASH - 1);
	if (net->gids[i].sock)
		return;
	memcpy(net->gids[i].gid, gid, 16);
	net->gids[i].dev = dev;
	net->gids[i].sock = sock;
}

void net_gids_rebuild(struct net *net)
{
	memset(net->gids, 0, sizeof(net->gids));
	for (unsigned d = 0; d < devices_n; d++)
		for (unsigned row = 0; row < RDMAD_GIDS; row++)
			if (!gid_is_empty(devices[d].gid[row].gid))
				gid_insert(net, &devices[d], row);
	/* The owner of the last addresses may have changed, too. */
	net->from = NULL;
	net->to.known = false;
	net->last.train = NULL;
	for (unsigned i = 0; i < net->train_n; i++)
		net->train[i].b.sock = NULL;
	for (unsigned i = 0; i < net->sock_n; i++)
		for (unsigned k = 0; k < SENDERS; k++)
			net->sock[i]->senders[k].flow.len = 0;
}

struct device *net_device(const struct net *net, const uint8_t gid[16])
{
	const struct gid_slot *g = net_gid_find(net, gid);

	return g ? g->dev : NULL;
}

const struct gid_slot *net_gid_again(const struct net *net, const struct gid_slot **last, const uint8_t gid[16])
{
	if (!*last || !gid_same((*last)->gid, gid))
		*last = net_gid_find(net, gid);
	return *last;
}

struct device *net_device_to(struct net *net, const uint8_t gid[16])
{
	if (!net->to.known || !gid_same(net->to.gid, gid)) {
		memcpy(net->to.gid, gid, 16);
		net->to.dev = net_device(net, gid);
		net->to.known = true;
	}
	return net->to.dev;
}
