/* SPDX-License-Identifier: MIT */
/*
 * tap.c - bursts cut into packets; each packet decided on by rules, and shown to those who listen.
 *
 *	tap_tx --> out_pkt: decide --> out_go: seen --> wire
 *	             |                          `-----> in_pkt: decide --> in_go: seen --> HCA
 *	             v hold (delayed, a copy, an answer)  ^  |                ^
 *	           tap_due -----> out_go            tap_rx  v hold --> tap_due
 */
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../lab/hold.h"
#include "../../proto/hca.h"
#include "../../proto/hdr.h"
#include "../../lab/rule.h"
#include "inbox.h"
#include "ctx.h"
#include "net_tx.h"
#include "../base/clock.h"
#include "../base/region.h"
#include "net.h"

#define SPANS_MAX (RD_MAX_SGE + 1u)

struct altered { /* of a packet that was altered */
	struct burst b;
	struct route route;
	struct span span;
	uint8_t room[TAP_PKT_MAX];
};

struct tap {
	uint32_t devices; /* bit per index: somebody listens */
	struct tap_listener *listener[TAP_LISTENERS];
	unsigned listener_n;
	const struct tap_judge *judge; /* NULL: no packet is disturbed */
	struct flows flows;
	struct hold hold;
	struct burst in;           /* the packet that came in */
	struct altered altered[2]; /* per enum tap_dir */
};

bool tap_wants(const struct tap *t, unsigned device) { return t->devices >> device & 1; }

static void see(struct shard *s, struct tap_pkt *p, const struct tap_fate *fate)
{
	tap_see(s->tap->listener, s->tap->listener_n, p, fate);
}

/* At this moment: so captures have true times, and the HCA goes by the same one. */
static struct tap_pkt pkt_new(struct shard *s, unsigned device, enum tap_dir dir, const struct burst *b,
			      const struct route *route)
{
	return (struct tap_pkt){
		.device = device,
		.shard = s->index,
		.dir = dir,
		.now = clock_now(),
		.b = b,
		.route = route,
		.qpn = !b               ? 0
		       : dir == TAP_OUT ? b->sqpn
					: b->dqpn,
		.sport = ROCE_PORT,
		.mem = &region_mem_ops,
		.room = s->tap->altered[dir].room,
	};
}

/* Parses the bytes as they are now; b NULL: they are no packet. */
static void reparse(struct shard *s, struct tap_pkt *p)
{
	struct altered *at = &s->tap->altered[p->dir];
	uint32_t sender = p->qpn;

	at->b.route = *p->route;
	p->b = burst_parse(&at->b, &at->span, p->data, p->len - ICRC_LEN) ? NULL : &at->b;
	if (p->dir == TAP_OUT)
		at->b.sqpn = opcode_get(at->b.op_first)->hdrs & HDR_DETH && SVC_OF(at->b.op_first) == SVC_UD
				     ? at->b.sqpn
				     : sender;
	else if (p->b)
		p->qpn = p->b->dqpn;
}

/* ---- what a verdict asks for ----------------------------------------------------------------- */

static int own_bytes(struct tap_pkt *p)
{
	int err = tap_bytes(p);

	if (err || p->data == p->room)
		return err;
	if (p->len > TAP_PKT_MAX)
		return EMSGSIZE;
	memcpy(p->room, p->data, p->len);
	p->data = p->room;
	return 0;
}

static void put(struct shard *s, struct tap_pkt *p, const struct device *to, uint64_t delay, unsigned behind, bool made,
		const char *text)
{
	struct parcel *c = parcel_new(&s->tap->hold, p);

	if (!c)
		return; /* lost: that, too, is a fault of a network */
	c->at = mono_add(p->now, delay);
	c->behind = behind;
	c->made = made;
	c->to = to ? (int)to->index : -1;
	c->bad = p->bad;
	memcpy(c->text, text, sizeof(c->text));
	hold_put(&s->tap->hold, c);
}

/* To the QP that sent p, as if from the one that it is for: it arrives here, or leaves from here. */
static void answer(struct shard *s, const struct tap_pkt *p, const struct rule_verdict *v)
{
	uint8_t data[TAP_PKT_MAX];
	struct tap_pkt a = *p;
	struct route back;

	a.len = rule_answer(v, p, p->dir == TAP_OUT ? p->qpn : p->qp.dest_qpn, &back, data);
	a.data = data;
	a.route = &back;
	a.kind = TAP_ACK;
	a.dir = p->dir == TAP_OUT ? TAP_IN : TAP_OUT;
	a.bad = false;
	a.sport = ROCE_PORT;
	if (a.dir == TAP_OUT && !p->local) { /* of the QP that p is for */
		struct burst b = { .route = back, .sqpn = p->qpn, .dqpn = p->qp.dest_qpn };

		a.sport = net_port(s->net, &b, &back.flow_label);
		tap_icrc(&back, a.sport, data, a.len - ICRC_LEN);
	}
	put(s, &a, a.dir == TAP_OUT && p->local ? net_device(s->net, back.dgid) : NULL, 0, 0, true, v->text);
}

static int alter(struct shard *s, struct tap_pkt *p, const struct rule_verdict *v)
{
	struct altered *at = &s->tap->altered[p->dir];
	int err = v->corrupt ? own_bytes(p) : 0;

	if (err || (!v->ecn && !v->corrupt))
		return err;
	at->route = *p->route;
	at->b = *p->b;
	if (rule_change(v, &at->route, p->sport, p->room, p->len))
		p->bad = !v->corrupt->fix;
	at->b.route = at->route;
	p->route = &at->route;
	p->b = &at->b;
	if (v->corrupt && v->corrupt->fix)
		reparse(s, p);
	return 0;
}

/*
 * 0: it goes on now, and what is to be said of it is in v->text.  -1: not now, or not at all.  Or an errno: it cannot be read.
 */
static int decide(struct shard *s, struct tap_pkt *p, const struct device *to, struct rule_verdict *v)
{
	struct flow *f = flow_note(&s->tap->flows, p);
	struct tap_fate fate = { .dropped = true, .comment = v->text };
	bool waits;
	int err;

	v->text[0] = '\0';
	if (!s->tap->judge)
		return 0;
	s->tap->judge->decide(f, p, v);
	if (v->wedged) /* the control half says so, too, but by then a timeout may have been too much */
		hca_stall(s->hca[p->device], true);
	waits = hold_waits(&s->tap->hold, p);
	if (!v->text[0] && !waits)
		return 0;
	if (v->answer)
		answer(s, p, v);
	if (v->drop) {
		see(s, p, &fate);
		return -1;
	}
	err = alter(s, p, v);
	waits |= v->delay_ns || v->behind;
	if (!err && (v->copies || waits))
		err = tap_bytes(p);
	if (err)
		return err;
	for (unsigned i = 1; i <= v->copies; i++)
		put(s, p, to, v->delay_ns + i * v->copy_ns, 0, true, v->text);
	if (!waits)
		return 0;
	put(s, p, to, v->delay_ns, v->behind, false, v->text);
	return -1;
}

/* ---- in ---------------------------------------------------------------------------------- */

/* Bytes that are not a packet for any QP. */
static void in_bad(struct shard *s, struct tap_pkt *p, const char *why)
{
	struct tap_fate fate = { .dropped = true, .comment = why };

	see(s, p, &fate);
}

/* Damaged here, or where it left: p->b, which is as it was, tells the listeners which packet it is. */
static void in_damaged(struct shard *s, struct tap_pkt *p, const char *by)
{
	char why[RULE_TEXT + 40];

	hca_count(s->hca[p->device], HCA_STAT_ICRC_ERR, 1);
	snprintf(why, sizeof(why), "%s%sthe ICRC is wrong, by a rule", by ? by : "", by ? "\n" : "");
	in_bad(s, p, why);
}

/* 0, or EIO as of hca_rx_burst(). */
static int in_go(struct shard *s, struct tap_pkt *p, const struct tap_fate *fate)
{
	struct hca *hca = s->hca[p->device];
	int err;

	if (p->bad) {
		in_damaged(s, p, fate->comment);
		return 0;
	}
	if (!p->b) {
		in_bad(s, p, "malformed");
		hca_rx(hca, p->route, p->data, p->len - ICRC_LEN, p->now);
		return 0;
	}
	see(s, p, fate);
	err = hca_rx_burst(hca, p->b, p->now);
	tap_after(s->tap->listener, s->tap->listener_n, p, fate);
	hold_passed(&s->tap->hold, p);
	return err;
}

static int in_pkt(struct shard *s, struct tap_pkt *p)
{
	struct rule_verdict v;
	int err = decide(s, p, NULL, &v);

	if (err)
		return err == EIO ? EIO : 0;
	return in_go(s, p, &(struct tap_fate){ .comment = v.text[0] ? v.text : NULL });
}

void tap_rx(struct shard *s, const struct device *dev, const struct route *route, const uint8_t *data, size_t len,
	    const struct tap_wire *w)
{
	struct tap_pkt p = pkt_new(s, dev->index, TAP_IN, NULL, route);
	struct span span;

	p.data = data;
	p.len = len;
	p.sport = w->sport;
	p.ip_id = w->ip_id;
	if (!w->good) {
		in_bad(s, &p, "the ICRC is wrong");
		return;
	}
	s->tap->in.route = *route;
	if (burst_parse(&s->tap->in, &span, data, len - ICRC_LEN)) {
		in_bad(s, &p, "malformed");
		hca_rx(s->hca[dev->index], route, data, len - ICRC_LEN, p.now);
		return;
	}
	p.b = &s->tap->in;
	p.qpn = p.b->dqpn;
	in_pkt(s, &p);
}

void tap_rx_mail(struct shard *s, const struct device *dev, const struct route *route, const uint8_t *data, size_t len)
{
	struct tap_pkt p;
	struct span span;

	s->tap->in.route = *route;
	if (burst_parse(&s->tap->in, &span, data, len)) {
		hca_rx(s->hca[dev->index], route, data, len, clock_now());
		return;
	}
	p = pkt_new(s, dev->index, TAP_IN, &s->tap->in, route);
	in_pkt(s, &p);
}

/* ---- out --------------------------------------------------------------------------------- */

/* 0 or an errno: the payload cannot be read. */
static int out_go(struct shard *s, struct tap_pkt *p, const struct device *to, const struct tap_fate *fate)
{
	struct tap_pkt q;
	int err = to ? 0 : tap_bytes(p);

	if (err)
		return err;
	see(s, p, fate);
	hold_passed(&s->tap->hold, p);
	if (!to && p->bad)
		to = net_by_letter(s->net, p->route, be24_get(p->data + BTH_DQPN));
	if (!to) {
		net_tx_bytes(s->net, s->hca[p->device], p->route, p->sport, p->data, p->len);
		return 0;
	}
	q = pkt_new(s, to->index, TAP_IN, p->b, p->route);
	q.local = true;
	q.data = p->data;
	q.len = p->len;
	q.bad = p->bad;
	return q.bad || !q.b ? in_go(s, &q, &(struct tap_fate){ 0 }) : in_pkt(s, &q);
}

static int out_pkt(struct shard *s, struct tap_pkt *p, const struct device *to)
{
	struct rule_verdict v;
	int err = decide(s, p, to, &v);

	if (err)
		return err < 0 ? 0 : err;
	return out_go(s, p, to, &(struct tap_fate){ .comment = v.text[0] ? v.text : NULL });
}

void tap_tx(struct shard *s, unsigned device, struct hca *hca, const struct burst *b, const struct device *to)
{
	struct span span[SPANS_MAX];
	struct tap_pkt p;
	struct burst one;
	int err;

	for (uint32_t i = 0; i < b->n; i++) {
		burst_slice(b, i, 1, &one, span);
		p = pkt_new(s, device, TAP_OUT, &one, &one.route);
		p.local = to;
		if (!to)
			p.sport = net_port(s->net, b, &one.route.flow_label);
		err = out_pkt(s, &p, to);
		if (!err)
			continue;
		if (err != ESRCH) /* the program has ended: silence, its QPs are about to go */
			hca_tx_fault(hca, b, i, p.now);
		return;
	}
}

/* ---- later ------------------------------------------------------------------------------- */

void tap_due(struct shard *s, mono_t now)
{
	struct parcel *c;

	while (s->tap && (c = hold_due(&s->tap->hold, now))) {
		struct tap_pkt p = pkt_new(s, c->device, c->dir, NULL, &c->route);
		struct tap_fate fate = { .made = c->made, .comment = c->text[0] ? c->text : NULL };

		p.data = c->data;
		p.len = c->len;
		p.local = c->local;
		p.qpn = c->qpn;
		p.bad = c->bad;
		p.kind = c->kind;
		p.iter = c->iter;
		p.sport = c->sport;
		reparse(s, &p);
		if (c->dir == TAP_OUT)
			out_go(s, &p, c->to < 0 ? NULL : &devices[c->to], &fate);
		else
			in_go(s, &p, &fate);
		free(c);
	}
}

mono_t tap_deadline(const struct shard *s) { return s->tap ? hold_deadline(&s->tap->hold) : MONO_NEVER; }

void tap_qp_gone(struct shard *s, unsigned device, uint32_t qpn)
{
	if (s->tap)
		flow_gone(&s->tap->flows, device, qpn);
}

/* ---- who listens ------------------------------------------------------------------------ */

/* Control thread's; each shard has a copy. */
static struct {
	const struct tap_judge *judge;
	struct tap_listener *v[TAP_LISTENERS];
	unsigned n;
} all;

bool tap_qp_info(void *shard, unsigned device, uint32_t qpn, struct tap_qp *out)
{
	const struct shard *s = shard;
	const struct ctx_qp *qp = (const struct ctx_qp *)obj_find(s, OBJ_QP, device, qpn);
	struct qp_info info;

	if (!qp || !hca_qp_info(s->hca[device], qpn, &info))
		return false;
	*out = (struct tap_qp){
		.nth = qp->nth,
		.prog = qp->obj.ctx->prog,
		.type = info.type,
		.sq_psn = psn(info.attr.sq_psn),
		.rq_psn = psn(info.attr.rq_psn),
		.dest_qpn = info.attr.dest_qpn,
	};
	return true;
}

struct set {
	int err;
};

static void shard_set(struct shard *s, void *arg)
{
	struct set *set = arg;
	uint32_t mask = all.judge ? UINT32_MAX : 0;

	for (unsigned i = 0; i < all.n; i++)
		mask |= all.v[i]->devices;
	if (!mask) {
		tap_due(s, MONO_NEVER); /* what was held goes now */
		tap_end(s);
		return;
	}
	if (!s->tap)
		s->tap = calloc(1, sizeof(*s->tap));
	if (!s->tap) {
		set->err = ENOMEM;
		return;
	}
	s->tap->judge = all.judge;
	s->tap->flows.qp = tap_qp_info;
	s->tap->flows.host = s;
	s->tap->devices = mask;
	memcpy(s->tap->listener, all.v, sizeof(all.v));
	s->tap->listener_n = all.n;
}

static int update(void)
{
	struct set set = { 0 };

	for (unsigned i = 0; i < shards_n; i++)
		if (shards[i])
			shard_call(shards[i], shard_set, &set);
	return set.err;
}

int tap_judge(const struct tap_judge *j)
{
	all.judge = j;
	return update();
}

int tap_listen(struct tap_listener *l)
{
	int err;

	if (all.n == TAP_LISTENERS)
		return EBUSY;
	all.v[all.n++] = l;
	err = update();
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
	update();
}

void tap_end(struct shard *s)
{
	if (!s->tap)
		return;
	hold_fini(&s->tap->hold);
	flows_fini(&s->tap->flows);
	free(s->tap);
	s->tap = NULL;
}
