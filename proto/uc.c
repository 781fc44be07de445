/* SPDX-License-Identifier: MIT */
/*
 * uc.c - the UC receiver (rule 4.10): like the RC responder, but nobody is told.
 *
 * A message of which a packet is missing or wrong is dropped with all that is left of it; the next
 * FIRST or ONLY sets the expected PSN anew.  A receive WR that was begun is used again for the next message, or
 * goes back to its SRQ.
 */

#include "cntr.h"
#include "cqe.h"
#include "hca_in.h"
#include "mw.h"
#include "resp.h"

static bool starts(const struct burst *b) { return opcode_get(b->op_first)->place & PLACE_FIRST; }
static bool ends(const struct burst *b) { return opcode_get(b->op_last)->place & PLACE_LAST; }
static bool has_inv(const struct burst *b) { return opcode_get(b->op_last)->hdrs & HDR_IETH; }
static bool has_imm(const struct burst *b) { return opcode_get(b->op_last)->hdrs & HDR_IMM; }
static uint8_t kind(const struct burst *b) { return opcode_get(b->op_first)->kind; }

/* The message under way, or the one that b belongs to, is lost; it is counted once. */
static void drop(struct hca *h, struct qp *qp, enum fault f)
{
	qp->resp.kind = KIND_NONE;
	if (!qp->resp.dropping)
		fault_act(h, qp, f);
	qp->resp.dropping = true;
	recv_return(qp);
}

static bool length_ok(const struct qp *qp, const struct burst *b)
{
	const struct resp *r = &qp->resp;
	uint64_t total = r->off + b->payload_len, full = (uint64_t)b->n * qp->mtu;

	if (b->n > 1 && b->mtu != qp->mtu)
		return false;
	if (ends(b) ? b->payload_len > full || (b->payload_len <= full - qp->mtu && !(b->n == 1 && starts(b)))
		    : b->payload_len != full)
		return false;
	if (kind(b) == KIND_SEND)
		return total <= RD_MAX_MSG;
	return r->dma_len <= RD_MAX_MSG && (ends(b) ? total == r->dma_len : total < r->dma_len);
}

/* Where the payload goes: *n spans in h->dst. */
static enum fault target(struct hca *h, struct qp *qp, const struct burst *b, int *n)
{
	struct resp *r = &qp->resp;

	*n = 0;
	if (kind(b) == KIND_SEND) {
		const struct rwqe *w = recv_take(h, qp);

		if (r->off + b->payload_len > w->len)
			return FAULT_UC_RECV_LEN;
		*n = sge_spans(&h->keys, w->sge, w->sge_n, recv_pd(qp), ACC_LOCAL_WRITE, r->off, b->payload_len,
			       h->dst);
		if (*n < 0)
			return FAULT_UC_RECV_PROT;
		return has_inv(b) && !mw_may_inv(&h->keys, qp, qp->pd, b->inv_rkey) ? FAULT_UC_INV : FAULT_NONE;
	}
	if (starts(b) && r->dma_len &&
	    !rkey_span(&h->keys, qp, r->rkey, qp->pd, ACC_REMOTE_WRITE, r->va, r->dma_len, h->dst))
		return FAULT_UC_RKEY;
	if (!b->payload_len)
		return FAULT_NONE;
	if (!rkey_span(&h->keys, qp, r->rkey, qp->pd, ACC_REMOTE_WRITE, r->va + r->off, b->payload_len, h->dst))
		return FAULT_UC_RKEY;
	*n = 1;
	return FAULT_NONE;
}

static enum fault execute(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct resp *r = &qp->resp;
	enum fault f;
	int n, err;

	if (kind(b) == KIND_WRITE && !(qp->attr.access & ACC_REMOTE_WRITE))
		return FAULT_UC_QP_RIGHT;
	if ((kind(b) == KIND_SEND || has_imm(b)) && !recv_peek(qp))
		return FAULT_UC_NO_RECV;
	if (!length_ok(qp, b))
		return FAULT_UC_LEN;
	f = target(h, qp, b, &n);
	if (f)
		return f;
	err = n ? rx_copy(h, h->dst, (unsigned)n, b) : 0;
	if (mem_lost(err))
		return FAULT_UC_GAP;
	if (err)
		return kind(b) == KIND_SEND ? FAULT_UC_RECV_MEM : FAULT_UC_MEM;
	r->off += b->payload_len;
	return FAULT_NONE;
}

static void end_message(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct resp *r = &qp->resp;

	r->kind = KIND_NONE;
	why_uc_came(h, qp);
	if (kind(b) == KIND_SEND || has_imm(b)) {
		struct cqe c = recv_cqe(qp, recv_take(h, qp));

		c.op = kind(b) == KIND_SEND ? WC_OP_RECV : WC_OP_RECV_IMM;
		c.byte_len = (uint32_t)r->off;
		c.solicited = b->se;
		c.src_qp = qp->attr.dest_qpn;
		c.flags = has_imm(b) ? WC_WITH_IMM : 0;
		c.imm = has_imm(b) ? b->imm : 0;
		if (has_inv(b)) {
			mw_inv(&h->keys, qp, b->inv_rkey, h->now);
			c.flags = WC_WITH_INV;
			c.imm = b->inv_rkey;
		}
		recv_complete(h, qp, &c);
	}
	if (kind(b) == KIND_SEND)
		count(h, HCA_STAT_RDMA_RECVS, 1);
	else
		cntr_add(h, qp, CNTR_REMOTE_WRITE, true, r->off);
}

void uc_rx(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct resp *r = &qp->resp;
	bool gap = !psn_eq(b->psn, r->epsn);
	enum fault f;

	if (gap)
		why_uc_lost(h, qp, r->epsn, b->psn, r->kind == KIND_NONE && starts(b));
	if (qp->state == QPS_RTR && !r->est) {
		r->est = true;
		events_raise(&h->events, &qp->ev, EV_COMM_EST);
	}
	r->epsn = psn_add(b->psn, b->n);
	if (r->kind != KIND_NONE && (gap || starts(b) || kind(b) != r->kind))
		drop(h, qp, gap ? FAULT_UC_GAP : FAULT_UC_OP_SEQ);
	if (starts(b)) {
		r->dropping = false;
		r->kind = kind(b);
		r->off = 0;
		r->va = b->va;
		r->rkey = b->rkey;
		r->dma_len = b->dma_len;
	}
	if (r->kind == KIND_NONE) {
		drop(h, qp, gap ? FAULT_UC_GAP : FAULT_UC_OP_SEQ);
		if (ends(b))
			r->dropping = false;
		return;
	}
	f = execute(h, qp, b);
	if (f)
		drop(h, qp, f);
	else if (ends(b))
		end_message(h, qp, b);
	if (ends(b))
		r->dropping = false;
}
