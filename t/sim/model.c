/* SPDX-License-Identifier: MIT */
/* model.c - objects and work of a simulated cluster; model_check.c judges what comes of them. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define REGION_SHARES 16u

struct hca_cfg model_hca(void)
{
	return (struct hca_cfg){
		.mtu = 5,
		.burst_len = 61440,
		.local_burst_len = 1 << 20,
		.window_len = 1 << 20,
		.max_qp = 64,
		.max_cq = 16,
		.max_srq = 8,
		.max_mr = 32,
		.max_pd = 8,
	};
}

struct qp_attr model_attr(void)
{
	return (struct qp_attr){
		.path_mtu = 1,
		.timeout = 10,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 5,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.port = 1,
		.access = ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC | ACC_FLUSH_GLOBAL |
			  ACC_FLUSH_PERSISTENT,
		.av = { .hop_limit = 64, .tclass = 2 },
	};
}

/* ---- nodes -------------------------------------------------------------- */

static void region_new(struct model *m, struct node *n, unsigned share, uint32_t access, uint32_t pdn, bool iova)
{
	struct region *r = arena_region(&n->mem, (uint32_t)((uint64_t)n->mem.len * share / (REGION_SHARES + 1)));
	struct mr_attr a;

	if (!r)
		sim_fail(&m->s, "no room for a region");
	r->iova = iova ? rng_next(&m->s.rng) >> 8 << 4 : r->va;
	r->access = access;
	r->pdn = pdn;
	a = (struct mr_attr){
		.pdn = pdn, .access = access, .addr = r->va, .len = r->len, .iova = r->iova, .region = r
	};
	if (hca_mr_reg(n->hca, &a, &r->key))
		sim_fail(&m->s, "hca_mr_reg");
	r->alive = true;
}

static void node_setup(struct model *m, struct node *n)
{
	const uint32_t all = ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC | ACC_MW_BIND |
			     ACC_FLUSH_GLOBAL | ACC_FLUSH_PERSISTENT;
	uint32_t *pdn = m->pdn[n->i];

	for (unsigned i = 0; i < 2; i++)
		if (hca_pd_alloc(n->hca, &pdn[i]))
			sim_fail(&m->s, "hca_pd_alloc");
	for (unsigned i = 0; i < MODEL_CQS; i++)
		if (hca_cq_create(n->hca, 65536, &m->cqn[n->i][i]))
			sim_fail(&m->s, "hca_cq_create");
	region_new(m, n, 5, all, pdn[0], false);
	region_new(m, n, 3, all, pdn[0], true);
	region_new(m, n, 6, ACC_LOCAL_WRITE, pdn[0], false);
	region_new(m, n, 1, 0, pdn[0], false);
	region_new(m, n, 1, all, pdn[1], false);
	for (unsigned i = 0; i < MODEL_WORDS; i++) {
		struct piece *p = piece_new(&n->mem.region[i & 1], &m->s.rng, PIECE_WORD, 8, 8);

		if (!p)
			sim_fail(&m->s, "no room for a word");
		m->word[n->i][i] = p;
	}
}

void model_init(struct model *m, const struct model_cfg *c)
{
	memset(m, 0, sizeof *m);
	sim_init(&m->s, c->kind, c->seed, c->nodes, &c->hca, c->arena_len);
	m->s.ops = &model_ops;
	m->s.user = m;
	m->s.trace = c->trace;
	m->next_id = 1;
	for (unsigned i = 0; i < c->nodes; i++)
		node_setup(m, &m->s.node[i]);
}

/* ---- QPs ---------------------------------------------------------------- */

struct msrq *model_srq(struct model *m, unsigned node, uint32_t max_wr)
{
	struct msrq *q = &m->srq[m->srq_n++];
	struct srq_init init = { .pdn = m->pdn[node][0], .max_wr = max_wr, .max_sge = 4 };

	q->node = &m->s.node[node];
	q->max_wr = max_wr;
	q->max_sge = 4;
	if (hca_srq_create(q->node->hca, &init, &q->srqn))
		sim_fail(&m->s, "hca_srq_create");
	return q;
}

struct msrq *model_xsrq(struct model *m, unsigned node, uint32_t max_wr, unsigned cq)
{
	struct msrq *q = m->srq;
	struct srq_init init = {
		.pdn = m->pdn[node][0], .max_wr = max_wr, .max_sge = 4, .cqn = m->cqn[node][cq % MODEL_CQS]
	};

	while (q < m->srq + m->srq_n && q->srqn) /* the place of one that is gone */
		q++;
	if (q == m->srq + m->srq_n && ++m->srq_n > MODEL_SRQS)
		sim_fail(&m->s, "too many SRQs for the model");
	if (!m->xrcdn[node] && hca_xrcd_alloc(m->s.node[node].hca, &m->xrcdn[node]))
		sim_fail(&m->s, "hca_xrcd_alloc");
	*q = (struct msrq){ .node = &m->s.node[node], .max_wr = max_wr, .max_sge = 4, .cqn = init.cqn };
	init.xrcdn = m->xrcdn[node];
	if (hca_srq_create(q->node->hca, &init, &q->srqn))
		sim_fail(&m->s, "hca_srq_create");
	return q;
}

void model_srq_gone(struct msrq *q)
{
	if (hca_srq_destroy(q->node->hca, q->srqn))
		sim_fail(q->node->sim, "hca_srq_destroy");
	q->srqn = 0;
	while (q->wr) {
		struct mwr *w = q->wr;

		q->wr = w->next;
		wr_free(w, true);
	}
	q->n = 0;
	sim_dirty(q->node);
}

struct mqp *model_qp(struct model *m, unsigned node, const struct mqp_cfg *c)
{
	struct mqp *q = &m->qp[m->qp_n++];
	struct qp_init init;
	int e;

	if (m->qp_n > MODEL_QPS)
		sim_fail(&m->s, "too many QPs for the model");
	memset(q, 0, sizeof *q);
	q->m = m;
	q->node = &m->s.node[node];
	q->type = c->type;
	q->exists = true;
	q->sig_all = c->sig_all;
	q->srq = c->srq;
	q->cap = (struct qp_cap){ c->max_send_wr, c->srq ? 0 : c->max_recv_wr, c->max_sge, c->max_sge, 256 };
	q->send_cqn = m->cqn[node][c->cq % MODEL_CQS];
	q->recv_cqn = m->cqn[node][(c->cq / MODEL_CQS) % MODEL_CQS];
	q->sq_tail = &q->sq;
	q->rq_tail = &q->rq;
	q->msg_tail = &q->msg;
	if (c->type == QPT_XRC_RECV) {
		q->cap = (struct qp_cap){ 0 };
		q->send_cqn = 0;
		q->recv_cqn = c->srq->cqn;
	} else if (c->type == QPT_XRC_SEND) {
		q->recv_cqn = 0;
		q->cap.max_recv_wr = q->cap.max_recv_sge = 0;
	}
	init = (struct qp_init){
		.type = c->type,
		.sq_sig_all = c->sig_all,
		.pdn = m->pdn[node][0],
		.send_cqn = q->send_cqn,
		.recv_cqn = q->recv_cqn,
		.srqn = c->srq ? c->srq->srqn : 0,
		.cap = q->cap,
	};
	if (c->type == QPT_XRC_SEND)
		init.recv_cqn = 0;
	if (c->type == QPT_XRC_RECV)
		init = (struct qp_init){ .type = c->type, .xrcdn = m->xrcdn[node] };
	e = hca_qp_create(q->node->hca, &init, &q->qpn);
	if (e)
		sim_fail(&m->s, "hca_qp_create: %s", strerror(e));
	if ((q->qpn & 3) != node || q->qpn < 16 || q->qpn > 0xfffffe)
		sim_fail(&m->s, "QPN 0x%x of node %u", q->qpn, node);
	return q;
}

struct mmw *model_mw(struct mqp *of, uint8_t type)
{
	struct model *m = of->m;
	struct mmw *w = &m->mw[m->mw_n++];

	if (m->mw_n > MODEL_MWS)
		sim_fail(&m->s, "too many windows for the model");
	*w = (struct mmw){ .of = of, .type = type, .zero = rng_one_in(&m->s.rng, 2) && type == 2 };
	if (hca_mw_alloc(of->node->hca, m->pdn[of->node->i][0], type, &w->key))
		sim_fail(&m->s, "hca_mw_alloc");
	return w;
}

int model_modify(struct mqp *q, const struct qp_attr *a, uint32_t mask)
{
	int e;

	model_watch(q);
	e = hca_qp_modify(q->node->hca, q->qpn, a, mask, sim_now(&q->m->s));
	trace_note(&q->m->s, "%c QP 0x%x modify %u to %u: %d", 'A' + q->node->i, q->qpn, q->state, a->state, e);
	sim_dirty(q->node);
	if (e || !(mask & QPA_STATE))
		return e;
	cover_edge(q->type, q->state, a->state);
	q->state = a->state;
	if (a->state == QPS_ERR)
		q->cause = true;
	if (a->state == QPS_RESET)
		model_orphan(q);
	return 0;
}

int model_state(struct mqp *q, uint8_t state)
{
	return model_modify(q, &(struct qp_attr){ .state = state }, QPA_STATE);
}

void model_to_init(struct mqp *q)
{
	struct qp_attr a = q->attr;

	a.state = QPS_INIT;
	a.port = 1;
	if (model_modify(q, &a,
			 QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | (q->type == QPT_UD ? QPA_QKEY : QPA_ACCESS_FLAGS)))
		sim_fail(&q->m->s, "RESET to INIT is refused");
}

static void qp_to_rts(struct mqp *q)
{
	struct qp_attr a = q->attr;
	uint32_t mask = QPA_STATE;
	int e;

	a.state = QPS_RTR;
	if (q->type != QPT_UD)
		mask |= QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN;
	if (q->type == QPT_RC || q->type == QPT_XRC_RECV)
		mask |= QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
	e = model_modify(q, &a, mask);
	if (e)
		sim_fail(&q->m->s, "INIT to RTR: %s", strerror(e));
	a.state = QPS_RTS;
	mask = QPA_STATE | QPA_SQ_PSN;
	if (q->type == QPT_XRC_RECV)
		mask |= QPA_TIMEOUT;
	else if (mqp_rel(q))
		mask |= QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC;
	e = model_modify(q, &a, mask);
	if (e)
		sim_fail(&q->m->s, "RTR to RTS: %s", strerror(e));
}

static uint32_t psn_first(struct rng *r, bool wrap)
{
	return wrap ? PSN_MASK - rng_below(r, 40) : rng_next(r) & PSN_MASK;
}

void model_connect(struct mqp *a, struct mqp *b, const struct qp_attr *attr, bool wrap, unsigned gid)
{
	struct rng *r = &a->m->s.rng;
	struct mqp *end[2] = { a, b };

	for (unsigned i = 0; i < 2; i++) {
		struct mqp *q = end[i], *p = end[!i];

		q->peer = p;
		q->cause = false;
		q->rq_may = 0;
		model_forget(q);
		q->attr = *attr;
		q->attr.dest_qpn = p->qpn;
		q->attr.av.sgid_index = (uint8_t)gid;
		memcpy(q->attr.av.dgid, p->node->gid[gid], 16);
	}
	a->attr.sq_psn = b->attr.rq_psn = psn_first(r, wrap);
	b->attr.sq_psn = a->attr.rq_psn = a == b ? a->attr.sq_psn : psn_first(r, wrap);
	for (unsigned i = 0; i < (a == b ? 1 : 2); i++) {
		if (end[i]->state == QPS_RESET)
			model_to_init(end[i]);
		qp_to_rts(end[i]);
	}
}

void model_ready(struct mqp *q, uint32_t qkey)
{
	q->attr = model_attr();
	q->attr.qkey = qkey;
	q->attr.sq_psn = psn_first(&q->m->s.rng, rng_one_in(&q->m->s.rng, 2));
	model_to_init(q);
	qp_to_rts(q);
}

void model_orphan(struct mqp *q)
{
	while (q->sq) {
		struct mwr *w = q->sq;

		q->sq = w->next;
		wr_free(w, false);
	}
	while (q->rq) {
		struct mwr *w = q->rq;

		q->rq = w->next;
		wr_free(w, false);
	}
	q->sq_tail = &q->sq;
	q->rq_tail = &q->rq;
	q->sq_n = q->rq_n = 0;
	q->sq_err = q->rq_err = false;
	q->target = NULL;
	q->orphaned = true;
	if (q->peer)
		q->peer->cause = true;
}

static void qp_end(struct mqp *q, bool orderly)
{
	struct hca *h = q->node->hca;
	int e = orderly ? hca_qp_retire(h, q->qpn, sim_now(&q->m->s)) : hca_qp_destroy(h, q->qpn);

	if (e)
		sim_fail(&q->m->s, "hca_qp_destroy: %s", strerror(e));
	trace_note(&q->m->s, "%c QP 0x%x %s", 'A' + q->node->i, q->qpn, orderly ? "destroyed" : "lost");
	q->exists = false;
	q->cause = true;
	model_orphan(q);
	sim_dirty(q->node);
}

void model_destroy(struct mqp *q) { qp_end(q, q->qpn & 4); }

bool model_may_leave(const struct mqp *q)
{
	const struct mwr *last = NULL;

	for (const struct mwr *w = q->peer->sq; w; w = w->next) {
		if (op_waits(w->op) || w->expect)
			return false;
		last = w;
	}
	return q->exists && !q->cause && !q->sq && last && last->msg && last->msg->delivered;
}

void model_leave(struct mqp *q)
{
	bool cause = q->peer->cause;

	qp_end(q, true);
	q->left = true;
	q->peer->cause = cause;
}

void model_forget(struct mqp *q)
{
	while (q->msg) {
		struct msg *g = q->msg;

		q->msg = g->next;
		content_put(g->c);
		free(g);
	}
	q->msg_tail = &q->msg;
}

void model_overrun(struct model *m, struct node *n, uint32_t cqn)
{
	for (unsigned i = 0; i < m->qp_n; i++) {
		struct mqp *q = &m->qp[i];

		if (!q->exists || q->node != n || (q->send_cqn != cqn && q->recv_cqn != cqn))
			continue;
		q->cause = q->overrun = true;
		if (q->peer)
			q->peer->cause = true;
	}
	hca_cq_overrun(n->hca, cqn, sim_now(&m->s));
	sim_dirty(n);
}

/* ---- the end ------------------------------------------------------------ */

/* An upper bound of the time in which a QP must do something: all its retries and the longest RNR timer, many
 * times. */
static uint64_t patience(const struct model *m)
{
	uint64_t t = 20 * SEC;

	for (unsigned i = 0; i < m->qp_n; i++)
		if (m->qp[i].exists && mqp_rel(&m->qp[i]))
			t += 4 * 9 * 4 * (4096ull << m->qp[i].attr.timeout);
	return t;
}

/* A QP with a WR that must still be heard of. */
static struct mqp *model_busy(struct model *m)
{
	for (unsigned i = 0; i < m->qp_n; i++)
		for (struct mwr *w = m->qp[i].exists && !m->qp[i].overrun ? m->qp[i].sq : NULL; w; w = w->next)
			if (w->signaled || m->qp[i].sq_err)
				return &m->qp[i];
	return NULL;
}

/* All messages that senders were told are delivered have been received. */
static void model_delivered(struct model *m)
{
	for (unsigned i = 0; i < m->s.node_n; i++)
		sim_reap(&m->s, &m->s.node[i]);
	for (unsigned i = 0; i < m->qp_n; i++)
		for (struct msg *g = mqp_rel(&m->qp[i]) ? m->qp[i].msg : NULL; g; g = g->next)
			if (g->ok && !g->delivered && g->to && g->to->exists && !g->to->orphaned && !g->to->overrun)
				sim_fail(&m->s, "a SEND of QP 0x%x succeeded and never arrived", m->qp[i].qpn);
}

void model_settle(struct model *m)
{
	struct sim *s = &m->s;
	struct mqp *q;

	m->progress = s->now;
	for (;;) {
		sim_turns(s);
		q = model_busy(m);
		if (!q) {
			model_delivered(m);
			break;
		}
		if (m->on_settle)
			m->on_settle(m);
		/* (The turns of that step, by a local link, may have been the last of it.) */
		if (!sim_step(s) && model_busy(m))
			sim_fail(s, "deadlock: QP 0x%x of %c has %u send WRs, and nothing will happen", q->qpn,
				 'A' + q->node->i, q->sq_n);
		if (s->now - m->progress > patience(m))
			sim_fail(s, "no liveness: QP 0x%x of %c has %u send WRs, none completed for %llu ms", q->qpn,
				 'A' + q->node->i, q->sq_n, (unsigned long long)((s->now - m->progress) / MSEC));
	}
}

static void node_clear(struct model *m, struct node *n)
{
	struct hca *h = n->hca;
	struct hca_live k;

	for (unsigned i = 0; i < m->srq_n; i++)
		if (m->srq[i].node == n && m->srq[i].srqn && hca_srq_destroy(h, m->srq[i].srqn))
			sim_fail(&m->s, "hca_srq_destroy");
	if (m->xrcdn[n->i] && hca_xrcd_free(h, m->xrcdn[n->i]))
		sim_fail(&m->s, "hca_xrcd_free");
	for (unsigned i = 0; i < MODEL_CQS; i++)
		if (hca_cq_destroy(h, m->cqn[n->i][i]))
			sim_fail(&m->s, "hca_cq_destroy");
	for (unsigned i = 0; i < m->mw_n; i++)
		if (m->mw[i].of->node == n && hca_mw_dealloc(h, m->mw[i].key))
			sim_fail(&m->s, "hca_mw_dealloc");
	for (unsigned i = 0; i < n->mem.region_n; i++) {
		if (n->mem.region[i].alive && hca_mr_dereg(h, n->mem.region[i].key))
			sim_fail(&m->s, "hca_mr_dereg");
		n->mem.region[i].alive = false;
	}
	for (unsigned i = 0; i < 2; i++)
		if (hca_pd_free(h, m->pdn[n->i][i]))
			sim_fail(&m->s, "hca_pd_free");
	hca_verify(h);
	hca_objects(h, &k);
	if (k.pd || k.mr || k.cq || k.srq || k.qp || k.mw || k.xrcd)
		sim_fail(&m->s, "left over: %u PDs, %u MRs, %u CQs, %u SRQs, %u QPs, %u MWs", k.pd, k.mr, k.cq, k.srq,
			 k.qp, k.mw);
}

void model_end(struct model *m)
{
	for (unsigned i = 0; i < m->qp_n; i++) {
		struct mqp *q = &m->qp[i];

		model_watch(q);
		if (q->exists)
			model_destroy(q);
		model_forget(q);
	}
	sim_turns(&m->s);
	for (unsigned i = 0; i < m->srq_n; i++)
		while (m->srq[i].wr) {
			struct mwr *w = m->srq[i].wr;

			m->srq[i].wr = w->next;
			wr_free(w, true);
		}
	for (unsigned i = 0; i < m->s.node_n; i++)
		node_clear(m, &m->s.node[i]);
	sim_free(&m->s);
}
