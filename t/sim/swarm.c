/* SPDX-License-Identifier: MIT */
/*
 * swarm.c - a random cluster doing random work over random links; then the links become sound and
 * everything must complete.
 *
 *	seed -> config (nodes, links, QPs) -> ops at random times, impaired links -> heal -> settle -> end
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "runs.h"

struct swarm {
	struct model m;
	unsigned ops_left;
	bool errors; /* some WRs are wrong on purpose */
	bool upset;  /* memory vanishes, CQs overrun, links become local */
	bool leave; /* at the end of the work, before that of the impairments, QPs go whose peers still wait for ACKs */
	bool churn; /* QPs are drained, reset, destroyed ... on the way */
	uint32_t size_max;
	uint64_t pace_ns; /* between two steps, at most */
	uint32_t recv_len;
	unsigned recv_ahead;
};

static uint32_t pick(struct rng *r, const uint32_t *v, unsigned n) { return v[rng_below(r, n)]; }
#define PICK(r, ...) pick(r, (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4)

/* ---- the configuration ------------------------------------------------------- */

static void link_random(struct swarm *w, struct link *l)
{
	struct rng *r = &w->m.s.rng;

	memset(l, 0, sizeof *l);
	l->local = rng_one_in(r, 4);
	l->delay_ns = PICK(r, 0, 1 * USEC, 5 * USEC, 50 * USEC);
	l->rate = PICK(r, 0, 0, 1, 10) * UINT64_C(1000000000);
	l->reorder_ns = PICK(r, 1 * USEC, 30 * USEC, 500 * USEC, 20 * MSEC);
	if (rng_one_in(r, 3))
		return; /* a good link */
	if (rng_one_in(r, 2))
		l->loss = PICK(r, 1000, 10000, 50000, 200000);
	if (rng_one_in(r, 3))
		l->dup = PICK(r, 1000, 20000, 200000);
	if (rng_one_in(r, 3))
		l->corrupt = PICK(r, 1000, 20000, 100000);
	if (rng_one_in(r, 3))
		l->reorder = PICK(r, 1000, 20000, 200000);
	if (rng_one_in(r, 4))
		l->jitter_ns = PICK(r, 1 * USEC, 20 * USEC);
	if (rng_one_in(r, 4))
		l->ce = PICK(r, 1000, 50000, 1000000);
	if (rng_one_in(r, 4)) {
		l->queue_len = PICK(r, 8192, 65536);
		l->rate = 1000000000;
	}
	if (l->dup || l->reorder || l->jitter_ns)
		w->m.copies = true;
	if (l->queue_len || l->jitter_ns || l->reorder || l->rate || l->ce)
		w->m.lenient = true; /* late is not counted as lost */
}

static void links_random(struct swarm *w)
{
	struct sim *s = &w->m.s;
	bool slow = rng_one_in(&s->rng, 3);
	struct link l;

	w->m.lenient |= slow;
	for (unsigned a = 0; a < s->node_n; a++) {
		struct node *n = &s->node[a];

		if (slow)
			n->lazy = PICK(&s->rng, 0, 10000, 300000);
		n->late_ns = slow ? PICK(&s->rng, 1, 1 * USEC, 100 * USEC) : 0;
		n->join = PICK(&s->rng, 0, 500000, 1000000);
		n->gro_ns = PICK(&s->rng, 0, 0, 5 * USEC, 50 * USEC);
		for (unsigned b = a; b < s->node_n; b++) {
			link_random(w, &l);
			if (a == b)
				l.local = true;
			sim_link(s, a, b, &l);
		}
	}
}

static struct qp_attr attr_random(struct swarm *w)
{
	struct rng *r = &w->m.s.rng;
	struct qp_attr a = model_attr();

	a.path_mtu = (uint8_t)rng_range(r, 1, 5);
	a.timeout = (uint8_t)rng_range(r, 8, 14);
	a.retry_cnt = (uint8_t)PICK(r, 0, 1, 3, 7, 7, 7, 7);
	a.rnr_retry = (uint8_t)PICK(r, 0, 1, 6, 7, 7, 7, 7);
	a.min_rnr_timer = (uint8_t)PICK(r, 1, 5, 12, 16);
	a.max_rd_atomic = (uint8_t)PICK(r, 0, 1, 2, 4, 16);
	/* All that round up to what the peer asks with at most; 0 of those asks once. */
	a.max_dest_rd_atomic = (uint8_t)rng_range(r, a.max_rd_atomic / 2 + 1, 16);
	return a;
}

/* Some are slowed down; of a source of chance of its own, so that old seeds stay what they were. */
static void rates_random(struct swarm *w)
{
	struct model *m = &w->m;
	struct rng r = { m->s.seed ^ 0x7261746573 };

	if (!rng_one_in(&r, 4))
		return;
	for (unsigned i = 0; i < m->qp_n; i++) {
		struct mqp *q = &m->qp[i];
		uint32_t at_once;

		if (q->type == QPT_XRC_RECV || !rng_one_in(&r, 2))
			continue;
		at_once = PICK(&r, 0, 0, 1, 5000, 100000);
		if (hca_qp_rate(q->node->hca, q->qpn, PICK(&r, 50000, 1000000, 10000000), at_once, sim_now(&m->s)))
			sim_fail(&m->s, "hca_qp_rate");
		m->lenient = true; /* late is not counted as lost */
	}
}

static void qps_random(struct swarm *w)
{
	struct model *m = &w->m;
	struct rng *r = &m->s.rng;
	unsigned pairs = rng_range(r, 1, 6);
	struct msrq *srq[SIM_NODES] = { 0 }, *xsrq[SIM_NODES] = { 0 };

	for (unsigned i = 0; i < m->s.node_n && i < MODEL_SRQS; i++)
		if (rng_one_in(r, 2))
			srq[i] = model_srq(m, i, PICK(r, 16, 32, 128));
	for (unsigned i = 0; i < pairs; i++) {
		unsigned a = rng_below(r, m->s.node_n), b = rng_below(r, m->s.node_n);
		struct mqp_cfg c = {
			.type = (uint8_t)PICK(r, QPT_RC, QPT_RC, QPT_RC, QPT_RC, QPT_UC, QPT_UD, QPT_XRC_SEND),
			.max_send_wr = PICK(r, 1, 2, 16, 64),
			.max_recv_wr = PICK(r, 1, 2, 16, 64),
			.max_sge = 4,
			.sig_all = rng_one_in(r, 4),
			.cq = rng_below(r, MODEL_CQS * MODEL_CQS),
		};
		struct qp_attr attr = attr_random(w);
		struct mqp *p, *q;

		if (a == b && rng_one_in(r, 2))
			b = (a + 1) % m->s.node_n;
		c.srq = rng_one_in(r, 2) && c.type != QPT_XRC_SEND ? srq[a] : NULL;
		p = model_qp(m, a, &c);
		c.srq = rng_one_in(r, 2) ? srq[b] : NULL;
		if (c.type == QPT_XRC_SEND) {
			if (!xsrq[b]) {
				unsigned cq = rng_below(r, MODEL_CQS);

				xsrq[b] = model_xsrq(m, b, PICK(r, 16, 32, 128), cq);
			}
			c.type = QPT_XRC_RECV;
			c.srq = xsrq[b];
		}
		q = model_qp(m, b, &c);
		if (c.type == QPT_UD) {
			model_ready(p, rng_next(r) & 0x7fffffff);
			model_ready(q, rng_next(r) & 0x7fffffff);
			p->peer = q->peer = NULL;
		} else {
			unsigned gid = rng_below(r,
						 2); /* in a statement of its own: the same dice with each compiler */

			model_connect(p, q, &attr, rng_one_in(r, 2), gid);
			for (unsigned k = q->type == QPT_XRC_RECV ? 0 : rng_below(r, 4); k; k--)
				model_mw(k & 1 ? p : q, (uint8_t)rng_range(r, 1, 2));
		}
	}
}

/* ---- the work ------------------------------------------------------------------ */

static uint32_t len_random(struct swarm *w, uint32_t mtu)
{
	struct rng *r = &w->m.s.rng;
	uint32_t len;

	switch (rng_below(r, 6)) {
	case 0: return rng_below(r, 9);
	case 1: return rng_below(r, 256);
	case 2: len = mtu * rng_range(r, 1, 4) + rng_below(r, 3) - 1; break;
	case 3: len = mtu * rng_range(r, 1, 12); break;
	default: len = rng_below(r, w->size_max + 1);
	}
	return len < w->size_max ? len : w->size_max;
}

/* Through a window of the peer, or with one of one's own, now and then. */
static void window_random(struct mqp *q, struct post *p)
{
	struct model *m = q->m;
	struct mmw *w = m->mw_n ? &m->mw[rng_below(&m->s.rng, m->mw_n)] : NULL;

	if (!w || q->type == QPT_UD || q->type == QPT_XRC_RECV)
		return;
	if (mmw_usable(w, q)) {
		p->mw = w;
		if (w->type == 2 && rng_one_in(&m->s.rng, 8))
			p->op = WR_SEND_INV;
	} else if (w->of == q && !q->orphaned && !w->uses && rng_one_in(&m->s.rng, 2)) {
		p->mw = w;
		if (w->state == MMW_FREE || (w->state == MMW_BOUND && w->type == 1))
			p->op = WR_BIND_MW;
		else if (w->state == MMW_BOUND)
			p->op = WR_LOCAL_INV;
		else
			p->mw = NULL;
	}
}

static void send_random(struct swarm *w, struct mqp *q)
{
	static const uint32_t rc_ops[] = {
		WR_SEND, WR_SEND_IMM, WR_WRITE,     WR_WRITE,        WR_WRITE_IMM, WR_READ,
		WR_READ, WR_CMP_SWP,  WR_FETCH_ADD, WR_ATOMIC_WRITE, WR_FLUSH,
	};
	struct model *m = &w->m;
	struct rng *r = &m->s.rng;
	uint32_t mtu = 128u << q->attr.path_mtu;
	struct post p = { 0 };
	int e;

	p.op = (uint8_t)pick(r, rc_ops, mqp_rel(q) ? 11 : q->type == QPT_UC ? 5 : 2);
	window_random(q, &p);
	p.flags = (rng_below(r, 3) ? WR_SIGNALED : 0) | (rng_one_in(r, 4) ? WR_SOLICITED : 0) |
		  (rng_one_in(r, 4) ? WR_FENCE : 0);
	p.len = len_random(w, mtu);
	p.sge_n = rng_range(r, 1, 4);
	p.inl = rng_one_in(r, 3);
	p.again = rng_one_in(r, 3);
	p.word = (uint32_t)rng_next(r);
	p.gid = rng_below(r, 2);
	if (p.again && q->target && (p.op == WR_READ || p.op == WR_WRITE))
		p.len = q->target->len;
	if (q->type == QPT_UD) {
		struct mqp *to = &m->qp[rng_below(r, m->qp_n)];

		if (to->type != QPT_UD || !to->exists || to->overrun)
			return;
		p.to = to;
		p.len = rng_below(r, 513);
	}
	if (w->errors && mqp_rel(q) && rng_one_in(r, 40) && p.len && !q->cause && p.op != WR_SEND_INV) {
		if (op_is_local(p.op))
			p.bad = BAD_MW;
		else if (op_takes_recv(p.op))
			p.bad = p.op == WR_WRITE_IMM ? BAD_RKEY : BAD_LKEY;
		else
			p.bad = rng_range(r, BAD_RKEY,
					  op_is_atomic(p.op) ? BAD_RKEY
					  : p.op == WR_FLUSH ? BAD_RKEY
							     : BAD_LBOUNDS);
		p.again = p.inl = false;
	}
	/* one in the queue is always signaled, so that a full queue becomes free again */
	if (q->sq_n + 2 > q->cap.max_send_wr)
		p.flags |= WR_SIGNALED;
	if (q->sq_n >= q->cap.max_send_wr || (!mqp_rel(q) && q->sq_n + 1 >= q->cap.max_send_wr && q->sq_n))
		return;
	e = model_send(q, &p);
	if (e && e != ENOBUFS)
		sim_fail(&m->s, "hca_post_send of op %u to QP 0x%x: %s (%u of %u)", p.op, q->qpn, strerror(e), q->sq_n,
			 q->cap.max_send_wr);
}

static void recv_random(struct swarm *w, struct mqp *q)
{
	struct rng *r = &w->m.s.rng;
	uint32_t len = w->recv_len;
	int e = 0;

	if (q->state == QPS_RESET || (q->cause && rng_below(r, 8)))
		return; /* (what is flushed keeps its memory) */
	if (q->srq) {
		if (q->srq->n < q->srq->max_wr && q->srq->n < w->recv_ahead)
			e = model_srq_recv(q->srq, len, rng_range(r, 1, 4));
	} else if (q->rq_n < q->cap.max_recv_wr && q->rq_n < w->recv_ahead) {
		e = model_recv(q, len, rng_range(r, 1, 4));
	}
	if (e && e != ENOBUFS)
		sim_fail(&w->m.s, "hca_post_recv: %s", strerror(e));
}

/* Things that a program may do to a QP at any time. */
static void churn_random(struct swarm *w, struct mqp *q)
{
	struct rng *r = &w->m.s.rng;

	switch (rng_below(r, 8)) {
	case 0:
		if (q->state == QPS_RTS && !q->cause)
			model_state(q, QPS_ERR);
		break;
	case 1: model_state(q, QPS_RESET); break;
	case 2: model_destroy(q); break;
	default:
		model_watch(q);
		if (q->state == QPS_RTS && !q->asked_drain) {
			struct qp_attr a = { .state = QPS_SQD, .en_sqd_async_notify = 1 };

			q->asked_drain = true;
			q->drained = false;
			if (model_modify(q, &a, QPA_STATE | QPA_EN_SQD_ASYNC_NOTIFY))
				sim_fail(&w->m.s, "RTS to SQD is refused");
		}
	}
}

/* Things that may happen to memory, queues and links while work is under way. */
static void upset_random(struct swarm *w)
{
	struct sim *s = &w->m.s;
	struct node *n = &s->node[rng_below(&s->rng, s->node_n)], *o = &s->node[rng_below(&s->rng, s->node_n)];
	struct region *r = &n->mem.region[REGION_IOVA];
	struct msrq *srq = &w->m.srq[rng_below(&s->rng, w->m.srq_n)];
	unsigned cq, e;

	switch (rng_below(&s->rng, 12)) {
	case 0:
		cq = rng_below(&s->rng, MODEL_CQS);
		trace_note(s, "%c CQ %u overruns", 'A' + n->i, w->m.cqn[n->i][cq]);
		model_overrun(&w->m, n, w->m.cqn[n->i][cq]);
		break;
	case 1:
		if (!r->alive)
			break;
		trace_note(s, "%c dereg of key 0x%x", 'A' + n->i, r->key);
		w->m.mem_lost = true;
		r->alive = false;
		if (hca_mr_dereg(n->hca, r->key))
			sim_fail(s, "hca_mr_dereg");
		sim_dirty(n);
		break;
	case 2:
	case 3:
	case 4:
		r = &n->mem.region[rng_below(&s->rng, n->mem.region_n)];
		r->gone = !r->gone;
		trace_note(s, "%c memory of key 0x%x %s", 'A' + n->i, r->key, r->gone ? "vanishes" : "is back");
		w->m.mem_lost = true;
		break;
	case 5:
	case 6:
		if (n == o)
			break;
		s->link[n->i][o->i].local = !s->link[n->i][o->i].local;
		s->link[o->i][n->i].local = s->link[n->i][o->i].local;
		trace_note(s, "%c and %c are now %s", 'A' + n->i, 'A' + o->i,
			   s->link[n->i][o->i].local ? "local" : "apart");
		w->m.lenient = w->m.copies = s->late = true;
		sim_local(s, n->i, o->i);
		break;
	case 7:
		e = w->m.srq_n ? rng_range(&s->rng, 16, 128) : 0;
		if (e && !hca_srq_resize(srq->node->hca, srq->srqn, e))
			srq->max_wr = e;
		else if (e && e >= srq->n)
			sim_fail(s, "hca_srq_resize to %u of an SRQ with %u", e, srq->n);
		break;
	default:
		if (!w->m.srq_n)
			break;
		srq->armed++;
		if (hca_srq_limit(srq->node->hca, srq->srqn, rng_range(&s->rng, 1, 16)))
			sim_fail(s, "hca_srq_limit");
	}
}

static void resume(struct swarm *w, struct mqp *q)
{
	model_watch(q);
	if (q->state == QPS_SQD && (q->drained || !q->asked_drain)) {
		q->asked_drain = false;
		if (model_state(q, QPS_RTS))
			sim_fail(&w->m.s, "SQD to RTS is refused");
	}
	if (q->state == QPS_SQE && !q->sq_n && !model_state(q, QPS_RTS))
		q->sq_err = false;
}

static void step(struct sim *s, void *arg)
{
	struct swarm *w = arg;
	struct mqp *q = &w->m.qp[rng_below(&s->rng, w->m.qp_n)];
	unsigned n = rng_one_in(&s->rng, 4) ? rng_below(&s->rng, 16) : 1;

	if (!w->ops_left)
		return;
	w->ops_left--;
	if (q->exists && !q->overrun) {
		resume(w, q);
		if (w->churn && rng_one_in(&s->rng, 60))
			churn_random(w, q);
		else if (rng_one_in(&s->rng, 2) || q->type == QPT_XRC_RECV)
			for (unsigned i = 0; i < n; i++)
				recv_random(w, q);
		else if (q->state == QPS_RTS || q->state == QPS_SQD || q->state == QPS_ERR)
			for (unsigned i = 0; i < n && w->ops_left; i++)
				send_random(w, q);
	}
	if (w->upset && rng_one_in(&s->rng, 20))
		upset_random(w);
	if (rng_one_in(&s->rng, 50)) {
		struct link *l = &s->link[rng_below(&s->rng, s->node_n)][rng_below(&s->rng, s->node_n)];

		if (l->loss)
			l->dark = !l->dark;
	}
	sim_at(s, s->now + rng_ns(&s->rng, w->pace_ns), step, w);
}

static void leave_all(struct model *m)
{
	for (unsigned i = 0; i < m->qp_n; i++) {
		struct mqp *q = &m->qp[i];

		if (q->type == QPT_RC && !q->overrun && q->peer != q && !q->peer->left && model_may_leave(q))
			model_leave(q);
	}
}

/* A signaled WR behind unsignaled ones, so that their end is heard of as well. */
static void close_queues(struct swarm *w)
{
	for (unsigned i = 0; i < w->m.qp_n; i++) {
		struct mqp *q = &w->m.qp[i];
		struct mwr *last = q->exists && !q->overrun ? q->sq : NULL;
		struct post p = { .op = q->type == QPT_UD ? WR_SEND : WR_WRITE, .flags = WR_SIGNALED, .to = q };

		while (last && last->next)
			last = last->next;
		if (last && !last->signaled && !(q->peer && q->peer->left) && model_send(q, &p))
			sim_fail(&w->m.s, "no room for the last WR of QP 0x%x", q->qpn);
	}
}

static void top_up(struct model *m)
{
	struct swarm *w = (struct swarm *)m;

	for (unsigned i = 0; i < m->qp_n; i++) {
		struct mqp *q = &m->qp[i];

		if (!q->exists || q->overrun)
			continue;
		resume(w, q);
		if (mqp_rel(q) && model_owed(q))
			recv_random(w, q);
		/* each QP may keep one for a message that was lost in the middle */
		if (q->srq && q->srq->n < 13)
			model_srq_recv(q->srq, w->recv_len, 1);
	}
}

/* Where nothing is lost, late or slowed by marks, and no receive is missing, nothing is sent twice. */
static void quiet_check(struct swarm *w)
{
	static const enum hca_stat stats[] = { HCA_STAT_DUPLICATE_REQUEST,   HCA_STAT_OUT_OF_SEQ_REQUEST,
					       HCA_STAT_IMPLIED_NAK,         HCA_STAT_RCVD_SEQ_ERR,
					       HCA_STAT_COMPLETER_RETRY_ERR, HCA_STAT_LOCAL_ACK_TIMEOUT };
	struct sim *s = &w->m.s;

	for (unsigned i = 0; i < s->node_n; i++) {
		if (w->churn || w->errors || w->upset || s->node[i].late_ns ||
		    hca_stat(s->node[i].hca, HCA_STAT_SEND_RNR_ERR))
			return;
		for (unsigned k = 0; k < s->node_n; k++)
			if (s->link[i][k].harm_n || s->link[i][k].jitter_ns || s->link[i][k].rate || s->link[i][k].ce)
				return;
	}
	for (unsigned i = 0; i < s->node_n; i++)
		for (unsigned k = 0; k < sizeof stats / sizeof stats[0]; k++)
			if (hca_stat(s->node[i].hca, stats[k]))
				sim_fail(s, "%s is %llu on %c, and nothing was ever lost", hca_stat_name(stats[k]),
					 (unsigned long long)hca_stat(s->node[i].hca, stats[k]), 'A' + i);
}

uint64_t swarm_run(uint64_t seed, bool trace)
{
	struct swarm *w = calloc(1, sizeof *w);
	struct rng pre = { seed ^ 0x5eed };
	struct model_cfg c = { .kind = "swarm", .seed = seed, .hca = model_hca(), .trace = trace };
	uint64_t hash;

	if (!w)
		abort();
	c.nodes = rng_range(&pre, 2, 3);
	c.hca.burst_len = PICK(&pre, 4096, 16384, 61440);
	c.hca.local_burst_len = PICK(&pre, 4096, 65536, 1 << 20);
	c.hca.early_retrans = seed & 1;
	c.hca.selective = seed >> 1 & 1;
	c.hca.window_len = PICK(&pre, 1, 4096, 8192, 65536, 1 << 20);
	w->size_max = PICK(&pre, 600, 5000, 20000, 70000);
	c.arena_len = 8 << 20; /* room for all receives that QPs may have ahead, and for one more that is owed */
	model_init(&w->m, &c);
	w->errors = rng_one_in(&pre, 4);
	w->churn = rng_one_in(&pre, 4);
	w->upset = rng_one_in(&pre, 6);
	w->recv_len = w->size_max < 600 ? 600 : w->size_max;
	w->recv_ahead = PICK(&pre, 1, 4, 64);
	if (w->recv_ahead > 150000 / w->recv_len)
		w->recv_ahead = 150000 / w->recv_len;
	w->pace_ns = PICK(&pre, 1, 2 * USEC, 50 * USEC, 1 * MSEC);
	w->ops_left = rng_range(&pre, 20, 250);
	w->leave = rng_one_in(&pre, 3);
	w->m.rnr = true;
	w->m.on_settle = top_up;
	links_random(w);
	qps_random(w);
	rates_random(w);
	step(&w->m.s, w);
	while (w->ops_left && sim_step(&w->m.s))
		;
	for (unsigned i = 0; w->leave && i < 300 && sim_step(&w->m.s); i++)
		leave_all(&w->m);
	sim_heal(&w->m.s);
	for (unsigned i = 0; i < w->m.s.node_n; i++)
		for (unsigned k = 0; k < w->m.s.node[i].mem.region_n; k++)
			w->m.s.node[i].mem.region[k].gone = false;
	close_queues(w);
	model_settle(&w->m);
	quiet_check(w);
	model_end(&w->m);
	hash = w->m.s.hash;
	free(w);
	return hash;
}
