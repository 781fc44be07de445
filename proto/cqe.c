/* SPDX-License-Identifier: MIT */
/* cqe.c - work requests become completions: those of the send queue, and the receive WR in use. */
#include <string.h>

#include "hca_in.h"

static const uint8_t wc_op[] = {
	[WR_WRITE] = WC_OP_WRITE, [WR_WRITE_IMM] = WC_OP_WRITE, [WR_SEND] = WC_OP_SEND,
	[WR_SEND_IMM] = WC_OP_SEND, [WR_READ] = WC_OP_READ, [WR_CMP_SWP] = WC_OP_COMP_SWAP,
	[WR_FETCH_ADD] = WC_OP_FETCH_ADD, [WR_LOCAL_INV] = WC_OP_LOCAL_INV,
	[WR_FLUSH] = WC_OP_FLUSH, [WR_TSO] = WC_OP_TSO, [WR_ATOMIC_WRITE] = WC_OP_ATOMIC_WRITE, [WR_BIND_MW] = WC_OP_BIND_MW, [WR_SEND_INV] = WC_OP_SEND,
};

void sq_complete(struct hca *h, struct qp *qp, uint8_t status, enum fault f)
{
	struct sq *q = &qp->sq;
	const struct swqe *w = sq_at(q, q->head);
	struct cqe c;

	q->head++;
	if (status != WC_SUCCESS && status != WC_WR_FLUSH_ERR)
		TRACE_PUT(h, qp, WC, .a = status, .op = w->wr.op, .b = (uint32_t)w->wr.wr_id);
	if (status == WC_SUCCESS && w->kind == KIND_SEND)
		count(h, HCA_STAT_RDMA_SENDS, 1);
	if (qp->scq->overrun || (status == WC_SUCCESS && !qp->sig_all && !(w->wr.flags & WR_SIGNALED)))
		return;
	c = (struct cqe){ .wr_id = w->wr.wr_id, .qpn = qp->qpn, .wqe = q->head, .status = status, .is_send = 1,
			  .op = wc_op[w->wr.op], .vendor_err = f, .solicited = status != WC_SUCCESS };
	if (status == WC_SUCCESS && w->rd)
		c.byte_len = (uint32_t)w->len;
	q->waiting++;
	comp_put(h, qp->scq, qp, &c);
}

struct cqe recv_cqe(const struct hca *h, const struct qp *qp, const struct rwqe *w)
{
	return (struct cqe){ .wr_id = w->wr_id, .qpn = qp->qpn, .op = WC_OP_RECV,
			      .srq = qp->type == QPT_XRC_RECV ? 2 : !!qp->srq, .srqn = qp->srq ? qp->srq->number : 0 };
}

struct rwqe *recv_peek(struct qp *qp)
{
	struct rq *q = qp->srq ? &qp->srq->rq : &qp->rq;

	if (qp->resp.wqe)
		return qp->resp.wqe;
	return q->head == q->tail ? NULL : rq_at(q, q->head);
}

struct rwqe *recv_take(struct hca *h, struct qp *qp)
{
	struct rwqe *w = recv_peek(qp);

	if (qp->resp.wqe || !w)
		return w;
	if (qp->srq) {
		memcpy(qp->srq_wqe, w, sizeof(*w) + w->sge_n * sizeof(struct sge));
		w = qp->srq_wqe;
		qp->srq->rq.head++;
		srq_took(h, qp->srq);
	} else {
		qp->rq.head++;
	}
	qp->resp.wqe = w;
	return w;
}

void recv_complete(struct hca *h, struct qp *qp, struct cqe *c)
{
	qp->resp.wqe = NULL;
	if (qp->rcq->overrun) {
		if (qp->srq)
			qp->srq->rq.used--;
		else
			qp->rq.used--;
		return;
	}
	if (c->status != WC_SUCCESS)
		c->solicited = 1;
	if (c->status != WC_SUCCESS && c->status != WC_WR_FLUSH_ERR)
		TRACE_PUT(h, qp, WC, .a = c->status, .op = 255, .b = (uint32_t)c->wr_id);
	comp_put(h, qp->rcq, qp, c);
}

void recv_return(struct qp *qp)
{
	const struct rwqe *w = qp->resp.wqe;
	struct rq *q;

	if (!w || !qp->srq)
		return;
	q = &qp->srq->rq;
	/* Its own place or that of one taken since: used says that there is one. */
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
