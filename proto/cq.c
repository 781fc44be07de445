/* SPDX-License-Identifier: MIT */
/* cq.c - completion queues, and the FIFO that completions wait in. */
#include "cq.h"

#include <errno.h>
#include <stdlib.h>

#include "hca_in.h"

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

void hca_cq_overrun(struct hca *h, uint32_t cqn, mono_t now)
{
	struct cq *cq = slots_get(&h->cq, cqn);

	if (!cq || cq->overrun)
		return;
	h->now = now;
	hca_settle(h);
	cq->overrun = true;
	count(h, HCA_STAT_CQ_OVERRUN, 1);
	events_raise(h, &cq->ev, EV_CQ_ERR);
	for (uint32_t i = 0; i <= h->qp.mask; i++) {
		struct qp *qp = h->qp.v[i];

		if (qp && (qp->scq == cq || qp->rcq == cq) && qp->state != QPS_RESET && qp->state != QPS_ERR)
			fault_act(h, qp, FAULT_CQ_OVERRUN);
	}
}

int comp_reserve(struct comp_fifo *f, uint32_t n)
{
	uint64_t need = f->need + n;
	uint64_t max = f->max ? f->max : 256;
	struct cqe *v;

	/* The FIFO is drained from the front but filled at the back until it is empty: room for both. */
	if (2 * need > f->max) {
		while (max < 2 * need)
			max *= 2;
		if (max > UINT32_MAX)
			return ENOMEM;
		v = realloc(f->v, max * sizeof(*v));
		if (!v)
			return ENOMEM;
		f->v = v;
		f->max = (uint32_t)max;
	}
	f->need = need;
	return 0;
}

void comp_release(struct comp_fifo *f, uint32_t n)
{
	f->need -= n;
}

static void compact(struct comp_fifo *f)
{
	for (uint32_t i = f->head; i < f->tail; i++)
		f->v[i - f->head] = f->v[i];
	f->tail -= f->head;
	f->head = 0;
}

void comp_put(struct hca *h, const struct cq *cq, struct qp *qp, const struct cqe *c)
{
	struct comp_fifo *f = &h->comp;
	struct cqe *e;

	if (f->tail == f->max)
		compact(f);
	e = &f->v[f->tail++];
	*e = *c;
	e->cqn = cq->number;
	e->time_ns = h->now.ns;
}

/* The WR's place in its queue is free again. */
static void place_free(struct hca *h, const struct cqe *c)
{
	struct srq *srq;

	if (c->srq) {
		srq = slots_get(&h->srq, c->srqn);
		srq->rq.used--;
	} else if (c->is_send) {
		qp_get(h, c->qpn)->sq.waiting--;
	} else {
		qp_get(h, c->qpn)->rq.used--;
	}
}

unsigned hca_completions(struct hca *h, struct cqe *v, unsigned max)
{
	struct comp_fifo *f = &h->comp;
	unsigned n = 0;

	hca_settle(h);
	while (n < max && f->head < f->tail) {
		struct cqe *c = &f->v[f->head++];

		place_free(h, c);
		v[n++] = *c;
	}
	if (f->head == f->tail)
		f->head = f->tail = 0;
	return n;
}

/* All of a QP, or of an SRQ: numbers are never 0. */
static void drop(struct hca *h, uint32_t qpn, uint32_t srqn)
{
	struct comp_fifo *f = &h->comp;
	uint32_t to = f->head;

	for (uint32_t i = f->head; i < f->tail; i++) {
		if (qpn ? f->v[i].qpn == qpn : f->v[i].srqn == srqn)
			place_free(h, &f->v[i]);
		else
			f->v[to++] = f->v[i];
	}
	f->tail = to;
	if (f->head == f->tail)
		f->head = f->tail = 0;
}

void comp_drop(struct hca *h, struct qp *qp) { drop(h, qp->qpn, 0); }
void comp_drop_srq(struct hca *h, uint32_t srqn) { drop(h, 0, srqn); }
