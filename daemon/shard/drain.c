/* SPDX-License-Identifier: MIT */
/*
 * drain.c - what programs posted goes from their rings into the HCAs.
 *
 *	1  take the bells of all contexts that are awake, note how far each send queue reaches
 *	2  wake who kicked, take the bells once more, post all receives (QPs and SRQs)
 *	3  post the sends noted in 1
 *
 * A program that posts a receive and then lets its peer know sends finds the receive there when the send is
 * looked at: what was posted before the sends of step 1 is seen by step 2, also between two contexts.  The same
 * holds for a send that comes as a datagram: between reading it and looking at it, ctx_drain_recvs().
 *
 * Nothing in shared memory is trusted.  The core copies a slot once, then checks it, then uses it.  A queue whose indices
 * make no sense, or whose slots are nothing that the library writes, is not looked at again until the QP is reset,
 * and the QP goes to ERR.
 */
#include "drain.h"

#include <errno.h>
#include <string.h>

#include <rdmad/cores.h>

#include "../../proto/why.h"
#include "../base/log.h"
#include "bells.h"
#include "idle.h"
#include "publish.h"
#include "share.h"

#define TURN_RECVS  16384u /* of one context in one turn */
#define TURN_SENDS  1024u  /* likewise; of all of a user's, if there are others: share.h */
#define QUEUE_SENDS 128u   /* of one queue in one turn */
#define FEW         32u    /* queues of a context that are served in the order in which they were rung */

/* ---- bells --------------------------------------------------------------------- */

static void bells_collect(struct ctx *c, mono_t now)
{
	for (unsigned i = 0; i < bell_sums(c->queue_n); i++) {
		uint64_t sum = bell_take(bell_sum(c->bell, i));
		uint32_t cq = sum && !i ? bell_asked(c->bell) : 0;

		if (cq)
			publish_asked(c, cq);
		if (sum)
			c->stirred = now;
		while (sum) {
			unsigned w = i * 64 + (unsigned)__builtin_ctzll(sum);

			sum &= sum - 1;
			c->pend_word[w] |= bell_take(&c->bell->word[w]);
			if (c->pend_word[w])
				c->pend_sum[i] |= 1ull << (w & 63);
		}
	}
}

/* The first pending queue with a number >= from; BELL_QUEUES: none. */
static uint32_t pend_next(const struct ctx *c, uint32_t from)
{
	uint64_t bits, sum;
	unsigned w, i;

	if (from >= BELL_QUEUES)
		return BELL_QUEUES;
	w = from >> 6;
	bits = c->pend_word[w] & ~0ull << (from & 63);
	if (bits)
		return w * 64 + (uint32_t)__builtin_ctzll(bits);
	if (++w >= BELL_QUEUES / 64)
		return BELL_QUEUES;
	i = w >> 6;
	sum = c->pend_sum[i] & ~0ull << (w & 63);
	while (!sum) {
		if (++i >= bell_sums(c->queue_n))
			return BELL_QUEUES;
		sum = c->pend_sum[i];
	}
	w = i * 64 + (unsigned)__builtin_ctzll(sum);
	return w * 64 + (uint32_t)__builtin_ctzll(c->pend_word[w]);
}

static void pend_clear(struct ctx *c, uint32_t q)
{
	c->pend_word[q >> 6] &= ~(1ull << (q & 63));
	if (!c->pend_word[q >> 6])
		c->pend_sum[q >> 12] &= ~(1ull << ((q >> 6) & 63));
}

/* The queue that bell q stands for; empty for a number that no queue has. */
static struct bell_queue queue_of(const struct ctx *c, uint32_t q)
{
	return q < c->queue_n ? c->queue[q] : (struct bell_queue){ 0 };
}

/* ---- trouble --------------------------------------------------------------------- */

static void qp_break(struct ctx_qp *qp, const char *what, mono_t now)
{
	struct ctx *c = qp->obj.ctx;

	log_info("context %u (%s, pid %d): QP %#x: %s; the QP goes to ERR", c->id, c->prog, (int)c->pid, qp->obj.number,
		 what);
	hca_qp_fail(c->hca, qp->obj.number, WHY_RING_BROKEN, now);
	qp_hint(qp);
	event_of(&qp->obj, EV_QP_FATAL);
}

static void recv_break(struct ctx_qp *qp, struct ctx_srq *srq, const char *what, mono_t now)
{
	struct ctx *c;

	if (qp) {
		qp->rq.broken = true;
		qp_break(qp, what, now);
		return;
	}
	c = srq->obj.ctx;
	srq->rq.broken = true;
	log_info("context %u (%s, pid %d): SRQ %u: %s; it is not served any more", c->id, c->prog, (int)c->pid,
		 srq->obj.number, what);
	event_of(&srq->obj, EV_SRQ_ERR);
}

/* ---- receives --------------------------------------------------------------------- */

/* A receive refused so is left in its ring.  Otherwise the verb refuses in this state, and nobody waits for a completion. */
static bool stays(int err) { return err == ENOMEM || err == E2BIG; }

/* How many were taken.  qp or srq is the owner. */
static uint32_t recvs_take(struct ctx *c, struct ctx_qp *qp, struct ctx_srq *srq, uint32_t max, mono_t now)
{
	struct recv_queue *rq = qp ? &qp->rq : &srq->rq;
	uint32_t used, n = 0;
	int err = 0;

	if (!rq->slots || rq->broken)
		return 0;
	used = ring_used(&rq->ring);
	if (used == UINT32_MAX) {
		recv_break(qp, srq, "index of the receive ring out of range", now);
		return 0;
	}
	used = used < max ? used : max;
	while (n < used && !stays(err)) {
		uint32_t from = rq->ring.pos + n;

		n += qp ? hca_post_recvs(c->hca, qp->obj.number, &rq->ring, from, used - n, &err, now)
			: hca_post_srq_recvs(c->hca, srq->obj.number, &rq->ring, from, used - n, &err, now);
	}
	n -= stays(err);
	if (err == E2BIG)
		recv_break(qp, srq, "receive with more sge than the queue has", now);
	ring_consume(&rq->ring, n);
	if (err == ENOMEM)
		recv_break(qp, srq, "more receives than the queue has", now);
	return n;
}

static bool ctx_recvs(struct ctx *c, mono_t now)
{
	bool any = false;
	uint32_t left;

	c->recv_left = false;
	if (!ctx_pends(c))
		return false;
	left = share_of(c, TURN_RECVS);
	for (uint32_t q = pend_next(c, 0); q < BELL_QUEUES; q = pend_next(c, q + 1)) {
		struct bell_queue b = queue_of(c, q);
		uint32_t n = b.qp || b.srq ? recvs_take(c, b.qp, b.srq, left, now) : 0;

		any |= n > 0;
		left -= n;
		if (!left) {
			c->recv_left = true;
			return true;
		}
		if (!b.qp)
			pend_clear(c, q);
	}
	return any;
}

/* ---- sends ------------------------------------------------------------------------- */

static void qp_sends_note(struct ctx_qp *qp, mono_t now)
{
	bool empty = qp->sq_seen == qp->sq.pos;
	struct ctx *c = qp->obj.ctx;
	uint32_t rung;

	if (qp->sq_broken)
		return;
	if (ring_used(&qp->sq) == UINT32_MAX) {
		qp->sq_broken = true;
		qp->sq_seen = qp->sq.pos;
		qp_break(qp, "index of the send ring out of range", now);
		return;
	}
	qp->sq_seen = qp->sq.seen;
	rung = RING_LOAD(&qp->sq.hdr->rung);
	if (empty) /* else it waits for its turn already */
		qp->sq_place = rung;
	if ((int32_t)(rung - c->sq_last) > 0)
		c->sq_last = rung;
}

/* true: there may be some. */
static bool sends_note(struct ctx *c, mono_t now)
{
	if (!ctx_pends(c))
		return false;
	for (uint32_t q = pend_next(c, 0); q < BELL_QUEUES; q = pend_next(c, q + 1)) {
		struct ctx_qp *qp = queue_of(c, q).qp;

		if (qp)
			qp_sends_note(qp, now);
	}
	return true;
}

/* The core did not take a slot.  NULL: it is skipped; or why the QP is broken. */
static const char *send_refused(struct ctx_qp *qp, int err)
{
	if (err == ENOMEM)
		return "more sends than the queue has";
	if (err == E2BIG)
		return "send with more sge or inline data than the queue has";
	qp_hint(qp);
	if (qp->state == QPS_RTS || qp->state == QPS_SQD)
		return "send of an opcode that this QP does not have";
	/* The verb refuses it in this state; it came from a race with a change of state. */
	qp->sq_skipped++;
	qp->obj.ctx->skips = true;
	return NULL;
}

/* How many were taken; up to sq_seen. */
static uint32_t sends_take(struct ctx *c, struct ctx_qp *qp, uint32_t max, mono_t now)
{
	uint32_t n, used = qp->sq_seen - qp->sq.pos;
	const char *wrong = NULL;
	int err;

	if (max > QUEUE_SENDS)
		max = QUEUE_SENDS;
	used = used < max ? used : max;
	for (n = 0; n < used && !wrong;) {
		n += hca_post_sends(c->hca, qp->obj.number, &qp->sq, qp->sq.pos + n, used - n, &err, now);
		if (err)
			wrong = send_refused(qp, err);
	}
	if (n) {
		ring_consume(&qp->sq, n);
		if (qp->answer.open)
			answer_posted(&qp->answer, hca_qp_heard(c->hca, qp->obj.number), now);
	}
	if (wrong) {
		qp->sq_broken = true;
		qp->sq_seen = qp->sq.pos;
		qp_break(qp, wrong, now);
	}
	return n;
}

/* The sends of queue q: how many were taken. */
static uint32_t queue_sends(struct ctx *c, uint32_t q, uint32_t max, mono_t now)
{
	struct ctx_qp *qp = queue_of(c, q).qp;
	uint32_t n = qp ? sends_take(c, qp, max, now) : 0;

	if (!qp || qp->sq_broken || __atomic_load_n(&qp->sq.hdr->prod, __ATOMIC_SEQ_CST) == qp->sq.pos)
		pend_clear(c, q);
	else if (n)
		qp->sq_place = c->sq_last;
	return n;
}

/* The queues that have sends, in the order in which they were rung; how many, or 0: more than FEW. */
static unsigned queues_few(const struct ctx *c, uint32_t *queues)
{
	uint32_t place[FEW];
	unsigned n = 0, i;

	for (uint32_t q = pend_next(c, 0); q < BELL_QUEUES; q = pend_next(c, q + 1)) {
		const struct ctx_qp *qp = queue_of(c, q).qp;
		uint32_t its = qp ? qp->sq_place : 0;

		if (n == FEW)
			return 0;
		for (i = n++; i && (int32_t)(its - place[i - 1]) < 0; i--) {
			queues[i] = queues[i - 1];
			place[i] = place[i - 1];
		}
		queues[i] = q;
		place[i] = its;
	}
	return n;
}

/* By turns, from where the last one ended. */
static uint32_t sends_by_turns(struct ctx *c, uint32_t most, mono_t now)
{
	uint32_t left = most, start = c->first, from = start, q;
	bool wrapped = false;

	while (left) {
		q = pend_next(c, from);
		if (q >= BELL_QUEUES && !wrapped) {
			wrapped = true;
			from = 0;
			continue;
		}
		if (q >= BELL_QUEUES || (wrapped && q >= start))
			break;
		from = c->first = q + 1;
		left -= queue_sends(c, q, left, now);
	}
	return most - left;
}

/* More receives must be taken first: 0, and ctx_pending() stays true. */
static uint32_t ctx_sends(struct ctx *c, mono_t now)
{
	uint32_t queues[FEW], most, left;
	unsigned n;

	if (c->recv_left || !ctx_pends(c))
		return 0;
	most = left = share_of(c, TURN_SENDS);
	n = queues_few(c, queues);
	if (!n)
		return sends_by_turns(c, most, now);
	for (unsigned i = 0; i < n && left; i++)
		left -= queue_sends(c, queues[i], left, now);
	return most - left;
}

/* ---- what a turn calls ------------------------------------------------------------- */

bool ctx_drain(struct shard *s, unsigned *sends, mono_t now)
{
	bool any = false, noted = false;

	*sends = 0;
	for (struct ctx *c = s->awake; c; c = c->awake_next) {
		bells_collect(c, now);
		noted |= sends_note(c, now);
	}
	noted |= idle_kicks(s, noted);
	for (struct ctx *c = s->awake; c; c = c->awake_next) {
		if (noted)
			bells_collect(c, now);
		any |= ctx_recvs(c, now);
	}
	for (struct ctx *c = s->awake; c && noted; c = c->awake_next)
		*sends += ctx_sends(c, now);
	return any || *sends;
}

void ctx_drain_recvs(struct shard *s, mono_t now)
{
	idle_kicks(s, true);
	for (struct ctx *c = s->awake; c; c = c->awake_next) {
		bells_collect(c, now);
		ctx_recvs(c, now);
	}
}

bool ctx_pending(const struct shard *s)
{
	for (const struct ctx *c = s->awake; c; c = c->awake_next)
		if (ctx_pends(c) || bell_any(c->bell, c->queue_n))
			return true;
	return false;
}

bool ctx_rung(const struct ctx *c) { return bells_touched(c) && bell_any(c->bell, c->queue_n); }

bool ctx_any_rung(const struct shard *s)
{
	for (const struct ctx *c = s->awake; c; c = c->awake_next)
		if (ctx_pends(c) || ctx_rung(c))
			return true;
	return false;
}

void ctx_sleep(struct shard *s)
{
	s->asleep = true;
	for (struct ctx *c = s->awake; c; c = c->awake_next)
		bells_sleep(c);
}

void ctx_core(struct shard *s)
{
	uint32_t core = (uint32_t)(sched_getcpu() + 1);

	if (core == s->core)
		return;
	if (!s->core)
		s->few_cores = cores_few();
	s->core = core;
	for (struct ctx *c = s->awake; c; c = c->awake_next)
		RING_STORE(&c->bell->core, core);
}

/* Has somebody of this core kicked since that was asked last? */
static bool was_kicked_from(struct bell *b, uint32_t core)
{
	uint32_t kicker = RING_LOAD(&b->kicker);

	if (kicker)
		RING_STORE(&b->kicker, 0);
	return kicker == core;
}

bool ctx_wake(struct shard *s)
{
	const uint32_t core = (uint32_t)(sched_getcpu() + 1);
	bool here = false;

	s->asleep = false;
	for (struct ctx *c = s->awake; c; c = c->awake_next) {
		here |= was_kicked_from(c->bell, core);
		bells_wake(c);
	}
	return here;
}

void drain_qp(struct ctx_qp *qp, mono_t now)
{
	struct ctx *c = qp->obj.ctx;

	if (qp->xrcd) /* it has no rings */
		return;
	qp_sends_note(qp, now);
	recvs_take(c, qp, NULL, UINT32_MAX, now);
	while (sends_take(c, qp, UINT32_MAX, now))
		;
}

void drain_srq(struct ctx_srq *srq, mono_t now) { recvs_take(srq->obj.ctx, NULL, srq, UINT32_MAX, now); }

void drain_drop(struct ctx_qp *qp)
{
	uint32_t n = RING_LOAD(&qp->sq.hdr->prod) - qp->sq.pos;

	/* After nonsense this takes up the index as it is: the program says itself where it goes on. */
	ring_consume(&qp->sq, n);
	qp->sq_seen = qp->sq.pos;
	qp->sq_broken = false;
	if (n) {
		qp->sq_skipped += n;
		qp->obj.ctx->skips = true;
	}
	if (!qp->rq.slots)
		return;
	ring_consume(&qp->rq.ring, RING_LOAD(&qp->rq.ring.hdr->prod) - qp->rq.ring.pos);
	qp->rq.broken = false;
}
