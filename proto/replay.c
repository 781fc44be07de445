/* SPDX-License-Identifier: MIT */
/*
 * replay.c - requests that were executed before (rule 4.2).
 *
 *	stored READs and atomics, oldest first:   ... | READ 20..29 | ATOMIC 35 | READ 36..40 |   epsn 44
 *	duplicate READ 24 (part of the first)     its responses 24..29 are wanted again
 *	duplicate SEND 31                         an ACK before ATOMIC 35, i.e. of 34
 *	duplicate SEND 42                         an ACK of 43
 *
 * A READ is executed again, but only inside what was granted then; an atomic's result was kept; a SEND or
 * WRITE is acknowledged again.  Responses always leave in the order of PSNs, whatever the order of requests.
 */
#include "replay.h"

#include "hca_in.h"

struct rd *rd_push(struct qp *qp)
{
	struct resp *r = &qp->resp;

	if (r->rd_n < r->rd_max)
		r->rd_n++;
	else if (r->rd_cur == r->rd_tail - r->rd_n)
		r->rd_cur++;
	return rd_at(r, r->rd_tail++);
}

void rd_expire(struct qp *qp)
{
	struct resp *r = &qp->resp;

	while (r->rd_n) {
		const struct rd *d = rd_at(r, r->rd_tail - r->rd_n);

		if (((r->epsn.v - d->psn.v - d->n) & PSN_MASK) <= PSN_WINDOW)
			return;
		if (r->rd_cur == r->rd_tail - r->rd_n)
			r->rd_cur++;
		r->rd_n--;
	}
}

/* Index of the first stored one whose last PSN is not before p; rd_tail: none. */
static uint32_t find(const struct resp *r, psn_t p)
{
	uint32_t i = r->rd_tail - r->rd_n;

	while (i != r->rd_tail && psn_before(psn_add(rd_at(r, i)->psn, rd_at(r, i)->n - 1), p))
		i++;
	return i;
}

static void want_from(struct resp *r, uint32_t i)
{
	if ((int32_t)(i - r->rd_cur) < 0)
		r->rd_cur = i;
}

/* A READ asked for again, from the start or from where its responses were lost. */
static void read_again(struct qp *qp, const struct burst *b)
{
	struct resp *r = &qp->resp;
	uint32_t i = find(r, b->psn), pkts, skip;
	struct rd *d = rd_at(r, i);

	if (i == r->rd_tail || d->kind != KIND_READ || psn_before(b->psn, d->psn) || d->rkey != b->rkey)
		return;
	skip = (uint32_t)psn_diff(b->psn, d->psn);
	pkts = b->dma_len > qp->mtu ? (b->dma_len + qp->mtu - 1) / qp->mtu : 1;
	if (b->va - d->va != (uint64_t)skip * qp->mtu || (uint64_t)skip * qp->mtu + b->dma_len > d->len ||
	    skip + pkts > d->n)
		return;
	d->want = d->again = true;
	d->begin = d->at = skip;
	d->end = skip + pkts;
	d->end_off = skip * qp->mtu + b->dma_len;
	want_from(r, i);
}

/* A request that was executed once is answered as it was then. */
static void once_again(struct qp *qp, const struct burst *b)
{
	struct resp *r = &qp->resp;
	uint32_t i = find(r, b->psn);
	struct rd *d = rd_at(r, i);

	if (i == r->rd_tail || d->kind != opcode_get(b->op_first)->kind || !psn_eq(d->psn, b->psn))
		return;
	d->want = d->again = true;
	want_from(r, i);
}

static void ack_again(struct qp *qp, psn_t last)
{
	struct resp *r = &qp->resp;
	uint32_t i = find(r, last);

	if (i == r->rd_tail) {
		r->ack = true;
		return;
	}
	rd_at(r, i)->ack_before = true;
	want_from(r, i);
}

uint32_t replay(struct hca *h, struct qp *qp, const struct burst *b)
{
	const struct opcode *op = opcode_get(b->op_first);
	struct resp *r = &qp->resp;
	uint32_t old = (uint32_t)psn_diff(r->epsn, b->psn);

	if (old > b->n)
		old = b->n;
	count(h, HCA_STAT_DUPLICATE_REQUEST, old);
	TRACE_PUT(h, qp, DUP, .psn = b->psn.v, .op = b->op_first, .n = old);
	if (op->kind == KIND_READ)
		read_again(qp, b);
	else if (op->role == ROLE_ASK)
		once_again(qp, b);
	else
		ack_again(qp, psn_add(b->psn, old - 1));
	return old;
}

void resp_clear(struct qp *qp)
{
	struct resp *r = &qp->resp;

	for (; r->rd_cur != r->rd_tail; r->rd_cur++) {
		rd_at(r, r->rd_cur)->want = false;
		rd_at(r, r->rd_cur)->ack_before = false;
	}
	r->ack = false;
	r->nak = 0;
	r->nak_fatal = false;
}
