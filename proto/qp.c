/* SPDX-License-Identifier: MIT */
/* qp.c - a queue pair is stopped, by a fault or by its program, and made new. */
#include "qp.h"

#include "cqe.h"
#include "hca_in.h"
#include "replay.h"
#include "req.h"
#include "req_flight.h"
#include "srq.h"

void qp_xrc_srq(struct qp *qp, struct srq *srq)
{
	if (qp->srq == srq)
		return;
	link_del(&qp->in_srq);
	link_del(&qp->in_rcq);
	qp->srq = srq;
	qp->pd = srq ? srq->pd : NULL;
	qp->rcq = srq ? srq->cq : NULL;
	if (!srq)
		return;
	link_add_tail(&srq->targets, &qp->in_srq);
	link_add_tail(&srq->cq->recvs, &qp->in_rcq);
}

void qp_reset(struct hca *h, struct qp *qp)
{
	struct req *q = &qp->req;
	struct resp *r = &qp->resp;

	req_stop(h, qp);
	rate_limit(h, qp, 0, 0);
	rate_cut(h, qp, 0);
	comp_drop(h, qp);
	keep_drop(qp);
	recv_drop(qp);
	if (qp->type == QPT_XRC_RECV)
		qp_xrc_srq(qp, NULL);
	link_del(&qp->ready);
	qp->cnp = false;
	qp->cong = (struct cong){ .limit = 0 };
	/* Posted requests count as done (struct cqe.wqe goes on counting). */
	qp->sq.head = qp->sq.next = qp->sq.begun = qp->sq.tail;
	qp->rq.used -= rq_len(&qp->rq);
	qp->rq.head = qp->rq.tail;
	*q = (struct req){ .rd_end = q->rd_end, .rd_max = q->rd_max, .rd_mask = q->rd_mask };
	*r = (struct resp){ .rd = r->rd, .rd_max = r->rd_max, .rd_mask = r->rd_mask };
}

/* It leaves a state in which it works, and what is posted ends with that. */
static void flush_note(struct hca *h, struct qp *qp, uint8_t to)
{
	uint32_t sends = sq_len(&qp->sq), recvs = to == QPS_ERR && !qp->srq ? rq_len(&qp->rq) + !!qp->resp.wqe : 0;

	TRACE_PUT(h, qp, STATE, .a = qp->state, .b = to, .n = qp->why.err_cause == WHY_PROGRAM_ERR);
	if (sends || recvs)
		TRACE_PUT(h, qp, FLUSH, .a = sends, .b = recvs);
}

static void flush_sq(struct hca *h, struct qp *qp)
{
	while (sq_len(&qp->sq))
		sq_complete(h, qp, WC_WR_FLUSH_ERR, FAULT_NONE);
	qp->sq.next = qp->sq.begun = qp->sq.head;
	qp->req.pos = 0;
}

void qp_to_err(struct hca *h, struct qp *qp)
{
	if (qp->state == QPS_ERR)
		return;
	if (h->taken.qp == qp)
		req_settle(h);
	flush_note(h, qp, QPS_ERR);
	qp->state = QPS_ERR;
	req_stop(h, qp);
	keep_drop(qp);
	flush_sq(h, qp);
	for (;;) {
		struct rwqe *w = qp->srq && !qp->resp.wqe ? NULL : recv_take(h, qp);
		struct cqe c;

		if (!w)
			break;
		c = recv_cqe(qp, w);
		c.status = WC_WR_FLUSH_ERR;
		recv_complete(h, qp, &c);
	}
	if (qp->srq && !qp->xrcd)
		events_raise(&h->events, &qp->ev, EV_QP_LAST_WQE);
	if (!qp->resp.nak_fatal)
		resp_clear(qp);
}

void qp_to_sqe(struct hca *h, struct qp *qp)
{
	if (qp->state != QPS_RTS && qp->state != QPS_SQD)
		return;
	flush_note(h, qp, QPS_SQE);
	qp->state = QPS_SQE;
	req_stop(h, qp);
	flush_sq(h, qp);
}
