/* SPDX-License-Identifier: MIT */
/* verify.c - the invariants of an HCA, walked.  One that does not hold is our bug: it is named, and the process ends. */
#undef NDEBUG
#include <assert.h>

#include "hca_in.h"
#include "mw.h"
#include "srq.h"

#define HOLDS(x) assert(x)

/* ---- queues ------------------------------------------------------------- */

static void verify_sq(const struct qp *qp)
{
	const struct sq *s = &qp->sq;

	HOLDS(s->tail - s->head <= s->depth);
	HOLDS(s->begun - s->head <= s->tail - s->head);
	HOLDS(s->next - s->head <= s->begun - s->head);
	HOLDS(s->tail - s->head + s->waiting <= s->depth);
	if (qp->state != QPS_RTS && qp->state != QPS_SQD)
		HOLDS(s->head == s->tail);
	for (uint32_t i = s->head; i != s->tail; i++)
		HOLDS(sq_at(s, i)->wr.sge_n <= qp->cap.max_send_sge);
}

static void verify_req(const struct qp *qp)
{
	const struct req *q = &qp->req;
	const struct sq *s = &qp->sq;
	uint32_t out = (q->next.v - q->una.v) & PSN_MASK;
	psn_t at = q->una;

	HOLDS(!psn_before(q->next, q->una));
	HOLDS(!psn_before(q->max, q->next));
	HOLDS(out <= PSN_WINDOW);
	HOLDS(psn_dist(q->una, q->left) <= out);
	HOLDS(q->rd_tail - q->rd_head <= q->rd_max);
	if (s->head != s->begun) {
		const struct swqe *w = sq_at(s, s->head);

		/* una lies in the WR at the head, and each begun WR starts where the one before ends. */
		HOLDS(((q->una.v - w->psn.v) & PSN_MASK) < w->pkt_n || w->fault);
		at = w->psn;
	}
	for (uint32_t i = s->head; i != s->begun && !sq_at(s, i)->fault; i++) {
		HOLDS(psn_eq(sq_at(s, i)->psn, at));
		HOLDS(sq_at(s, i)->pkt_n >= 1);
		at = psn_add(at, sq_at(s, i)->pkt_n);
	}
	if (s->next != s->tail && q->pos && !sq_at(s, s->next)->fault) {
		HOLDS(psn_eq(q->next, psn_add(sq_at(s, s->next)->psn, q->pos)));
		HOLDS(q->pos < sq_at(s, s->next)->pkt_n);
	}
	HOLDS(!q->rnr_wait || !mono_is_never(qp->timer.at));
	/* Packets in flight are watched by a timer, or they would be in flight for ever. */
	if (out && !q->rnr_wait && qp->attr.timeout)
		HOLDS(!mono_is_never(qp->timer.at));
	if (!out)
		HOLDS(q->inflight == 0);
	/* Only what was sent is sent again alone. */
	if (!psn_eq(q->mend_at, q->mend_end))
		HOLDS(psn_before(q->mend_at, q->mend_end) && !psn_before(q->next, q->mend_end) &&
		      (!link_empty(&qp->ready) || !mono_is_never(qp->rate.timer.at)));
}

/* A QP with more to send and nothing in flight waits for something that will make it ready, if it is not. */
static void verify_waits(const struct qp *qp)
{
	const struct req *q = &qp->req;
	const struct sq *s = &qp->sq;

	if (qp->held || s->next == (qp->state == QPS_SQD ? s->begun : s->tail))
		return;
	HOLDS(!psn_eq(q->una, q->next) || !link_empty(&qp->ready) || !link_empty(&qp->waiter) ||
	      !mono_is_never(qp->timer.at) || !mono_is_never(qp->rate.timer.at));
}

static void verify_resp(const struct qp *qp)
{
	const struct resp *r = &qp->resp;
	psn_t end = r->epsn;

	HOLDS(r->rd_n <= r->rd_max);
	HOLDS(r->rd_tail - r->rd_cur <= r->rd_n);
	for (uint32_t i = r->rd_tail; i != r->rd_tail - r->rd_n; i--) {
		const struct rd *d = rd_at(r, i - 1);

		HOLDS(!psn_before(end, psn_add(d->psn, d->n)));
		HOLDS(d->begin <= d->at && d->at <= d->end && d->end <= d->n);
		HOLDS(!d->want || (int32_t)(i - 1 - r->rd_cur) >= 0);
		end = d->psn;
	}
	HOLDS(r->kind == KIND_NONE || r->kind == KIND_SEND || r->kind == KIND_WRITE);
	if (r->kind == KIND_SEND && qp->state != QPS_ERR)
		HOLDS(r->wqe);
}

/* Completions of this queue in the FIFO. */
static uint32_t waiting(const struct hca *h, const struct qp *qp, bool send)
{
	uint32_t n = 0;

	for (uint32_t i = h->comp.head; i < h->comp.tail; i++)
		n += h->comp.v[i].qpn == qp->qpn && h->comp.v[i].is_send == send;
	return n;
}

static void verify_qp(const struct hca *h, const struct qp *qp)
{
	HOLDS(qp->state <= QPS_ERR);
	HOLDS(qp->sq.waiting == waiting(h, qp, true));
	if (!qp->srq && !qp->xrcd)
		HOLDS(qp->rq.used == rq_len(&qp->rq) + !!qp->resp.wqe + waiting(h, qp, false));
	HOLDS(qp->rq.used <= qp->rq.depth);
	if (qp->state != QPS_RESET && qp->state != QPS_ERR)
		HOLDS(qp->head.sqpn == qp->qpn && qp->head.dqpn == qp->attr.dest_qpn &&
		      qp->head.pkey == qp_pkey(h, qp) && qp->head.span == h->tx_span);
	verify_sq(qp);
	if (qp_reliable(qp)) {
		if (qp->state == QPS_RTS || qp->state == QPS_SQD) { /* an ended requester keeps its numbers */
			verify_req(qp);
			verify_waits(qp);
		}
		verify_resp(qp);
	}
	if (qp->state == QPS_RESET)
		HOLDS(!qp->sq.waiting && !qp->rq.used && !qp->resp.wqe && mono_is_never(qp->timer.at));
	if (qp->state == QPS_ERR)
		HOLDS(!rq_len(&qp->rq) && !qp->resp.wqe && mono_is_never(qp->timer.at));
	if (qp->xrcd)
		HOLDS(qp->srq ? qp->srq->xrcd == qp->xrcd && qp->pd == qp->srq->pd && qp->rcq == qp->srq->cq
			      : !qp->pd && !qp->rcq);
	if (qp_reliable(qp) && qp->state >= QPS_RTR && qp->state != QPS_ERR) /* ERR can follow INIT */
		HOLDS(qp->path);
	/* Nothing that can be sent is forgotten (qp_has_more()): the QP is in the ready list, waits for its window, its rate, or for its peer. */
	if (qp->resp.ack || qp->resp.nak || qp->resp.rd_cur != qp->resp.rd_tail)
		HOLDS(!link_empty(&qp->ready) || !mono_is_never(qp->rate.timer.at));
	if (qp->cnp)
		HOLDS(!link_empty(&qp->ready));
	HOLDS(link_empty(&qp->ready) || !link_empty(&qp->ready_lane->turn));
	if (qp->path && qp->type != QPT_UC)
		HOLDS(link_empty(&qp->waiter) || !link_empty(&qp->waiter_lane->turn));
	HOLDS(!qp->cong.limit || qp->cong.limit == qp->rate.cut);
}

/* ---- what QPs share ------------------------------------------------------ */

static uint32_t same(const void *a, const void *b) { return a == b; }

static uint32_t users_of(const struct hca *h, const void *obj)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i <= h->qp.mask; i++) {
		const struct qp *qp = h->qp.v[i];

		if (qp && qp->type == QPT_XRC_RECV)
			n += same(qp->xrcd, obj) + same(qp->path, obj);
		else if (qp)
			n += same(qp->pd, obj) + same(qp->scq, obj) + same(qp->rcq, obj) + same(qp->srq, obj) +
			     same(qp->path, obj);
	}
	for (uint32_t i = 0; i <= h->keys.mr.mask; i++)
		n += h->keys.mr.v[i].obj && ((struct mr *)h->keys.mr.v[i].obj)->pd == obj;
	for (uint32_t i = 0; i <= h->keys.mw.mask; i++)
		n += h->keys.mw.v[i].obj && ((struct mw *)h->keys.mw.v[i].obj)->pd == obj;
	for (uint32_t i = 0; i < h->srq.size; i++)
		if (h->srq.v[i]) {
			const struct srq *srq = h->srq.v[i];

			n += same(srq->pd, obj) + same(srq->xrcd, obj) + same(srq->cq, obj);
		}
	return n;
}

static void verify_paths(const struct hca *h)
{
	for (unsigned b = 0; b < PATH_HASH; b++) {
		for (const struct path *p = h->paths.head[b]; p; p = p->next) {
			uint64_t inflight = 0;
			uint32_t owed = 0;

			HOLDS(p->users && p->users == users_of(h, p));
			for (uint32_t i = 0; i <= h->qp.mask; i++) {
				const struct qp *q = h->qp.v[i];

				if (!q || q->path != p || q->req.epoch != p->epoch)
					continue;
				owed += q->req.owed;
				inflight += q->req.inflight;
			}
			HOLDS(inflight == p->inflight && owed == p->owed);
			HOLDS(p->window);
		}
	}
}

static void verify_srq(const struct hca *h, const struct srq *srq)
{
	uint32_t used = rq_len(&srq->rq);

	for (uint32_t i = 0; i <= h->qp.mask; i++) {
		const struct qp *qp = h->qp.v[i];

		if (qp && qp->srq == srq)
			used += !!qp->resp.wqe;
	}
	for (uint32_t i = h->comp.head; i < h->comp.tail; i++)
		used += h->comp.v[i].srqn == srq->number;
	HOLDS(srq->users == users_of(h, srq));
	HOLDS(srq->rq.used == used && used <= srq->rq.depth);
	HOLDS(srq->limit <= srq->rq.depth);
}

static void verify_mw(const struct hca *h, const struct mw *mw)
{
	HOLDS(mw->key & MW_KEY);
	HOLDS(mw->mr || (!mw->qp && link_empty(&mw->of_qp)));
	if (!mw->mr)
		return;
	HOLDS(places_get(&h->keys.mr, mw->mr->key >> 8) == mw->mr && mw->mr->pd == mw->pd);
	HOLDS(mw->va >= mw->mr->iova && mw->len && mw->len <= mw->mr->len - (mw->va - mw->mr->iova));
	HOLDS(mw->type == 2 ? mw->qp && qp_get(h, mw->qp->qpn) == mw->qp && !link_empty(&mw->of_qp) : !mw->qp);
}

static void verify_windows(const struct hca *h)
{
	uint64_t bound = 0;

	for (uint32_t i = 0; i <= h->keys.mw.mask; i++) {
		if (!h->keys.mw.v[i].obj)
			continue;
		verify_mw(h, h->keys.mw.v[i].obj);
		bound += ((struct mw *)h->keys.mw.v[i].obj)->mr != NULL;
	}
	for (uint32_t i = 0; i <= h->keys.mr.mask; i++)
		bound -= h->keys.mr.v[i].obj ? ((struct mr *)h->keys.mr.v[i].obj)->windows : 0;
	HOLDS(!bound);
}

static void verify_ghosts(const struct hca *h)
{
	const struct ghosts *t = &h->ghosts;
	uint32_t ready = 0;

	for (const struct link *l = t->ready.next; l != &t->ready; l = l->next)
		HOLDS(++ready <= GHOSTS);
	for (uint32_t i = 0; i < GHOSTS; i++) {
		const struct ghost *g = &t->v[i];

		if (!g->qpn)
			continue;
		HOLDS((g->qpn >> h->cfg.qpn_low_bits & (GHOSTS - 1)) == i);
		/* A number has one answerer. */
		HOLDS(!qp_get(h, g->qpn) || mono_reached(h->now, g->until));
		ready -= !link_empty(&g->ready);
	}
	HOLDS(!ready);
}

static void verify_heap(const struct heap *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		HOLDS(t->v[i]->pos == i + 1);
		HOLDS(!mono_before(t->v[i]->at, t->v[i]->key));
		if (i)
			HOLDS(!mono_before(t->v[i]->key, t->v[(i - 1) / 2]->key));
	}
}

static void verify_rooms(const struct hca *h)
{
	for (const struct room *m = h->keep.room; m && m < h->keep.room + KEEP_ROOMS; m++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < KEEP_SLOTS && m->n; i++) {
			HOLDS(!m->on[i] || i <= m->mask);
			n += m->on[i];
		}
		HOLDS(n == m->n && (m->qp || !n));
		HOLDS(!m->qp || (qp_get(h, m->qp->qpn) == m->qp && m->qp->resp.room == m));
	}
}

void hca_verify(const struct hca *h)
{
	uint64_t depth = 0;
	uint32_t live = 0;

	for (uint32_t i = 0; i <= h->qp.mask; i++) {
		const struct qp *qp = h->qp.v[i];

		if (!qp)
			continue;
		live++;
		HOLDS(qp_get(h, qp->qpn) == qp);
		HOLDS(qp->timer.pos || mono_is_never(qp->timer.at));
		HOLDS(qp->rate.timer.pos || mono_is_never(qp->rate.timer.at));
		depth += qp->sq.depth + qp->rq.depth;
		verify_qp(h, qp);
	}
	HOLDS(live == h->qp.live);
	HOLDS(h->gsi.rx.tail - h->gsi.rx.head <= GSI_FIFO && h->gsi.tx.tail - h->gsi.tx.head <= GSI_FIFO);
	for (uint32_t i = 0; i < h->srq.size; i++) {
		if (!h->srq.v[i])
			continue;
		depth += ((struct srq *)h->srq.v[i])->rq.depth;
		verify_srq(h, h->srq.v[i]);
	}
	HOLDS(depth == h->comp.need);
	HOLDS(h->comp.head <= h->comp.tail && h->comp.tail <= h->comp.max);
	HOLDS(h->comp.tail - h->comp.head <= h->comp.need);
	for (uint32_t i = 0; i < h->pd.size; i++)
		HOLDS(!h->pd.v[i] || ((struct pd *)h->pd.v[i])->users == users_of(h, h->pd.v[i]));
	for (uint32_t i = 0; i < h->cq.size; i++)
		HOLDS(!h->cq.v[i] || ((struct cq *)h->cq.v[i])->users == users_of(h, h->cq.v[i]));
	for (uint32_t i = 0; i < h->xrcd.size; i++)
		HOLDS(!h->xrcd.v[i] || ((struct xrcd *)h->xrcd.v[i])->users == users_of(h, h->xrcd.v[i]));
	verify_windows(h);
	verify_paths(h);
	verify_heap(&h->timers);
	verify_ghosts(h);
	verify_rooms(h);
}
