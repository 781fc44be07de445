/* SPDX-License-Identifier: MIT */
/* mend.c - when what was lost is sent again alone, and what that shows of the peer; see mend.h.  req.c sends it. */
#include "mend.h"

#include "hca_in.h"
#include "req_flight.h"

#define MEND_MOST    16u /* packets that are sent for one gap at once */
#define MISSES_MOST  2u  /* in a row, until a peer that kept is one that goes back */
#define UNTRIED_MOST 127 /* losses until a peer is tried again */

void mend_stop(struct qp *qp)
{
	qp->req.mend_at = qp->req.mend_end;
	qp->req.mending = false;
}

static void failed(struct path *p)
{
	p->keeps = false;
	p->untried_n = p->untried_n < UNTRIED_MOST ? (uint8_t)(2 * p->untried_n + 1) : UNTRIED_MOST;
	p->untried = p->untried_n;
}

/* Can it be that only the packets at una are missing?  A READ is asked for again as a whole, and so is what follows it. */
static bool can(const struct hca *h, const struct qp *qp)
{
	return h->cfg.selective && !qp->path->local && psn_before(qp->req.una, qp->req.next) &&
	       !sq_at(&qp->sq, qp->sq.head)->rd;
}

static void mend(struct hca *h, struct qp *qp, uint32_t n)
{
	struct req *q = &qp->req;
	uint32_t out = psn_dist(q->una, q->next);

	q->mend_at = q->una;
	q->mend_end = psn_add(q->una, n < out ? n : out);
	q->mend_n = n;
	q->mending = true;
	q->rtt_on = false; /* what is timed waits for this */
	q->left = q->next;
	path_done(h, qp, q->inflight, 0);
	if (psn_before(q->ask_end, q->mend_end))
		q->ask_end = q->mend_end;
	count(h, HCA_STAT_COMPLETER_RETRY_ERR, 1);
	if (qp->attr.timeout)
		req_watch(h, qp);
	qp_ready(h, qp);
}

bool mend_nak(struct hca *h, struct qp *qp)
{
	struct req *q = &qp->req;
	struct path *p = qp->path;
	uint32_t n = 1;

	if (!q->retry_left || !can(h, qp))
		return false;
	if (q->mending && psn_eq(q->una, q->mend_end)) {
		n = 2 * q->mend_n;
		if (!p->keeps || n > MEND_MOST) {
			failed(p);
			return false;
		}
	} else if (!p->keeps && p->untried) {
		p->untried--;
		return false;
	}
	TRACE_PUT(h, qp, MEND, .psn = q->una.v, .a = q->retry_left, .n = n);
	q->retry_left--;
	path_loss(h, p, false);
	mend(h, qp, n);
	return true;
}

void mend_seen(struct qp *qp)
{
	struct req *q = &qp->req;

	if (!q->mending || !psn_before(q->mend_end, q->una))
		return;
	q->mending = false;
	qp->path->keeps = true;
	qp->path->untried_n = qp->path->misses = 0;
}

bool mend_acked(struct hca *h, struct qp *qp)
{
	struct req *q = &qp->req;

	if (!q->mending || !psn_eq(q->una, q->mend_end) || !can(h, qp))
		return false;
	/* One that keeps may have had no room for once. */
	if (!qp->path->keeps || ++qp->path->misses == MISSES_MOST)
		failed(qp->path);
	return true;
}
