/* SPDX-License-Identifier: MIT */
/* req_flight.c - what the requester has in flight: how much it is, how long it may take, and that it is sent again. */
#include "req_flight.h"

#include "aeth.h"
#include "hca_in.h"
#include "mend.h"

#define EARLY_RTTS     4u        /* round trips without an answer before packets are sent again */
#define EARLY_MIN_NS   2000000u  /* a busy host answers late */
#define EARLY_FIRST_NS 8000000u  /* before a round trip was timed */
#define EARLY_BUSY_NS  20000000u /* what a busy host adds, at most */
#define EARLY_MAX      10u
#define BUSY_NS        200000000u /* how long a host may have other things to do */

/* ---- the time it may take ---------------------------------------------- */

/*
 * The ACK timeout is made for the worst of networks.  When the tail of what was sent is lost, nobody says
 * NAK; so the oldest packet in flight is sent again earlier, as NICs do: after some round trips, then after twice
 * that and so on, until the ACK timeout comes, which alone counts as a retry (rule 4.5).  Its ACK tells how far the peer
 * has come, and the rest follows if need be: a peer that is merely slow is not sent all of it again and again.
 * The next packet waits as long as the one that was repeated did, until one is answered that was not: so even a way that
 * takes longer than the first wait comes to be timed.
 *
 * Nobody owes an ACK before one was asked for, so the time runs from the last AckReq; the ACK timeout from the first
 * that is not answered.  The specification lets that be up to four times as long as it says; we take three where
 * it is short, because what looks like a dead peer may be one without a core.  For the same reason there is a
 * least timeout, as adapters have one, too.
 */
uint64_t req_patience_ns(const struct hca *h, const struct qp *qp)
{
	uint8_t code = qp->attr.timeout;
	uint64_t ns = ack_timeout_ns(code && code < h->cfg.least_timeout ? h->cfg.least_timeout : code);

	return ns + (2 * ns < BUSY_NS ? 2 * ns : BUSY_NS);
}

/*
 * Round trips are long where the hosts have no core for the network; it loses no more packets for that.  So it is not for
 * many times what such a host takes, which would be half a second for the second packet, that is waited.
 */
static uint64_t early_ns(const struct qp *qp)
{
	uint64_t rtt = qp->req.rtt_ns, ns = rtt ? EARLY_RTTS * rtt : EARLY_FIRST_NS,
		 most = EARLY_RTTS * path_rtt_least(qp->path) + EARLY_BUSY_NS;

	if (rtt && ns > most)
		ns = most;
	return ns > EARLY_MIN_NS ? ns : EARLY_MIN_NS;
}

void req_watch(struct hca *h, struct qp *qp)
{
	struct req *q = &qp->req;
	mono_t at;

	if (mono_is_never(q->patience))
		q->patience = mono_add(h->now, req_patience_ns(h, qp));
	at = q->patience;
	if (h->cfg.early_retrans && !qp->path->local && q->early < EARLY_MAX && psn_before(q->una, q->ask_end))
		at = mono_min(at, mono_add(h->now, early_ns(qp) << q->early));
	timer_set(&h->timers, &qp->timer, at);
}

/* una moved: how long did it take? */
static void timed(struct hca *h, struct qp *qp)
{
	struct req *q = &qp->req;
	uint64_t took = 1 + mono_since(h->now, q->rtt_at);

	if (psn_before(q->early_end, q->una))
		q->early = 0;
	q->patience = MONO_NEVER;
	if (!q->rtt_on || psn_before(q->una, q->rtt_psn))
		return;
	q->rtt_on = false;
	q->rtt_ns = q->rtt_ns ? (7 * q->rtt_ns + took) / 8 : took;
	path_timed(h, qp->path, took);
}

void req_acked_all(struct hca *h, struct qp *qp)
{
	struct req *q = &qp->req;
	struct sq *s = &qp->sq;

	if (psn_before(q->next, q->una) || (int32_t)(s->next - s->head) < 0) {
		/* Responses overtook what was to be cut again: a READ is now asked for from here. */
		q->next = q->restart = q->una;
		s->next = s->head;
		q->pos = s->head == s->begun ? 0 : req_head_pos(qp);
	}
	q->retry_left = qp->attr.retry_cnt;
	q->rnr_left = qp->attr.rnr_retry;
	q->implied = q->probe = false;
	mend_seen(qp);
	timed(h, qp);
	if (!psn_before(q->una, q->owed_end))
		path_owed(h, qp, false);
	q->rnr_wait = false; /* if it was, then for the packet at una */
	if (psn_eq(q->una, q->next) || !qp->attr.timeout)
		timer_stop(&qp->timer);
	else
		req_watch(h, qp);
}

/* ---- falling back ------------------------------------------------------ */

void req_stop(struct hca *h, struct qp *qp)
{
	struct req *q = &qp->req;

	timer_stop(&qp->timer);
	q->patience = MONO_NEVER;
	link_del(&qp->waiter);
	q->rnr_wait = false;
	q->rd_head = q->rd_tail;
	mend_stop(qp);
	q->left = q->una;
	if (qp->path) {
		path_owed(h, qp, false);
		path_done(h, qp, q->inflight, 0);
	}
}

void req_restart(struct hca *h, struct qp *qp, bool loss, bool timeout)
{
	struct req *q = &qp->req;
	struct sq *s = &qp->sq;

	req_stop(h, qp);
	s->next = s->head;
	q->next = q->restart = q->una;
	q->pos = s->head == s->begun ? 0 : psn_dist(sq_at(s, s->head)->psn, q->una);
	q->unasked = 0;
	q->probe = false;
	qp->why.unsent = false;
	q->rtt_on = false; /* of what is sent twice nobody can say which one was answered */
	if (loss) {
		path_loss(h, qp->path, timeout);
		count(h, HCA_STAT_COMPLETER_RETRY_ERR, 1);
	}
	qp_ready(h, qp);
}

bool req_again(struct hca *h, struct qp *qp, enum req_loss loss)
{
	struct req *q = &qp->req;

	if (!q->retry_left)
		return false;
	q->retry_left--;
	req_restart(h, qp, true, loss == REQ_TIMEOUT);
	if (loss != REQ_NAK)
		q->implied = loss == REQ_IMPLIED;
	return true;
}

bool req_rnr(struct hca *h, struct qp *qp, uint64_t ns)
{
	struct req *q = &qp->req;

	if (qp->attr.rnr_retry != 7) {
		if (!q->rnr_left)
			return false;
		q->rnr_left--;
	}
	q->retry_left = qp->attr.retry_cnt; /* those are for a peer that says nothing, or has lost something */
	q->early = 0;
	req_restart(h, qp, false, false);
	q->rnr_wait = true;
	timer_set(&h->timers, &qp->timer, mono_add(h->now, ns));
	return true;
}

void req_rnr_longer(struct hca *h, struct qp *qp, uint64_t ns)
{
	mono_t until = mono_add(h->now, ns);

	if (mono_before(qp->timer.at, until))
		timer_set(&h->timers, &qp->timer, until);
}
