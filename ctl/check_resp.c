/* SPDX-License-Identifier: MIT */
/*
 * check_resp.c - the rules of who answers: ACKs, NAKs, MSNs, and the responses of READs and atomics.
 *
 * An answer in one stream is about the requests of its mate.
 */
#include "check_in.h"

#include <stdio.h>
#include <string.h>

#include "../proto/aeth.h"

#define MSN_MASK 0xffffffu
#define MSN_HALF 0x800000u

#define GONE_ON_NS 1000000000u /* a request that is missing its answer is sent again before so long */

/* ---- what is acknowledged ----------------------------------------------------- */

/* A finding about an earlier request: said of it, where the reader has to look.  f: room for its frame. */
static struct find_at of_request(const struct stream *r, const struct sent *u, struct frame *f)
{
	memset(f, 0, sizeof(*f));
	f->no = u->frame_no;
	f->ns = u->ns;
	memcpy(f->sgid, r->sgid, 16);
	memcpy(f->dgid, r->dgid, 16);
	return (struct find_at){ .frame = f, .op = opcode_get(u->op)->name, .qpn = r->dqpn, .psn = seq_psn(u->seq).v };
}

/* Requests are missing before v[i], which was acknowledged by the packet at. */
static void gap(struct check *c, const struct stream *r, size_t i, const struct find_at *at)
{
	const struct sent *u = &r->v[i];
	uint64_t from = i ? u[-1].seq + u[-1].n : r->floor;
	struct frame f;
	struct find_at where = of_request(r, u, &f);

	find_breach(&c->find, &where, i ? CHECK_PSN_GAP : CHECK_CM_PSN,
		    "PSN %#x .. %#x before it were acknowledged (packet %llu), and nobody sent them", seq_psn(from).v,
		    seq_psn(u->seq - 1).v, (unsigned long long)at->frame->no);
}

/* Requests before seq are acknowledged. */
static void advance(struct check *c, struct stream *r, const struct find_at *at, uint64_t seq)
{
	struct sent *u;

	for (; r->una_i < r->n && r->v[r->una_i].seq < seq; r->una_i++) {
		u = &r->v[r->una_i];
		if (!u->linked && u->seq >= r->una)
			gap(c, r, r->una_i, at);
		if (u->seq + u->n > seq)
			break;
		if (sent_waits(u) && u->have < u->n)
			u->passed = true;
		u->done_ns = at->frame->ns;
	}
	if (seq > r->una)
		r->una = seq;
	if (r->nak && r->una > r->nak_seq)
		r->nak = false;
	if (r->rnr && r->una > r->rnr_seq)
		r->rnr = false;
}

static void msn_learn(struct stream *r, const struct sent *u, uint32_t msn, enum msn_state state)
{
	r->msn_base = (msn - (u ? u->msn : 0)) & MSN_MASK;
	r->msn_holes = u ? u->holes : 0;
	r->msn_state = state;
}

/* With what was executed up to u (NULL: nothing) the MSN is ... */
static void msn_exact(struct check *c, struct stream *r, const struct packet *p, const struct sent *u)
{
	uint32_t due;

	if (r->msn_state != MSN_EXACT || (u && u->holes != r->msn_holes)) {
		msn_learn(r, u, p->b.msn, MSN_EXACT);
		return;
	}
	due = (r->msn_base + (u ? u->msn : 0)) & MSN_MASK;
	if (p->b.msn == due)
		return;
	find_breach(&c->find, &p->at, CHECK_MSN, "MSN %#x, by what was executed it is %#x", p->b.msn, due);
	msn_learn(r, u, p->b.msn, MSN_EXACT);
}

/* A response may have the MSN of when its request was executed or of when it is sent. */
static void msn_range(struct check *c, struct stream *r, const struct packet *p, const struct sent *u)
{
	const struct sent *last = &r->v[r->n - 1];
	uint32_t low = (p->b.msn - r->msn_base - u->msn) & MSN_MASK;

	if (r->msn_state == MSN_UNKNOWN || last->holes != r->msn_holes ||
	    (r->msn_state == MSN_ABOUT && low >= MSN_HALF)) {
		msn_learn(r, u, p->b.msn, MSN_ABOUT);
		return;
	}
	if (low <= last->msn - u->msn)
		return;
	find_breach(&c->find, &p->at, CHECK_MSN, "MSN %#x, by what was executed it is %#x .. %#x", p->b.msn,
		    (r->msn_base + u->msn) & MSN_MASK, (r->msn_base + last->msn) & MSN_MASK);
	msn_learn(r, u, p->b.msn, MSN_ABOUT);
}

/* ---- ACK and NAK -------------------------------------------------------------- */

/*
 * A SEND or WRITE that is repeated is acknowledged up to the next READ or atomic at most, though more was
 * executed: that one has responses of its own.
 */
static bool before_waiting(struct stream *r, uint64_t seq)
{
	const struct sent *next = stream_at(r, seq + 1, NULL);

	return next && sent_waits(next);
}

static void on_ack(struct check *c, struct stream *r, const struct packet *p, uint64_t seq)
{
	struct sent *u = stream_at(r, seq, NULL);

	if (r->acked && seq < r->ack_seq && before_waiting(r, seq))
		return;
	if (r->acked && seq < r->ack_seq)
		find_breach(&c->find, &p->at, CHECK_ACK_BACK, "PSN %#x was acknowledged before", seq_psn(r->ack_seq).v);
	if (!r->acked || seq > r->ack_seq)
		r->ack_seq = seq;
	r->acked = true;
	advance(c, r, &p->at, u ? u->seq + u->n : seq + 1);
	if (u)
		msn_exact(c, r, p, u);
}

static void on_rnr(struct check *c, struct stream *r, const struct packet *p, uint64_t seq)
{
	/* A little less: what is captured within a host is stamped later than the moment in which its timers begin. */
	const uint64_t wait = rnr_timer_ns(aeth_code(p->b.syndrome));
	struct sent *u = stream_at(r, seq - 1, NULL);

	advance(c, r, &p->at, seq);
	if (u)
		msn_exact(c, r, p, u);
	/* Of a packet that was sent twice the second NAK comes while the first is waited for: it makes the wait no longer. */
	if (r->rnr_seq != seq || (!r->rnr && p->frame->ns >= r->rnr_until)) {
		r->rnr_until = p->frame->ns + wait - wait / 64;
		r->rnr_heard = p->frame->ns;
	}
	r->rnr_seq = seq;
	/* A packet sent again next may be for the sequence NAK before this one: they cross on the way. */
	r->rnr = !r->nak || r->nak_seq != seq;
}

static void on_nak(struct check *c, struct stream *r, const struct packet *p, uint64_t seq)
{
	struct sent *u = stream_at(r, seq - 1, NULL);
	uint64_t una = r->una;

	advance(c, r, &p->at, seq);
	if (u)
		msn_exact(c, r, p, u);
	if (aeth_code(p->b.syndrome) != NAK_PSN_SEQ) {
		r->dead |= aeth_code(p->b.syndrome) != NAK_IN_PROGRESS;
		return;
	}
	if (r->nak && r->nak_seq == seq && r->cursor > seq)
		find_breach(&c->find, &p->at, CHECK_NAK_TWICE,
			    "the packet has not been sent again since the first NAK");
	r->nak = !r->rnr || seq != r->rnr_seq; /* behind an RNR NAK others may come for what was on its way */
	r->nak_seq = seq;
	r->nak_una = una;
	r->unheard = false;
}

static void acknowledge(struct check *c, struct stream *r, const struct packet *p, uint64_t seq)
{
	switch (aeth_type(p->b.syndrome)) {
	case AETH_ACK: on_ack(c, r, p, seq); break;
	case AETH_RNR_NAK: on_rnr(c, r, p, seq); break;
	case AETH_NAK: on_nak(c, r, p, seq); break;
	case AETH_RESERVED: find_breach(&c->find, &p->at, CHECK_SYNDROME, "syndrome %#x", p->b.syndrome);
	}
}

/* ---- responses ---------------------------------------------------------------- */

/* Response i may be the first to a request. */
static bool starts(const struct sent *u, uint32_t i)
{
	bool is = !i;

	for (unsigned k = 0; k < RESTARTS; k++)
		is |= i == u->restart[k];
	return is;
}

static bool place_fits(const struct sent *u, uint32_t i, uint8_t place)
{
	bool start = starts(u, i), last = i + 1 == u->n;

	if (place == PLACE_ONLY)
		return start && last;
	if (place == PLACE_FIRST)
		return start && !last;
	if (place == PLACE_LAST)
		return last && i; /* a READ asked for again from its last response on: rdma_rxe says LAST */
	return i && !last;
}

static void read_response(struct check *c, struct stream *r, const struct packet *p, struct sent *u, uint64_t seq)
{
	uint32_t i = (uint32_t)(seq - u->seq), len = (uint32_t)p->b.payload_len;
	uint64_t left = u->len - (uint64_t)i * r->mtu;
	uint32_t due = r->mtu && left > r->mtu ? r->mtu : (uint32_t)left;

	if (opcode_get(u->op)->kind != KIND_READ)
		due = 0; /* it says no more than that it was done */
	if (!place_fits(u, i, p->op->place))
		find_breach(&c->find, &p->at, CHECK_READ_RESP, "response %u of %u to packet %llu", i + 1, u->n,
			    (unsigned long long)u->frame_no);
	else if (len != due && !p->vague)
		find_breach(&c->find, &p->at, CHECK_READ_RESP, "%u bytes, response %u of %u to packet %llu has %u", len,
			    i + 1, u->n, (unsigned long long)u->frame_no, due);
	if (i == u->have)
		u->have++;
}

static void response(struct check *c, struct stream *r, const struct packet *p, uint64_t seq)
{
	struct sent *last = &r->v[r->n - 1], *u;
	uint8_t kind;

	if (!last->n && p->op->kind == KIND_RESP && seq >= last->seq) {
		uint32_t len = (uint32_t)p->b.payload_len;

		if (!(p->op->place & PLACE_LAST) && len >= 256 && len <= 4096 && !(len & (len - 1)))
			check_mtu(r, len);
		else
			last->n = 1;
	}
	u = stream_at(r, seq, NULL);
	if (!u)
		return;
	kind = opcode_get(u->op)->kind;
	if (!sent_waits(u) || (kind == KIND_ATOMIC) != (p->op->kind == KIND_ATOMIC_ACK)) {
		find_breach(&c->find, &p->at, CHECK_READ_RESP, "the request, packet %llu, is %s",
			    (unsigned long long)u->frame_no, opcode_get(u->op)->name);
		u->have = u->n;
		return;
	}
	if (p->op->kind == KIND_ATOMIC_ACK)
		u->have = 1;
	else
		read_response(c, r, p, u, seq);
	if (u->have == u->n)
		u->passed = false;
	advance(c, r, &p->at, u->have == u->n ? u->seq + u->n : u->seq);
	if (!(p->op->hdrs & HDR_AETH))
		return;
	if (aeth_type(p->b.syndrome) != AETH_ACK)
		find_breach(&c->find, &p->at, CHECK_SYNDROME, "syndrome %#x in a response", p->b.syndrome);
	msn_range(c, r, p, u);
}

/*
 * An answer that fits none of the mate's requests, which are far off or long ago, and those of another: queue pairs that were made again
 * with the numbers of others.  What s asked before is of the old connection, too.
 */
static void marry_anew(struct check *c, struct stream *s, const struct packet *p)
{
	struct stream *r = s->mate;
	uint64_t seq = seq_near(p->b.psn, r->next_seq);

	if (seq >= r->floor && seq < r->next_seq)
		return;
	if (!stream_far(r, p->b.psn) && !stream_silent(r, p->frame->ns))
		return;
	r = conv_mate(c->conv, s, p->op->kind, p->b.psn);
	if (!r)
		return;
	find_note(&c->find, &p->at, "the queue pair begins anew");
	if (r != s) {
		check_stream_end(c, s);
		stream_reset(s);
	}
	conv_marry(s, r);
}

void check_answer(struct check *c, struct stream *s, const struct packet *p)
{
	struct stream *r = s->mate;
	uint64_t seq;

	if (r && r->begun && r->n) {
		marry_anew(c, s, p);
		r = s->mate;
	}
	if (r && !r->begun && r->agreed) {
		find_breach(&c->find, &p->at, CHECK_ACK_GHOST, "there was no request yet");
		return;
	}
	if (!r || !r->begun) {
		r = conv_mate(c->conv, s, p->op->kind, p->b.psn);
		if (!r) {
			find_note(&c->find, &p->at,
				  "whose request it answers is not known: it is not in the capture, or several fit");
			return;
		}
		conv_marry(s, r);
	}
	seq = seq_near(p->b.psn, r->next_seq);
	if (seq < r->floor || !r->n)
		return; /* about what came before the capture */
	if (seq >= r->next_seq && r->v[r->n - 1].n) {
		find_breach(&c->find, &p->at, CHECK_ACK_GHOST, "the newest request has PSN %#x",
			    seq_psn(r->next_seq - 1).v);
		return;
	}
	if (p->op->kind == KIND_ACK)
		acknowledge(c, r, p, seq);
	else
		response(c, r, p, seq);
}

/*
 * What is missing at the end of a stream might have been asked for, or sent, a little later, unless its requests went on for longer
 * than a timeout; and of one that a NAK has ended it will not be.
 */
static void missing(struct check *c, const struct stream *s, const struct sent *u, uint64_t since, enum check_row rule,
		    const char *what)
{
	struct frame f;
	struct find_at where = of_request(s, u, &f);

	if (!s->dead && s->sent_ns > since && ns_since(s->sent_ns, since) >= GONE_ON_NS)
		find_breach(&c->find, &where, rule, "%s", what);
	else
		find_note(&c->find, &where, "nothing follows: %s", what);
}

void check_stream_end(struct check *c, struct stream *s)
{
	char what[64];

	if (s->n && s->agreed && s->svc != SVC_UC && !s->v[0].linked && s->v[0].seq >= s->una) {
		snprintf(what, sizeof(what), "the first request should have PSN %#x", s->first_psn);
		missing(c, s, &s->v[0], s->v[0].ns, CHECK_CM_PSN, what);
	}
	for (size_t i = 0; i < s->n; i++) {
		if (!s->v[i].passed)
			continue;
		snprintf(what, sizeof(what), "%u of %u responses came", s->v[i].have, s->v[i].n);
		missing(c, s, &s->v[i], s->v[i].done_ns, CHECK_READ_HOLE, what);
	}
}
