/* SPDX-License-Identifier: MIT */
/*
 * ack.c - the requester hears responses (protocol 4.5, 4.6).
 *
 * Everything moves una: an ACK of n to n+1, but never over a READ or atomic, which only its own
 * response completes; a response that lies beyond one says that the one before was lost (implied NAK).
 *
 *	         una                      next           max
 *	  stale   |        in order        |  cut again   |   stale
 *	----------|------------------------|--------------|---------> PSN of a response
 */
#include <string.h>

#include "aeth.h"
#include "cqe.h"
#include "hca_in.h"
#include "mend.h"
#include "req.h"

static struct swqe *head(const struct qp *qp) { return sq_at(&qp->sq, qp->sq.head); }

/* n PSNs of the WR at the head are done; progress() is to follow. */
static inline void head_done(struct hca *h, struct qp *qp, uint32_t n, struct acked *a)
{
	if (req_acked(qp, n, a))
		sq_complete(h, qp, WC_SUCCESS, FAULT_NONE);
}

/* una has moved: queues that waited for it go on. */
static void progress(struct hca *h, struct qp *qp, const struct acked *a)
{
	if (!qp->path->local)
		path_done(h, qp, a->out, a->all);
	qp->why.rx_pkts = qp->rx_pkts;
	qp->why.moved = h->now;
	qp->why.heard = true;
	if (qp->why.timeouts | qp->why.naks | qp->why.rnrs | qp->why.early)
		why_progress(qp);
	req_acked_all(h, qp);
	if (qp_has_more(qp))
		qp_ready(h, qp);
	req_progress(h, qp);
}

/* By its response, n PSNs of the WR at the head are done. */
static void answered(struct hca *h, struct qp *qp, uint32_t n)
{
	struct acked a = { 0 };

	head_done(h, qp, n, &a);
	progress(h, qp, &a);
}

/* All before to is acknowledged; false: a READ or atomic stands in the way. */
static bool ack_to(struct hca *h, struct qp *qp, psn_t to)
{
	int32_t d = psn_diff(to, qp->req.una);
	bool clear = true, moved = false;
	struct acked a = { 0 };

	while (d > 0) {
		const struct swqe *w = head(qp);
		uint32_t left = w->pkt_n - req_head_pos(qp);

		clear = !w->rd;
		if (!clear)
			break;
		if (left > (uint32_t)d)
			left = (uint32_t)d;
		head_done(h, qp, left, &a);
		d -= (int32_t)left;
		moved = true;
	}
	if (moved)
		progress(h, qp, &a);
	return clear;
}

/* Sends again from una on, if there are retries left. */
static void retry(struct hca *h, struct qp *qp, enum req_loss loss)
{
	const struct req *q = &qp->req;

	qp->why.naks++;
	if (loss == REQ_NAK && mend_nak(h, qp))
		return;
	TRACE_PUT(h, qp, AGAIN, .psn = q->una.v, .op = loss == REQ_IMPLIED, .a = q->retry_left,
		  .b = (q->next.v - q->una.v) & PSN_MASK);
	if (!req_again(h, qp, loss))
		fault_act(h, qp, FAULT_REQ_RETRY_EXC);
}

/*
 * last, behind una, has been answered: is that no news?  Responses that were under way when it fell back say once more why it did,
 * the newest of them at the end.  Where a timer runs they need not be told from those to what was sent again.  Without one, when
 * all has gone again, the next that is as new as that one counts.
 */
static bool implied_before(struct qp *qp, psn_t last)
{
	struct req *q = &qp->req;

	if (!q->implied || (!qp->attr.timeout && psn_eq(q->next, q->max) && !psn_before(last, q->implied_end)))
		return false;
	if (psn_eq(psn_add(last, 1), q->implied_end))
		q->implied_end = last;
	return true;
}

/* The answer of last shows that the one at una was lost. */
static void implied_nak(struct hca *h, struct qp *qp, psn_t last)
{
	struct req *q = &qp->req;

	if (q->rnr_wait || implied_before(qp, last)) {
		count(h, HCA_STAT_STALE_RESP, 1);
		return;
	}
	count(h, HCA_STAT_IMPLIED_NAK, 1);
	q->implied_end = psn_eq(psn_add(last, 1), q->max) ? last : q->max;
	retry(h, qp, REQ_IMPLIED);
}

static bool alive(const struct qp *qp) { return qp->state == QPS_RTS || qp->state == QPS_SQD; }

/* ---- NAKs --------------------------------------------------------------- */

static void rnr_nak(struct hca *h, struct qp *qp, uint8_t code)
{
	const struct req *q = &qp->req;

	count(h, HCA_STAT_RCVD_RNR_ERR, 1);
	qp->rnrs++;
	if (q->rnr_wait) {
		req_rnr_longer(h, qp, rnr_timer_ns(code));
		return;
	}
	qp->why.rnrs++;
	TRACE_PUT(h, qp, RNR_RX, .psn = q->una.v, .op = (uint8_t)(0x20 | code), .a = q->rnr_left);
	if (!req_rnr(h, qp, rnr_timer_ns(code)))
		fault_act(h, qp, FAULT_REQ_RNR_EXC);
}

static void nak(struct hca *h, struct qp *qp, uint8_t code)
{
	TRACE_PUT(h, qp, NAK_RX, .psn = qp->req.una.v, .op = (uint8_t)(0x60 | code));
	switch (code) {
	case NAK_PSN_SEQ:
		count(h, HCA_STAT_RCVD_SEQ_ERR, 1);
		/* Packets that followed the one refused with RNR; the timer is not cut short. */
		if (!qp->req.rnr_wait)
			retry(h, qp, REQ_NAK);
		return;
	case NAK_INV_REQ: fault_act(h, qp, FAULT_REQ_NAK_INV); return;
	case NAK_REM_ACCESS: fault_act(h, qp, FAULT_REQ_NAK_ACCESS); return;
	case NAK_REM_OP: fault_act(h, qp, FAULT_REQ_NAK_OP); return;
	case NAK_IN_PROGRESS: return; /* not a refusal: it will be answered, or asked for again after the timeout */
	default: fault_act(h, qp, FAULT_REQ_NAK_OTHER);
	}
}

static void ack_pkt(struct hca *h, struct qp *qp, const struct burst *b)
{
	enum aeth_type type = aeth_type(b->syndrome);

	if (type == AETH_RESERVED) {
		count(h, HCA_STAT_STALE_RESP, 1);
		return;
	}
	if (type == AETH_ACK) {
		if (!ack_to(h, qp, psn_add(b->psn, 1)) && alive(qp))
			implied_nak(h, qp, b->psn);
		else if (alive(qp) && mend_acked(h, qp))
			req_restart(h, qp, false, false);
		return;
	}
	/* A NAK acknowledges what is before it, and says nothing of a READ that has had no response. */
	if (!ack_to(h, qp, b->psn)) {
		if (alive(qp))
			implied_nak(h, qp, psn_sub(b->psn, 1));
		return;
	}
	if (!alive(qp) || psn_eq(b->psn, qp->req.max))
		return;
	if (type == AETH_RNR_NAK)
		rnr_nak(h, qp, aeth_code(b->syndrome));
	else
		nak(h, qp, aeth_code(b->syndrome));
}

/* ---- responses with data ------------------------------------------------ */

/* Is a response burst that begins at packet pos of w as it has to be? */
static bool read_fits(const struct qp *qp, const struct swqe *w, const struct burst *b, uint32_t pos)
{
	uint32_t part = pos % w->rd_pkts, part_n = w->pkt_n - (pos - part);
	uint64_t off = (uint64_t)pos * qp->mtu, end = off + b->payload_len;
	bool first = opcode_get(b->op_first)->place & PLACE_FIRST, last = opcode_get(b->op_last)->place & PLACE_LAST;
	bool ends;

	if (part_n > w->rd_pkts)
		part_n = w->rd_pkts;
	if (b->n > part_n - part || (b->n > 1 && b->mtu != qp->mtu))
		return false;
	/* Where we fell back to, some start afresh and others (rxe) go on in the middle (rule 4.6). */
	if (first != (part == 0) && !psn_eq(b->psn, qp->req.restart))
		return false;
	ends = part + b->n == part_n;
	if (last != ends)
		return false;
	return pos + b->n == w->pkt_n ? end == w->len : b->payload_len == (uint64_t)b->n * qp->mtu;
}

/* *lost: as if it had not arrived. */
static enum fault read_store(struct hca *h, struct qp *qp, struct swqe *w, const struct burst *b, uint32_t pos,
			     bool *lost)
{
	int n, err;

	if (!read_fits(qp, w, b, pos))
		return FAULT_REQ_BAD_RESP;
	if (!b->payload_len)
		return FAULT_NONE;
	n = sge_spans(&h->keys, swqe_sge(w), w->wr.sge_n, qp->pd, ACC_LOCAL_WRITE, (uint64_t)pos * qp->mtu,
		      b->payload_len, h->dst);
	if (n < 0)
		return FAULT_REQ_RESP_PROT;
	err = rx_copy(h, h->dst, (unsigned)n, b);
	*lost = mem_lost(err);
	return err && !*lost ? FAULT_REQ_RESP_MEM : FAULT_NONE;
}

static void read_resp(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct swqe *w = head(qp);
	bool lost = false;
	enum fault f = FAULT_REQ_BAD_RESP;

	if (w->kind == KIND_READ)
		f = read_store(h, qp, w, b, req_head_pos(qp), &lost);
	else if (w->rd && w->kind != KIND_ATOMIC) /* done, and nothing to say */
		f = b->payload_len ? FAULT_REQ_BAD_RESP : FAULT_NONE;

	if (f) {
		fault_act(h, qp, f);
		return;
	}
	if (lost)
		return;
	answered(h, qp, b->n);
}

static void atomic_resp(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct swqe *w = head(qp);
	uint64_t orig = b->orig;
	struct span src = { NULL, (uint64_t)(uintptr_t)&orig, sizeof(orig) };
	int n;

	if (w->kind != KIND_ATOMIC) {
		fault_act(h, qp, FAULT_REQ_BAD_RESP);
		return;
	}
	n = sge_spans(&h->keys, swqe_sge(w), w->wr.sge_n, qp->pd, ACC_LOCAL_WRITE, 0, sizeof(orig), h->dst);
	if (n < 0) {
		fault_act(h, qp, FAULT_REQ_RESP_PROT);
		return;
	}
	if (h->cfg.mem->copy(h->cfg.mem_host, h->dst, (unsigned)n, &src, 1, 0)) {
		fault_act(h, qp, FAULT_REQ_RESP_MEM);
		return;
	}
	answered(h, qp, 1);
}

/* A response with data: it has to be the next one. */
static void data_resp(struct hca *h, struct qp *qp, const struct burst *b)
{
	bool clear = ack_to(h, qp, b->psn);

	if (!alive(qp))
		return;
	if (!clear)
		implied_nak(h, qp, psn_add(b->psn, b->n - 1));
	else if (opcode_get(b->op_first)->kind == KIND_RESP)
		read_resp(h, qp, b);
	else
		atomic_resp(h, qp, b);
}

/* A sequence NAK that asks for what was never sent: something came out of order, and by now all is there. */
static bool has_all(const struct req *q, const struct burst *b)
{
	return opcode_get(b->op_first)->kind == KIND_ACK && b->syndrome == aeth_nak(NAK_PSN_SEQ) &&
	       psn_eq(b->psn, q->max);
}

void ack_rx(struct hca *h, struct qp *qp, const struct burst *b)
{
	const struct req *q = &qp->req;
	struct burst rest;
	int32_t old = psn_diff(q->una, b->psn);

	if (!alive(qp) || psn_eq(q->una, q->max) || (!psn_before(b->psn, q->max) && !has_all(q, b))) {
		count(h, HCA_STAT_STALE_RESP, b->n);
		why_far_answer(qp, b);
		return;
	}
	if (old > 0) {
		why_far_answer(qp, b);
		count(h, HCA_STAT_STALE_RESP, (uint32_t)old < b->n ? (uint32_t)old : b->n);
		if ((uint32_t)old >= b->n)
			return;
		burst_slice(b, (uint32_t)old, b->n - (uint32_t)old, &rest, h->slice);
		b = &rest;
	}
	if (opcode_get(b->op_first)->kind == KIND_ACK)
		ack_pkt(h, qp, b);
	else
		data_resp(h, qp, b);
}
