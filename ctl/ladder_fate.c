/* SPDX-License-Identifier: MIT */
/*
 * ladder_fate.c - what became of packets, as far as what follows them tells.
 *
 * A rung begins as "arrived".  A NAK says which packet did not, and that those behind it were discarded.  One that is
 * sent again though the peer said nothing was lost, or its answer was; if an answer is in the capture, that was.  All
 * that the capture itself says - a comment, the arrival at the other end - stands above all that.
 */
#include <inttypes.h>
#include <string.h>

#include "../lab/ns_text.h"
#include "../proto/aeth.h"
#include "ladder.h"

#define GAP_MAX   4096u      /* packets that are missed one by one, of a gap, */
#define MISSED    (1u << 20) /* and of all gaps; of further ones those */
#define GAP_FEW   16u        /* that most likely come late */
#define LOOK_BACK 16384u     /* rungs that are looked at again */

static int64_t rel(const struct ladder *l, const struct stream *s, uint64_t seq)
{
	return (int64_t)(seq - l->rail[s->id].base);
}

/* The newest rung of a key that is of the queue pair as it is now. */
static uint32_t newest(const struct ladder *l, const struct stream *s, uint64_t key)
{
	uint32_t i = map_get(l, key);

	return i == NOWHERE || i < l->rail[s->id].since ? NOWHERE : i;
}

static uint32_t recent(uint32_t first, uint32_t end)
{
	return end > LOOK_BACK && first < end - LOOK_BACK ? end - LOOK_BACK : first;
}

/* Packets seq .. seq+n-1 of a stream are not in the capture, seen at rung i. */
static void missing(struct ladder *l, uint32_t i, const struct stream *of, const struct stream *base, uint64_t seq,
		    uint64_t n, uint64_t answer)
{
	struct rung *r = ladder_rung(l, l->rung[i].ns, 0), *seen;

	if (!r)
		return;
	seen = &l->rung[i];
	r->stream = of->id;
	r->class = seen->class;
	r->op = seen->op;
	r->fate = FATE_MISSING;
	r->request = !answer;
	r->n = (uint32_t)n;
	r->seq = seq;
	r->psn = seq_psn(seq).v;
	r->rel = rel(l, base, seq);
	rung_note(r,
		  n == 1 ? "a packet is missing here: it was lost before the point of the capture, or comes late"
			 : "%" PRIu64
			   " packets are missing here: they were lost before the point of the capture, or come late",
		  n);
	if (n > (l->missed < MISSED ? GAP_MAX : GAP_FEW))
		n = l->missed < MISSED ? GAP_MAX : GAP_FEW;
	l->missed += (uint32_t)n;
	for (uint64_t k = 0; k < n; k++)
		map_put(l, key_of(of, seq + k) | answer, l->n - 1);
}

static void lost(struct rung *r, const char *why, uint64_t no)
{
	if (r->fate != FATE_OK || r->arrived)
		return;
	r->fate = FATE_LOST;
	rung_note(r, why, (unsigned long long)no);
}

/* ---- requests ----------------------------------------------------------------- */

/* The same request is sent again, as rung i, and nobody asked for that: what became of prev? */
static void in_vain(struct ladder *l, uint32_t i, uint32_t prev, const struct stream *s, bool acked)
{
	struct rung *r = &l->rung[i], *p = &l->rung[prev];
	char t[32];

	rung_note(r, "sent again, %s after packet %" PRIu64, ns_text(t, sizeof(t), ns_since(r->ns, p->ns)), p->no);
	if (acked || p->arrived) {
		r->dup = true;
		rung_note(r, "the receiver has it already: it answers again, and does nothing");
	} else if (p->fate == FATE_OK) {
		p->fate = FATE_UNANSWERED;
		rung_note(p, "no answer: packet %" PRIu64 " is the same again", r->no);
	}
	if (!acked || !s->mate)
		return;
	for (uint32_t k = recent(prev + 1, i); k < i; k++)
		if (l->rung[k].stream == s->mate->id && l->rung[k].class == RUNG_ACK && l->rung[k].rel >= r->rel)
			lost(&l->rung[k], "lost: what it acknowledges was sent again, as packet %llu", r->no);
}

/* A READ is asked for again from a response on: that one did not arrive, or another before it. */
static void read_again(struct ladder *l, uint32_t i, const struct stream *s, const struct sent *u, uint64_t seq)
{
	struct rung *r = &l->rung[i];
	uint32_t k = s->mate ? newest(l, s, key_of(s->mate, seq) | KEY_ANSWER) : NOWHERE;

	if (u->seq < seq) {
		r->again = 1;
		rung_note(r, "the READ of packet %" PRIu64 " again, from its response %" PRIu64 " on", u->frame_no,
			  seq - u->seq + 1);
	}
	if (k == NOWHERE || l->rung[k].fate == FATE_MISSING)
		return;
	lost(&l->rung[k], "lost: packet %llu asks for it again", r->no);
	for (k = recent(k + 1, i); k < i; k++)
		if (l->rung[k].stream == s->mate->id && !l->rung[k].request && l->rung[k].class == RUNG_READ &&
		    l->rung[k].seq > seq && l->rung[k].fate == FATE_OK)
			l->rung[k].fate = FATE_DISCARDED;
}

struct before { /* of a stream, before a request is put in */
	bool begun, nak, rnr, read_open;
	uint64_t next, cursor, una, nak_seq, rnr_seq;
	size_t n;
};

static struct before before(const struct stream *s)
{
	return (struct before){ s->begun,    s->nak,    s->rnr, s->n && !s->v[s->n - 1].n,
				s->next_seq, s->cursor, s->una, s->nak_seq,
				s->rnr_seq,  s->n };
}

static void repeated(struct ladder *l, uint32_t i, const struct stream *s, const struct before *b, uint64_t seq)
{
	uint32_t prev = newest(l, s, key_of(s, seq));
	struct rung *r = &l->rung[i];

	if (prev == NOWHERE)
		return;
	if (l->rung[prev].fate == FATE_MISSING) {
		r->again = l->rung[prev].asked;
		rung_note(r, r->again ? "what was missing, sent again" : "what was missing comes late");
		return;
	}
	if (r->say && l->rung[prev].say && !strncmp(r->say, "sent ", 5) && !strcmp(r->say, l->rung[prev].say)) {
		r->dup = true;
		rung_note(r, "a copy of packet %" PRIu64 ": nobody sent it twice", l->rung[prev].no);
		return;
	}
	r->again = l->rung[prev].again + 1;
	if (b->nak && seq >= b->nak_seq)
		rung_note(r, "packet %" PRIu64 " again, as the NAK asks", l->rung[prev].no);
	else if (b->rnr && seq >= b->rnr_seq)
		rung_note(r, "packet %" PRIu64 " again, the time that the RNR NAK asked for has passed",
			  l->rung[prev].no);
	else if (l->rung[prev].fate == FATE_LOST || l->rung[prev].fate == FATE_DISCARDED)
		rung_note(r, "packet %" PRIu64 " again, which was %s", l->rung[prev].no, fate_name(l->rung[prev].fate));
	else
		in_vain(l, i, prev, s, b->una > seq);
}

static void discarded(struct rung *r, const struct before *b, uint64_t seq)
{
	if (r->fate != FATE_OK || seq < b->cursor || !((b->nak && seq > b->nak_seq) || (b->rnr && seq >= b->rnr_seq)))
		return;
	r->fate = FATE_DISCARDED;
	rung_note(r, b->nak ? "discarded: the receiver waits for what is missing before it"
			    : "discarded: the receiver was not ready");
}

void fate_request(struct ladder *l, uint32_t i, struct stream *s, const struct packet *p)
{
	struct before b = before(s);
	uint64_t seq = b.begun ? seq_near(p->b.psn, s->next_seq) : 0;
	struct rail *rail = &l->rail[s->id];
	const struct sent *known = b.begun ? stream_at(s, seq, NULL) : NULL;
	struct sent old = known ? *known : (struct sent){ 0 };

	check_request(&l->check, s, p);
	if (!b.begun || (b.n && s->n == 1 && s->v[0].frame_no == p->frame->no && b.n + 1 != s->n && !known)) {
		*rail = (struct rail){ .stream = s, .since = i };
		rail->base = seq_near(s->agreed ? psn(s->first_psn) : p->b.psn, s->next_seq);
		b = (struct before){ 0 };
		old.n = 0;
		seq = seq_near(p->b.psn, s->next_seq);
	}
	l->rung[i].request = true;
	l->rung[i].seq = seq;
	l->rung[i].rel = rel(l, s, seq);
	repeated(l, i, s, &b, seq);
	if (old.n && p->op->kind == KIND_READ && opcode_get(old.op)->kind == KIND_READ)
		read_again(l, i, s, &old, seq);
	discarded(&l->rung[i], &b, seq);
	if (b.begun && !b.read_open && seq > b.next)
		missing(l, i, s, s, b.next, seq - b.next, 0);
	map_put(l, key_of(s, seq), i);
}

void fate_uc(struct ladder *l, uint32_t i, struct stream *s, const struct packet *p)
{
	struct before b = before(s);
	uint64_t seq = b.begun ? seq_near(p->b.psn, s->next_seq) : 0;
	struct rail *rail = &l->rail[s->id];

	if (s->svc == SVC_UC) {
		check_uc(&l->check, s, p);
	} else if (!b.begun || seq >= s->next_seq) {
		s->begun = true;
		s->next_seq = seq_near(p->b.psn, s->next_seq) + 1;
	}
	if (!b.begun) {
		*rail = (struct rail){ .stream = s, .since = i };
		rail->base = seq_near(s->agreed ? psn(s->first_psn) : p->b.psn, s->next_seq);
		seq = seq_near(p->b.psn, s->next_seq);
	}
	l->rung[i].request = true;
	l->rung[i].seq = seq;
	l->rung[i].rel = rel(l, s, seq);
	if (s->svc == SVC_UC && b.begun && seq > b.next)
		missing(l, i, s, s, b.next, seq - b.next, 0);
	map_put(l, key_of(s, seq), i);
}

/* ---- answers -------------------------------------------------------------------------- */

/* From rung first of stream s on, what is not before seq was in vain. */
static void all_discarded(struct ladder *l, uint32_t first, const struct stream *s, uint64_t seq, const char *why,
			  uint64_t no)
{
	for (uint32_t k = recent(first, l->n); k < l->n; k++) {
		struct rung *r = &l->rung[k];

		if (r->stream != s->id || !r->request || (r->seq < seq && r->fate != FATE_MISSING))
			continue;
		r->asked = true;
		if (r->fate != FATE_OK)
			continue;
		r->fate = FATE_DISCARDED;
		rung_note(r, why, (unsigned long long)no);
	}
}

static void refused(struct ladder *l, const struct rung *nak, struct rung *what, const struct packet *p)
{
	const struct stream *s = l->rail[nak->stream].stream;

	if (what && what->fate == FATE_OK) {
		what->fate = FATE_REFUSED;
		rung_note(what, "refused by packet %" PRIu64 ": %s", nak->no, aeth_name(p->b.syndrome));
	}
	ladder_band(l, nak->ns, p->frame->dgid, p->b.dqpn, "ERR", "a NAK that ends the connection");
	if (s->mate)
		ladder_band(l, nak->ns, p->frame->sgid, s->mate->dqpn, "ERR", "it sent a NAK that ends the connection");
}

static void acked(struct ladder *l, struct rung *a, const struct stream *r, uint64_t una)
{
	if (r->una > una + 1)
		rung_note(a, "acknowledges %" PRId64 " to %" PRId64, rel(l, r, una), rel(l, r, r->una) - 1);
	else if (r->una > una)
		rung_note(a, "acknowledges %" PRId64, rel(l, r, una));
	else
		a->dup = true;
	if (a->dup)
		rung_note(a, "acknowledges nothing that was not before");
}

static void acknowledge(struct ladder *l, uint32_t i, const struct stream *r, const struct packet *p, uint64_t una)
{
	struct rung *a = &l->rung[i];
	uint32_t k = newest(l, r, key_of(r, a->seq));
	struct rung *what = k == NOWHERE || l->rung[k].fate == FATE_MISSING ? NULL : &l->rung[k];
	char t[32];

	switch (aeth_type(p->b.syndrome)) {
	case AETH_ACK: acked(l, a, r, una); break;
	case AETH_RNR_NAK:
		rung_note(a, "no receive request for %" PRId64 ": send it again in %s", a->rel,
			  ns_text(t, sizeof(t), rnr_timer_ns(aeth_code(p->b.syndrome))));
		if (k != NOWHERE)
			all_discarded(l, k, r, a->seq, "discarded: RNR NAK, packet %llu", a->no);
		break;
	case AETH_NAK:
		if (aeth_code(p->b.syndrome) != NAK_PSN_SEQ)
			a->name = aeth_name(p->b.syndrome);
		if (aeth_code(p->b.syndrome) == NAK_IN_PROGRESS) {
			rung_note(a, "neither an answer nor a refusal: %" PRId64 " is being worked on", a->rel);
			break;
		}
		if (aeth_code(p->b.syndrome) != NAK_PSN_SEQ) {
			refused(l, a, what, p);
			break;
		}
		rung_note(a, "expected %" PRId64 ", and got one behind it: go back to %" PRId64, a->rel, a->rel);
		if (what)
			lost(what, "lost: the NAK, packet %llu, asks for it", a->no);
		/* A rung of what is missing stands behind the one that was seen instead. */
		if (k != NOWHERE)
			all_discarded(l, what || !k ? k + 1 : k - 1, r, a->seq + 1,
				      "discarded: one before it was missing (NAK, packet %llu)", a->no);
		break;
	case AETH_RESERVED: break;
	}
}

static bool asked_from(const struct sent *u, uint64_t seq)
{
	for (unsigned k = 0; k < RESTARTS; k++)
		if (u->restart[k] && u->seq + u->restart[k] == seq)
			return true;
	return seq == u->seq;
}

static void response(struct ladder *l, uint32_t i, struct stream *s, struct stream *r)
{
	struct rung *a = &l->rung[i];
	uint32_t prev = newest(l, r, key_of(s, a->seq) | KEY_ANSWER);
	const struct sent *u = stream_at(r, a->seq, NULL);
	uint64_t gap = 0;

	if (prev != NOWHERE && l->rung[prev].fate != FATE_MISSING) {
		a->again = l->rung[prev].again + 1;
		rung_note(a, "packet %" PRIu64 " again", l->rung[prev].no);
	}
	if (u && u->n > 1)
		rung_note(a, "response %" PRIu64 " of %u to packet %" PRIu64, a->seq - u->seq + 1, u->n, u->frame_no);
	else if (u)
		rung_note(a, "the response to packet %" PRIu64, u->frame_no);
	while (u && gap < GAP_MAX && !asked_from(u, a->seq - gap) &&
	       newest(l, r, key_of(s, a->seq - gap - 1) | KEY_ANSWER) == NOWHERE)
		gap++;
	map_put(l, key_of(s, a->seq) | KEY_ANSWER, i);
	if (gap)
		missing(l, i, s, r, a->seq - gap, gap, KEY_ANSWER);
}

void fate_answer(struct ladder *l, uint32_t i, struct stream *s, const struct packet *p)
{
	struct stream *r = s->mate;
	uint64_t una = r ? r->una : 0;
	bool known = r;

	check_answer(&l->check, s, p);
	r = s->mate;
	if (!r || !r->begun || !r->n || !ladder_rail(l, r)) {
		rung_note(&l->rung[i], "what it answers is not in the capture");
		return;
	}
	if (!known)
		una = l->rail[r->id].base;
	l->rung[i].seq = seq_near(p->b.psn, r->next_seq);
	l->rung[i].rel = rel(l, r, l->rung[i].seq);
	if (p->op->kind == KIND_ACK)
		acknowledge(l, i, r, p, una);
	else
		response(l, i, s, r);
}

/* ---- the end ------------------------------------------------------------------------------ */

/* Of UC the rest of a message is nothing without its beginning. */
static void uc_end(struct ladder *l, const struct stream *s)
{
	bool broken = false;

	for (uint32_t i = 0; i < l->n; i++) {
		struct rung *r = &l->rung[i];

		if (r->stream != s->id)
			continue;
		if (r->fate != FATE_MISSING && opcode_get(r->op)->place & PLACE_FIRST)
			broken = false;
		if (r->fate == FATE_LOST || r->fate == FATE_MISSING)
			broken = true;
		else if (broken && r->fate == FATE_OK) {
			r->fate = FATE_DISCARDED;
			rung_note(r, "discarded: its message is not whole, and UC sends nothing again");
		}
	}
}

void fate_end(struct ladder *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		struct rung *r = &l->rung[i];

		bool gone = r->out && !r->arrived && r->stream != NOWHERE && r->ns < l->rail[r->stream].matched;

		if (r->fate == FATE_UNANSWERED && (r->arrived || gone))
			r->fate = FATE_OK;
		if (gone)
			lost(r, "lost: it left, and did not arrive (packet %llu)", r->no);
	}
	for (uint32_t i = 0; i < l->rails; i++)
		if (l->rail[i].stream && l->rail[i].stream->svc == SVC_UC)
			uc_end(l, l->rail[i].stream);
}
