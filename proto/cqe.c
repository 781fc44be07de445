/* SPDX-License-Identifier: MIT */
/* cqe.c - work requests become completions: those of the send queue, and the receive WR in use. */
#include "cqe.h"

#include <string.h>

#include <rdmad/wr.h>

#include "cntr.h"
#include "hca_in.h"
#include "srq.h"

/* The WR before sq.head has a completion; most have none, and need no room for it. */
__attribute__((noinline)) static void sq_cqe(struct hca *h, struct qp *qp, const struct swqe *w, uint8_t status,
					     enum fault f)
{
	struct sq *q = &qp->sq;
	struct cqe c = { .wr_id = w->wr.wr_id,
			 .qpn = qp->qpn,
			 .wqe = q->head,
			 .status = status,
			 .is_send = 1,
			 .op = wr_row(w->wr.op)->wc,
			 .vendor_err = f,
			 .solicited = status != WC_SUCCESS };

	if (status == WC_SUCCESS && w->rd)
		c.byte_len = (uint32_t)w->len;
	q->waiting++;
	comp_put(&h->comp, qp->scq, h->now, &c);
}

void sq_complete(struct hca *h, struct qp *qp, uint8_t status, enum fault f)
{
	struct sq *q = &qp->sq;
	const struct swqe *w = sq_at(q, q->head);

	q->head++;
	qp->why.moved = h->now;
	if (status != WC_SUCCESS && status != WC_WR_FLUSH_ERR)
		TRACE_PUT(h, qp, WC, .a = status, .op = w->wr.op, .b = (uint32_t)w->wr.wr_id);
	if (status == WC_SUCCESS && w->kind == KIND_SEND)
		count(h, HCA_STAT_RDMA_SENDS, 1);
	cntr_send(h, qp, w->kind, status == WC_SUCCESS, w->len);
	if (qp->scq->overrun || (status == WC_SUCCESS && !qp->sig_all && !(w->wr.flags & WR_SIGNALED))) {
		qp->why.quiet++;
		return;
	}
	qp->why.quiet = 0;
	sq_cqe(h, qp, w, status, f);
}

void srq_level(struct hca *h, struct srq *srq)
{
	if (srq->limit && rq_len(&srq->rq) < srq->limit) {
		srq->limit = 0;
		events_raise(&h->events, &srq->ev, EV_SRQ_LIMIT);
	}
}

struct rwqe *recv_of_srq(struct hca *h, struct qp *qp)
{
	const struct rwqe *w = recv_peek(qp);

	memcpy(qp->srq_wqe, w, sizeof(*w) + w->sge_n * sizeof(struct sge));
	qp->srq->rq.head++;
	srq_level(h, qp->srq);
	qp->resp.wqe = qp->srq_wqe;
	return qp->srq_wqe;
}

void recv_complete(struct hca *h, struct qp *qp, struct cqe *c)
{
	qp->resp.wqe = NULL;
	cntr_add(h, qp, CNTR_RECV, c->status == WC_SUCCESS, c->byte_len);
	if (qp->rcq->overrun) {
		if (qp->srq)
			srq_free_slot(qp->srq);
		else
			qp->rq.used--;
		return;
	}
	if (c->status != WC_SUCCESS) {
		c->solicited = 1;
		if (c->status != WC_WR_FLUSH_ERR)
			TRACE_PUT(h, qp, WC, .a = c->status, .op = 255, .b = (uint32_t)c->wr_id);
	}
	comp_put(&h->comp, qp->rcq, h->now, c);
}

void recv_return(struct qp *qp)
{
	const struct rwqe *w = qp->resp.wqe;
	struct rq *q;

	if (!w || !qp->srq)
		return;
	q = &qp->srq->rq;
	/* Its own slot or that of one taken since: used says that there is one. */
	memcpy(rq_at(q, --q->head), w, sizeof(*w) + w->sge_n * sizeof(struct sge));
	qp->resp.wqe = NULL;
}

void recv_drop(struct qp *qp)
{
	recv_return(qp);
	if (qp->resp.wqe)
		qp->rq.used--;
	qp->resp.wqe = NULL;
}

/* ---- handed out ---------------------------------------------------------- */

/* The slot of the WR in its queue is free again. */
static inline void slot_free(struct hca *h, const struct cqe *c)
{
	if (c->srq)
		srq_free_slot(slots_get(&h->srq, c->srqn));
	else if (c->is_send)
		qp_get(h, c->qpn)->sq.waiting--;
	else
		qp_get(h, c->qpn)->rq.used--;
}

struct cqe *comp_take(struct hca *h)
{
	struct comp_fifo *f = &h->comp;
	struct cqe *c;

	if (f->head == f->tail) {
		f->head = f->tail = 0;
		return NULL;
	}
	c = &f->v[f->head++];
	slot_free(h, c);
	return c;
}

/* All of a QP, or of an SRQ: numbers are never 0. */
static void drop(struct hca *h, uint32_t qpn, uint32_t srqn)
{
	struct comp_fifo *f = &h->comp;
	uint32_t to = f->head;

	for (uint32_t i = f->head; i < f->tail; i++) {
		if (qpn ? f->v[i].qpn == qpn : f->v[i].srqn == srqn)
			slot_free(h, &f->v[i]);
		else
			f->v[to++] = f->v[i];
	}
	f->tail = to;
	if (f->head == f->tail)
		f->head = f->tail = 0;
}

void comp_drop(struct hca *h, struct qp *qp) { drop(h, qp->qpn, 0); }
void comp_drop_srq(struct hca *h, uint32_t srqn) { drop(h, 0, srqn); }
