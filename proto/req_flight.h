/* SPDX-License-Identifier: MIT */
/*
 * req_flight.h - what the requester has in flight: its cursors (qp.h), their weight in the window, the time it may take.
 *
 * Responses (ack.c) and the timer (req.c) move them by these functions only; what is sent moves next on (req.c).
 */
#ifndef PROTO_REQ_FLIGHT_H
#define PROTO_REQ_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "path.h"
#include "qp.h"

#define PKT_COST 256u /* what a packet weighs in the window besides its payload */

/* Weight of n packets of the message, from pos on. */
static inline uint64_t req_cost(const struct qp *qp, const struct swqe *w, uint32_t pos, uint32_t n)
{
	uint64_t from, to;

	if (n == w->pkt_n) /* all of it, as of small messages */
		return w->len + (uint64_t)n * PKT_COST;
	from = (uint64_t)pos * qp->mtu;
	to = from + (uint64_t)n * qp->mtu;
	return (to < w->len ? to : w->len) - (from < w->len ? from : w->len) + (uint64_t)n * PKT_COST;
}

/* Packets of the WR at the head that are acknowledged. */
static inline uint32_t req_head_pos(const struct qp *qp)
{
	return psn_dist(sq_at(&qp->sq, qp->sq.head)->psn, qp->req.una);
}

/* Weight of packets that are acknowledged: out of the window, and arrived.  They differ by what had left it before. */
struct acked {
	uint64_t out, all;
};

/*
 * n PSNs of the WR at the head are acknowledged, and there are as many.  true: it is done.  What the path is to be told of by
 * path_done(), once for all that an answer acknowledges, is added to *a.
 */
static inline bool req_acked(struct qp *qp, uint32_t n, struct acked *a)
{
	struct req *q = &qp->req;
	const struct swqe *w = sq_at(&qp->sq, qp->sq.head);
	int32_t sent = psn_diff(q->next, q->una);
	uint32_t pos = req_head_pos(qp), flying = n, left = psn_dist(q->una, q->left);

	/* Packets behind a fallback have left the window already. */
	if (sent < (int32_t)n)
		flying = sent > 0 ? (uint32_t)sent : 0;
	q->una = psn_add(q->una, n);
	if (!qp->path->local) {
		uint64_t all = req_cost(qp, w, pos, flying);

		a->all += all;
		if (left)
			all = left < flying ? req_cost(qp, w, pos + left, flying - left) : 0;
		a->out += all;
	}
	if (psn_before(q->left, q->una))
		q->left = q->una;
	while (q->rd_head != q->rd_tail && !psn_before(q->una, q->rd_end[q->rd_head & q->rd_mask]))
		q->rd_head++;
	return pos + n == w->pkt_n;
}

/* Behind req_acked() and the completions: all retries are there again, and the timer runs for what is left. */
void req_acked_all(struct hca *, struct qp *);

void req_watch(struct hca *, struct qp *);                       /* starts the timer for what is in flight */
uint64_t req_patience_ns(const struct hca *, const struct qp *); /* how long it waits for an ACK */
void req_stop(struct hca *, struct qp *);                        /* takes everything out of flight */

/* It goes another way now: what the old one took is forgotten. */
static inline void req_untimed(struct req *q)
{
	q->early = 0;
	q->rtt_on = false;
	q->rtt_ns = 0;
}

/* Falls back to una: all of it is sent again. */
void req_restart(struct hca *, struct qp *, bool loss, bool timeout);
/* The same for a loss that costs a retry; false: there is none left, and nothing was done. */
enum req_loss { REQ_NAK, REQ_IMPLIED, REQ_TIMEOUT };
bool req_again(struct hca *, struct qp *, enum req_loss);
/* The same after so long, for an RNR NAK. */
bool req_rnr(struct hca *, struct qp *, uint64_t ns);
/* It waits already, and has heard another one, of what crossed the first: no less than for that. */
void req_rnr_longer(struct hca *, struct qp *, uint64_t ns);

#endif
