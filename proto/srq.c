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

int hca_srq_create(struct hca *h, const struct srq_init *a, uint32_t *srqn)
{
	struct pd *pd = slots_get(&h->pd, a->pdn);
	struct srq *srq;

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
	pd->users++;
	events_init(&srq->ev, srq->number);
	*srqn = srq->number;
	return 0;
nomem:
	rq_fini(&srq->rq);
	free(srq);
	return ENOMEM;
}

int hca_srq_destroy(struct hca *h, uint32_t srqn)
{
	struct srq *srq = slots_get(&h->srq, srqn);

	if (!srq)
		return EINVAL;
	if (srq->users)
		return EBUSY;
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
				.limit = srq->limit };
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
