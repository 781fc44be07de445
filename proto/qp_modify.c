/* SPDX-License-Identifier: MIT */
/* qp_modify.c - attributes of a QP: checked as the kernel does (protocol section 5), then set; and queried. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid.h>
#include <rdmad/ring.h>

#include "hca_in.h"
#include "qp_state.h"
#include "replay.h"
#include "req.h"
#include "route.h"
#include "req_flight.h"
#include "srq.h"

#define ACC_QP                                                                                                       \
	(ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC | ACC_MW_BIND | ACC_FLUSH_GLOBAL | \
	 ACC_FLUSH_PERSISTENT)

/* Packets of IPv4 do not come from an address of IPv6, nor the reverse; within the daemon there are no packets. */
static bool av_ok(struct hca *h, struct qp *qp, const struct qp_attr *a, uint8_t to, uint32_t mask)
{
	enum why_cause why = WHY_NONE;

	if (a->av.sgid_index >= HCA_GIDS || !(h->gid_set >> a->av.sgid_index & 1))
		why = WHY_MODIFY_GID;
	else if (gid_is_v4(h->gid[a->av.sgid_index]) != gid_is_v4(a->av.dgid) && !path_is_local(h, a->av.dgid))
		why = WHY_MODIFY_ROUTE;
	if (why)
		why_modify(h, qp, why, to, mask, a);
	return !why;
}

/* The plain ones: the bit, what it says, and the least and the most that it may say. */
static bool numbers_ok(struct hca *h, struct qp *qp, const struct qp_attr *a, uint8_t to, uint32_t mask)
{
	const struct {
		uint32_t bit, got, min, max;
	} v[] = {
		{ QPA_PORT, a->port, 1, 1 },
		{ QPA_PKEY_INDEX, a->pkey_index, 0, h->pkey_n - 1 },
		{ QPA_PATH_MTU, a->path_mtu, 1, h->cfg.mtu },
		{ QPA_TIMEOUT, a->timeout, 0, 31 },
		{ QPA_RETRY_CNT, a->retry_cnt, 0, 7 },
		{ QPA_RNR_RETRY, a->rnr_retry, 0, 7 },
		{ QPA_MIN_RNR_TIMER, a->min_rnr_timer, 0, 31 },
		{ QPA_MAX_QP_RD_ATOMIC, a->max_rd_atomic, 0, RD_MAX_RD_ATOM },
		{ QPA_MAX_DEST_RD_ATOMIC, a->max_dest_rd_atomic, 0, RD_MAX_RD_ATOM },
		{ QPA_DEST_QPN, a->dest_qpn, 0, QPN_MASK },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		if (!(mask & v[i].bit) || (v[i].got >= v[i].min && v[i].got <= v[i].max))
			continue;
		why_value(h, qp, to, v[i].bit, v[i].got, v[i].max);
		return false;
	}
	return true;
}

static bool values_ok(struct hca *h, struct qp *qp, const struct qp_attr *a, uint8_t to, uint32_t mask)
{
	if (!numbers_ok(h, qp, a, to, mask))
		return false;
	if (mask & QPA_ACCESS_FLAGS && a->access & ~(uint32_t)ACC_QP) {
		why_value(h, qp, to, QPA_ACCESS_FLAGS, a->access, ACC_QP);
		return false;
	}
	if (mask & QPA_AV && !av_ok(h, qp, a, to, mask))
		return false;
	if (mask & QPA_ALT_PATH) { /* RoCE ports have no alternate path (rule 1.8). */
		why_value(h, qp, to, QPA_ALT_PATH, 1, 0);
		return false;
	}
	if (!(mask & QPA_RATE_LIMIT) || !a->rate_limit || a->rate_limit >= RD_RATE_MIN)
		return true;
	why_value(h, qp, to, QPA_RATE_LIMIT, a->rate_limit, RD_RATE_MIN);
	return false;
}

/* As other HCAs: a depth of 0 at the requester is 1.  The responder says no if it has none to give. */
static uint32_t asks_max(uint32_t depth) { return depth ? depth : 1; }

/* As other HCAs: those that ask round their depth up to a power of two, so that many have to be answered. */
static uint32_t answers_max(uint32_t depth) { return depth ? pow2_at_least(depth) : 0; }

/* Is anything to be answered yet but the newest n? */
static bool owes_more(const struct resp *r, uint32_t n)
{
	for (uint32_t i = r->rd_cur; (int32_t)(r->rd_tail - n - i) > 0; i++)
		if (rd_at(r, i)->want || rd_at(r, i)->ack_before)
			return true;
	return false;
}

/*
 * Rings of reads and atomics.  They may change size only while nothing is in them, which the states in which the attributes
 * are legal nearly grant; in SQD the newest of what is stored is kept, and EBUSY is said where the rest is not answered yet.
 */
static int rings(struct qp *qp, const struct qp_attr *a, uint32_t mask)
{
	struct req *q = &qp->req;
	struct resp *r = &qp->resp;
	uint32_t asks = asks_max(a->max_rd_atomic), answers = answers_max(a->max_dest_rd_atomic);
	psn_t *ends = NULL;
	struct rd *rd = NULL;

	if (mask & QPA_MAX_DEST_RD_ATOMIC && owes_more(r, answers))
		return EBUSY;
	if (mask & QPA_MAX_QP_RD_ATOMIC && asks != q->rd_max) {
		if (q->rd_head != q->rd_tail)
			return EBUSY;
		ends = calloc(pow2_at_least(asks), sizeof(*ends));
		if (!ends)
			return ENOMEM;
	}
	if (mask & QPA_MAX_DEST_RD_ATOMIC && answers != r->rd_max) {
		rd = calloc(pow2_at_least(answers), sizeof(*rd));
		if (!rd) {
			free(ends);
			return ENOMEM;
		}
	}
	if (ends) {
		free(q->rd_end);
		q->rd_end = ends;
		q->rd_max = asks;
		q->rd_mask = pow2_at_least(q->rd_max) - 1;
	}
	if (rd) {
		uint32_t mask_new = pow2_at_least(answers) - 1;

		/* The newest stay, as many as there is room for. */
		if (r->rd_n > answers)
			r->rd_n = answers;
		for (uint32_t i = r->rd_tail - r->rd_n; i != r->rd_tail; i++)
			rd[i & mask_new] = *rd_at(r, i);
		if (r->rd_tail - r->rd_cur > r->rd_n)
			r->rd_cur = r->rd_tail - r->rd_n;
		free(r->rd);
		r->rd = rd;
		r->rd_max = answers;
		r->rd_mask = mask_new;
	}
	return 0;
}

static int set_path(struct hca *h, struct qp *qp, const struct av *av)
{
	struct lane *lane;
	struct path *p = path_get(h, av->dgid, qp->ready_lane->owner, &lane);

	if (!p)
		return ENOMEM;
	if (qp->path != p)
		req_untimed(&qp->req);
	if (qp->path) {
		/* Packets in flight on the old way are sent again on the new one. */
		if (!psn_eq(qp->req.una, qp->req.next))
			req_restart(h, qp, false, false);
		link_del(&qp->waiter);
		path_wake(h, qp->path); /* it may have been its turn there */
		path_put(h, qp->path, qp->waiter_lane);
	}
	qp->path = p;
	qp->waiter_lane = lane;
	qp->req.epoch = p->epoch;
	qp->req.inflight = 0;
	qp->req.owed = false;
	route_set(h, &qp->head.route, av, true);
	if (qp_has_more(qp))
		qp_ready(h, qp); /* it may have waited on the old way */
	return 0;
}

static void set_psn(struct qp *qp, const struct qp_attr *a, uint32_t mask)
{
	if (mask & QPA_SQ_PSN) {
		qp->attr.sq_psn = a->sq_psn & PSN_MASK;
		qp->req.una = qp->req.left = qp->req.next = qp->req.max = qp->req.ask_end = psn(a->sq_psn);
		qp->req.restart = psn_sub(qp->req.una, 1); /* nowhere yet */
		qp->req.patience = MONO_NEVER;
		qp->req.early_end = qp->req.una;
		req_untimed(&qp->req);
	}
	if (mask & QPA_RQ_PSN) {
		qp->attr.rq_psn = a->rq_psn & PSN_MASK;
		qp->resp.epsn = psn(a->rq_psn);
	}
}

/* From now on the new timeout counts for all that is in flight. */
static void set_timeout(struct hca *h, struct qp *qp, uint8_t timeout)
{
	struct req *q = &qp->req;

	if (timeout == qp->attr.timeout)
		return;
	qp->attr.timeout = timeout;
	q->patience = MONO_NEVER;
	if (q->rnr_wait || psn_eq(q->una, q->next))
		return;
	if (timeout)
		req_watch(h, qp);
	else
		timer_stop(&qp->timer);
}

/* The plain values. */
static void set_values(struct hca *h, struct qp *qp, const struct qp_attr *a, uint32_t mask)
{
	struct qp_attr *at = &qp->attr;

#define SET(bit, field)                       \
	do {                                  \
		if (mask & QPA_##bit)         \
			at->field = a->field; \
	} while (0)
	SET(ACCESS_FLAGS, access);
	SET(PKEY_INDEX, pkey_index);
	SET(PORT, port);
	SET(QKEY, qkey);
	SET(AV, av);
	SET(PATH_MTU, path_mtu);
	SET(RETRY_CNT, retry_cnt);
	SET(RNR_RETRY, rnr_retry);
	SET(MAX_QP_RD_ATOMIC, max_rd_atomic);
	SET(MIN_RNR_TIMER, min_rnr_timer);
	SET(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	SET(DEST_QPN, dest_qpn);
	SET(RATE_LIMIT, rate_limit);
#undef SET
	if (mask & QPA_PATH_MTU)
		qp->mtu = mtu_bytes(a->path_mtu);
	if (mask & QPA_TIMEOUT)
		set_timeout(h, qp, a->timeout);
	if (mask & QPA_RETRY_CNT)
		qp->req.retry_left = a->retry_cnt;
	if (mask & QPA_RATE_LIMIT)
		rate_limit(h, qp, a->rate_limit, 0);
	if (mask & QPA_RNR_RETRY)
		qp->req.rnr_left = a->rnr_retry;
	set_psn(qp, a, mask);
}

static void set_head(struct hca *h, struct qp *qp)
{
	struct burst *b = &qp->head;

	b->migreq = true;
	b->pkey = qp_pkey(h, qp);
	b->dqpn = qp->attr.dest_qpn;
	b->sqpn = qp->qpn;
	b->n = 1;
	b->span = h->tx_span;
}

static void enter(struct hca *h, struct qp *qp, uint8_t state, const struct qp_attr *a, uint32_t mask)
{
	if (state == QPS_ERR) {
		qp_part(qp);
		if (qp->state != QPS_ERR)
			why_program(h, qp);
		qp_to_err(h, qp);
		resp_clear(qp);
		return;
	}
	if (state == QPS_RESET) {
		qp->part.on = false;
		qp_reset(h, qp);
		qp->attr = (struct qp_attr){ 0 };
		if (qp->path)
			path_put(h, qp->path, qp->waiter_lane);
		qp->path = NULL;
		qp->why = (struct qp_why){ 0 };
	}
	if (state == QPS_SQD && qp->state != QPS_SQD) {
		qp->attr.en_sqd_async_notify = mask & QPA_EN_SQD_ASYNC_NOTIFY && a->en_sqd_async_notify;
		qp->req.drained = false;
	}
	if (state == QPS_RTR && qp->state != QPS_RTR) {
		qp->resp.est = false;
		why_begin(h, qp);
	}
	TRACE_PUT(h, qp, STATE, .a = qp->state, .b = state, .n = 1);
	qp->state = state;
	req_progress(h, qp);
	if (qp_has_more(qp)) /* else a guest of the shard would wake it for nothing */
		qp_ready(h, qp);
}

/* Explains the finding of qp_state_check(). */
static enum why_cause edge_why(const struct qp *qp, uint8_t to, uint32_t mask)
{
	uint32_t required = qp_state_attrs(qp->type, qp->state, to, true);

	if (!qp_state_edge(qp->type, qp->state, to) || (!(mask & QPA_STATE) && qp->state != to))
		return WHY_MODIFY_EDGE;
	return (mask & required) != required ? WHY_MODIFY_LESS : WHY_MODIFY_MORE;
}

/* A CQ that overran is in error, and so are its QPs: also one that was in RESET then, or was brought there. */
static bool cq_dead(const struct qp *qp) { return (qp->scq && qp->scq->overrun) || (qp->rcq && qp->rcq->overrun); }

int hca_qp_modify(struct hca *h, uint32_t qpn, const struct qp_attr *a, uint32_t mask, mono_t now)
{
	struct qp *qp = qp_get(h, qpn);
	uint8_t to;
	int err;

	hca_begin(h, now);
	if (!qp)
		return EINVAL;
	to = mask & QPA_STATE ? a->state : qp->state;
	if (mask & QPA_CUR_STATE && a->cur_state != qp->state) {
		why_modify(h, qp, WHY_MODIFY_CUR, to, mask, a);
		return EINVAL;
	}
	err = qp_state_check(qp->type, qp->state, to, mask);
	if (err) {
		why_modify(h, qp, edge_why(qp, to, mask), to, mask, a);
		return err;
	}
	if (!values_ok(h, qp, a, to, mask))
		return EINVAL;
	err = rings(qp, a, mask);
	if (!err && mask & QPA_AV)
		err = set_path(h, qp, &a->av);
	if (err) {
		why_modify(h, qp, err == EBUSY ? WHY_MODIFY_BUSY : WHY_MODIFY_MEM, to, mask, a);
		return err;
	}
	set_values(h, qp, a, mask);
	set_head(h, qp);
	if (to != qp->state || to == QPS_RESET)
		enter(h, qp, to, a, mask);
	if (to == QPS_INIT && cq_dead(qp))
		fault_act(h, qp, FAULT_CQ_OVERRUN);
	return 0;
}

int hca_qp_rate(struct hca *h, uint32_t qpn, uint32_t kbps, uint32_t burst, mono_t now)
{
	struct qp *qp = qp_get(h, qpn);

	hca_begin(h, now);
	if (!qp || qp->type == QPT_XRC_RECV || (kbps ? kbps < RD_RATE_MIN : burst))
		return EINVAL;
	if (qp->state != QPS_RTS && qp->state != QPS_SQD)
		return EINVAL;
	qp->attr.rate_limit = kbps;
	rate_limit(h, qp, kbps, burst);
	return 0;
}

int hca_qp_count(struct hca *h, uint32_t qpn, uint32_t ops, bool bytes, struct comp_cntr *c)
{
	struct qp *qp = qp_get(h, qpn);

	if (!qp || !ops || (qp->state != QPS_RESET && qp->state != QPS_INIT))
		return EINVAL;
	if (ops & ~CNTR_HAS)
		return EOPNOTSUPP;
	for (unsigned op = 0; op < CNTR_OPS; op++)
		if (ops >> op & 1 && qp->cntr[op])
			return EBUSY;
	for (unsigned op = 0; op < CNTR_OPS; op++)
		if (ops >> op & 1)
			qp->cntr[op] = c;
	if (bytes)
		qp->cntr_bytes |= (uint8_t)ops;
	return 0;
}

int hca_qp_query(const struct hca *h, uint32_t qpn, struct qp_attr *a, struct qp_init *init)
{
	const struct qp *qp = qp_get(h, qpn);

	if (!qp)
		return EINVAL;
	*a = qp->attr;
	a->state = a->cur_state = qp->state;
	a->rq_psn = qp->resp.epsn.v;
	a->sq_psn = qp->req.next.v;
	a->sq_draining = qp->state == QPS_SQD && !qp->req.drained;
	*init = (struct qp_init){ .type = qp->type,
				  .sq_sig_all = qp->sig_all,
				  .not_own = qp->not_own,
				  .owner = qp->ready_lane->owner,
				  .pdn = qp->pd ? qp->pd->number : 0,
				  .send_cqn = qp->scq ? qp->scq->number : 0,
				  .recv_cqn = qp->rcq ? qp->rcq->number : 0,
				  .xrcdn = qp->xrcd ? qp->xrcd->number : 0,
				  .srqn = qp->srq ? qp->srq->number : 0,
				  .cap = qp->cap };
	return 0;
}
