/* SPDX-License-Identifier: MIT */
/*
 * resp.c - the RC responder: what it does with a request, in the order of the specification.
 *
 *	PSN -> opcode sequence -> rights of the QP -> receive WR -> length -> key -> execute
 *
 * A burst in sequence goes through as a whole.  If something is wrong with it, nothing of it has been done yet,
 * and it is taken packet by packet: so the packets before the wrong one count, and the NAK has its PSN.
 * Each step says FAULT_NONE or the row of fault.def that applies; fault_act() does the rest.
 */
#include "resp.h"

#include <errno.h>
#include <string.h>

#include "aeth.h"
#include "cntr.h"
#include "cqe.h"
#include "hca_in.h"
#include "hdr.h"
#include "mw.h"
#include "replay.h"
#include "srq.h"
#include "wr_kind.h"

static const struct opcode *first_op(const struct burst *b) { return opcode_get(b->op_first); }
static const struct opcode *last_op(const struct burst *b) { return opcode_get(b->op_last); }
static bool starts(const struct burst *b) { return first_op(b)->place & PLACE_FIRST; }
static bool ends(const struct burst *b) { return last_op(b)->place & PLACE_LAST; }
static bool has_inv(const struct burst *b) { return last_op(b)->hdrs & HDR_IETH; }
static bool has_imm(const struct burst *b) { return last_op(b)->hdrs & HDR_IMM; }

/* Does the burst consume a receive WR, now or (SEND) since its first packet? */
static bool wants_recv(const struct burst *b) { return first_op(b)->kind == KIND_SEND || has_imm(b); }

static enum fault check_sequence(const struct hca *h, const struct qp *qp, const struct burst *b)
{
	const struct opcode *op = first_op(b);

	if (h->cfg.no_kinds >> op->kind & 1)
		return FAULT_RESP_OP_UNSUP;
	if (op->kind == KIND_FLUSH &&
	    (!(b->feth & FETH_PLT) || (b->feth & FETH_PLT) > (FETH_GLOBAL | FETH_PERSISTENT) ||
	     (b->feth & FETH_SEL) > 1u << FETH_SEL_SHIFT))
		return FAULT_RESP_OP_UNSUP;
	if (starts(b) ? qp->resp.kind != KIND_NONE : qp->resp.kind != op->kind)
		return FAULT_RESP_OP_SEQ;
	return FAULT_NONE;
}

/* XRC: whose receive WRs, and whose keys. */
static enum fault check_srq(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct srq *srq = slots_get(&h->srq, b->srqn);

	if (!srq || srq->xrcd != qp->xrcd || (qp->resp.kind != KIND_NONE && qp->srq != srq))
		return FAULT_RESP_XRC_SRQ;
	qp_xrc_srq(qp, srq);
	return srq->cq->overrun ? FAULT_CQ_OVERRUN : FAULT_NONE;
}

static enum fault check_rights(const struct qp *qp, const struct burst *b)
{
	const struct resp *r = &qp->resp;
	const struct rd *oldest;

	/* A request never needs more than its kind: most need not be asked. */
	if (starts(b) && kind_right(first_op(b)->kind) & ~qp->attr.access && request_right(b) & ~qp->attr.access)
		return FAULT_RESP_QP_RIGHT;
	if (first_op(b)->role != ROLE_ASK)
		return FAULT_NONE;
	if (!r->rd_max)
		return FAULT_RESP_RD_NONE;
	/*
	 * The oldest slot is free once its response was sent.  If that is to be sent again, this request says
	 * that the first one has arrived meanwhile.
	 */
	oldest = rd_at(r, r->rd_tail - r->rd_n);
	return r->rd_n == r->rd_max && oldest->want && !oldest->again ? FAULT_RESP_RD_MANY : FAULT_NONE;
}

/* The whole region, whatever the range (rule 6.1). */
static bool flushes_all(const struct burst *b) { return first_op(b)->kind == KIND_FLUSH && b->feth & FETH_SEL; }

static enum fault check_length(const struct qp *qp, const struct burst *b)
{
	const struct resp *r = &qp->resp;
	uint8_t kind = first_op(b)->kind;
	uint64_t off = starts(b) ? 0 : r->off, total = off + b->payload_len;
	bool end = ends(b);

	if (b->n > 1 && b->mtu != qp->mtu)
		return FAULT_RESP_LEN;
	if (!end && b->payload_len != (uint64_t)b->n * qp->mtu)
		return FAULT_RESP_LEN;
	if (end && (b->payload_len > (uint64_t)b->n * qp->mtu || b->payload_len < (uint64_t)(b->n - 1) * qp->mtu ||
		    (b->payload_len == (uint64_t)(b->n - 1) * qp->mtu && !(b->n == 1 && starts(b)))))
		return FAULT_RESP_LEN;
	if (kind == KIND_SEND) {
		if (total > RD_MAX_MSG)
			return FAULT_RESP_MSG_LEN;
		return FAULT_NONE;
	}
	if (first_op(b)->pay == PAY_8 && (b->payload_len != 8 || b->dma_len != 8))
		return FAULT_RESP_LEN;
	if (kind_len(kind))
		return b->va & (kind_len(kind) - 1) ? FAULT_RESP_ALIGN : FAULT_NONE;
	if (starts(b) && b->dma_len > RD_MAX_MSG && !flushes_all(b))
		return FAULT_RESP_MSG_LEN;
	if (kind == KIND_WRITE) {
		uint64_t dma = starts(b) ? b->dma_len : r->dma_len;

		if (end ? total != dma : total >= dma)
			return FAULT_RESP_LEN;
	}
	return FAULT_NONE;
}

/* ---- SEND ---------------------------------------------------------------- */

static enum fault check_send(struct hca *h, struct qp *qp, const struct burst *b, const struct rwqe *w, int *spans)
{
	uint64_t off = starts(b) ? 0 : qp->resp.off;

	*spans = 0;
	if (off + b->payload_len > w->len)
		return FAULT_RESP_RECV_LEN;
	*spans = sge_spans(&h->keys, w->sge, w->sge_n, recv_pd(qp), ACC_LOCAL_WRITE, off, b->payload_len, h->dst);
	if (*spans < 0)
		return FAULT_RESP_RECV_PROT;
	return has_inv(b) && !mw_may_inv(&h->keys, qp, qp->pd, b->inv_rkey) ? FAULT_RESP_INV : FAULT_NONE;
}

/* ---- WRITE ---------------------------------------------------------------- */

static enum fault check_write(struct hca *h, struct qp *qp, const struct burst *b, int *spans)
{
	const struct resp *r = &qp->resp;
	uint64_t va = starts(b) ? b->va : r->va, off = starts(b) ? 0 : r->off;
	uint32_t rkey = starts(b) ? b->rkey : r->rkey;

	*spans = 0;
	/* All of the message is checked with its first packet, if there is more; a length of 0 touches nothing. */
	if (starts(b) && b->dma_len && b->dma_len != b->payload_len &&
	    !rkey_span(&h->keys, qp, rkey, qp->pd, ACC_REMOTE_WRITE, va, b->dma_len, h->dst))
		return FAULT_RESP_RKEY;
	if (!b->payload_len)
		return FAULT_NONE;
	if (!rkey_span(&h->keys, qp, rkey, qp->pd, ACC_REMOTE_WRITE, va + off, b->payload_len, h->dst))
		return FAULT_RESP_RKEY;
	*spans = 1;
	return FAULT_NONE;
}

/* ---- execution ------------------------------------------------------------ */

static void end_message(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct resp *r = &qp->resp;
	bool send = first_op(b)->kind == KIND_SEND;

	r->kind = KIND_NONE;
	r->msn = (r->msn + 1) & PSN_MASK;
	if (wants_recv(b)) {
		struct rwqe *w = recv_take(h, qp);
		struct cqe c = recv_cqe(qp, w);

		c.op = send ? WC_OP_RECV : WC_OP_RECV_IMM;
		c.byte_len = (uint32_t)r->off;
		c.solicited = b->se;
		c.src_qp = qp->attr.dest_qpn;
		if (has_imm(b)) {
			c.flags = WC_WITH_IMM;
			c.imm = b->imm;
		}
		if (has_inv(b)) {
			mw_inv(&h->keys, qp, b->inv_rkey, h->now);
			c.flags = WC_WITH_INV;
			c.imm = b->inv_rkey;
		}
		recv_complete(h, qp, &c);
	}
	if (send)
		count(h, HCA_STAT_RDMA_RECVS, 1);
	else
		cntr_add(h, qp, CNTR_REMOTE_WRITE, true, r->off);
}

/* SEND or WRITE, payload stored: the state of the message moves on. */
static void took_payload(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct resp *r = &qp->resp;

	if (starts(b)) {
		r->kind = first_op(b)->kind;
		r->off = 0;
		r->va = b->va;
		r->rkey = b->rkey;
		r->dma_len = b->dma_len;
	}
	r->off += b->payload_len;
	if (r->kind == KIND_SEND)
		recv_take(h, qp);
	r->epsn = psn_add(r->epsn, b->n);
	if (b->ackreq)
		r->ack = true;
	if (ends(b))
		end_message(h, qp, b);
}

/*
 * Is the packet to count as lost?  A program that has ended says no more, whose QP goes soon: what comes behind is not
 * refused, either.
 */
static bool counts_as_lost(struct qp *qp, int err)
{
	if (err == ESRCH)
		qp->resp.silent = true;
	return mem_lost(err);
}

/* w: the receive WR, if it needs one. */
static enum fault exec_payload(struct hca *h, struct qp *qp, const struct burst *b, const struct rwqe *w)
{
	bool send = first_op(b)->kind == KIND_SEND;
	int n, err;
	enum fault f = send ? check_send(h, qp, b, w, &n) : check_write(h, qp, b, &n);

	if (f)
		return f;
	err = n ? rx_copy(h, h->dst, (unsigned)n, b) : 0;
	if (counts_as_lost(qp, err))
		return FAULT_NONE; /* as if it had not arrived */
	if (err)
		return send ? FAULT_RESP_RECV_MEM : FAULT_RESP_MEM;
	took_payload(h, qp, b);
	return FAULT_NONE;
}

static void rd_started(struct qp *qp, struct rd *d)
{
	struct resp *r = &qp->resp;

	d->psn = r->epsn;
	d->msn = r->msn = (r->msn + 1) & PSN_MASK;
	d->want = true;
	/* Some HCAs do not take the response for an ACK of what was before it (rule 4.3). */
	d->ack_before = r->ack;
	r->ack = false;
	r->epsn = psn_add(r->epsn, d->n);
}

static enum fault exec_read(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct span s;
	struct rd *d;

	if (b->dma_len && !rkey_span(&h->keys, qp, b->rkey, qp->pd, ACC_REMOTE_READ, b->va, b->dma_len, &s))
		return FAULT_RESP_RKEY;
	d = rd_push(qp);
	*d = (struct rd){
		.kind = KIND_READ, .pdn = qp->pd->number, .rkey = b->rkey, .va = b->va, .len = b->dma_len, .n = 1
	};
	if (b->dma_len > qp->mtu)
		d->n = (b->dma_len + qp->mtu - 1) / qp->mtu;
	d->end = d->n;
	d->end_off = d->len;
	rd_started(qp, d);
	return FAULT_NONE;
}

/* The end of an operation on 8 bytes: what the host said of it, and its answer. */
static enum fault word_done(struct qp *qp, uint8_t kind, uint64_t orig, int err)
{
	struct rd *d;

	if (counts_as_lost(qp, err))
		return FAULT_NONE;
	if (err)
		return FAULT_RESP_MEM;
	d = rd_push(qp);
	*d = (struct rd){ .kind = kind, .n = 1, .orig = orig };
	rd_started(qp, d);
	return FAULT_NONE;
}

static enum fault exec_atomic(struct hca *h, struct qp *qp, const struct burst *b)
{
	const struct mem_ops *m = h->cfg.mem;
	uint64_t orig = 0;
	struct span s;
	int err;

	if (!rkey_span(&h->keys, qp, b->rkey, qp->pd, ACC_REMOTE_ATOMIC, b->va, 8, &s))
		return FAULT_RESP_RKEY;
	if (s.addr & 7)
		return FAULT_RESP_ALIGN;
	if (OP_OF(b->op_first) == OP_COMPARE_SWAP)
		err = m->cmp_swap(h->cfg.mem_host, &s, b->compare, b->swap_add, &orig);
	else
		err = m->fetch_add(h->cfg.mem_host, &s, b->swap_add, &orig);
	return word_done(qp, KIND_ATOMIC, orig, err);
}

/* Everything before it has been executed, and what was stored is there for all to see. */
static enum fault exec_flush(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct span s;
	struct rd *d;

	if (flushes_all(b) ? !rkey_right(&h->keys, qp, b->rkey, qp->pd, request_right(b))
			   : !rkey_span(&h->keys, qp, b->rkey, qp->pd, request_right(b), b->va, b->dma_len, &s))
		return FAULT_RESP_RKEY;
	d = rd_push(qp);
	*d = (struct rd){ .kind = KIND_FLUSH, .n = 1 };
	rd_started(qp, d);
	return FAULT_NONE;
}

static enum fault exec_awrite(struct hca *h, struct qp *qp, const struct burst *b)
{
	const struct mem_ops *m = h->cfg.mem;
	uint64_t value;
	struct span s, here = { NULL, (uint64_t)(uintptr_t)&value, sizeof(value) };
	int err;

	if (!rkey_span(&h->keys, qp, b->rkey, qp->pd, ACC_REMOTE_WRITE, b->va, sizeof(value), &s))
		return FAULT_RESP_RKEY;
	if (s.addr & 7)
		return FAULT_RESP_ALIGN;
	err = rx_copy(h, &here, 1, b);
	if (!err)
		err = m->store(h->cfg.mem_host, &s, value);
	return word_done(qp, KIND_AWRITE, 0, err);
}

static enum fault execute(struct hca *h, struct qp *qp, const struct burst *b)
{
	enum fault f = check_sequence(h, qp, b);
	const struct rwqe *w = NULL;

	if (!f && qp->type == QPT_XRC_RECV)
		f = check_srq(h, qp, b);
	if (!f)
		f = check_rights(qp, b);
	if (!f && wants_recv(b)) {
		w = recv_peek(qp);
		if (!w)
			return FAULT_RESP_RNR;
	}
	if (!f)
		f = check_length(qp, b);
	if (f)
		return f;
	switch (first_op(b)->kind) {
	case KIND_READ: return exec_read(h, qp, b);
	case KIND_ATOMIC: return exec_atomic(h, qp, b);
	case KIND_FLUSH: return exec_flush(h, qp, b);
	case KIND_AWRITE: return exec_awrite(h, qp, b);
	}
	return exec_payload(h, qp, b, w);
}

/* The receive WR that the packet would have used completes with what went wrong (rule 4.9). */
static void refuse(struct hca *h, struct qp *qp, const struct burst *b, enum fault f)
{
	h->rx = b;
	qp->resp.rnr = f == FAULT_RESP_RNR;
	if (f == FAULT_RESP_RNR)
		why_refused(h, qp);
	if (f != FAULT_RESP_RNR && f != FAULT_RESP_OP_SEQ && f != FAULT_RESP_OP_UNSUP && f != FAULT_RESP_XRC_SRQ &&
	    f != FAULT_CQ_OVERRUN && wants_recv(b))
		recv_take(h, qp);
	if (f != FAULT_RESP_RNR && first_op(b)->kind == KIND_WRITE)
		cntr_add(h, qp, CNTR_REMOTE_WRITE, false, 0);
	fault_act(h, qp, f);
}

static void in_sequence(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct resp *r = &qp->resp;
	struct burst one;
	enum fault f;

	r->silent = r->rnr = false;
	f = execute(h, qp, b);
	rd_expire(qp);
	if (r->nak && aeth_type(r->nak) == AETH_RNR_NAK) {
		r->nak = 0;    /* of an earlier try, not yet sent */
		r->ack = true; /* it may have stood for one */
	}
	if (!f) {
		qp->why.refused = 0;
		return;
	}
	if (b->n == 1) {
		refuse(h, qp, b, f);
		return;
	}
	/* (A packet whose payload was lost does not move epsn: what follows it is behind a gap.) */
	for (uint32_t i = 0; i < b->n && psn_eq(psn_add(b->psn, i), r->epsn); i++) {
		burst_slice(b, i, 1, &one, h->slice);
		f = execute(h, qp, &one);
		if (f) {
			refuse(h, qp, &one, f);
			return;
		}
	}
}

/*
 * Some of what was missing has come: what was kept behind it follows, and the next gap is told of at once.  If nothing does, it
 * is the same gap still: a peer that goes back sends the rest of it anyway, one that mends asks.  (What a receiver without
 * receive WRs refuses is asked for again with all behind it; the rest stays kept until then.)
 */
static void in_turn(struct hca *h, struct qp *qp, bool asked)
{
	struct resp *r = &qp->resp;
	bool tell = asked;
	struct burst b;

	while (keep_take(h, qp, &b)) {
		tell = true;
		in_sequence(h, qp, &b);
	}
	if (!r->room)
		return;
	if (!psn_before(r->epsn, r->room->end) || (r->rnr && !r->room->n)) {
		keep_drop(qp);
	} else if (tell && !r->silent) {
		r->refused = r->room->end;
		fault_act(h, qp, FAULT_RESP_GAP);
	}
}

static void established(struct hca *h, struct qp *qp)
{
	if (qp->state == QPS_RTR && !qp->resp.est) {
		qp->resp.est = true;
		events_raise(&h->events, &qp->ev, EV_COMM_EST);
	}
}

static void gap(struct hca *h, struct qp *qp, const struct burst *b)
{
	psn_t end = psn_add(b->psn, b->n);
	struct resp *r = &qp->resp;

	if (!resp_refuses(r) || psn_before(r->refused, end))
		r->refused = end;
	if (!r->rnr)
		keep_put(h, qp, b);
	if (r->silent) {
		count(h, HCA_STAT_OUT_OF_SEQ_REQUEST, b->n);
		return;
	}
	TRACE_PUT(h, qp, GAP, .psn = b->psn.v, .op = b->op_first, .n = b->n, .b = qp->resp.epsn.v);
	fault_act(h, qp, FAULT_RESP_GAP);
}

void resp_rx_bad(struct hca *h, struct qp *qp, const struct burst *b, enum fault f)
{
	established(h, qp);
	if (!psn_eq(b->psn, qp->resp.epsn))
		return;
	if (first_op(b)->kind == KIND_WRITE)
		cntr_add(h, qp, CNTR_REMOTE_WRITE, false, 0);
	fault_act(h, qp, f);
}

void resp_rx(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct resp *r = &qp->resp;
	psn_t epsn = r->epsn;
	int32_t d = psn_diff(b->psn, epsn);
	struct burst rest;
	uint32_t old;

	established(h, qp);
	if (d && !r->msn)
		why_far_request(h, qp, b);
	if (d > 0) {
		gap(h, qp, b);
		return;
	}
	if (d < 0) {
		old = replay(h, qp, b);
		for (; old < b->n && psn_eq(psn_add(b->psn, old), r->epsn); old++) {
			burst_slice(b, old, 1, &rest, h->slice);
			in_sequence(h, qp, &rest);
		}
	} else {
		in_sequence(h, qp, b);
	}
	if (r->room && !psn_eq(epsn, r->epsn))
		in_turn(h, qp, b->ackreq);
	if (r->ack || r->rd_cur != r->rd_tail)
		qp_ready(h, qp);
}
