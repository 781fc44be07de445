/* SPDX-License-Identifier: MIT */
/* tap.c - bursts cut into packets, and each packet shown to those who listen. */
#include "tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../proto/hca.h"
#include "../proto/hdr.h"
#include "net.h"
#include "region.h"

#define SPANS_MAX	(RD_MAX_SGE + 1u)

struct tap {
	uint32_t devices;		/* bit per index: somebody listens */
	struct tap_listener *listener[TAP_LISTENERS];
	unsigned listener_n;
	struct burst in;		/* the packet that came in */
	uint8_t out_room[TAP_PKT_MAX], in_room[TAP_PKT_MAX];
};

bool tap_wants(const struct tap *t, unsigned device) { return t->devices >> device & 1; }

/* ---- in ---------------------------------------------------------------------------------- */

static struct tap_pkt pkt_in(struct shard *s, unsigned device, const struct burst *b, const struct route *route, mono_t now)
{
	return (struct tap_pkt){
		.device = device, .shard = s->index, .dir = TAP_IN, .now = now, .qpn = b ? b->dqpn : 0, .b = b, .route = route,
		.sport = TAP_PORT, .mem = &region_mem_ops, .room = s->tap->in_room,
	};
}

static void arrive(struct shard *s, struct tap_pkt *p)
{
	struct tap_fate fate = { 0 };

	tap_see(s->tap->listener, s->tap->listener_n, p, &fate);
	hca_rx_burst(s->hca[p->device], p->b, p->now);
	tap_after(s->tap->listener, s->tap->listener_n, p, &fate);
}

/* What is not a packet for any QP. */
static void arrive_bad(struct shard *s, struct tap_pkt *p, const char *why)
{
	struct tap_fate fate = { .dropped = true, .comment = why };

	p->b = NULL;
	tap_see(s->tap->listener, s->tap->listener_n, p, &fate);
}

void tap_rx(struct shard *s, const struct device *dev, const struct route *route, const uint8_t *data, size_t len,
	    const struct tap_wire *w, mono_t now)
{
	struct tap_pkt p = pkt_in(s, dev->index, NULL, route, now);
	struct span span;

	p.data = data;
	p.len = len;
	p.sport = w->sport;
	p.ip_id = w->ip_id;
	if (!w->good) {
		arrive_bad(s, &p, "the ICRC is wrong");
		return;
	}
	s->tap->in.route = *route;
	if (burst_parse(&s->tap->in, &span, data, len - ICRC_LEN)) {
		arrive_bad(s, &p, "malformed");
		hca_rx(s->hca[dev->index], route, data, len - ICRC_LEN, now);
		return;
	}
	p.b = &s->tap->in;
	p.qpn = p.b->dqpn;
	arrive(s, &p);
}

void tap_rx_mail(struct shard *s, const struct device *dev, const struct route *route, const uint8_t *data, size_t len, mono_t now)
{
	struct tap_pkt p;
	struct span span;

	s->tap->in.route = *route;
	if (burst_parse(&s->tap->in, &span, data, len)) {
		hca_rx(s->hca[dev->index], route, data, len, now);
		return;
	}
	p = pkt_in(s, dev->index, &s->tap->in, route, now);
	arrive(s, &p);
}

/* ---- out --------------------------------------------------------------------------------- */

/* 0 or an errno: the payload cannot be read. */
static int leave(struct shard *s, struct hca *hca, struct tap_pkt *p, const struct device *to)
{
	struct tap_fate fate = { 0 };
	struct tap_pkt q;
	int err = to ? 0 : tap_bytes(p);

	if (err)
		return err;
	tap_see(s->tap->listener, s->tap->listener_n, p, &fate);
	if (!to) {
		net_tx_bytes(shard_net(s), hca, p->route, p->data, p->len, p->now);
		return 0;
	}
	region_src_failed = false;
	if (tap_wants(s->tap, to->index)) {
		q = pkt_in(s, to->index, p->b, p->route, p->now);
		q.local = true;
		q.data = p->data;
		q.len = p->len;
		arrive(s, &q);
	} else {
		hca_rx_burst(s->hca[to->index], p->b, p->now);
	}
	return region_src_failed ? EFAULT : 0;
}

void tap_tx(struct shard *s, unsigned device, struct hca *hca, const struct burst *b, const struct device *to, mono_t now)
{
	struct span span[SPANS_MAX];
	struct burst one;
	int err;

	for (uint32_t i = 0; i < b->n; i++) {
		struct tap_pkt p = {
			.device = device, .shard = s->index, .dir = TAP_OUT, .local = to, .now = now, .qpn = b->sqpn, .b = &one,
			.route = &b->route, .sport = TAP_PORT, .mem = &region_mem_ops, .room = s->tap->out_room,
		};

		burst_slice(b, i, 1, &one, span);
		err = leave(s, hca, &p, to);
		if (!err)
			continue;
		if (err != ESRCH)	/* the program has ended: silence, its QPs are about to go */
			hca_tx_fault(hca, b, now);
		return;
	}
}

/* ---- who listens ------------------------------------------------------------------------ */

/* Control thread's; each shard has a copy. */
static struct {
	struct tap_listener *v[TAP_LISTENERS];
	unsigned n;
} all;

struct set { int err; };

static void shard_set(struct shard *s, void *arg)
{
	struct set *set = arg;
	uint32_t mask = 0;

	for (unsigned i = 0; i < all.n; i++)
		mask |= all.v[i]->devices;
	if (!mask) {
		tap_end(s);
		return;
	}
	if (!s->tap)
		s->tap = calloc(1, sizeof(*s->tap));
	if (!s->tap) {
		set->err = ENOMEM;
		return;
	}
	s->tap->devices = mask;
	memcpy(s->tap->listener, all.v, sizeof(all.v));
	s->tap->listener_n = all.n;
}

static int set_all(void)
{
	struct set set = { 0 };

	for (unsigned i = 0; i < shards_n; i++)
		if (shards[i])
			shard_call(shards[i], shard_set, &set);
	return set.err;
}

int tap_listen(struct tap_listener *l)
{
	int err;

	if (all.n == TAP_LISTENERS)
		return EBUSY;
	all.v[all.n++] = l;
	err = set_all();
	if (err)
		tap_unlisten(l);
	return err;
}

void tap_unlisten(struct tap_listener *l)
{
	for (unsigned i = 0; i < all.n; i++) {
		if (all.v[i] != l)
			continue;
		memmove(&all.v[i], &all.v[i + 1], (--all.n - i) * sizeof(*all.v));
		all.v[all.n] = NULL;
		break;
	}
	set_all();
}

void tap_end(struct shard *s)
{
	free(s->tap);
	s->tap = NULL;
}
