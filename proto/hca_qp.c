/* SPDX-License-Identifier: MIT */
/*
 * hca_qp.c - queue pairs are made, numbered, found and destroyed.
 *
 * Numbers rise from a random start, and one whose slot in the table is taken is skipped: so a lookup is one
 * index and one comparison, and a number comes again only after all others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca_in.h"
#include "mw.h"
#include "raw.h"
#include "replay.h"
#include "req.h"
#include "srq.h"

#define QPN_FIRST 16u /* 0 and 1 are management, 2..15 kept free */

static int tab_grow(struct qp_tab *t, unsigned low_bits)
{
	uint32_t mask = t->mask * 2 + 1;
	struct qp **v = calloc((size_t)mask + 1, sizeof(*v));

	if (!v)
		return ENOMEM;
	for (uint32_t i = 0; i <= t->mask; i++)
		if (t->v[i])
			v[t->v[i]->qpn >> low_bits & mask] = t->v[i];
	free(t->v);
	t->v = v;
	t->mask = mask;
	return 0;
}

static int tab_add(struct hca *h, struct qp *qp)
{
	struct qp_tab *t = &h->qp;
	uint32_t numbers = 1u << (24 - h->cfg.qpn_low_bits);

	if (t->live >= h->cfg.max_qp || 2 * t->live + GHOSTS >= numbers)
		return ENOMEM;
	if (2 * t->live > t->mask && t->mask + 1 < numbers && tab_grow(t, h->cfg.qpn_low_bits))
		return ENOMEM;
	do {
		t->last = (t->last + 1) & (numbers - 1);
		qp->qpn = t->last << h->cfg.qpn_low_bits | h->cfg.qpn_low;
	} while (qp->qpn < QPN_FIRST || qp->qpn == QPN_MCAST || t->v[t->last & t->mask] || ghost_has(h, qp->qpn));
	t->v[t->last & t->mask] = qp;
	t->live++;
	return 0;
}

/* The two ends of XRC: one has a send queue, the other nothing but the domain. */
static bool xrc_ok(const struct qp_init *a, const struct pd *pd, const struct cq *scq, const struct xrcd *xrcd)
{
	const struct qp_cap *c = &a->cap;

	if (a->srqn || a->recv_cqn || c->max_recv_wr || c->max_recv_sge)
		return false;
	if (a->type == QPT_XRC_RECV)
		return xrcd && !a->pdn && !a->send_cqn && !c->max_send_wr;
	return pd && scq && c->max_send_wr <= RD_MAX_WR && c->max_send_sge <= RD_MAX_SGE &&
	       c->max_inline <= RD_MAX_INLINE;
}

static bool init_ok(const struct qp_init *a, const struct pd *pd, const struct cq *scq, const struct cq *rcq,
		    const struct srq *srq)
{
	const struct qp_cap *c = &a->cap;

	return pd && scq && rcq && (srq || !a->srqn) && c->max_send_wr <= RD_MAX_WR &&
	       (srq || c->max_recv_wr <= RD_MAX_WR) && c->max_send_sge <= RD_MAX_SGE &&
	       (srq || c->max_recv_sge <= RD_MAX_SGE) && c->max_inline <= RD_MAX_INLINE;
}

static int queues_init(struct hca *h, struct qp *qp)
{
	const struct qp_cap *c = &qp->cap;

	if (sq_init(&qp->sq, c->max_send_wr, c->max_send_sge, c->max_inline) ||
	    rq_init(&qp->rq, c->max_recv_wr, c->max_recv_sge))
		return ENOMEM;
	if (qp->srq || qp->xrcd) {
		qp->srq_wqe = calloc(1, qp->srq ? qp->srq->rq.stride
						: sizeof(struct rwqe) + RD_MAX_SGE * sizeof(struct sge));
		if (!qp->srq_wqe)
			return ENOMEM;
	}
	if (heap_reserve(&h->timers, 2 * (h->qp.live + h->paths.n + 1)))
		return ENOMEM;
	return comp_reserve(&h->comp, c->max_send_wr + c->max_recv_wr);
}

/* SVC_NONE: raw packets, or no type that there is. */
static uint8_t svc_of(uint8_t type)
{
	switch (type) {
	case QPT_RC: return SVC_RC;
	case QPT_UC: return SVC_UC;
	case QPT_UD: return SVC_UD;
	case QPT_XRC_SEND:
	case QPT_XRC_RECV: return SVC_XRC;
	default: return SVC_NONE;
	}
}

size_t hca_qp_len(const struct qp_init *a)
{
	const struct qp_cap *c = &a->cap;
	const uint8_t svc = svc_of(a->type);
	bool recvs = !a->srqn && svc != SVC_XRC;
	size_t len = sizeof(struct qp) + sizeof(struct path) + 2 * sizeof(struct lane) +
		     sq_mem(c->max_send_wr, c->max_send_sge, c->max_inline) +
		     rq_mem(recvs ? c->max_recv_wr : 0, c->max_recv_sge) + rq_mem(1, RD_MAX_SGE) +
		     comp_mem(c->max_send_wr + (recvs ? c->max_recv_wr : 0));

	if (svc == SVC_RC || svc == SVC_XRC)
		len += RD_MAX_RD_ATOM * (sizeof(psn_t) + sizeof(struct rd));
	return len;
}

static void qp_free(struct qp *qp)
{
	sq_fini(&qp->sq);
	rq_fini(&qp->rq);
	free(qp->req.rd_end);
	free(qp->resp.rd);
	free(qp->srq_wqe);
	free(qp);
}

/* n: 1 or -1. */
static void use(struct qp *qp, int n)
{
	if (qp->type == QPT_XRC_RECV) {
		qp->xrcd->users += (uint32_t)n;
		return;
	}
	qp->pd->users += (uint32_t)n;
	qp->scq->users += (uint32_t)n;
	if (qp->rcq)
		qp->rcq->users += (uint32_t)n;
	if (qp->srq)
		qp->srq->users += (uint32_t)n;
}

int hca_qp_create(struct hca *h, const struct qp_init *a, uint32_t *qpn)
{
	struct pd *pd = slots_get(&h->pd, a->pdn);
	struct cq *scq = slots_get(&h->cq, a->send_cqn), *rcq = slots_get(&h->cq, a->recv_cqn);
	struct srq *srq = a->srqn ? slots_get(&h->srq, a->srqn) : NULL;
	struct xrcd *xrcd = a->type == QPT_XRC_RECV ? slots_get(&h->xrcd, a->xrcdn) : NULL;
	const uint8_t svc = svc_of(a->type);
	struct qp *qp;

	if (svc == SVC_NONE && a->type != QPT_RAW)
		return EOPNOTSUPP;
	if (svc == SVC_XRC ? !xrc_ok(a, pd, scq, xrcd) : !init_ok(a, pd, scq, rcq, srq))
		return EINVAL;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return ENOMEM;
	qp->type = a->type;
	qp->svc = svc;
	if (a->type == QPT_RAW)
		qp->mtu = RAW_SEND_MAX;
	qp->sig_all = a->sq_sig_all;
	qp->not_own = a->not_own;
	qp->pd = pd;
	qp->scq = scq;
	qp->rcq = rcq;
	qp->srq = srq;
	qp->xrcd = xrcd;
	qp->cap = a->cap;
	if (srq)
		qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
	link_init(&qp->in_scq);
	link_init(&qp->in_rcq);
	link_init(&qp->in_srq);
	link_init(&qp->ready);
	link_init(&qp->waiter);
	link_init(&qp->mws);
	link_init(&qp->groups);
	timer_init(&qp->timer);
	timer_init(&qp->rate.timer);
	qp->rate.timer.of = TIMER_RATE;
	qp->ready_lane = lane_get(&h->ready, a->owner);
	if (!qp->ready_lane || queues_init(h, qp))
		goto nomem;
	if (tab_add(h, qp)) {
		comp_release(&h->comp, qp->cap.max_send_wr + qp->cap.max_recv_wr);
		goto nomem;
	}
	events_init(&qp->ev, qp->qpn);
	use(qp, 1);
	if (scq)
		link_add_tail(&scq->sends, &qp->in_scq);
	if (rcq)
		link_add_tail(&rcq->recvs, &qp->in_rcq);
	*qpn = qp->qpn;
	return 0;
nomem:
	if (qp->ready_lane)
		lane_put(&h->ready, qp->ready_lane);
	qp_free(qp);
	return ENOMEM;
}

int hca_qp_destroy(struct hca *h, uint32_t qpn)
{
	struct qp *qp = qp_get(h, qpn);

	if (!qp)
		return EINVAL;
	if (h->taken.qp == qp)
		h->taken.qp = NULL;
	qp_reset(h, qp);
	if (qp->path)
		path_put(h, qp->path, qp->waiter_lane);
	mcast_leave(h, qp);
	mw_leave(&h->keys, qp, h->now);
	timer_del(&h->timers, &qp->timer);
	timer_del(&h->timers, &qp->rate.timer);
	events_clear(&qp->ev);
	comp_release(&h->comp, qp->cap.max_send_wr + qp->cap.max_recv_wr);
	use(qp, -1);
	link_del(&qp->in_scq);
	link_del(&qp->in_rcq);
	h->qp.v[qpn >> h->cfg.qpn_low_bits & h->qp.mask] = NULL;
	h->qp.live--;
	lane_put(&h->ready, qp->ready_lane);
	qp_free(qp);
	return 0;
}

int hca_qp_retire(struct hca *h, uint32_t qpn, mono_t now)
{
	struct qp *qp = qp_get(h, qpn);

	hca_clock(h, now);
	if (qp)
		ghost_leave(h, qp);
	return hca_qp_destroy(h, qpn);
}

void qps_fini(struct hca *h)
{
	for (uint32_t i = 0; h->qp.v && i <= h->qp.mask; i++)
		if (h->qp.v[i])
			hca_qp_destroy(h, h->qp.v[i]->qpn);
	free(h->qp.v);
	h->qp.v = NULL;
}

void hca_qp_fail(struct hca *h, uint32_t qpn, unsigned cause, mono_t now)
{
	struct qp *qp = qp_get(h, qpn);

	hca_begin(h, now);
	if (!qp || qp->state == QPS_ERR)
		return;
	why_host(h, qp, cause);
	qp_to_err(h, qp);
	resp_clear(qp);
}
