/* SPDX-License-Identifier: MIT */
/*
 * check_req.c - the rules of who asks: PSNs, order of opcodes, lengths, what is sent again and when.
 *
 * Not every packet that was sent is in a capture: one may be lost before it came there.  So a missing PSN counts
 * when it is acknowledged all the same, or not at all.
 */
#include "check_in.h"

#include "../proto/icrc.h"

#define CROSSING_NS   100000000u /* so long an answer may be on its way, or wait for its reader */
#define RNR_MARGIN_NS 1000u      /* clocks of captures tick in microseconds */
#define RNR_MET_NS    200000u    /* behind an RNR NAK: what was sent before it was heard, on a busy machine, too */
#define RNR_LATE_NS   250000u    /* behind a request: an answer that was waited for in vain */
#define TIMEOUT_NS \
	4000000u /* the shortest that is allowed for, where an answer may have been lost behind the capture */

static uint32_t packets_of(uint32_t len, uint32_t mtu) { return len ? (uint32_t)(((uint64_t)len + mtu - 1) / mtu) : 1; }

static bool is_read(const struct sent *u) { return opcode_get(u->op)->kind == KIND_READ; }

void check_mtu(struct stream *s, uint32_t mtu)
{
	struct sent *u = s->n ? &s->v[s->n - 1] : NULL;

	s->mtu = mtu;
	if (!u || u->n)
		return;
	u->n = packets_of(u->len, mtu);
	s->next_seq = s->cursor = u->seq + u->n;
}

static bool is_mtu(uint64_t n) { return n >= 256 && n <= 4096 && !(n & (n - 1)); }

/* The MTU, if p is the READ u of unknown MTU, asked for again from a later response on: this PSN, the rest of its bytes; else 0. */
static uint32_t mtu_of_rest(const struct sent *u, const struct packet *p, uint64_t seq)
{
	uint64_t bytes = p->b.va - u->va, n = seq - u->seq;

	if (p->op->kind != KIND_READ || p->b.rkey != u->rkey || bytes >= u->len || bytes + p->b.dma_len != u->len)
		return 0;
	return bytes % n == 0 && is_mtu(bytes / n) ? (uint32_t)(bytes / n) : 0;
}

/* The next request tells how many responses the READ of unknown MTU has, and so the MTU, if no other gives as many. */
static void read_settle(struct stream *s, const struct packet *p, uint64_t seq)
{
	struct sent *u = &s->v[s->n - 1];
	uint32_t fits = 0, found = mtu_of_rest(u, p, seq);
	bool rest = found;

	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2)
		if (u->seq + packets_of(u->len, mtu) == seq) {
			fits++;
			found = mtu;
		}
	if (fits + rest == 1)
		check_mtu(s, found);
	else
		u->n = fits ? packets_of(u->len, found) : 1;
}

/* ---- messages -------------------------------------------------------------- */

/* Whether b may follow a. */
static bool in_order(const struct opcode *a, const struct opcode *b)
{
	return a->place & PLACE_LAST ? b->place & PLACE_FIRST : !(b->place & PLACE_FIRST) && a->kind == b->kind;
}

/* Judges v[i] by its place in the order of PSNs; at: report, NULL: do not. */
static void link_up(struct check *c, struct stream *s, size_t i, const struct find_at *at)
{
	struct sent *u = &s->v[i], *prev = i ? u - 1 : NULL;
	const struct opcode *op = opcode_get(u->op);
	bool orderly;

	u->linked = (prev ? prev->seq + prev->n : s->floor) == u->seq;
	u->msn = (prev ? prev->msn : 0) + sent_ends(u);
	orderly = !u->linked || !prev || in_order(opcode_get(prev->op), op);
	u->holes = (prev ? prev->holes : 0) + (!u->linked || !orderly);
	if (op->place & PLACE_FIRST) {
		u->off = 0;
	} else if (u->linked && prev && !(opcode_get(prev->op)->place & PLACE_LAST) &&
		   opcode_get(prev->op)->kind == op->kind) {
		u->off = prev->off + prev->len;
		u->total = prev->total;
		u->told = prev->told;
	} else {
		u->told = false; /* its FIRST is not in the capture */
	}
	if (!at)
		return;
	if (!orderly)
		find_breach(&c->find, at, CHECK_OP_SEQ, "%s follows %s", op->name, opcode_get(prev->op)->name);
	if (op->kind == KIND_WRITE && u->told && !u->vague &&
	    (sent_ends(u) ? u->off + u->len != u->total : u->off + u->len >= u->total))
		find_breach(&c->find, at, CHECK_MSG_LEN, "%llu bytes up to here, the RETH says %llu",
			    (unsigned long long)(u->off + u->len), (unsigned long long)u->total);
}

static void payload(struct check *c, struct stream *s, const struct packet *p)
{
	uint32_t len = (uint32_t)p->b.payload_len;

	if (p->op->pay == PAY_FULL) {
		if (!s->mtu && is_mtu(len)) {
			check_mtu(s, len);
			if (s->mate)
				s->mate->mtu = len;
		} else if (len != s->mtu) {
			find_breach(&c->find, &p->at, CHECK_PAYLOAD, "%u bytes, the path MTU is %u", len, s->mtu);
		}
	} else if (!p->vague && len > (s->mtu ? s->mtu : 4096)) {
		find_breach(&c->find, &p->at, CHECK_PAYLOAD, "%u bytes, the path MTU is %u", len,
			    s->mtu ? s->mtu : 4096);
	}
}

static struct sent sent_of(const struct stream *s, const struct packet *p, uint64_t seq)
{
	struct sent u = { .seq = seq,
			  .n = 1,
			  .len = (uint32_t)p->b.payload_len,
			  .op = p->b.op_first,
			  .vague = p->vague,
			  .frame_no = p->frame->no,
			  .ns = p->frame->ns };

	u.mark = icrc_data(0, p->data + BTH_LEN, p->op->hdr_len - BTH_LEN);
	if (p->op->hdrs & HDR_RETH) {
		u.va = p->b.va;
		u.rkey = p->b.rkey;
		u.total = p->b.dma_len;
		u.told = true;
	}
	if (p->op->kind == KIND_READ) {
		u.len = p->b.dma_len;
		u.n = s->mtu ? packets_of(u.len, s->mtu) : u.len <= 256;
	}
	return u;
}

/* ---- sent again ------------------------------------------------------------- */

static void same(struct check *c, struct stream *s, const struct packet *p, struct sent *u, uint64_t seq)
{
	uint64_t skipped = seq - u->seq, bytes = skipped * s->mtu;

	u->ns = p->frame->ns;
	if (is_read(u) && p->op->kind == KIND_READ && SVC_OF(u->op) == SVC_OF(p->b.op_first)) {
		if (p->b.rkey != u->rkey || p->b.va != u->va + bytes || p->b.dma_len != u->len - bytes)
			find_breach(&c->find, &p->at, CHECK_RETRANS,
				    "READ of %u bytes at %#llx; packet %llu and %llu responses ask for "
				    "%llu at %#llx",
				    p->b.dma_len, (unsigned long long)p->b.va, (unsigned long long)u->frame_no,
				    (unsigned long long)skipped, (unsigned long long)(u->len - bytes),
				    (unsigned long long)(u->va + bytes));
		u->restart[u->restarts++ % RESTARTS] = (uint32_t)skipped;
		if (u->have >= skipped)
			u->passed = false;
		return;
	}
	if (u->op != p->b.op_first || u->seq != seq || (u->len != p->b.payload_len && !u->vague && !p->vague) ||
	    u->mark != icrc_data(0, p->data + BTH_LEN, p->op->hdr_len - BTH_LEN))
		find_breach(&c->find, &p->at, CHECK_RETRANS, "not what packet %llu was: %s of %u bytes",
			    (unsigned long long)u->frame_no, opcode_get(u->op)->name, u->len);
	u->passed = false;
}

/* Sent again, because its time ran out before the answer had come; the answer and the NAK met it on the way, if there are times. */
static bool crossed(const struct packet *p, const struct sent *u)
{
	return u && (!p->frame->ns || (u->done_ns && ns_since(p->frame->ns, u->done_ns) < CROSSING_NS));
}

/* The same with an RNR NAK, which comes late; it may not have been heard yet. */
static bool met(const struct stream *s, const struct packet *p, const struct sent *u)
{
	return u && ns_since(p->frame->ns, s->rnr_heard) < RNR_MET_NS && ns_since(s->rnr_heard, u->ns) >= RNR_LATE_NS;
}

/* The RNR NAK was lost behind the capture, and its packet is sent again as its time has run out. */
static bool rnr_unheard(const struct stream *s, const struct packet *p, const struct sent *u)
{
	return u && u->seq == s->rnr_seq && ns_since(p->frame->ns, u->ns) >= TIMEOUT_NS &&
	       ns_since(p->frame->ns, s->rnr_heard) >= TIMEOUT_NS;
}

static void resume(struct check *c, struct stream *s, const struct packet *p, uint64_t seq, bool right)
{
	if (!right)
		find_breach(&c->find, &p->at, CHECK_NAK_RESUME, "goes on here, though the NAK named PSN %#x",
			    seq_psn(s->nak_seq).v);
	s->nak = seq < s->nak_seq && right;
}

/* Forwards over the PSN that a NAK named, from before it; without a gap, if the NAK was not heard: it would be known by nothing else. */
static void forth(struct check *c, struct stream *s, const struct packet *p, uint64_t seq)
{
	if (s->nak && s->cursor <= s->nak_seq && seq >= s->nak_seq)
		resume(c, s, p, seq, seq == s->nak_seq && (!s->unheard || seq == s->cursor));
}

/*
 * A step back in PSNs.  After a NAK to the PSN that it named, to what was the oldest without an answer, or to a READ or atomic
 * that the NAK passed by: their responses are missing, whatever it acknowledges.
 */
static void back(struct check *c, struct stream *s, const struct packet *p, uint64_t seq)
{
	const struct sent *u = stream_at(s, seq, NULL);
	bool asked = seq == s->nak_seq || seq == s->nak_una || (u && u->passed) || (seq < s->nak_seq && crossed(p, u));

	s->unheard = !asked && seq < s->nak_seq && ns_since(p->frame->ns, s->sent_ns) >= TIMEOUT_NS;
	if (s->nak)
		resume(c, s, p, seq, asked || s->unheard);
	if (s->rnr && met(s, p, u))
		return;
	if (s->rnr && p->frame->ns && seq >= s->rnr_seq && p->frame->ns + RNR_MARGIN_NS < s->rnr_until &&
	    !rnr_unheard(s, p, u))
		find_breach(&c->find, &p->at, CHECK_RNR_WAIT, "%llu us too early",
			    (unsigned long long)ns_since(s->rnr_until, p->frame->ns) / 1000);
	if (seq <= s->rnr_seq)
		s->rnr = false;
}

/* ---- a request --------------------------------------------------------------- */

/* One that the CM's messages tell of begins with the PSN that was agreed, though the packet with it may be missing still. */
static void first(struct check *c, struct stream *s, const struct packet *p)
{
	psn_t begin = s->agreed ? psn(s->first_psn) : p->b.psn;
	int32_t off = psn_diff(p->b.psn, begin);

	s->begun = true;
	if (off < 0 || (off && s->svc == SVC_UC)) {
		find_breach(&c->find, &p->at, CHECK_CM_PSN, "the first request should have PSN %#x", s->first_psn);
		begin = p->b.psn;
	}
	s->next_seq = s->cursor = s->una = s->floor = seq_near(begin, 0);
}

static void insert(struct check *c, struct stream *s, const struct packet *p, uint64_t seq, size_t i)
{
	struct sent u = sent_of(s, p, seq);

	if (!stream_put(s, i, &u)) {
		c->no_memory = true;
		return;
	}
	c->no_memory |= !conv_asked(c->conv, s, &u);
	link_up(c, s, i, &p->at);
	for (size_t k = i + 1; k < s->n; k++)
		link_up(c, s, k, k == i + 1 ? &p->at : NULL);
}

/* The first request of a stream, and of a queue pair that was made again with the number of another. */
static void begin(struct check *c, struct stream *s, const struct packet *p)
{
	if (s->begun && (p->op->place & PLACE_FIRST) && stream_far(s, p->b.psn)) {
		find_note(&c->find, &p->at, "the queue pair begins anew");
		check_stream_end(c, s);
		if (s->mate)
			s->mate->mtu = 0; /* what it asks from now on is of another connection, too */
		stream_reset(s);
	}
	if (!s->begun)
		first(c, s, p);
}

void check_request(struct check *c, struct stream *s, const struct packet *p)
{
	struct sent *u;
	uint64_t seq;
	size_t i;

	begin(c, s, p);
	stream_trim(s);
	payload(c, s, p);
	seq = seq_near(p->b.psn, s->next_seq);
	if (s->n && !s->v[s->n - 1].n && seq > s->v[s->n - 1].seq)
		read_settle(s, p, seq);
	u = stream_at(s, seq, &i);
	if (!u && s->n && !s->v[s->n - 1].n && s->v[s->n - 1].seq == seq)
		u = &s->v[s->n - 1];
	if (seq < s->cursor)
		back(c, s, p, seq);
	else
		forth(c, s, p, seq);
	s->sent_ns = p->frame->ns;
	if (u) {
		same(c, s, p, u, seq);
		s->cursor = u->seq + u->n;
		return;
	}
	if (seq < s->floor)
		return; /* older than the capture */
	insert(c, s, p, seq, i);
	u = stream_at(s, seq, NULL);
	s->cursor = seq + (u ? u->n : 1);
	if (s->cursor > s->next_seq)
		s->next_seq = s->cursor;
}

void check_uc(struct check *c, struct stream *s, const struct packet *p)
{
	struct sent u, *prev;
	uint64_t seq;

	begin(c, s, p);
	prev = s->n ? &s->v[0] : NULL;
	payload(c, s, p);
	seq = seq_near(p->b.psn, s->next_seq);
	if (seq < s->next_seq) {
		find_breach(&c->find, &p->at, CHECK_PSN_BACK, "%llu behind the newest",
			    (unsigned long long)(s->next_seq - seq));
		return;
	}
	if (seq > s->next_seq)
		find_breach(&c->find, &p->at, CHECK_PSN_GAP, "%llu packets are missing before it",
			    (unsigned long long)(seq - s->next_seq));
	/* The last one alone is kept. */
	u = sent_of(s, p, seq);
	s->next_seq = seq + 1;
	if (!prev) {
		c->no_memory |= !stream_put(s, 0, &u);
		return;
	}
	if (!stream_put(s, 1, &u)) {
		c->no_memory = true;
		return;
	}
	link_up(c, s, 1, &p->at);
	s->v[0] = s->v[1];
	s->n = 1;
}
