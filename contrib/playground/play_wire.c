/* SPDX-License-Identifier: MIT */
/* play_wire.c - packets under way: the bytes that a socket would send, and what rules and hands do to them. */
#include "play.h"

#include <stdlib.h>
#include <string.h>

#include "proto/hdr.h"
#include "proto/icrc.h"

/* NULL: no room. */
static struct pkt *pkt_new(void)
{
	if (world.pkts == PKTS) {
		world.full = true;
		return NULL;
	}
	world.pkt[world.pkts].order = world.order++;
	return &world.pkt[world.pkts++];
}

static void fly(struct pkt *p, uint64_t delay)
{
	uint64_t *busy = &world.busy[p->from][p->to];

	p->sent = *busy > world.now ? *busy : world.now;
	*busy = p->sent + LINK_GAP_NS;
	p->at = p->sent + LINK_NS + delay;
	p->state = PKT_FLYING;
}

static void lose(struct pkt *p)
{
	p->state = PKT_LOST;
	p->at = world.now > p->sent ? world.now : p->sent;
}

static struct pkt *copy(const struct pkt *p, const char *why)
{
	struct pkt *q = pkt_new();
	uint32_t order = world.order - 1;

	if (!q)
		return NULL;
	*q = *p;
	q->order = order;
	q->made = q->ruled = true;
	q->said.n = 0;
	remark_add(&q->said, "%s", why);
	return q;
}

static bool icrc_good(const struct pkt *p)
{
	struct icrc_flow flow;
	static struct icrc_rx rx;
	uint16_t id;

	icrc_rx_init(&rx);
	icrc_flow_init(&flow, p->route.sgid, p->route.dgid, ROCE_PORT, ROCE_PORT, true);
	return icrc_check(&rx, &flow, p->data, p->len, &id) && id == 0;
}

/* ---- rules ---------------------------------------------------------------------- */

void wire_rules(const char *text, struct rule_error *err)
{
	static const char *const names[NODES] = { "client", "server", "third" };
	static struct rules r;

	memset(&r, 0, sizeof r);
	*err = (struct rule_error){ 0 };
	for (unsigned i = 0; i < world.nodes; i++)
		r.device[i] = names[i];
	r.device_n = world.nodes;
	if (*text && rules_add(&r, text, strlen(text), &(struct rule_host){ .now = world_now() }, err) < 0) {
		rules_fini(&r);
		return;
	}
	*err = (struct rule_error){ 0 };
	rules_fini(&world.rules);
	world.rules = r;
}

static void answer(const struct pkt *p, const struct tap_pkt *t, const struct rule_verdict *v)
{
	struct pkt *a = pkt_new();

	if (!a)
		return;
	a->len = (uint32_t)rule_answer(v, t, t->dir == TAP_OUT ? t->qpn : t->qp.dest_qpn, &a->route, a->data);
	a->from = p->to;
	a->to = p->from;
	a->made = a->ruled = true;
	a->kind = TAP_ACK;
	remark_add(&a->said, "made up: %s", v->text);
	fly(a, 0);
}

static void fatal_events(void)
{
	struct qp_attr attr = { .state = QPS_ERR };
	struct rule_event e;

	while (rules_event(&world.rules, &e, world_now()))
		for (unsigned i = 0; e.kind == ACT_QP_FATAL && e.qpn && i < world.nodes; i++)
			if (e.devices >> i & 1)
				hca_qp_modify(world.node[i].hca, e.qpn, &attr, QPA_STATE, world_now());
}

/* false: it does not go on; else it does after *delay. */
static bool decide(struct pkt *p, const struct burst *b, enum tap_dir dir, uint64_t *delay)
{
	struct tap_pkt t = { .device = dir == TAP_OUT ? p->from : p->to,
			     .dir = dir,
			     .now = world_now(),
			     .qpn = dir == TAP_OUT ? b->sqpn : b->dqpn,
			     .route = &p->route,
			     .b = b,
			     .data = p->data,
			     .len = p->len };
	struct flow *f = flow_note(&world.flows, &t);
	struct rule_verdict v;

	if (dir == TAP_OUT) {
		p->iter = t.iter;
		p->kind = (uint8_t)t.kind;
		p->qpn = t.qpn;
	}
	rules_decide(&world.rules, f, &t, &v);
	fatal_events();
	*delay = v.delay_ns;
	if (v.text[0])
		remark_add(&p->said, "%s", v.text);
	if (v.answer)
		answer(p, &t, &v);
	if (v.drop)
		return false;
	if (rule_change(&v, &p->route, ROCE_PORT, p->data, p->len))
		p->bad = !icrc_good(p);
	for (unsigned i = 1; i <= v.copies; i++) {
		struct pkt *q = copy(p, "a copy, made by a rule");

		if (q)
			fly(q, v.delay_ns + i * v.copy_ns);
	}
	return true;
}

/* ---- out -------------------------------------------------------------------------- */

static void pkt_write(struct pkt *p, const struct burst *b, uint32_t i)
{
	uint32_t len = burst_pkt_len(b, i), pad = -len & 3;
	size_t hdr = burst_hdr(b, i, p->data);
	struct icrc_flow flow;

	p->route = b->route;
	p->len = (uint32_t)hdr + len + pad + ICRC_LEN;
	if (len)
		mem_gather(p->data + hdr, len, b->span, b->span_n, burst_pkt_off(b, i));
	icrc_flow_init(&flow, b->route.sgid, b->route.dgid, ROCE_PORT, ROCE_PORT, true);
	icrc_put(p->data + p->len - ICRC_LEN, icrc_pkt(&flow, 0, p->data, p->len - ICRC_LEN));
}

static int node_by_gid(const uint8_t *gid)
{
	for (unsigned i = 0; i < world.nodes; i++)
		if (gid_same(world.node[i].gid, gid))
			return (int)i;
	return -1;
}

void wire_tx(struct node *n, const struct burst *b)
{
	int to = node_by_gid(b->route.dgid);
	struct span spans[RD_MAX_SGE + 1];
	struct burst one;
	uint64_t delay;

	for (uint32_t i = 0; to >= 0 && i < b->n; i++) {
		struct pkt *p = pkt_new();
		unsigned times;

		if (!p)
			return;
		p->from = n->i;
		p->to = (uint8_t)to;
		pkt_write(p, b, i);
		burst_slice(b, i, 1, &one, spans);
		if (!decide(p, &one, TAP_OUT, &delay)) {
			fly(p, 0);
			lose(p);
		} else {
			fly(p, delay);
		}
		times = p->iter > 1 ? p->iter - 1 : 0;
		remark_out(world.remark, n->hca, n->i, p->qpn, &one, times, &p->said);
	}
}

/* ---- in --------------------------------------------------------------------------- */

struct pkt *wire_next(void)
{
	struct pkt *first = NULL;

	for (struct pkt *p = world.pkt; p < world.pkt + world.pkts; p++)
		if (p->state == PKT_FLYING && (!first || p->at < first->at))
			first = p;
	return first;
}

void wire_arrive(struct pkt *p)
{
	struct node *n = &world.node[p->to];
	struct burst b = { .route = p->route };
	struct remark_mark mark;
	struct span span;
	uint64_t delay = 0;
	bool parsed = burst_parse(&b, &span, p->data, p->len - ICRC_LEN) == PARSE_OK;

	if (!p->ruled && !p->bad && parsed) {
		p->ruled = true;
		if (!decide(p, &b, TAP_IN, &delay)) {
			lose(p);
			return;
		}
		p->at += delay;
		if (delay)
			return;
	}
	p->state = PKT_ARRIVED;
	p->at = world.now;
	p->order = world.order++;
	if (!icrc_good(p)) {
		hca_count(n->hca, HCA_STAT_ICRC_ERR, 1);
		remark_add(&p->said, "dropped: the ICRC is wrong");
		p->bad = true;
		return;
	}
	remark_before(&mark, n->hca);
	hca_rx(n->hca, &p->route, p->data, p->len - ICRC_LEN, world_now());
	if (parsed)
		remark_after(world.remark, &mark, n->hca, n->i, b.dqpn, &b, &p->said);
}

/* ---- hands ------------------------------------------------------------------------ */

int wire_hand(unsigned i, enum hand hand, uint32_t arg)
{
	struct pkt *p = &world.pkt[i], *q;

	if (i >= world.pkts || p->state != PKT_FLYING)
		return EINVAL;
	switch (hand) {
	case HAND_DROP:
		lose(p);
		remark_add(&p->said, "dropped by you");
		break;
	case HAND_DELAY:
		p->at += arg;
		remark_add(&p->said, "delayed by you: %u us", arg / 1000);
		break;
	case HAND_TWICE:
		q = copy(p, "a copy, made by you");
		if (q)
			q->at = p->at + LINK_GAP_NS;
		break;
	case HAND_FLIP:
		if (arg >= 8 * p->len)
			return EINVAL;
		p->data[arg / 8] ^= (uint8_t)(0x80u >> arg % 8);
		p->bad = !icrc_good(p);
		remark_add(&p->said, "flipped by you: bit %u of byte %u", 7 - arg % 8, arg / 8);
		break;
	case HAND_NOW: p->at = world.now; break;
	}
	return 0;
}
