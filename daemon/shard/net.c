/* SPDX-License-Identifier: MIT */
/* net.c - the UDP edge of a shard comes and goes, and follows the GID tables. */
#include "net_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdmad/gid.h>

#include "idrule.h"
#include "inbox.h"
#include "net_gid.h"
#include "net_group.h"
#include "net_rx.h"
#include "net_sock.h"
#include "net_tx.h"

uint64_t net_token;

/*
 * Between devices of one shard a burst is handed over and cannot get lost.  With several shards the peer QP may
 * be another's, reached through UDP: there the window stays.
 */
static void hcas_tell(struct net *net, const uint8_t gid[16], bool local)
{
	for (unsigned d = 0; d < devices_n && shards_n == 1; d++)
		hca_local_set(net->shard->hca[d], gid, local);
}

int net_row_set(struct net *net, struct device *dev, unsigned row)
{
	struct gid_row *r = &dev->gid[row];
	struct net_sock *s = net->by_slot[dev->index * RDMAD_GIDS + row];
	struct hca *hca = net->shard->hca[dev->index];
	uint8_t *told = net->told[dev->index * RDMAD_GIDS + row];
	int err = 0;

	if (s && (!r->wire || !gid_same(s->gid, r->gid) || s->ifindex != r->ifindex)) {
		sock_close(net, s);
		s = NULL;
	}
	if (gid_is_empty(r->gid)) {
		hca_gid_set(hca, row, NULL);
	} else {
		if (r->wire && !s)
			err = sock_open(net, dev, row);
		hca_gid_set(hca, row, r->gid);
	}
	net_gids_rebuild(net);
	if (!gid_is_empty(told) && !net_device(net, told))
		hcas_tell(net, told, false);
	if (!gid_is_empty(r->gid))
		hcas_tell(net, r->gid, true);
	memcpy(told, r->gid, 16);
	return err;
}

bool net_hot(const struct net *net, mono_t now)
{
	for (unsigned i = 0; i < net->sock_n; i++)
		if (mono_before(now, net->sock[i]->hot_until))
			return true;
	return false;
}

void net_ready(struct net *net, unsigned slot, mono_t now)
{
	struct net_sock *s = slot < NET_SLOTS ? net->by_slot[slot] : NULL;

	if (!s)
		return;
	s->hot_until = mono_add(now, NET_HOT_NS);
	net->retry = true;
}

void net_room_ready(struct net *net) { net->retry = true; }

int net_start(void) { return getentropy(&net_token, sizeof(net_token)) ? EIO : 0; }

int net_new(struct net **out, struct shard *shard, struct io *io)
{
	struct net *net;
	int err;

	if (posix_memalign((void **)&net, 64, sizeof(*net)))
		return ENOMEM;
	memset(net, 0, sizeof(*net));
	net->shard = shard;
	net->io = io;
	net->gso4 = id_rule_holds();
	icrc_rx_init(&net->icrc);
	err = net_tx_init(net);
	err = err ? err : net_rx_init(net);
	if (err) {
		net_tx_free(net);
		free(net);
		return err;
	}
	*out = net;
	return 0;
}

void net_free(struct net *net)
{
	if (!net)
		return;
	net_groups_free(net);
	while (net->sock_n)
		sock_close(net, net->sock[0]);
	net_rx_free(net);
	net_tx_free(net);
	free(net);
}

/* ---- the control thread asks ----------------------------------------------- */

struct row_arg {
	struct device *dev;
	unsigned row;
	int err;
};

static void row_call(struct shard *s, void *arg)
{
	struct row_arg *r = arg;

	r->err = net_row_set(s->net, r->dev, r->row);
}

/*
 * In the order of the shards: the n-th socket bound to an address is number n of its reuseport
 * group, which the program that picks one by QPN relies on.
 */
int net_gid_changed(struct device *dev, unsigned row)
{
	struct row_arg r = { .dev = dev, .row = row };
	int err = 0;

	for (unsigned i = 0; i < shards_n; i++) {
		if (!shards[i])
			continue;
		shard_call(shards[i], row_call, &r);
		err = err ? err : r.err;
	}
	return err;
}
