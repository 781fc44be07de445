/* SPDX-License-Identifier: MIT */
/* cases_rc.c - reliable connections: every error by its name, retries, RNR, memory that goes away. */
#include "cases.h"

#define BIT(status) (1u << (status))
#define S           WR_SIGNALED

/* ---- wrong requests ------------------------------------------------------------- */

static void wrong_ones(struct model *m, uint8_t op, enum bad from, enum bad to)
{
	for (enum bad bad = from; bad <= to; bad++) {
		struct duo d = duo_rc(m, NULL);

		recv_ok(d.b, 4096);
		recv_ok(d.b, 4096);
		recv_ok(d.a, 64);
		send_ok(d.a, &(struct post){ .op = WR_WRITE, .len = 40 });
		send_ok(d.a, &(struct post){ .op = op, .flags = S, .len = op_is_atomic(op) ? 8 : 700, .bad = bad });
		send_ok(d.a, &(struct post){ .op = WR_SEND, .len = 100 });
		model_settle(m);
		run_for(m, SEC);
		model_watch(d.a);
		MUST(m, d.a->state == QPS_ERR && !d.a->rq_n);
		if (bad != BAD_LKEY && bad != BAD_LBOUNDS) {
			model_watch(d.b);
			MUST(m, d.b->state == QPS_ERR && !d.b->rq_n);
			MUST(m, d.b->events & (BIT(EV_QP_REQ_ERR) | BIT(EV_QP_ACCESS_ERR)));
		}
		model_destroy(d.a);
		model_destroy(d.b);
	}
}

static void wrong_write(struct model *m) { wrong_ones(m, WR_WRITE, BAD_RKEY, BAD_LBOUNDS); }
static void wrong_write_imm(struct model *m) { wrong_ones(m, WR_WRITE_IMM, BAD_RKEY, BAD_LBOUNDS); }
static void wrong_read(struct model *m) { wrong_ones(m, WR_READ, BAD_RKEY, BAD_LBOUNDS); }
static void wrong_send(struct model *m) { wrong_ones(m, WR_SEND, BAD_LKEY, BAD_LBOUNDS); }

static void wrong_atomic(struct model *m)
{
	wrong_ones(m, WR_FETCH_ADD, BAD_RKEY, BAD_LBOUNDS);
	wrong_ones(m, WR_CMP_SWP, BAD_ALIGN, BAD_ALIGN);
}

/* An access flag that the QP lacks: invalid request (protocol 4.9). */
static void no_access(struct model *m)
{
	static const uint8_t ops[] = { WR_WRITE, WR_READ, WR_FETCH_ADD };
	struct qp_attr attr = model_attr();

	attr.access = 0;
	for (unsigned i = 0; i < 3; i++) {
		struct duo d = duo_rc(m, &attr);

		send_ok(d.a, &(struct post){ .op = ops[i], .flags = S, .len = 8, .expect = BIT(WC_REM_INV_REQ_ERR) });
		model_settle(m);
		model_watch(d.b);
		MUST(m, d.b->state == QPS_ERR);
	}
	MUST(m, m->seen[WC_REM_INV_REQ_ERR] == 3);
}

static void no_rd_atomic(struct model *m)
{
	struct qp_attr attr = model_attr();
	struct duo d;

	attr.max_dest_rd_atomic = 0;
	d = duo_rc(m, &attr);
	send_ok(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 100, .expect = BIT(WC_REM_INV_REQ_ERR) });
	model_settle(m);
	MUST(m, m->seen[WC_REM_INV_REQ_ERR] == 1);
}

static void send_too_long(struct model *m)
{
	for (unsigned i = 0; i < 2; i++) {
		struct duo d = duo_rc(m, NULL);

		recv_ok(d.b, 99);
		recv_ok(d.b, 99);
		send_ok(d.a,
			&(struct post){
				.op = WR_SEND, .flags = S, .len = i ? 1000 : 100, .expect = BIT(WC_REM_INV_REQ_ERR) });
		model_settle(m);
		run_for(m, MSEC);
		MUST(m, m->seen[WC_LOC_LEN_ERR] == i + 1 && m->seen[WC_WR_FLUSH_ERR] == i + 1);
	}
}

/* The receiver's own list is wrong: it is the receiver's fault. */
static void recv_wrong(struct model *m)
{
	struct duo d = duo_rc(m, NULL);

	m->recv_bad = true;
	recv_ok(d.b, 300);
	m->recv_bad = false;
	recv_ok(d.b, 300);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 300, .expect = BIT(WC_REM_OP_ERR) });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, m->seen[WC_LOC_PROT_ERR] == 1 && m->seen[WC_REM_OP_ERR] == 1 && m->seen[WC_WR_FLUSH_ERR] == 1);
}

/* ---- patience ----------------------------------------------------------------------- */

/* retry_cnt retries, each after T..4T, then the error; never sooner (protocol 4.5). */
static void retry_exhausted(struct model *m)
{
	struct qp_attr attr = model_attr();
	uint64_t t = 4096ull << attr.timeout, took;
	struct duo d;

	attr.retry_cnt = 3;
	d = duo_rc(m, &attr);
	m->s.link[0][1].dark = true;
	send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 100 });
	model_settle(m);
	took = m->s.now;
	MUST(m, m->seen[WC_RETRY_EXC_ERR] == 1);
	MUST(m, took >= 4 * t && took <= 4 * 4 * t);
	MUST(m, m->s.link[0][1].pkt_n == 4);
	MUST(m, stat_of(d.a->node, HCA_STAT_RETRY_EXCEEDED_ERR) == 1);
}

/* Progress gives all retries back. */
static bool drop_first_tries(struct sim *, const struct burst *, uint64_t n) { return n % 3 != 2; }

static void retry_reloads(struct model *m)
{
	struct qp_attr attr = model_attr();
	struct duo d;

	attr.retry_cnt = 2;
	d = duo_rc(m, &attr);
	for (unsigned i = 0; i < 6; i++) {
		m->s.link[0][1].pkt_n = 0;
		m->s.link[0][1].drop = drop_first_tries;
		send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 100 });
		model_settle(m);
	}
	MUST(m, m->seen[WC_SUCCESS] == 6);
}

static void rnr_exhausted(struct model *m)
{
	struct qp_attr attr = model_attr();
	struct duo d;

	attr.rnr_retry = 2;
	attr.min_rnr_timer = 12; /* 0.64 ms */
	m->rnr = true;
	d = duo_rc(m, &attr);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 100 });
	model_settle(m);
	MUST(m, m->seen[WC_RNR_RETRY_EXC_ERR] == 1);
	MUST(m, m->s.now >= 2 * 640 * USEC);
	MUST(m, stat_of(d.b->node, HCA_STAT_SEND_RNR_ERR) == 3);
	MUST(m, stat_of(d.a->node, HCA_STAT_RETRY_RNR_EXCEEDED_ERR) == 1);
	model_watch(d.b);
	MUST(m, d.b->state == QPS_RTS);
}

/* Progress gives the RNR retries back as well. */
static void late_recv(struct sim *, void *q) { recv_ok(q, 100); }

static void rnr_reloads(struct model *m)
{
	struct qp_attr attr = model_attr();
	struct duo d;

	attr.rnr_retry = 1;
	attr.min_rnr_timer = 12; /* 0.64 ms */
	d = duo_rc(m, &attr);
	for (unsigned i = 0; i < 4; i++) {
		send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 100 });
		sim_at(&m->s, m->s.now + 100 * USEC, late_recv, d.b);
		model_settle(m);
	}
	MUST(m, m->seen[WC_SUCCESS] == 8 && stat_of(d.a->node, HCA_STAT_RCVD_RNR_ERR) == 4);
}

static void rnr_waits(struct model *m)
{
	struct qp_attr attr = model_attr();
	struct duo d;

	attr.min_rnr_timer = 16; /* 2.56 ms */
	d = duo_rc(m, &attr);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 1000 });
	for (unsigned i = 0; i < 4; i++)
		send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 1000 });
	run_for(m, MSEC);
	recv_ok(d.b, 1000);
	run_for(m, MSEC);
	MUST(m, m->seen[WC_SUCCESS] == 0); /* a NAK behind the RNR NAK must not cut the wait short */
	model_settle(m);
	MUST(m, m->s.now >= 2560 * USEC && m->s.now < 6 * MSEC);
	MUST(m, stat_of(d.a->node, HCA_STAT_RCVD_RNR_ERR) == 1);
}

/* A lost packet is noticed by the next one, not by the clock. */
static bool drop_second(struct sim *, const struct burst *, uint64_t n) { return n == 1; }

static void nak_is_fast(struct model *m)
{
	struct duo d = duo_rc(m, NULL);

	m->s.link[0][1].drop = drop_second;
	send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 2000 });
	model_settle(m);
	MUST(m, m->s.now < 4096ull << 10);
	MUST(m, stat_of(d.a->node, HCA_STAT_RCVD_SEQ_ERR) == 1 && stat_of(d.b->node, HCA_STAT_NAK_SENT) == 1);
	MUST(m, stat_of(d.a->node, HCA_STAT_LOCAL_ACK_TIMEOUT) == 0);
}

static void read_gap_is_fast(struct model *m)
{
	struct duo d = duo_rc(m, NULL);

	m->s.link[1][0].drop = drop_second;
	send_ok(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 2000 });
	model_settle(m);
	MUST(m, m->s.now < 4096ull << 10);
	MUST(m, stat_of(d.a->node, HCA_STAT_IMPLIED_NAK) == 1);
	m->s.link[1][0].pkt_n = 0;
	send_ok(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 2000 });
	model_settle(m);
	MUST(m, stat_of(d.a->node, HCA_STAT_IMPLIED_NAK) == 2);
	MUST(m, stat_of(d.a->node, HCA_STAT_LOCAL_ACK_TIMEOUT) == 0);
}

/* Timeout 0: never. */
static void timeout_never(struct model *m)
{
	struct qp_attr attr = model_attr();
	struct duo d;

	attr.timeout = 0;
	d = duo_rc(m, &attr);
	m->s.link[0][1].dark = true;
	send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 100 });
	run_for(m, 1000 * SEC);
	MUST(m, m->s.completions == 0 && m->s.link[0][1].pkt_n == 1);
	MUST(m, d.a->state == QPS_RTS);
}

/* ---- memory that goes away ------------------------------------------------------------- */

static void gone(struct model *m, unsigned node, bool is)
{
	for (unsigned i = 0; i < m->s.node[node].mem.region_n; i++)
		m->s.node[node].mem.region[i].gone = is;
}

static void unmapped(struct model *m)
{
	static const struct {
		uint8_t op;
		unsigned where;
		uint32_t status;
	} t[] = {
		{ WR_SEND, 0, BIT(WC_LOC_PROT_ERR) },
		{ WR_READ, 0, BIT(WC_LOC_PROT_ERR) },
		{ WR_FETCH_ADD, 0, BIT(WC_LOC_PROT_ERR) },
		{ WR_SEND, 1, BIT(WC_REM_OP_ERR) },
		{ WR_WRITE, 1, BIT(WC_REM_OP_ERR) | BIT(WC_REM_ACCESS_ERR) },
		{ WR_READ, 1, BIT(WC_REM_OP_ERR) | BIT(WC_REM_ACCESS_ERR) },
		{ WR_FETCH_ADD, 1, BIT(WC_REM_OP_ERR) | BIT(WC_REM_ACCESS_ERR) },
	};

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct duo d = duo_rc(m, NULL);

		recv_ok(d.b, 2048);
		d.a->cause = d.b->cause = true;
		d.b->rq_may = BIT(WC_LOC_PROT_ERR) | BIT(WC_LOC_ACCESS_ERR) | BIT(WC_LOC_QP_OP_ERR);
		send_ok(d.a, &(struct post){ .op = t[i].op,
					     .flags = S,
					     .len = t[i].op == WR_FETCH_ADD ? 8 : 1500,
					     .expect = t[i].status });
		gone(m, t[i].where, true);
		model_settle(m);
		run_for(m, MSEC);
		gone(m, t[i].where, false);
		model_watch(d.a);
		MUST(m, d.a->state == QPS_ERR);
	}
}

/* A burst between local devices that is taken packet by packet, and whose source cannot be read: lost, not
 * refused. */
static void local_source_gone(struct model *m)
{
	struct link local = { .local = true };
	struct duo d = duo_rc(m, NULL);

	sim_link(&m->s, 0, 1, &local);
	m->mem_lost = true;
	for (unsigned i = 0; i < 8; i++) { /* the host of the link may say what happened, or not */
		send_ok(d.a, &(struct post){ .op = WR_WRITE_IMM, .flags = S, .len = 1000 });
		gone(m, 0, true);
		run_for(m, MSEC);
		gone(m, 0, false);
		model_watch(d.b);
		MUST(m, d.b->state == QPS_RTS);
		MUST(m, m->seen[WC_REM_INV_REQ_ERR] == 0);
	}
	recv_ok(d.b, 0);
	model_settle(m);
}

/* Dereg while work is outstanding: the core must notice, and touch nothing (the arena checks). */
static void dereg_in_flight(struct model *m, bool far)
{
	struct duo d = duo_rc(m, NULL);
	struct region *r;

	recv_ok(d.b, 40000);
	d.a->cause = d.b->cause = true;
	d.b->rq_may = BIT(WC_LOC_PROT_ERR);
	m->s.link[0][1].rate = 100000000;
	send_ok(d.a, &(struct post){ .op = WR_WRITE,
				     .flags = S,
				     .len = 30000,
				     .expect = far ? BIT(WC_REM_ACCESS_ERR) : BIT(WC_LOC_PROT_ERR) });
	/* a packet is lost, so that the source is needed again */
	m->s.link[0][1].mask = 1ull << 40;
	m->s.link[0][1].mask_n = 63;
	run_for(m, 20 * USEC);
	r = far ? d.a->sq->remote->r : d.a->sq->loc[0]->r;
	MUST(m, hca_mr_dereg(r->node->hca, r->key) == 0);
	r->alive = false;
	model_settle(m);
}

static void dereg_source(struct model *m) { dereg_in_flight(m, false); }
static void dereg_target(struct model *m) { dereg_in_flight(m, true); }

/* ---- the rest ---------------------------------------------------------------------------- */

static void self_connected(struct model *m)
{
	const struct mqp_cfg c = { .type = QPT_RC, .max_send_wr = 16, .max_recv_wr = 16, .max_sge = 4 };
	struct qp_attr attr = model_attr();
	struct link local = { .local = true };
	struct mqp *q = model_qp(m, 0, &c);

	sim_link(&m->s, 0, 0, &local);
	model_connect(q, q, &attr, true, 0);
	recv_ok(q, 5000);
	send_ok(q, &(struct post){ .op = WR_SEND, .flags = S, .len = 5000 });
	send_ok(q, &(struct post){ .op = WR_READ, .flags = S, .len = 5000 });
	send_ok(q, &(struct post){ .op = WR_WRITE, .flags = S, .len = 5000 });
	model_settle(m);
	MUST(m, m->seen[WC_SUCCESS] == 4);
}

static void queue_full(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	unsigned n = 0;

	m->s.link[0][1].dark = true;
	while (n < 1000 && !model_send(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 1 }))
		n++;
	MUST(m, n >= 16 && n < 1000);
	MUST(m, model_send(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 1 }) == ENOMEM);
	for (n = 0; n < 1000 && !model_recv(d.a, 8, 1); n++)
		;
	MUST(m, n >= 16 && n < 1000 && model_recv(d.a, 8, 1) == ENOMEM);
	MUST(m, model_send(d.b, &(struct post){ .op = WR_WRITE, .flags = S, .len = 8, .sge_n = 5 }) == E2BIG);
	MUST(m, model_recv(d.b, 8, 5) == E2BIG);
	m->s.link[0][1].dark = false;
	model_settle(m);
}

static void srq_events(struct model *m)
{
	struct msrq *srq = model_srq(m, 1, 16);
	struct mqp_cfg c = { .type = QPT_RC, .max_send_wr = 16, .max_recv_wr = 16, .max_sge = 4 };
	struct mqp *a = model_qp(m, 0, &c), *b;
	struct qp_attr attr = model_attr();

	c.srq = srq;
	b = model_qp(m, 1, &c);
	model_connect(a, b, &attr, true, 0);
	for (unsigned i = 0; i < 8; i++)
		MUST(m, model_srq_recv(srq, 600, 1) == 0);
	srq->armed++;
	MUST(m, hca_srq_limit(srq->node->hca, srq->srqn, 6) == 0);
	for (unsigned i = 0; i < 2; i++)
		send_ok(a, &(struct post){ .op = WR_SEND, .flags = S, .len = 600 });
	model_settle(m);
	MUST(m, srq->limit_events == 0);
	for (unsigned i = 0; i < 3; i++)
		send_ok(a, &(struct post){ .op = WR_SEND, .flags = S, .len = 600 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, srq->limit_events == 1);
	MUST(m, model_recv(b, 64, 1) == EINVAL);
	MUST(m, model_state(b, QPS_ERR) == 0);
	run_for(m, MSEC);
	MUST(m, b->last_wqe && srq->n == 3);
	MUST(m, hca_srq_destroy(srq->node->hca, srq->srqn) == EBUSY);
}

static void cq_overrun(struct model *m)
{
	struct duo d = duo_rc(m, NULL), e = duo_rc(m, NULL);

	recv_ok(d.a, 64);
	model_overrun(m, d.a->node, d.a->send_cqn);
	sim_turns(&m->s);
	model_watch(d.a);
	model_watch(e.a);
	model_watch(d.b);
	MUST(m, d.a->state == QPS_ERR && e.a->state == QPS_ERR && d.b->state == QPS_RTS);
	MUST(m, stat_of(d.a->node, HCA_STAT_CQ_OVERRUN) == 1);
}

static void busy_objects(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct hca *h = d.a->node->hca;

	MUST(m, hca_pd_free(h, m->pdn[0][0]) == EBUSY);
	MUST(m, hca_cq_destroy(h, d.a->send_cqn) == EBUSY);
	MUST(m, hca_pd_free(h, 0xabcd) != 0 && hca_cq_destroy(h, 0) != 0 && hca_mr_dereg(h, 0) != 0);
	MUST(m, hca_qp_destroy(h, 0) != 0 && hca_srq_destroy(h, 77) != 0);
}

const struct sim_case cases_rc[] = {
	{ "wrong_write", wrong_write }, /* conf: rule 4.9 */
	{ "wrong_write_imm", wrong_write_imm },
	{ "wrong_read", wrong_read },
	{ "wrong_send", wrong_send },
	{ "wrong_atomic", wrong_atomic },
	{ "no_access", no_access }, /* conf: rule 4.9 */
	{ "no_rd_atomic", no_rd_atomic },
	{ "send_too_long", send_too_long }, /* conf: rule 4.9 */
	{ "recv_wrong", recv_wrong },
	{ "retry_exhausted", retry_exhausted }, /* conf: C9-140, rule 4.5 */
	{ "retry_reloads", retry_reloads },     /* conf: rule 4.5 */
	{ "rnr_exhausted", rnr_exhausted },
	{ "rnr_reloads", rnr_reloads },
	{ "rnr_waits", rnr_waits }, /* conf: rule 4.5 */
	{ "nak_is_fast", nak_is_fast },
	{ "read_gap_is_fast", read_gap_is_fast },
	{ "timeout_never", timeout_never }, /* conf: C9-140 */
	{ "unmapped", unmapped },
	{ "local_source_gone", local_source_gone },
	{ "dereg_source", dereg_source },
	{ "dereg_target", dereg_target },
	{ "self_connected", self_connected },
	{ "queue_full", queue_full },
	{ "srq_events", srq_events },
	{ "cq_overrun", cq_overrun }, /* conf: rule 4.9 */
	{ "busy_objects", busy_objects },
	{ NULL, NULL },
};
