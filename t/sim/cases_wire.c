/* SPDX-License-Identifier: MIT */
/* cases_wire.c - packets that no decent peer sends, and memory that vanishes between two of them. */
#include <stdlib.h>

#include "proto/aeth.h"

#include "cases.h"

#define BIT(status) (1u << (status))
#define S           WR_SIGNALED
#define RC(op)      (SVC_RC | OP_##op)
#define UC(op)      (SVC_UC | OP_##op)
#define UD(op)      (SVC_UD | OP_##op)

static uint8_t data[8192];

static void expect_err(struct mqp *q)
{
	q->cause = true;
	q->rq_may = BIT(WC_REM_INV_REQ_ERR) | BIT(WC_LOC_ACCESS_ERR) | BIT(WC_LOC_PROT_ERR) | BIT(WC_LOC_LEN_ERR);
}

/* ---- packets for nobody ------------------------------------------------------ */

static void dropped(struct model *m)
{
	struct duo d = duo_rc(m, NULL), idle = duo_new(m, QPT_RC);
	const struct burst good = burst_to(d.b, RC(SEND_ONLY), psn_of(d.b));
	struct burst x;

	recv_ok(d.b, 100);
	x = good;
	x.pkey = 0x1234;
	inject(d.b, &x, data, 8);
	MUST(m, stat_of(d.b->node, HCA_STAT_BAD_PKEY) == 1);
	x = good;
	x.pkey = 0x7fff; /* a limited member may talk to a full one */
	inject(d.b, &x, data, 0);
	MUST(m, stat_of(d.b->node, HCA_STAT_BAD_PKEY) == 1);
	x = good;
	x.route.sgid[15] ^= 1;
	inject(d.b, &x, data, 8);
	x = good;
	memcpy(x.route.dgid, d.b->node->gid[1], 16);
	inject(d.b, &x, data, 8);
	MUST(m, stat_of(d.b->node, HCA_STAT_BAD_ROUTE) == 2);
	x = good;
	x.dqpn ^= 0x800000;
	inject(d.b, &x, data, 8);
	x = burst_to(d.b, UC(SEND_ONLY), psn_of(d.b));
	inject(d.b, &x, data, 8);
	x = burst_to(d.b, UD(SEND_ONLY), psn_of(d.b));
	inject(d.b, &x, data, 8);
	MUST(m, stat_of(d.b->node, HCA_STAT_BAD_QPN) == 3);
	model_to_init(idle.b);
	x = burst_to(idle.b, RC(SEND_ONLY), 0);
	inject(idle.b, &x, data, 8);
	MUST(m, stat_of(d.b->node, HCA_STAT_BAD_STATE) == 1);
}

/* An empty SEND that passed as a limited member's is received: the model must not be surprised. */
static void dropped_all(struct model *m)
{
	m->strange = true;
	dropped(m);
}

static void qpn_put(uint8_t *bth, uint32_t qpn)
{
	bth[5] = (uint8_t)(qpn >> 16);
	bth[6] = (uint8_t)(qpn >> 8);
	bth[7] = (uint8_t)qpn;
}

static void raw(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct burst x = burst_to(d.b, RC(SEND_ONLY), psn_of(d.b));
	struct hca *h = d.b->node->hca;
	uint8_t pkt[64] = { 0x04, 0x00, 0xff, 0xff };
	uint64_t before;

	qpn_put(pkt, d.b->qpn);
	for (unsigned len = 0; len < 12; len++)
		hca_rx(h, &x.route, pkt, len, sim_now(&m->s));
	before = stat_of(d.b->node, HCA_STAT_MALFORMED);
	MUST(m, before == 12);
	for (unsigned op = 0; op < 256; op++) {
		if (opcode_get((uint8_t)op)->name || op == OPCODE_CNP)
			continue;
		pkt[0] = (uint8_t)op;
		hca_rx(h, &x.route, pkt, sizeof pkt, sim_now(&m->s));
		before++;
	}
	MUST(m, stat_of(d.b->node, HCA_STAT_MALFORMED) == before);
	pkt[0] = 0x04;
	pkt[1] = 0x01; /* TVer */
	hca_rx(h, &x.route, pkt, sizeof pkt, sim_now(&m->s));
	MUST(m, stat_of(d.b->node, HCA_STAT_MALFORMED) == before + 1);
	memset(pkt, 0, sizeof pkt);
	pkt[0] = OPCODE_CNP;
	pkt[2] = pkt[3] = 0xff;
	pkt[4] = 0x40;
	qpn_put(pkt, d.b->qpn);
	hca_rx(h, &x.route, pkt, 28, sim_now(&m->s));
	MUST(m, stat_of(d.b->node, HCA_STAT_RP_CNP_IGNORED) == 1);
	MUST(m, !in_err(d.b));
}

/* ---- requests that end an RC connection ------------------------------------------ */

/* Each is one request, sent in sequence to a fresh QP; second is a packet behind it. */
static void offences(struct model *m)
{
	static const struct {
		uint8_t first;
		uint32_t len;
		uint8_t second;
		uint32_t len2;
		uint32_t dma;
	} t[] = {
		{ RC(SEND_MIDDLE), 256, 0, 0, 0 },
		{ RC(SEND_LAST), 10, 0, 0, 0 },
		{ RC(WRITE_MIDDLE), 256, 0, 0, 0 },
		{ RC(WRITE_LAST_IMM), 10, 0, 0, 0 },
		{ RC(SEND_FIRST), 256, RC(WRITE_MIDDLE), 256, 0 },
		{ RC(SEND_FIRST), 256, RC(SEND_ONLY), 5, 0 },
		{ RC(SEND_FIRST), 256, RC(READ_REQUEST), 0, 8 },
		{ RC(WRITE_FIRST), 256, RC(SEND_LAST), 8, 300 },
		{ RC(SEND_FIRST), 100, 0, 0, 0 },
		{ RC(SEND_ONLY), 257, 0, 0, 0 },
		{ RC(WRITE_ONLY), 16, 0, 0, 17 },
		{ RC(WRITE_ONLY), 16, 0, 0, 15 },
		{ RC(WRITE_FIRST), 256, 0, 0, 256 },
		{ RC(WRITE_FIRST), 256, RC(WRITE_LAST), 43, 300 },
		{ RC(WRITE_FIRST), 256, RC(WRITE_LAST), 45, 300 },
		{ RC(READ_REQUEST), 0, 0, 0, 0x80000001 },
		{ RC(WRITE_FIRST), 256, 0, 0, 0x80000001 },
		{ RC(FLUSH), 0, 0, 0, 8 },
		{ RC(ATOMIC_WRITE), 8, 0, 0, 9 },
	};

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct duo d = duo_rc(m, NULL);
		struct region *r = &d.b->node->mem.region[REGION_ALL];
		struct piece *p = piece_new(r, &m->s.rng, PIECE_RECV, 1024, 0);
		struct burst x = burst_to(d.b, t[i].first, psn_of(d.b));

		d.a->cause = true;
		expect_err(d.b);
		recv_ok(d.b, 1024);
		x.va = piece_iova(p);
		x.rkey = r->key;
		x.dma_len = t[i].dma;
		inject(d.b, &x, data, t[i].len);
		if (t[i].second) {
			MUST(m, !in_err(d.b));
			x.op_first = x.op_last = t[i].second;
			x.psn = psn_add(x.psn, 1);
			inject(d.b, &x, data, t[i].len2);
		}
		if (!in_err(d.b))
			sim_fail(&m->s, "offence %zu: the QP is not in ERR", i);
		MUST(m, !d.b->rq_n && d.b->events & BIT(EV_QP_REQ_ERR));
	}
}

/* More READs than the responder agreed to, before it could answer one. */
static void too_many_reads(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct piece *p = m->word[1][0];
	struct burst x = burst_to(d.b, RC(READ_REQUEST), psn_of(d.b));

	d.a->cause = true;
	expect_err(d.b);
	x.va = piece_iova(p);
	x.rkey = p->r->key;
	x.dma_len = 8;
	for (unsigned i = 0; i < 5; i++) {
		x.psn = psn_add(x.psn, i ? 1 : 0);
		hca_rx_burst(d.b->node->hca, &x, sim_now(&m->s));
	}
	sim_dirty(d.b->node);
	run_for(m, MSEC);
	MUST(m, in_err(d.b));
}

static void key_gone_while_read(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct piece *p = m->word[1][1]; /* in REGION_IOVA */
	struct burst x = burst_to(d.b, RC(READ_REQUEST), psn_of(d.b));

	d.a->cause = true;
	expect_err(d.b);
	x.va = piece_iova(p);
	x.rkey = p->r->key;
	x.dma_len = 8;
	hca_rx_burst(d.b->node->hca, &x, sim_now(&m->s));
	MUST(m, hca_mr_dereg(d.b->node->hca, p->r->key) == 0);
	p->r->alive = false;
	sim_dirty(d.b->node);
	run_for(m, MSEC);
	MUST(m, in_err(d.b));
}

/* ---- responses ----------------------------------------------------------------------- */

static void late_and_ghost(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct burst x = burst_to(d.a, RC(ACKNOWLEDGE), d.a->attr.sq_psn);

	inject(d.a, &x, NULL, 0); /* nothing was sent */
	x.syndrome = aeth_nak(NAK_REM_ACCESS);
	inject(d.a, &x, NULL, 0);
	recv_ok(d.b, 300);
	m->s.link[0][1].dark = true;
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 300 });
	sim_turns(&m->s);
	x.syndrome = 0x1f;
	x.psn = psn_add(x.psn, 2); /* two packets were sent: this would be the third */
	inject(d.a, &x, NULL, 0);
	x.psn = psn_sub(x.psn, 3); /* before the first */
	inject(d.a, &x, NULL, 0);
	x.psn = psn_add(x.psn, 1);
	x.syndrome = 0x40; /* reserved */
	inject(d.a, &x, NULL, 0);
	MUST(m, m->seen[WC_SUCCESS] == 0 && !in_err(d.a));
	m->s.link[0][1].dark = false;
	model_settle(m);
	MUST(m, stat_of(d.a->node, HCA_STAT_STALE_RESP) >= 4);
}

static void nak_codes(struct model *m)
{
	static const struct {
		uint8_t syndrome;
		uint8_t status;
	} t[] = {
		{ 0x61, WC_REM_INV_REQ_ERR }, { 0x62, WC_REM_ACCESS_ERR }, { 0x63, WC_REM_OP_ERR },
		{ 0x64, WC_BAD_RESP_ERR },    { 0x7f, WC_BAD_RESP_ERR },
	};

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct duo d = duo_rc(m, NULL);
		struct burst x = burst_to(d.a, RC(ACKNOWLEDGE), d.a->attr.sq_psn);

		m->s.link[0][1].dark = true;
		send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 8, .expect = BIT(t[i].status) });
		sim_turns(&m->s);
		x.syndrome = t[i].syndrome;
		inject(d.a, &x, NULL, 0);
		model_settle(m);
		MUST(m, in_err(d.a) && m->seen[t[i].status]);
		m->s.link[0][1].dark = false;
	}
}

/* Responses that do not fit the READ or atomic that waits. */
static void bad_responses(struct model *m)
{
	static const struct {
		uint8_t wr;
		uint32_t want;
		uint8_t op;
		uint32_t len;
	} t[] = {
		{ WR_READ, 100, RC(READ_RESP_ONLY), 99 },   { WR_READ, 100, RC(READ_RESP_ONLY), 101 },
		{ WR_READ, 100, RC(READ_RESP_FIRST), 256 }, { WR_READ, 100, RC(ATOMIC_ACK), 0 },
		{ WR_READ, 600, RC(READ_RESP_ONLY), 100 },  { WR_READ, 600, RC(READ_RESP_FIRST), 255 },
		{ WR_READ, 600, RC(READ_RESP_LAST), 88 },   { WR_READ, 0, RC(READ_RESP_ONLY), 1 },
		{ WR_FETCH_ADD, 8, RC(READ_RESP_ONLY), 8 }, { WR_WRITE, 8, RC(READ_RESP_ONLY), 8 },
		{ WR_WRITE, 8, RC(ATOMIC_ACK), 0 },
	};

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct duo d = duo_rc(m, NULL);
		struct burst x = burst_to(d.a, t[i].op, d.a->attr.sq_psn);

		m->s.link[0][1].dark = true;
		m->s.strange = true; /* a READ of a liar may store what it likes */
		send_ok(d.a,
			&(struct post){ .op = t[i].wr, .flags = S, .len = t[i].want, .expect = BIT(WC_BAD_RESP_ERR) });
		sim_turns(&m->s);
		inject(d.a, &x, data, t[i].len);
		model_settle(m);
		if (!in_err(d.a))
			sim_fail(&m->s, "response %zu is taken", i);
		m->s.link[0][1].dark = false;
	}
}

/* The place where a READ's data goes is deregistered while it is asked for. */
static void read_target_gone(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct region *r;

	send_ok(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 600, .expect = BIT(WC_LOC_PROT_ERR) });
	sim_turns(&m->s);
	r = d.a->sq->loc[0]->r;
	MUST(m, hca_mr_dereg(r->node->hca, r->key) == 0);
	r->alive = false;
	model_settle(m);
	MUST(m, m->seen[WC_LOC_PROT_ERR] == 1);
}

/* ---- UC and UD ---------------------------------------------------------------------------- */

static void uc_strange(struct model *m)
{
	static const struct {
		uint8_t op;
		uint32_t len, dma;
	} t[] = {
		{ UC(SEND_MIDDLE), 256, 0 }, { UC(WRITE_LAST), 7, 0 },  { UC(SEND_FIRST), 100, 0 },
		{ UC(SEND_ONLY), 300, 0 },   { UC(WRITE_ONLY), 9, 10 }, { UC(WRITE_FIRST), 256, 256 },
	};
	struct duo d = duo_uc(m);

	recv_ok(d.b, 1000);
	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct burst x = burst_to(d.b, t[i].op, psn_of(d.b));
		struct piece *p = piece_new(&d.b->node->mem.region[REGION_ALL], &m->s.rng, PIECE_RECV, 1024, 0);

		x.va = piece_iova(p);
		x.rkey = p->r->key;
		x.dma_len = t[i].dma;
		inject(d.b, &x, data, t[i].len);
		MUST(m, !in_err(d.b) && m->s.completions == 0);
	}
	/* the first two are taken for one message */
	MUST(m, stat_of(d.b->node, HCA_STAT_UC_DROPPED) == sizeof t / sizeof t[0] - 1);
}

static void uc_no_right(struct model *m)
{
	struct duo d = duo_new(m, QPT_UC);
	struct qp_attr a = model_attr();

	a.access = 0;
	model_connect(d.a, d.b, &a, false, 0);
	send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 500 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, stat_of(d.b->node, HCA_STAT_UC_DROPPED) == 1 && !in_err(d.b));
}

/* A receive whose list or memory is wrong: the receiver's own fault, UC and UD too. */
static void recv_wrong(struct model *m)
{
	for (unsigned i = 0; i < 4; i++) {
		struct duo d = i & 1 ? duo_ud(m) : duo_uc(m);

		m->recv_bad = i & 2;
		recv_ok(d.b, 600);
		m->recv_bad = false;
		recv_ok(d.b, 600);
		d.b->rq_may |= BIT(WC_LOC_PROT_ERR);
		for (unsigned k = 0; !(i & 2) && k < 5; k++)
			d.b->node->mem.region[k].gone = true;
		send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 500, .to = d.b });
		model_settle(m);
		run_for(m, MSEC);
		for (unsigned k = 0; k < 5; k++)
			d.b->node->mem.region[k].gone = false;
		MUST(m, m->seen[WC_LOC_PROT_ERR] == i + 1);
	}
}

static void uc_target_gone(struct model *m)
{
	struct duo d = duo_uc(m);

	send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 500 });
	for (unsigned k = 0; k < 5; k++)
		d.b->node->mem.region[k].gone = true;
	model_settle(m);
	run_for(m, MSEC);
	for (unsigned k = 0; k < 5; k++)
		d.b->node->mem.region[k].gone = false;
	MUST(m, !in_err(d.b) && stat_of(d.b->node, HCA_STAT_UC_DROPPED) == 1);
}

static void ud_strange(struct model *m)
{
	struct duo d = duo_ud(m);
	struct burst x = burst_to(d.b, UD(SEND_ONLY), 5);

	recv_ok(d.b, 8000);
	x.qkey = d.b->attr.qkey;
	x.sqpn = d.a->qpn;
	inject(d.b, &x, data, 4097);
	MUST(m, stat_of(d.b->node, HCA_STAT_UD_DROPPED) == 1 && m->s.completions == 0);
	x.dqpn = QPN_MCAST;
	inject(d.b, &x, data, 10);
	MUST(m, m->s.completions == 0);
}

/* A UD request that cannot be carried out: no such source address. */
static void ud_no_source(struct model *m)
{
	struct duo d = duo_ud(m);

	send_ok(d.a, &(struct post){ .op = WR_SEND,
				     .flags = S,
				     .len = 5,
				     .to = d.b,
				     .gid = 0,
				     .no_source = true,
				     .expect = BIT(WC_LOC_QP_OP_ERR) });
	model_settle(m);
	MUST(m, m->seen[WC_LOC_QP_OP_ERR] == 1);
}

const struct sim_case cases_wire[] = {
	{ "dropped", dropped_all },           /* conf: CA17-23, C9-43, rule 1.4, rule 1.5 */
	{ "raw", raw },                       /* conf: CA17-24, rule 3.3 */
	{ "offences", offences },             /* conf: CA17-39, rule 3.5, rule 4.9 */
	{ "too_many_reads", too_many_reads }, /* conf: rule 4.6 */
	{ "key_gone_while_read", key_gone_while_read },
	{ "late_and_ghost", late_and_ghost }, /* conf: rule 4.5 */
	{ "nak_codes", nak_codes },           /* conf: rule 4.4 */
	{ "bad_responses", bad_responses },   /* conf: rule 4.6 */
	{ "read_target_gone", read_target_gone },
	{ "uc_strange", uc_strange },
	{ "uc_no_right", uc_no_right },
	{ "recv_wrong_uc_ud", recv_wrong },
	{ "uc_target_gone", uc_target_gone },
	{ "ud_strange", ud_strange },
	{ "ud_no_source", ud_no_source },
	{ NULL, NULL },
};
