/* SPDX-License-Identifier: MIT */
/*
 * mad.c - fuzz target: a CM agent, the MADs that anybody sends it, and programs that do anything in any
 * state.
 *
 * Input: steps, each a byte that says what (mod OPS), and operands as they are read below.  Missing bytes
 * read as 0.  In every case the agent's invariants hold, what it sends can be decoded, and once all
 * programs are gone and time passes nothing is left.
 */
#include "proto/cm.h"

#include <stdlib.h>
#include <string.h>

#define IDS   64u
#define PEERS 8u
#define OPS   17u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct fuzz {
	const uint8_t *p, *end;
	struct cm *cm;
	mono_t now;
	uint32_t id[IDS]; /* that the programs hold */
	unsigned ids;
	uint32_t freed[IDS];
	unsigned frees;
};

static void must(bool ok)
{
	if (!ok)
		abort();
}

static uint8_t next(struct fuzz *f) { return f->p < f->end ? *f->p++ : 0; }

static uint32_t pick(struct fuzz *f)
{
	uint8_t k = next(f);

	if (k & 0x80 && f->frees)
		return f->freed[k % (f->frees < IDS ? f->frees : IDS)];
	return f->ids ? f->id[k % f->ids] : k;
}

static void hold(struct fuzz *f, uint32_t id)
{
	must(id != 0);
	if (f->ids < IDS)
		f->id[f->ids++] = id;
	else
		cm_id_free(f->cm, id, f->now);
}

static void let_go(struct fuzz *f, uint32_t id)
{
	if (f->frees % 4 == 3)
		cm_request_drop(f->cm, id, f->now);
	else
		cm_id_free(f->cm, id, f->now);
	must(cm_state(f->cm, id) == CM_NONE);
	f->freed[f->frees++ % IDS] = id;
	for (unsigned k = 0; k < f->ids; k++)
		if (f->id[k] == id)
			f->id[k] = f->id[--f->ids];
}

/* The peers are few, so that they meet their own connections again. */
static struct route way(uint8_t peer, bool in)
{
	struct route r = { .hop_limit = 64, .tclass = peer };

	r.sgid[15] = in ? 1 + peer % PEERS : 100;
	r.dgid[15] = in ? 100 : 1 + peer % PEERS;
	return r;
}

/* ---- what arrives ------------------------------------------------------------ */

static void codec(const uint8_t *mad)
{
	struct cm_msg m, again;
	uint8_t out[MAD_LEN];

	if (!cm_msg_get(&m, mad))
		return;
	cm_msg_put(out, &m);
	must(cm_msg_get(&again, out) && !memcmp(&m, &again, sizeof(m)));
}

static void give(struct fuzz *f, struct gsi *g)
{
	codec(g->mad);
	cm_rx(f->cm, g, f->now);
}

static void mad_raw(struct fuzz *f)
{
	struct gsi g = { .route = way(next(f), true) };

	for (unsigned k = 0; k < MAD_LEN; k++)
		g.mad[k] = next(f);
	give(f, &g);
}

/* A message of the right kind with ids that may exist, and some bytes of it changed. */
static void mad_made(struct fuzz *f)
{
	uint8_t peer = next(f), n;
	struct gsi g = { .route = way(peer, true) };
	struct cm_msg m = { .attr = (uint16_t)(CM_REQ + next(f) % 11) };

	m.rtu.local_id = next(f);
	m.rtu.remote_id = pick(f);
	switch (m.attr) {
	case CM_REQ:
		m.req.service_id = next(f) % 4;
		m.req.ca_guid = peer % PEERS;
		m.req.qpn = next(f) % 16;
		memcpy(m.req.path.sgid, g.route.sgid, 16);
		memcpy(m.req.path.dgid, g.route.dgid, 16);
		break;
	case CM_REP:
		m.rep.ca_guid = peer % PEERS;
		m.rep.qpn = next(f) % 16;
		break;
	case CM_DREQ: m.dreq.qpn = next(f) % 16; break;
	case CM_REJ:
		m.rej.reason = next(f);
		m.rej.ari_len = 8;
		m.rej.ari[7] = peer % PEERS;
		break;
	case CM_SIDR_REQ: m.sidr_req.service_id = next(f) % 4; break;
	case CM_SIDR_REP: m.sidr_rep.request_id = pick(f); break;
	default: m.mra.msg = next(f); m.mra.timeout = next(f);
	}
	cm_msg_put(g.mad, &m);
	for (n = next(f) % 8; n; n--) {
		uint8_t at = next(f);

		g.mad[at] = next(f);
	}
	give(f, &g);
}

/* ---- what programs do ---------------------------------------------------------- */

static void listen(struct fuzz *f)
{
	uint32_t id;

	if (!cm_listen(f->cm, next(f) % 4, f, &id))
		hold(f, id);
}

static void call(struct fuzz *f)
{
	struct cm_connect a = { .route = way(next(f), false) };
	uint32_t id;

	a.req.qpn = next(f) % 16;
	a.req.max_retries = next(f);
	a.req.remote_timeout = next(f);
	a.req.path.ack_timeout = next(f);
	a.req.transport = next(f) % 4;
	a.plt = next(f);
	if (!cm_connect(f->cm, &a, f, &id, f->now))
		hold(f, id);
}

static void ask(struct fuzz *f)
{
	struct cm_sidr_req req = { .service_id = next(f) };
	struct route r = way(next(f), false);
	uint32_t id;

	if (!cm_sidr(f->cm, &req, &r, f, &id, f->now))
		hold(f, id);
}

static void event(struct fuzz *f)
{
	struct cm_event ev;

	if (!cm_event(f->cm, &ev))
		return;
	must(cm_state(f->cm, ev.id) != CM_NONE);
	must(ev.host == f);
	if (ev.type == CM_EV_REQ || ev.type == CM_EV_SIDR_REQ) {
		must(cm_state(f->cm, ev.listen_id) == CM_LISTEN);
		hold(f, ev.id);
	}
}

static void sent(struct fuzz *f)
{
	struct cm_msg m;
	struct gsi g;

	while (cm_tx(f->cm, &g)) {
		must(cm_msg_get(&m, g.mad));
		codec(g.mad);
	}
}

static void pass(struct fuzz *f, uint64_t ns)
{
	f->now = mono_add(f->now, ns);
	cm_tick(f->cm, f->now);
	must(mono_before(f->now, cm_deadline(f->cm)));
}

static void step(struct fuzz *f)
{
	struct cm_rep rep = { 0 };
	struct cm_sidr_rep sidr = { 0 };
	struct cm_qp qp;
	uint32_t id;

	switch (next(f) % OPS) {
	case 0:
	case 1:
	case 2: mad_made(f); break;
	case 3: mad_raw(f); break;
	case 4: listen(f); break;
	case 5: call(f); break;
	case 6: ask(f); break;
	case 7:
	case 8: event(f); break;
	case 9:
		id = pick(f);
		rep.qpn = next(f) % 16;
		cm_accept(f->cm, id, &rep, f->now);
		break;
	case 10: cm_rtu(f->cm, pick(f), NULL, f->now); break;
	case 11: cm_disconnect(f->cm, pick(f), NULL, f->now); break;
	case 12:
		id = pick(f);
		cm_reject(f->cm, id, next(f), f->p < f->end ? f->p : NULL, f->p < f->end, NULL, f->now);
		break;
	case 13: cm_sidr_reply(f->cm, pick(f), &sidr, f->now); break;
	case 14: let_go(f, pick(f)); break;
	case 15: pass(f, (uint64_t)next(f) << (next(f) % 36)); break;
	default:
		id = pick(f);
		cm_established(f->cm, id, f->now);
		cm_qp_get(f->cm, id, &qp);
		must(cm_state(f->cm, id) < CM_STATES);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz f = { .p = data, .end = data + len, .now = { 1 } };
	struct cm_event ev;
	struct cm_count n;

	f.cm = cm_new(&(struct cm_cfg){ .seed = 1, .ca_guid = 100, .max_ids = IDS / 2 });
	must(f.cm != NULL);
	for (unsigned k = 1; f.p < f.end; k++) {
		step(&f);
		sent(&f);
		if (k % 8 == 0)
			cm_verify(f.cm);
	}
	cm_verify(f.cm);
	while (cm_event(f.cm, &ev))
		if (ev.type == CM_EV_REQ || ev.type == CM_EV_SIDR_REQ)
			hold(&f, ev.id);
	while (f.ids)
		let_go(&f, f.id[0]);
	sent(&f);
	while (!mono_is_never(cm_deadline(f.cm))) {
		f.now = cm_deadline(f.cm);
		pass(&f, 0);
		sent(&f);
	}
	must(!cm_event(f.cm, &ev));
	cm_counts(f.cm, &n);
	must(n.ids == 0);
	cm_free(f.cm);
	return 0;
}
