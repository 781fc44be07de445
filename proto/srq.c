/* SPDX-License-Identifier: MIT */
/*
 * srq.c - shared receive queues.  WRs are taken from the front when a message needs one; the QP that
 * took it keeps a copy.  The limit fires once, when fewer than limit are left, and has to be armed again.
 */
#include "srq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca_in.h"

int hca_xrcd_alloc(struct hca *h, uint32_t *xrcdn)
{
	struct xrcd *x = calloc(1, sizeof(*x));

	if (!x || slots_add(&h->xrcd, x, &x->number)) {
		free(x);
		return ENOMEM;
	}
	*xrcdn = x->number;
	return 0;
}

int hca_xrcd_free(struct hca *h, uint32_t xrcdn)
{
	struct xrcd *x = slots_get(&h->xrcd, xrcdn);

	if (!x)
		return EINVAL;
	if (x->users)
		return EBUSY;
	slots_del(&h->xrcd, xrcdn);
	free(x);
	return 0;
}

int hca_srq_create(struct hca *h, const struct srq_init *a, uint32_t *srqn)
{
	struct pd *pd = slots_get(&h->pd, a->pdn);
	struct xrcd *xrcd = a->xrcdn ? slots_get(&h->xrcd, a->xrcdn) : NULL;
	struct cq *cq = a->xrcdn ? slots_get(&h->cq, a->cqn) : NULL;
	struct srq *srq;

	if (a->xrcdn && (!xrcd || !cq))
		return EINVAL;
	if (!pd || !a->max_wr || a->max_wr > RD_MAX_WR || a->max_sge > RD_MAX_SGE || a->limit > a->max_wr)
		return EINVAL;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return ENOMEM;
	if (rq_init(&srq->rq, a->max_wr, a->max_sge) || comp_reserve(&h->comp, a->max_wr))
		goto nomem;
	if (slots_add(&h->srq, srq, &srq->number)) {
		comp_release(&h->comp, a->max_wr);
		goto nomem;
	}
	srq->pd = pd;
	srq->limit = a->limit;
	srq->xrcd = xrcd;
	srq->cq = cq;
	pd->users++;
	if (xrcd) {
		xrcd->users++;
		cq->users++;
	}
	events_init(&srq->ev, srq->number);
	*srqn = srq->number;
	return 0;
nomem:
	rq_fini(&srq->rq);
	free(srq);
	return ENOMEM;
}

/* Receiving QPs of the domain forget it; a message in the middle cannot go on. */
static void xrc_leave(struct hca *h, struct srq *srq)
{
	for (uint32_t i = 0; h->qp.v && i <= h->qp.mask; i++) {
		struct qp *qp = h->qp.v[i];

		if (!qp || qp->srq != srq)
			continue;
		if (qp->resp.kind != KIND_NONE && qp->state != QPS_ERR)
			fault_act(h, qp, FAULT_RESP_XRC_SRQ);
		qp_xrc_srq(qp, NULL);
	}
	comp_drop_srq(h, srq->number);
	srq->xrcd->users--;
	srq->cq->users--;
}

int hca_srq_destroy(struct hca *h, uint32_t srqn)
{
	struct srq *srq = slots_get(&h->srq, srqn);

	if (!srq)
		return EINVAL;
	if (srq->users)
		return EBUSY;
	if (srq->xrcd)
		xrc_leave(h, srq);
	srq->pd->users--;
	comp_release(&h->comp, srq->rq.depth);
	events_clear(&srq->ev);
	slots_del(&h->srq, srqn);
	rq_fini(&srq->rq);
	free(srq);
	return 0;
}

int hca_srq_limit(struct hca *h, uint32_t srqn, uint32_t limit)
{
	struct srq *srq = slots_get(&h->srq, srqn);

	if (!srq || limit > srq->rq.depth)
		return EINVAL;
	srq->limit = limit;
	return 0;
}

int hca_srq_resize(struct hca *h, uint32_t srqn, uint32_t max_wr)
{
	struct srq *srq = slots_get(&h->srq, srqn);
	struct rq rq, *old;

	if (!srq || !max_wr || max_wr > RD_MAX_WR || max_wr < srq->limit || max_wr < srq->rq.used)
		return EINVAL;
	old = &srq->rq;
	if (rq_init(&rq, max_wr, old->sge_max))
		return ENOMEM;
	if (max_wr > old->depth && comp_reserve(&h->comp, max_wr - old->depth)) {
		rq_fini(&rq);
		return ENOMEM;
	}
	if (max_wr < old->depth)
		comp_release(&h->comp, old->depth - max_wr);
	for (; old->head != old->tail; old->head++)
		memcpy(rq_at(&rq, rq.tail++), rq_at(old, old->head), old->stride);
	rq.used = old->used;
	rq_fini(old);
	*old = rq;
	return 0;
}

int hca_srq_query(const struct hca *h, uint32_t srqn, struct srq_init *a)
{
	const struct srq *srq = slots_get(&h->srq, srqn);

	if (!srq)
		return EINVAL;
	*a = (struct srq_init){ .pdn = srq->pd->number, .max_wr = srq->rq.depth, .max_sge = srq->rq.sge_max,
				.limit = srq->limit, .xrcdn = srq->xrcd ? srq->xrcd->number : 0,
				.cqn = srq->cq ? srq->cq->number : 0 };
	return 0;
}

int hca_post_srq_recv(struct hca *h, uint32_t srqn, const struct recv_wr *wr, mono_t now)
{
	struct srq *srq = slots_get(&h->srq, srqn);

	h->now = now;
	return srq ? rq_put(&srq->rq, wr) : EINVAL;
}

void srq_took(struct hca *h, struct srq *srq)
{
	if (srq->limit && rq_len(&srq->rq) < srq->limit) {
		srq->limit = 0;
		events_raise(h, &srq->ev, EV_SRQ_LIMIT);
	}
}
