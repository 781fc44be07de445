/* SPDX-License-Identifier: MIT */
/* hca_obj.c - what a host asks of the objects of an HCA, by their numbers.  Queue pairs: hca_qp.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/ring.h>

#include "cqe.h"
#include "hca_in.h"
#include "mw.h"
#include "req.h"
#include "srq.h"

/* With the places in tables that point to them. */
#define FITS(type) _Static_assert(sizeof(struct type) + 64 <= HCA_OBJ_LEN, "HCA_OBJ_LEN")
FITS(pd);
FITS(mr);
FITS(mw);
FITS(cq);
FITS(srq);
FITS(xrcd);

/* ---- protection domains -------------------------------------------------- */

int hca_pd_alloc(struct hca *h, uint32_t *pdn)
{
	struct pd *pd = calloc(1, sizeof(*pd));

	if (!pd || slots_add(&h->pd, pd, &pd->number)) {
		free(pd);
		return ENOMEM;
	}
	*pdn = pd->number;
	return 0;
}

void hca_pd_owner(struct hca *h, uint32_t pdn, uint32_t owner, uint32_t prog)
{
	struct pd *pd = slots_get(&h->pd, pdn);

	if (!pd)
		return;
	pd->owner = owner;
	pd->prog = prog;
}

int hca_pd_free(struct hca *h, uint32_t pdn)
{
	struct pd *pd = slots_get(&h->pd, pdn);

	if (!pd)
		return EINVAL;
	if (pd->users)
		return EBUSY;
	slots_del(&h->pd, pdn);
	free(pd);
	return 0;
}

/* ---- memory regions and windows ------------------------------------------ */

int hca_mr_reg(struct hca *h, const struct mr_attr *a, uint32_t *key)
{
	return mr_reg(&h->keys, &h->secret, slots_get(&h->pd, a->pdn), a, key);
}

int hca_mr_dereg(struct hca *h, uint32_t key) { return mr_dereg(&h->keys, key, h->now); }

int hca_mr_rereg(struct hca *h, uint32_t key, const struct mr_attr *a)
{
	return mr_rereg(&h->keys, key, slots_get(&h->pd, a->pdn), a);
}

int hca_mw_alloc(struct hca *h, uint32_t pdn, unsigned type, uint32_t *key)
{
	return mw_alloc(&h->keys, &h->secret, slots_get(&h->pd, pdn), type, key);
}

int hca_mw_dealloc(struct hca *h, uint32_t key) { return mw_dealloc(&h->keys, key, h->now); }

bool hca_key_of(const struct hca *h, uint32_t key, uint32_t *pdn, uint32_t *mr)
{
	const struct mw *w = key & MW_KEY ? places_get(&h->keys.mw, (key & ~MW_KEY) >> 8) : NULL;
	const struct mr *m = key & MW_KEY ? NULL : places_get(&h->keys.mr, key >> 8);

	if (!w && !m)
		return false;
	*pdn = w ? w->pd->number : m->owner->number;
	*mr = w && w->mr ? w->mr->key : 0;
	return true;
}

bool hca_key_maybe(const struct hca *h, uint32_t key) { return key_maybe(&h->keys, key); }

void hca_time(struct hca *h, mono_t now) { hca_clock(h, now); }

/* ---- completion queues --------------------------------------------------- */

int hca_cq_create(struct hca *h, uint32_t cqe, uint32_t *cqn)
{
	struct cq *cq;

	if (!cqe || cqe > RD_MAX_CQE)
		return EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq || slots_add(&h->cq, cq, &cq->number)) {
		free(cq);
		return ENOMEM;
	}
	link_init(&cq->sends);
	link_init(&cq->recvs);
	events_init(&cq->ev, cq->number);
	*cqn = cq->number;
	return 0;
}

int hca_cq_destroy(struct hca *h, uint32_t cqn)
{
	struct cq *cq = slots_get(&h->cq, cqn);

	if (!cq)
		return EINVAL;
	if (cq->users)
		return EBUSY;
	events_clear(&cq->ev);
	slots_del(&h->cq, cqn);
	free(cq);
	return 0;
}

static void overrun(struct hca *h, struct qp *qp)
{
	if (qp->state != QPS_RESET && qp->state != QPS_ERR)
		fault_act(h, qp, FAULT_CQ_OVERRUN);
}

void hca_cq_overrun(struct hca *h, uint32_t cqn, mono_t now)
{
	struct cq *cq = slots_get(&h->cq, cqn);

	hca_begin(h, now);
	if (!cq || cq->overrun)
		return;
	cq->overrun = true;
	count(h, HCA_STAT_CQ_OVERRUN, 1);
	events_raise(&h->events, &cq->ev, EV_CQ_ERR);
	for (struct link *l = cq->sends.next; l != &cq->sends; l = l->next)
		overrun(h, LINK_OF(l, struct qp, in_scq));
	for (struct link *l = cq->recvs.next; l != &cq->recvs; l = l->next)
		overrun(h, LINK_OF(l, struct qp, in_rcq));
}

struct cqe *hca_completion(struct hca *h)
{
	req_settle(h);
	return comp_take(h);
}

unsigned hca_completions(struct hca *h, struct cqe *v, unsigned max)
{
	unsigned n = 0;

	req_settle(h);
	for (const struct cqe *c; n < max && (c = comp_take(h));)
		v[n++] = *c;
	return n;
}

unsigned hca_completions_n(struct hca *h)
{
	req_settle(h);
	return h->comp.tail - h->comp.head;
}

/* ---- XRC domains and shared receive queues ------------------------------- */

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

size_t hca_srq_len(uint32_t max_wr, uint32_t max_sge)
{
	return sizeof(struct srq) + rq_mem(max_wr, max_sge) + comp_mem(max_wr);
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
	srq->done = a->done;
	srq->xrcd = xrcd;
	srq->cq = cq;
	pd->users++;
	if (xrcd) {
		xrcd->users++;
		cq->users++;
	}
	link_init(&srq->targets);
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
	while (!link_empty(&srq->targets)) {
		struct qp *qp = LINK_OF(srq->targets.next, struct qp, in_srq);

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
	srq_level(h, srq);
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
	*a = (struct srq_init){ .pdn = srq->pd->number,
				.max_wr = srq->rq.depth,
				.max_sge = srq->rq.sge_max,
				.limit = srq->limit,
				.xrcdn = srq->xrcd ? srq->xrcd->number : 0,
				.cqn = srq->cq ? srq->cq->number : 0 };
	return 0;
}

uint32_t hca_post_srq_recvs(struct hca *h, uint32_t srqn, const struct ring *r, uint32_t from, uint32_t n, int *err,
			    mono_t now)
{
	struct srq *srq = slots_get(&h->srq, srqn);
	uint32_t i;

	hca_clock(h, now);
	*err = 0;
	for (i = 0; i < n && !*err; i++)
		*err = srq ? rq_put(&srq->rq, ring_slot(r, from + i)) : EINVAL;
	return i;
}

int hca_post_srq_recv(struct hca *h, uint32_t srqn, const struct recv_wr *wr, mono_t now)
{
	struct srq *srq = slots_get(&h->srq, srqn);

	hca_clock(h, now);
	return srq ? rq_put(&srq->rq, wr) : EINVAL;
}

/* ---- async events --------------------------------------------------------- */

unsigned hca_events(struct hca *h, struct hca_event *v, unsigned max) { return events_take(&h->events, v, max); }
