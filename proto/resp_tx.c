/* SPDX-License-Identifier: MIT */
/*
 * resp_tx.c - the responder's packets: ACKs, read responses as bursts, atomic results, and last a NAK.
 *
 *	for each stored READ or atomic that wants it:   [ACK of all before it]  [its response]
 *	then                                            [ACK or NAK with the expected PSN]
 */
#include <string.h>

#include "aeth.h"
#include "hca_in.h"
#include "mw.h"
#include "replay.h"
#include "resp.h"

static void resp_init(const struct qp *qp, struct burst *b, uint8_t op, psn_t p, uint8_t syndrome, uint32_t msn)
{
	*b = qp->head;
	b->op_first = b->op_last = qp->svc | op;
	b->psn = p;
	b->mtu = qp->mtu;
	b->syndrome = syndrome;
	b->msn = msn & PSN_MASK;
}

/*
 * The next burst of a READ's responses; false: its memory may no longer be read, and the QP is in ERR.  What was answered
 * to its end is not: the request may be an old copy, of a READ whose key was given up when it was done.
 */
static bool read_tx(struct hca *h, struct qp *qp, struct rd *d, uint32_t index, struct burst *b)
{
	uint32_t burst = qp->path->burst_len / qp->mtu, n = d->end - d->at;
	uint64_t off = (uint64_t)d->at * qp->mtu;
	bool first = d->at == d->begin, last;

	if (n > burst)
		n = burst ? burst : 1;
	if (rate_kbps(&qp->rate))
		n = rate_fit(qp, n);
	last = d->at + n == d->end;
	resp_init(qp, b, OP_READ_RESP_MIDDLE, psn_add(d->psn, d->at), aeth_ack(), d->msn);
	b->n = n;
	b->payload_len = (last ? d->end_off : off + (uint64_t)n * qp->mtu) - off;
	if (b->payload_len) {
		if (!rkey_span(&h->keys, qp, d->rkey, slots_get(&h->pd, d->pdn), ACC_REMOTE_READ, d->va + off,
			       b->payload_len, h->tx_span)) {
			d->want = false;
			if (d->whole)
				return false;
			resp_clear(qp);
			fault_act(h, qp, FAULT_RESP_READ_RKEY);
			qp->resp.nak_psn = b->psn;
			return false;
		}
		b->span_n = 1;
	}
	if (first)
		b->op_first = qp->svc | (last && n == 1 ? OP_READ_RESP_ONLY : OP_READ_RESP_FIRST);
	if (last)
		b->op_last = qp->svc | OP_READ_RESP_LAST;
	if (n == 1)
		b->op_first = b->op_last = first ? b->op_first : b->op_last;
	d->at += n;
	d->want = !last;
	d->whole |= last && d->end == d->n;
	h->taken = (struct taken){ .qp = qp, .resp = true, .index = index, .psn = b->psn };
	return true;
}

/* Answers of the stored requests; false: none is wanted. */
static bool stored_tx(struct hca *h, struct qp *qp, struct burst *b)
{
	struct resp *r = &qp->resp;

	for (; r->rd_cur != r->rd_tail; r->rd_cur++) {
		struct rd *d = rd_at(r, r->rd_cur);

		if (d->ack_before) {
			d->ack_before = false;
			resp_init(qp, b, OP_ACKNOWLEDGE, psn_sub(d->psn, 1), aeth_ack(), d->msn - 1);
			return true;
		}
		if (!d->want)
			continue;
		if (d->kind == KIND_READ) {
			if (read_tx(h, qp, d, r->rd_cur, b))
				return true;
			if (!d->whole)
				return false;
			continue; /* the QP may be in ERR for a request behind it, whose NAK comes after all answers */
		}
		d->want = false;
		resp_init(qp, b, d->kind == KIND_ATOMIC ? OP_ATOMIC_ACK : OP_READ_RESP_ONLY, d->psn, aeth_ack(),
			  d->msn);
		b->orig = d->orig;
		return true;
	}
	return false;
}

bool resp_tx(struct hca *h, struct qp *qp, struct burst *b)
{
	struct resp *r = &qp->resp;

	/* An ACK behind a response would say that it was sent. */
	if (r->rd_cur != r->rd_tail && rate_kbps(&qp->rate) && !rate_may(h, qp))
		return false;
	if (r->rd_cur != r->rd_tail && stored_tx(h, qp, b))
		return true;
	if (resp_refuses(r) && !psn_before(r->epsn, r->refused)) {
		r->nak = 0; /* what was missing and all that it was about have come meanwhile */
		r->ack = true;
	}
	if (r->nak) {
		resp_init(qp, b, OP_ACKNOWLEDGE, r->nak_fatal ? r->nak_psn : r->epsn, r->nak, r->msn);
		if (aeth_type(r->nak) == AETH_NAK)
			count(h, HCA_STAT_NAK_SENT, 1);
		r->nak = 0;
		r->ack = false;
		return true;
	}
	if (r->ack) {
		r->ack = false;
		resp_init(qp, b, OP_ACKNOWLEDGE, psn_sub(r->epsn, 1), aeth_ack(), r->msn);
		return true;
	}
	return false;
}
