/* SPDX-License-Identifier: MIT */
/* cm_net.c - see cm_net.h. */
#include "t/cm_net.h"
#include "proto/bytes.h"
#include "proto/cm_in.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what)
{
	fprintf(stderr, "cm_net: %s\n", what);
	abort();
}

/* Of notes and flights only as many are read as are counted: more than a megabyte that need not be cleared for each of many runs. */
void net_init(struct cm_net *n, uint64_t seed)
{
	memset(n, 0, offsetof(struct cm_net, end));
	n->now = (mono_t){ S_NS };
	n->wake = MONO_NEVER;
	for (unsigned k = 0; k < 2; k++) {
		struct cm_end *e = &n->end[k];

		memset(e, 0, offsetof(struct cm_end, note));
		e->net = n;
		e->guid = 0x020000fffe000001u + k;
		e->cm = cm_new(&(struct cm_cfg){ .seed = seed * 2 + k, .ca_guid = e->guid });
		if (!e->cm)
			fail("no memory");
		memcpy(e->gid, (uint8_t[16]){ [10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(1 + k) }, 16);
	}
}

void net_fini(struct cm_net *n)
{
	cm_free(n->end[0].cm);
	cm_free(n->end[1].cm);
}

static void launch(struct cm_net *n, unsigned to, const struct gsi *g, uint64_t delay)
{
	struct flight *f = &n->flight[n->flights];

	if (n->flights++ == FLIGHTS)
		fail("too much under way");
	*f = (struct flight){ mono_add(n->now, delay), n->sent, to, *g };
}

static void send(struct cm_net *n, unsigned from, const struct gsi *g)
{
	struct fate fate = { 0 };

	if (!cm_msg_get(&n->last, g->mad))
		fail("what was sent is no CM message");
	if (!gid_same(g->route.sgid, n->end[from].gid) || !gid_same(g->route.dgid, n->end[!from].gid))
		fail("a MAD on a wrong way");
	if (n->fate)
		fate = n->fate(n, from, &n->last);
	n->sent++;
	if (!fate.lost)
		launch(n, !from, g, fate.delay_ns);
	for (unsigned k = 0; k < fate.copies; k++)
		launch(n, !from, g, fate.copy_delay_ns);
}

static void events(struct cm_end *e)
{
	struct cm_event ev;

	while (cm_event(e->cm, &ev)) {
		if (e->notes < NOTES)
			e->note[e->notes++] = ev;
		if (e->on_event)
			e->on_event(e, &ev);
	}
}

/* All that was caused is under way. */
static void pump(struct cm_net *n)
{
	struct gsi g;

	for (unsigned k = 0; k < 2; k++) {
		events(&n->end[k]);
		while (cm_tx(n->end[k].cm, &g))
			send(n, k, &g);
		cm_verify(n->end[k].cm);
	}
}

static struct flight *next_flight(struct cm_net *n)
{
	struct flight *first = NULL;

	for (struct flight *f = n->flight; f < n->flight + n->flights; f++)
		if (!first || mono_before(f->at, first->at) || (f->at.ns == first->at.ns && f->seq < first->seq))
			first = f;
	return first;
}

static enum cm_state found(const struct cm *c, const struct gsi *g, const struct cm_msg *m)
{
	const struct cm_id *i;

	switch (m->attr) {
	case CM_REQ: i = id_find_peer(c, m->req.local_id, m->req.ca_guid, &g->route); break;
	case CM_SIDR_REQ: i = id_find_sidr(c, m->sidr_req.request_id, g->route.sgid); break;
	case CM_SIDR_REP: i = id_find(c, m->sidr_rep.request_id); break;
	default:
		i = id_find(c, m->rtu.remote_id);
		if (!i && m->attr == CM_REJ)
			i = id_find_peer(c, m->rej.local_id, be64_get(m->rej.ari), &g->route);
	}
	return i ? i->state : CM_NONE;
}

static void land(struct cm_net *n, struct flight *f)
{
	struct flight it = *f;
	struct cm_msg m;

	*f = n->flight[--n->flights];
	if (n->landing && cm_msg_get(&m, it.g.mad))
		n->landing(n, it.to, found(n->end[it.to].cm, &it.g, &m), &m);
	cm_rx(n->end[it.to].cm, &it.g, n->now);
}

void net_run(struct cm_net *n)
{
	struct flight *f;

	for (pump(n); (f = next_flight(n)); pump(n)) {
		if (mono_before(n->now, f->at))
			n->now = f->at;
		land(n, f);
	}
}

static mono_t next_time(struct cm_net *n)
{
	struct flight *f = next_flight(n);
	mono_t t = mono_min(n->wake, mono_min(cm_deadline(n->end[0].cm), cm_deadline(n->end[1].cm)));

	return f ? mono_min(t, f->at) : t;
}

/* A step from where all that was caused is under way, to such a place. */
static bool step(struct cm_net *n)
{
	struct flight *f;
	mono_t t = next_time(n);

	if (mono_is_never(t))
		return false;
	if (mono_before(n->now, t))
		n->now = t;
	if (n->before && mono_reached(n->now, n->wake)) {
		n->wake = MONO_NEVER;
		n->before(n);
		pump(n);
	}
	while ((f = next_flight(n)) && mono_reached(n->now, f->at)) {
		land(n, f);
		pump(n);
	}
	cm_tick(n->end[0].cm, n->now);
	cm_tick(n->end[1].cm, n->now);
	pump(n);
	return true;
}

void net_until(struct cm_net *n, mono_t t)
{
	pump(n);
	while (!mono_before(t, next_time(n)))
		step(n);
	n->now = t;
}

void net_settle(struct cm_net *n)
{
	pump(n);
	for (unsigned k = 0; step(n); k++)
		if (k == 1000000)
			fail("it does not come to rest");
}

/* ---- messages ------------------------------------------------------------------ */

struct route net_route(const struct cm_end *e)
{
	struct route r = { .hop_limit = 64, .flow_label = 0x12345 };

	memcpy(r.sgid, e->gid, 16);
	memcpy(r.dgid, e->net->end[e == e->net->end].gid, 16);
	return r;
}

struct cm_connect net_req(const struct cm_end *e, uint32_t qpn)
{
	struct cm_connect a = { .plt = 16, .route = net_route(e) };
	struct cm_req *q = &a.req;

	q->service_id = SERVICE;
	q->qpn = qpn;
	q->resp_res = 4;
	q->init_depth = 3;
	q->remote_timeout = q->local_timeout = 20;
	q->psn = 0x100000 + qpn;
	q->retry_cnt = q->rnr_retry = 7;
	q->pkey = 0xffff;
	q->mtu = 3;
	q->max_retries = 15;
	q->path = (struct cm_path){ .slid = 0xffff,
				    .dlid = 0xffff,
				    .flow_label = 0x12345,
				    .hop_limit = 64,
				    .ack_timeout = cm_ack_timeout(15, 16) };
	memcpy(q->path.sgid, a.route.sgid, 16);
	memcpy(q->path.dgid, a.route.dgid, 16);
	memcpy(q->data + CM_IP_LEN, "hello", 5);
	return a;
}

struct cm_rep net_rep(uint32_t qpn)
{
	return (struct cm_rep){ .qpn = qpn,
				.psn = 0x200000 + qpn,
				.resp_res = 2,
				.init_depth = 1,
				.ack_delay = 15,
				.rnr_retry = 6,
				.data = "welcome" };
}

/* ---- looking ---------------------------------------------------------------------- */

int note_last(const struct cm_end *e) { return e->notes ? (int)e->note[e->notes - 1].type : -1; }

unsigned note_count(const struct cm_end *e, enum cm_event_type type)
{
	unsigned k = 0;

	for (unsigned i = 0; i < e->notes; i++)
		k += e->note[i].type == type;
	return k;
}

uint32_t ids(const struct cm_end *e)
{
	struct cm_count n;

	cm_counts(e->cm, &n);
	return n.ids;
}
