/* SPDX-License-Identifier: MIT */
/* why_wait.c - for what a live queue pair waits. */
#include <string.h>

#include "hca_in.h"
#include "srq.h"

#define RNR_NS 5000000000u  /* more than any RNR timer */
#define TRY_NS 15000000000u /* more than most ACK timeouts */

/* Something is in flight that no timer watches over. */
static bool waits_for_ever(const struct hca *h, const struct qp *qp)
{
	return h->stalled || (qp_reliable(qp) && !qp->attr.timeout && psn_before(qp->req.una, qp->req.max));
}

/* Receives that are posted, its SRQ's included. */
static uint32_t recvs(const struct qp *qp) { return rq_len(qp->srq ? &qp->srq->rq : &qp->rq) + !!qp->resp.wqe; }

/* The peer still tries: one that has given up, or has gone, waits for nothing. */
static bool recent(mono_t now, mono_t last, uint64_t ns) { return mono_since(now, last) < ns; }

static enum why_cause wait_of(const struct hca *h, const struct qp *qp)
{
	const struct qp_why *q = &qp->why;
	uint32_t sends = sq_len(&qp->sq);

	if (sends && q->rnrs)
		return WHY_WAIT_RNR;
	if (sends && q->far >= WHY_FAR && !q->heard)
		return WHY_WAIT_PSN;
	if (sends && (q->timeouts || waits_for_ever(h, qp)))
		return WHY_WAIT_ACK;
	if (sends && qp->state == QPS_SQD)
		return WHY_WAIT_SQD;
	if (q->refused && !recvs(qp) && recent(h->now, q->refused_last, RNR_NS))
		return WHY_WAIT_EMPTY;
	if (sends)
		return WHY_NONE;
	if (q->far_rx >= WHY_FAR && !qp->resp.msn && psn_eq(qp->resp.epsn, psn(qp->attr.rq_psn)) &&
	    recent(h->now, q->far_rx_last, TRY_NS))
		return WHY_WAIT_PSN;
	if (q->quiet && q->quiet >= qp->cap.max_send_wr)
		return WHY_WAIT_SIGNALED;
	if (qp->type == QPT_UC && q->lost && recvs(qp))
		return WHY_WAIT_UC;
	return recvs(qp) ? WHY_WAIT_RECV : WHY_WAIT_POST;
}

static mono_t since_of(const struct qp *qp, enum why_cause cause)
{
	const struct qp_why *q = &qp->why;

	switch (cause) {
	case WHY_WAIT_EMPTY: return q->refused_since;
	case WHY_WAIT_PSN: return sq_len(&qp->sq) ? q->moved : q->far_rx_since;
	case WHY_WAIT_RECV:
	case WHY_WAIT_POST:
	case WHY_WAIT_UC: return mono_max(q->moved, q->rx_last);
	default: return q->moved;
	}
}

bool hca_wait(struct hca *h, uint32_t qpn, mono_t then, struct why *w)
{
	struct qp *qp = qp_get(h, qpn);
	const struct qp_why *q = qp ? &qp->why : NULL;
	enum why_cause cause;
	mono_t since;

	if (!qp || qp->type == QPT_RAW || qp->type == QPT_XRC_RECV || qp->state < QPS_RTR || qp->state > QPS_SQD)
		return false;
	cause = wait_of(h, qp);
	since = since_of(qp, cause);
	if (!cause || mono_before(then, since))
		return false;
	why_fill(h, qp, w, cause);
	w->since = since;
	w->got = cause == WHY_WAIT_UC      ? q->lost
		 : cause == WHY_WAIT_EMPTY ? q->refused
		 : cause == WHY_WAIT_SQD   ? sq_len(&qp->sq)
					   : recvs(qp);
	w->max = cause == WHY_WAIT_SIGNALED ? qp->cap.max_send_wr : qp->attr.rnr_retry;
	w->srqn = qp->srq ? qp->srq->number : 0;
	if (cause == WHY_WAIT_PSN && !sq_len(&qp->sq))
		w->far_psn = q->far_rx_psn;
	if (cause == WHY_WAIT_UC)
		w->psn = q->lost_psn.v;
	if (cause == WHY_WAIT_RECV && qp->type == QPT_UC)
		w->psn = qp->resp.epsn.v;
	if (sq_len(&qp->sq))
		why_of_wr(w, sq_at(&qp->sq, qp->sq.head));
	return true;
}
