/* SPDX-License-Identifier: MIT */
/*
 * req.c - the requester: cuts bursts out of the send queue.
 *
 *	WR at sq.next  | pos packets done |==== one burst ====|  rest  |
 *	                                  ^ req.next
 *
 * A burst ends with the message, with the burst length of the path, with its window or where an
 * AckReq is wanted.  After a loss next and sq.next fall back to una (go-back-N) and the same code cuts the
 * same packets again, in the middle of a message if need be.  A READ takes the PSNs of its responses;
 * to a peer with a window it is asked for in parts that begin at fixed offsets of the message, so
 * that one asked for again lies inside what the responder has stored (rule 4.6).
 */
#include "req.h"

#include <string.h>

#include "cqe.h"
#include "hca_in.h"
#include "hdr.h"
#include "mw.h"
#include "raw.h"
#include "route.h"
#include "wr_kind.h"

#define ASK_PSNS      (PSN_WINDOW / 4)
#define LOCAL_UNASKED 16384u /* weight of messages of one ACK on a local link */

static bool has_route(const struct hca *h, const struct av *av)
{
	return av->sgid_index < HCA_GIDS && (h->gid_set >> av->sgid_index & 1);
}

/* Errors that can be found before anything is sent. */
static enum fault wr_fault(const struct hca *h, const struct qp *qp, struct swqe *w)
{
	if (w->fault)
		return w->fault;
	if (qp->type == QPT_RAW)
		return raw_wr_fault(w);
	if (qp->type == QPT_UD && w->len > qp->mtu)
		return FAULT_SQ_LEN;
	if (qp->type == QPT_UD && !has_route(h, &w->wr.ud.av))
		return FAULT_SQ_OP;
	return FAULT_NONE;
}

static void wr_begin(struct qp *qp, struct swqe *w)
{
	uint64_t chunk = PSN_WINDOW / 2;

	w->psn = qp->req.next;
	w->pkt_n = w->len > qp->mtu ? (uint32_t)((w->len + qp->mtu - 1) / qp->mtu) : 1;
	if (qp->sq.next != qp->sq.begun)
		return;
	qp->sq.begun++;
	if (w->kind != KIND_READ)
		return;
	if (!qp->path->local && qp->path->window / 4 / qp->mtu < chunk)
		chunk = qp->path->window / 4 / qp->mtu;
	w->rd_pkts = chunk ? (uint32_t)chunk : 1;
}

/* Nothing more will be sent until what is in flight is acknowledged: if nobody asked for that, it is sent once more, asking. */
static void req_ask(struct hca *h, struct qp *qp)
{
	if (qp_reliable(qp) && qp->req.unasked && !psn_eq(qp->req.una, qp->req.next))
		req_restart(h, qp, false, false);
}

/* The WR at sq.next cannot be sent: it fails once all before it are done. */
static void wr_fail(struct hca *h, struct qp *qp, struct swqe *w, enum fault f)
{
	w->fault = (uint8_t)f;
	req_ask(h, qp);
	req_progress(h, qp);
}

void req_progress(struct hca *h, struct qp *qp)
{
	struct sq *q = &qp->sq;

	/* In SQD what has not begun waits, the wrong ones as well. */
	if (q->head != q->tail && q->head == q->next && sq_at(q, q->head)->fault &&
	    !(qp->state == QPS_SQD && q->head == q->begun)) {
		fault_act(h, qp, sq_at(q, q->head)->fault);
		return;
	}
	if (qp->state == QPS_SQD && q->head == q->begun && !qp->req.drained) {
		qp->req.drained = true;
		if (qp->attr.en_sqd_async_notify)
			events_raise(&h->events, &qp->ev, EV_SQ_DRAINED);
	}
}

void req_done(struct hca *h)
{
	struct qp *qp = h->taken.qp;

	h->taken.qp = NULL;
	h->taken.done = false;
	if (!qp || qp->sq.head != h->taken.index)
		return;
	sq_complete(h, qp, WC_SUCCESS, FAULT_NONE);
	req_progress(h, qp);
}

/* ---- what may be sent now ---------------------------------------------- */

static bool rd_full(const struct req *q) { return q->rd_tail - q->rd_head >= q->rd_max; }

/*
 * As many of n packets of w as the window of the path has room for.  The parts of a READ are fixed, so one goes whole if there
 * is any room: there would never be enough if others took it bit by bit.
 */
static uint32_t window_fit(const struct qp *qp, const struct swqe *w, uint32_t n)
{
	const struct path *p = qp->path;
	uint32_t pos = qp->req.pos;
	uint64_t room;

	if (p->local)
		return n;
	room = path_room(p);
	if (req_cost(qp, w, pos, n) <= room)
		return n;
	if (w->kind == KIND_READ)
		return room ? n : 0;
	n = (uint32_t)(room / (qp->mtu + PKT_COST));
	return n || p->owed ? n : 1;
}

/* Packets of w that may be sent now; 0: none, and what opens the gate makes the QP ready again. */
static uint32_t may_send(struct hca *h, struct qp *qp, const struct swqe *w)
{
	const struct req *q = &qp->req;
	const struct path *p = qp->path;
	uint32_t n = w->pkt_n - q->pos, out = psn_dist(q->una, q->next);
	uint32_t most = psn_eq(q->una, q->left) ? PSN_WINDOW : KEEP_LEN / qp->mtu;
	uint64_t burst;

	if (q->pos == 0 && wr_waits(w->wr.op, w->wr.flags) && q->rd_head != q->rd_tail)
		return 0;
	if ((w->rd && rd_full(q)) || (q->probe && out))
		return 0;
	if (w->kind == KIND_READ) {
		if (w->rd_pkts - q->pos % w->rd_pkts < n)
			n = w->rd_pkts - q->pos % w->rd_pkts;
	} else if (n > 1) {
		burst = p->burst_len / qp->mtu;
		if (n > burst)
			n = burst ? (uint32_t)burst : 1;
		if (rate_kbps(&qp->rate))
			n = rate_fit(qp, n);
		if (q->probe)
			n = 1;
	}
	if (out + n > most) {
		if (w->kind == KIND_READ || out >= most)
			return 0;
		n = most - out;
	}
	n = window_fit(qp, w, n);
	if (!n)
		path_wait(h, qp);
	else if (qp->type == QPT_UC && !path_pace(h, qp, req_cost(qp, w, q->pos, n)))
		return 0;
	return n;
}

/* ---- the packets ------------------------------------------------------- */

static uint8_t op_send(const struct swqe *w, bool first, bool last)
{
	if (first && last)
		return wr_kinds[w->wr.op].packet;
	if (w->kind == KIND_SEND) {
		if (!last)
			return first ? OP_SEND_FIRST : OP_SEND_MIDDLE;
		return w->wr.op == WR_SEND_INV   ? OP_SEND_LAST_INV
		       : w->wr.op == WR_SEND_IMM ? OP_SEND_LAST_IMM
						 : OP_SEND_LAST;
	}
	if (!last)
		return first ? OP_WRITE_FIRST : OP_WRITE_MIDDLE;
	return w->wr.op == WR_WRITE_IMM ? OP_WRITE_LAST_IMM : OP_WRITE_LAST;
}

/* Payload of n packets from pos on; false: an sge is wrong. */
static inline bool payload(struct hca *h, struct qp *qp, struct swqe *w, struct burst *b, uint32_t n)
{
	uint64_t off = (uint64_t)qp->req.pos * qp->mtu;
	int k;

	b->n = n;
	b->payload_len = qp->req.pos + n == w->pkt_n ? w->len - off : (uint64_t)n * qp->mtu;
	if (!b->payload_len)
		return true;
	if (w->wr.op == WR_TSO)
		return raw_tso_payload(h, qp, w, b);
	if (w->wr.inline_len) {
		/* Copied by the library; the sge, if it left them, still have to be right. */
		if (w->wr.sge_n &&
		    sge_spans(&h->keys, swqe_sge(w), w->wr.sge_n, qp->pd, 0, 0, UINT64_MAX, h->tx_span) < 0)
			return false;
		h->tx_span[0] = (struct span){ NULL, (uint64_t)(uintptr_t)(swqe_inline(w) + off),
					       (uint32_t)b->payload_len };
		b->span_n = 1;
		return true;
	}
	k = sge_spans(&h->keys, swqe_sge(w), w->wr.sge_n, qp->pd, 0, off, b->payload_len, h->tx_span);
	b->span_n = k < 0 ? 0 : (unsigned)k;
	return k >= 0;
}

static bool cut_message(struct hca *h, struct qp *qp, struct swqe *w, struct burst *b, uint32_t n)
{
	struct req *q = &qp->req;
	bool first = q->pos == 0, end = q->pos + n == w->pkt_n;

	if (!payload(h, qp, w, b, n))
		return false;
	b->op_first = qp->svc | op_send(w, first, end && n == 1);
	b->op_last = n == 1 ? b->op_first : qp->svc | op_send(w, false, end);
	b->va = w->wr.remote_addr;
	b->rkey = w->wr.rkey;
	b->dma_len = (uint32_t)w->len;
	b->imm = b->inv_rkey = w->wr.imm;
	b->se = end && (w->wr.flags & WR_SOLICITED) && (w->kind == KIND_SEND || w->wr.op == WR_WRITE_IMM);
	return true;
}

static bool cut_rd(struct hca *h, struct qp *qp, struct swqe *w, struct burst *b, uint32_t n)
{
	struct req *q = &qp->req;
	uint64_t off = (uint64_t)q->pos * qp->mtu, end = (uint64_t)(q->pos + n) * qp->mtu;

	/* Where the data is to go is checked now as well, so that nothing is asked for in vain. */
	if (wr_row(w->wr.op)->data == WR_DATA_OUT
		    ? !payload(h, qp, w, b, n)
		    : sge_spans(&h->keys, swqe_sge(w), w->wr.sge_n, qp->pd, ACC_LOCAL_WRITE, 0, w->len, h->tx_span) < 0)
		return false;
	b->op_first = qp->svc | wr_kinds[w->wr.op].packet;
	b->va = w->wr.remote_addr;
	b->rkey = w->wr.rkey;
	b->dma_len = (uint32_t)w->len;
	if (w->kind == KIND_READ) {
		b->va += off;
		b->dma_len = (uint32_t)((end < w->len ? end : w->len) - off);
	} else if (w->kind == KIND_FLUSH) {
		b->feth = (w->wr.flush.type & FETH_PLT) | (w->wr.flush.level << FETH_SEL_SHIFT & FETH_SEL);
		b->dma_len = w->wr.flush.level ? 0 : (uint32_t)w->wr.flush.len;
	} else if (w->wr.op == WR_CMP_SWP) {
		b->swap_add = w->wr.atomic.swap;
		b->compare = w->wr.atomic.compare_add;
	} else if (w->wr.op == WR_FETCH_ADD) {
		b->swap_add = w->wr.atomic.compare_add;
	}
	b->op_last = b->op_first;
	q->rd_end[q->rd_tail++ & q->rd_mask] = psn_add(q->next, n);
	return true;
}

static void cut_ud(struct hca *h, struct qp *qp, const struct swqe *w, struct burst *b)
{
	const struct av *av = &w->wr.ud.av;

	route_set(h, &b->route, av, false);
	b->dqpn = w->wr.ud.dqpn & QPN_MASK;
	b->qkey = w->wr.ud.qkey & QKEY_PRIVILEGED ? qp->attr.qkey : w->wr.ud.qkey;
}

/*
 * Is an ACK of the burst wanted?  Each one costs both sides as much as many packets do, so they are asked for where
 * nothing more would follow without - the last WR, the window closing - and often enough to keep the window and the
 * queue moving; on a local link behind each message that is not small.  If anything else stops the requester, req_ask()
 * asks for an ACK.
 */
static bool wants_ack(const struct hca *h, const struct qp *qp, const struct swqe *w, uint32_t n, psn_t end)
{
	const struct req *q = &qp->req;
	const struct path *p = qp->path;
	const struct sq *s = &qp->sq;
	bool ends = q->pos + n == w->pkt_n;
	uint32_t next = s->next + 1;

	if (w->rd || q->probe || rate_kbps(&qp->rate) || psn_eq(end, q->max) || psn_dist(q->una, end) % ASK_PSNS < n)
		return true;
	if (ends &&
	    ((p->local && q->unasked >= LOCAL_UNASKED) || next == s->tail ||
	     (qp->state == QPS_SQD && next == s->begun) || sq_at(s, next)->kind == KIND_LOCAL || sq_at(s, next)->fault))
		return true;
	return (ends && next - q->asked > s->depth / 4) || q->unasked >= h->cfg.window_len / 4 ||
	       (!p->local && path_room(p) < p->burst_len);
}

/* RC: counts what is in flight, asks for ACKs, starts the timer. */
static void sent_rc(struct hca *h, struct qp *qp, const struct swqe *w, struct burst *b, uint32_t n)
{
	struct req *q = &qp->req;
	const struct path *p = qp->path;
	uint64_t cost = req_cost(qp, w, q->pos, n);
	psn_t end = psn_add(q->next, n);

	if (!p->local)
		path_sent(qp, cost);
	q->unasked += cost;
	b->ackreq = wants_ack(h, qp, w, n, end);
	if (b->ackreq) {
		path_owed(h, qp, true);
		q->owed_end = end;
		if (!psn_before(q->una, q->ask_end))
			q->patience = MONO_NEVER;
		if (psn_before(q->ask_end, end))
			q->ask_end = end;
		q->unasked = 0;
		q->asked = qp->sq.next;
	}
	if (psn_before(q->next, q->max))
		qp->retrans += b->n;
	if (b->ackreq && !q->rtt_on && psn_eq(q->next, q->max)) {
		q->rtt_on = true;
		q->rtt_psn = end;
		q->rtt_at = h->now;
	}
	if (qp->attr.timeout && (mono_is_never(qp->timer.at) || (b->ackreq && !p->local)))
		req_watch(h, qp);
}

static void advance(struct qp *qp, const struct swqe *w, uint32_t n)
{
	struct req *q = &qp->req;

	q->next = psn_add(q->next, n);
	if (psn_before(q->max, q->next))
		q->max = q->next;
	if (!qp_reliable(qp))
		q->una = q->left = q->next;
	q->pos += n;
	if (q->pos == w->pkt_n) {
		q->pos = 0;
		qp->sq.next++;
	}
}

/*
 * Operations without a packet - windows bound and invalidated - are done when all before them is; what is behind it
 * waits.  false: not yet, or it failed.
 */
static bool locals(struct hca *h, struct qp *qp)
{
	struct sq *s = &qp->sq;

	while (s->next != s->tail && sq_at(s, s->next)->kind == KIND_LOCAL) {
		struct swqe *w = sq_at(s, s->next);
		enum fault f = FAULT_NONE;

		if (s->head != s->next)
			return false;
		if (w->wr.op == WR_BIND_MW)
			f = mw_bind(&h->keys, qp, &w->wr, h->now);
		else if (mw_may_inv(&h->keys, qp, qp->pd, w->wr.imm))
			mw_inv(&h->keys, qp, w->wr.imm, h->now);
		else
			f = FAULT_SQ_INV;
		if (f) {
			wr_fail(h, qp, w, f);
			return false;
		}
		s->next++;
		s->begun++;
		sq_complete(h, qp, WC_SUCCESS, FAULT_NONE);
	}
	return s->next != s->tail;
}

/* Sends again what is missing, alone; false: it has been acknowledged, or all of it goes again. */
static bool tx_again(struct hca *h, struct qp *qp, struct burst *b)
{
	struct req *q = &qp->req;
	uint32_t index = qp->sq.head, pos = q->pos, burst = qp->path->burst_len / qp->mtu, n;
	struct swqe *w;
	bool cut;

	if (psn_before(q->mend_at, q->una))
		q->mend_at = q->una;
	while (psn_before(q->mend_at, q->mend_end) &&
	       !psn_before(q->mend_at, psn_add(sq_at(&qp->sq, index)->psn, sq_at(&qp->sq, index)->pkt_n)))
		index++;
	w = sq_at(&qp->sq, index);
	if (!psn_before(q->mend_at, q->mend_end) || w->rd || w->fault) {
		q->mend_at = q->mend_end;
		return false;
	}
	q->pos = psn_dist(w->psn, q->mend_at);
	n = psn_dist(q->mend_at, q->mend_end);
	n = n < w->pkt_n - q->pos ? n : w->pkt_n - q->pos;
	n = n < burst ? n : burst ? burst : 1;
	*b = qp->head;
	b->psn = q->mend_at;
	b->mtu = qp->mtu;
	b->ackreq = true;
	if (qp->type == QPT_XRC_SEND)
		b->srqn = w->wr.xrc.srqn & QPN_MASK;
	cut = cut_message(h, qp, w, b, n);
	q->pos = pos;
	if (!cut) {
		req_restart(h, qp, false, false);
		return false;
	}
	q->mend_at = psn_add(q->mend_at, n);
	qp->retrans += n;
	count(h, HCA_STAT_MENDED, n);
	h->taken = (struct taken){ .qp = qp, .index = index, .psn = b->psn };
	return true;
}

bool req_tx(struct hca *h, struct qp *qp, struct burst *b)
{
	struct sq *s = &qp->sq;
	struct req *q = &qp->req;
	struct swqe *w;
	uint32_t n, index;

	if (q->rnr_wait || (qp->state != QPS_RTS && qp->state != QPS_SQD))
		return false;
	if (!psn_eq(q->mend_at, q->mend_end)) {
		if (rate_kbps(&qp->rate) && !rate_may(h, qp))
			return false;
		if (tx_again(h, qp, b))
			return true;
	}
	if (s->next == s->tail)
		return false;
	if (qp->state == QPS_SQD && s->next == s->begun) {
		req_ask(h, qp);
		return false;
	}
	if (!locals(h, qp) || (rate_kbps(&qp->rate) && !rate_may(h, qp)))
		return false;
	index = s->next;
	w = sq_at(s, index);
	if (qp->type == QPT_UD)
		qp->mtu = mtu_bytes(h->cfg.mtu);
	if (q->pos == 0) {
		enum fault f = wr_fault(h, qp, w);

		if (f) {
			wr_fail(h, qp, w, f);
			return false;
		}
		wr_begin(qp, w);
	} else if (w->fault) {
		return false;
	}
	n = qp->type == QPT_UD || qp->type == QPT_RAW ? 1 : may_send(h, qp, w);
	if (!n)
		return false;
	*b = qp->head;
	b->psn = q->next;
	b->mtu = qp->mtu;
	if (!(w->rd ? cut_rd(h, qp, w, b, n) : cut_message(h, qp, w, b, n))) {
		wr_fail(h, qp, w, FAULT_SQ_PROT);
		return false;
	}
	if (qp->type == QPT_UD)
		cut_ud(h, qp, w, b);
	if (qp->type == QPT_XRC_SEND)
		b->srqn = w->wr.xrc.srqn & QPN_MASK;
	if (qp->type == QPT_RAW)
		raw_cut(w, b);
	if (qp_reliable(qp))
		sent_rc(h, qp, w, b, n);
	advance(qp, w, n);
	qp->why.last_op = b->op_last;
	h->taken = (struct taken){
		.qp = qp, .index = index, .psn = b->psn, .done = !qp_reliable(qp) && s->next != index
	};
	return true;
}

/* ---- the timer --------------------------------------------------------- */

void req_timer(struct hca *h, struct qp *qp)
{
	struct req *q = &qp->req;

	if (q->rnr_wait) {
		q->rnr_wait = false;
		qp_ready(h, qp);
		return;
	}
	if (psn_eq(q->una, q->next))
		return;
	if (mono_before(h->now, q->patience)) {
		mono_t patience = q->patience;

		q->early++;
		q->early_end = q->max;
		qp->why.early++;
		TRACE_PUT(h, qp, EARLY, .psn = q->una.v, .a = qp->why.early);
		count(h, HCA_STAT_EARLY_RETRANS, 1);
		req_restart(h, qp, true, false);
		q->patience = patience;
		q->probe = true;
		return;
	}
	count(h, HCA_STAT_LOCAL_ACK_TIMEOUT, 1);
	qp->why.timeouts++;
	TRACE_PUT(h, qp, TIMEOUT, .psn = q->una.v, .a = q->retry_left, .b = qp->why.timeouts);
	if (!req_again(h, qp, REQ_TIMEOUT))
		fault_act(h, qp, FAULT_REQ_RETRY_EXC);
}

void req_tx_fault(struct hca *h, struct qp *qp, uint32_t index)
{
	struct sq *s = &qp->sq;

	if (index - s->head >= s->tail - s->head)
		return;
	/* No packet of it or behind it may follow; what is before it may still be acknowledged. */
	s->next = index;
	qp->req.pos = 1;
	qp->req.unasked++; /* if it was, then by what has not gone */
	wr_fail(h, qp, sq_at(s, index), FAULT_SQ_MEM);
}
