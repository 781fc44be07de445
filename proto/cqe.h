/* SPDX-License-Identifier: MIT */
/* cqe.h - work requests of a QP become completions; completions wait, and are handed out. */
#ifndef PROTO_CQE_H
#define PROTO_CQE_H

#include <stddef.h>
#include <stdint.h>

#include <rdmad/abi.h>

#include "fault.h"
#include "qp.h"

struct hca;

void sq_complete(struct hca *, struct qp *, uint8_t status, enum fault); /* the WR at sq.head; advances it */

static inline struct cqe recv_cqe(const struct qp *qp, const struct rwqe *w)
{
	return (struct cqe){ .wr_id = w->wr_id,
			     .qpn = qp->qpn,
			     .op = WC_OP_RECV,
			     .srq = qp->type == QPT_XRC_RECV ? 2 : !!qp->srq,
			     .srqn = qp->srq ? qp->srq->number : 0 };
}

/* The receive WR that is used or would be; NULL: none.  recv_take() makes it the one in use. */
static inline struct rwqe *recv_peek(const struct qp *qp)
{
	const struct rq *q;

	if (qp->resp.wqe)
		return qp->resp.wqe;
	q = qp->srq ? &qp->srq->rq : &qp->rq;
	return q->head == q->tail ? NULL : rq_at(q, q->head);
}
/* Whose keys it names: those of the SRQ's PD, if it is from one; rkeys are the QP's. */
static inline const struct pd *recv_pd(const struct qp *qp) { return qp->srq ? qp->srq->pd : qp->pd; }
struct rwqe *recv_of_srq(struct hca *, struct qp *);
static inline struct rwqe *recv_take(struct hca *h, struct qp *qp)
{
	struct rwqe *w;

	if (qp->resp.wqe)
		return qp->resp.wqe;
	w = recv_peek(qp);
	if (!w)
		return NULL;
	if (qp->srq)
		return recv_of_srq(h, qp);
	qp->rq.head++;
	qp->resp.wqe = w;
	return w;
}
void recv_complete(struct hca *, struct qp *, struct cqe *); /* the one in use */
void recv_return(struct qp *);                               /* the one in use, back to the SRQ if it is from one */
/* EV_SRQ_LIMIT, if fewer are queued than the limit says.  It fires once, and has to be armed again. */
void srq_level(struct hca *, struct srq *);
void recv_drop(struct qp *);                     /* it, without a completion */
struct cqe *comp_take(struct hca *);             /* the oldest one, in place: its WR's slot is free; NULL: none */
void comp_drop(struct hca *, struct qp *);       /* what waits of this QP */
void comp_drop_srq(struct hca *, uint32_t srqn); /* or of this SRQ */

#endif
