/* SPDX-License-Identifier: MIT */
/* ladder_read.c - frames to rungs: what each packet says of itself; packets that were captured at both ends. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../proto/aeth.h"
#include "../proto/bytes.h"
#include "../proto/gsi.h"
#include "../proto/hdr.h"
#include "../proto/wr_kind.h"
#include "ladder.h"

#define DAMAGED_BACK  1024u        /* rungs among which one is looked for that was damaged where it arrived */
#define ON_ITS_WAY_NS 10000000000u /* a packet is not longer on its way */
#define PASSES_NS     1000000u     /* from one interface of a host to another */
#define KEY_OF_BYTES  (1ull << 63)

struct rung *ladder_rung(struct ladder *l, uint64_t ns, uint64_t no)
{
	uint32_t cap = l->cap ? 2 * l->cap : 256;
	struct rung *r;

	if (l->n >= l->max) {
		l->skipped++;
		return NULL;
	}
	if (l->n == l->cap) {
		r = realloc(l->rung, cap * sizeof(*r));
		if (!r) {
			l->no_memory = true;
			return NULL;
		}
		l->rung = r;
		l->cap = cap;
	}
	r = &l->rung[l->n++];
	*r = (struct rung){ .ns = ns, .no = no, .stream = NOWHERE, .conn = NOWHERE, .n = 1, .name = "" };
	return r;
}

struct rail *ladder_rail(struct ladder *l, struct stream *s)
{
	uint32_t n = s->id + 1;
	struct rail *r;

	if (n > l->rails) {
		r = realloc(l->rail, n * sizeof(*r));
		if (!r) {
			l->no_memory = true;
			return NULL;
		}
		memset(r + l->rails, 0, (n - l->rails) * sizeof(*r));
		l->rail = r;
		l->rails = n;
	}
	l->rail[s->id].stream = s;
	return &l->rail[s->id];
}

/* ---- words ---------------------------------------------------------------------- */

static void text_add(char **text, const char *between, const char *fmt, va_list ap)
{
	size_t old = *text ? strlen(*text) : 0;
	char add[256], *t;

	vsnprintf(add, sizeof(add), fmt, ap);
	t = realloc(*text, old + strlen(between) + strlen(add) + 1);
	if (!t)
		return;
	strcpy(t + old, old ? between : "");
	strcat(t + old, add);
	*text = t;
}

static void text_put(char **text, const char *s)
{
	size_t old = *text ? strlen(*text) : 0;
	char *t = realloc(*text, old + strlen(s) + 3);

	if (!t)
		return;
	sprintf(t + old, "%s%s", old ? "; " : "", s);
	*text = t;
}

void rung_note(struct rung *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_add(&r->note, "; ", fmt, ap);
	va_end(ap);
}

static void detail(struct rung *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void detail(struct rung *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_add(&r->detail, "\n", fmt, ap);
	va_end(ap);
}

static void headers(struct rung *r, const struct packet *p)
{
	const struct burst *b = &p->b;
	uint16_t h = p->op->hdrs;

	detail(r, "destination QP\t%#x", b->dqpn);
	if (h & HDR_DETH)
		detail(r, "source QP\t%#x\nQ_Key\t%#x", b->sqpn, b->qkey);
	if (h & HDR_XRCETH)
		detail(r, "SRQ\t%#x", b->srqn);
	if (h & HDR_RETH)
		detail(r, "address\t%#llx\nrkey\t%#x\nlength of all\t%u B", (unsigned long long)b->va, b->rkey,
		       b->dma_len);
	if (h & HDR_ATOMIC)
		detail(r, "address\t%#llx\nrkey\t%#x\nswap, add\t%#llx\ncompare\t%#llx", (unsigned long long)b->va,
		       b->rkey, (unsigned long long)b->swap_add, (unsigned long long)b->compare);
	if (h & HDR_AETH)
		detail(r, "syndrome\t%#04x %s\nMSN\t%u", b->syndrome, aeth_name(b->syndrome), b->msn);
	if (h & HDR_ATOMIC_ACK)
		detail(r, "value before\t%#llx", (unsigned long long)b->orig);
	if (h & HDR_IMM)
		detail(r, "immediate\t%#x", be32_get((const uint8_t *)&b->imm));
	if (h & HDR_IETH)
		detail(r, "invalidates rkey\t%#x", b->inv_rkey);
	if (b->ackreq || b->se)
		detail(r, "flags\t%s%s%s", b->ackreq ? "AckReq" : "", b->ackreq && b->se ? ", " : "",
		       b->se ? "solicited" : "");
	if (b->route.tclass & 3)
		detail(r, "ECN\t%s", (b->route.tclass & 3) == 3 ? "congestion experienced" : "capable");
}

/* ---- kinds ------------------------------------------------------------------------ */

static enum rung_class class_of(const struct packet *p)
{
	if (SVC_OF(p->b.op_first) == SVC_UD)
		return RUNG_UD;
	switch (p->op->kind) {
	case KIND_SEND: return RUNG_SEND;
	case KIND_READ:
	case KIND_RESP: return RUNG_READ;
	case KIND_ATOMIC:
	case KIND_ATOMIC_ACK: return RUNG_ATOMIC;
	case KIND_ACK:
		switch (aeth_type(p->b.syndrome)) {
		case AETH_ACK: return RUNG_ACK;
		case AETH_RNR_NAK: return RUNG_RNR;
		default: return RUNG_NAK;
		}
	}
	return kind_right(p->op->kind) & ACC_REMOTE_WRITE ? RUNG_WRITE : RUNG_OTHER;
}

static void connected(struct ladder *l, uint32_t i, const struct packet *p)
{
	struct stream *s = conv_stream(l->check.conv, p->frame, SVC_OF(p->b.op_first), p->b.dqpn);

	if (!s || !ladder_rail(l, s)) {
		l->no_memory = true;
		return;
	}
	l->rung[i].stream = s->id;
	if (s->svc == SVC_UC)
		fate_uc(l, i, s, p);
	else if (op_answers(p->op))
		fate_answer(l, i, s, p);
	else
		fate_request(l, i, s, p);
}

/* Datagrams name both queue pairs: the streams of both directions are mates at once. */
static void datagram(struct ladder *l, uint32_t i, const struct packet *p, const uint8_t *payload)
{
	struct stream *s, *back;
	struct frame f = *p->frame;

	if (p->b.dqpn == QPN_GSI && p->b.payload_len == MAD_LEN) {
		ladder_cm(l, i, p, payload);
		return;
	}
	s = conv_stream(l->check.conv, p->frame, SVC_UD, p->b.dqpn);
	memcpy(f.sgid, p->frame->dgid, 16);
	memcpy(f.dgid, p->frame->sgid, 16);
	back = conv_stream(l->check.conv, &f, SVC_UD, p->b.sqpn);
	if (!s || !back || !ladder_rail(l, s) || !ladder_rail(l, back)) {
		l->no_memory = true;
		return;
	}
	if (!s->mate && !back->mate && s != back)
		conv_marry(s, back);
	l->rung[i].stream = s->id;
	fate_uc(l, i, s, p);
}

/* ---- comments ---------------------------------------------------------------------------- */

/* Remarks in captures of rdmad (lab/remark.c, lab/rule.c), by its beginning; mute: the diagram says it without words. */
static const struct {
	const char *begin;
	uint8_t fate;
	bool dup, mute;
} known[] = {
	{ "retransmission", FATE_OK, false, true },
	{ "repetition", FATE_OK, false, true },
	{ "NAK", FATE_OK, false, true },
	{ "RNR NAK", FATE_OK, false, true },
	{ "duplicate", FATE_OK, true, true },
	{ "out of sequence", FATE_DISCARDED, false, true },
	{ "old or out of order", FATE_DISCARDED, false, true },
	/* It came, and that was all. */
	{ "dropped:", FATE_DISCARDED, false, false },
	{ "the ICRC is wrong", FATE_DISCARDED, false, false },
	/* By a rule: it does not go on.  What a rule answered a packet with is said of that, and of the answer, which comes. */
	{ "dropped", FATE_LOST, false, false },
	{ "swallowed", FATE_LOST, false, false },
};

static void one_remark(struct rung *r, const char *s)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strncmp(s, known[i].begin, strlen(known[i].begin))) {
			if (known[i].fate)
				r->fate = known[i].fate;
			r->dup |= known[i].dup;
			if (known[i].mute)
				return;
			break;
		}
	text_put(&r->say, s);
}

static void remarks(struct rung *r, const char *comment)
{
	char one[256];

	for (size_t n; comment && *comment; comment += n, comment += strspn(comment, "\n; ")) {
		const char *semi = strstr(comment, "; ");

		n = strcspn(comment, "\n");
		n = semi && (size_t)(semi - comment) < n ? (size_t)(semi - comment) : n;
		snprintf(one, sizeof(one), "%.*s", (int)n, comment);
		text_put(&r->comment, one);
		one_remark(r, one);
	}
}

/* ---- both ends ----------------------------------------------------------------------- */

/* A packet that a rule damages where it arrives has other bytes than when it left: the id that it had then, or else its own. */
static uint64_t whole_id(const struct ladder *l, const struct taken *t, const struct frame *f, const uint8_t *data,
			 uint64_t id)
{
	const struct stream *s;

	if (t->dir != TAKEN_IN || !t->comment || !strstr(t->comment, "payload damaged"))
		return id;
	s = conv_stream(l->check.conv, f, SVC_OF(data[BTH_OPCODE]), be24_get(data + BTH_DQPN));
	for (uint32_t k = 1; s && k <= l->n && k <= DAMAGED_BACK; k++) {
		const struct rung *r = &l->rung[l->n - k];

		if (r->stream == s->id && r->out && !r->arrived && r->op == data[BTH_OPCODE] &&
		    r->psn == be24_get(data + BTH_PSN))
			return r->id;
	}
	return id;
}

/* The rung of a packet that leaves, and now arrives; true: it was one. */
static bool arrives(struct ladder *l, const struct taken *t, uint64_t id)
{
	uint32_t i = map_get(l, id);
	struct rung *r = i == NOWHERE ? NULL : &l->rung[i];

	if (!r || !r->out || r->arrived || r->fate == FATE_LOST || t->ns < r->ns ||
	    ns_since(t->ns, r->ns) > ON_ITS_WAY_NS)
		return false;
	r->arrived = t->ns ? t->ns : 1;
	r->there = t->where;
	if (r->stream != NOWHERE)
		l->rail[r->stream].matched = r->ns;
	remarks(r, t->comment);
	return true;
}

/* The rung of a packet that has arrived, by the clock there, before it now leaves; true: it was one. */
static bool left_late(struct ladder *l, const struct taken *t, uint64_t id)
{
	uint32_t i = map_get(l, id);
	struct rung *r = i == NOWHERE ? NULL : &l->rung[i];

	if (!r || !r->in || ns_since(t->ns, r->ns) > l->early_ns)
		return false;
	r->in = false;
	r->out = true;
	r->arrived = t->ns;
	r->there = r->where;
	r->where = t->where;
	if (r->stream != NOWHERE)
		l->rail[r->stream].matched = r->ns;
	remarks(r, t->comment);
	return true;
}

/* Seen on another interface of the same host just before: it passes the one behind the other, as of a VLAN, a bond or a bridge. */
static bool passes(const struct ladder *l, const struct taken *t, uint64_t id)
{
	uint32_t i = map_get(l, id);
	const struct rung *r = i == NOWHERE ? NULL : &l->rung[i];
	const bool came = r && r->out && r->arrived && t->dir == TAKEN_IN;

	if (!r || (t->dir == TAKEN_OUT && !r->out) || (t->dir == TAKEN_IN && !came && !r->in))
		return false;
	return (came ? r->there : r->where) != t->where && ns_since(t->ns, came ? r->arrived : r->ns) <= PASSES_NS;
}

/* ---- packets and frames ---------------------------------------------------------------- */

/*
 * May its headers be others than those that were sent?  A wrong ICRC says so where there are right ones - a capture of packets
 * whose addresses were changed has none -, unless it is known what was damaged.
 */
static bool headers_doubtful(const struct ladder *l, const struct rung *r, bool wrong)
{
	const char *say = r->say ? r->say : "";

	if (strstr(say, "header damaged") || strstr(say, "packet damaged"))
		return true;
	if (strstr(say, "payload damaged") || strstr(say, "ICRC damaged"))
		return false;
	return strstr(say, "the ICRC is wrong") || (wrong && l->icrcs);
}

/* It is drawn, and no more: it is of no message. */
static void doubtful(struct ladder *l, struct rung *r, const struct packet *p)
{
	struct stream *s = conv_stream(l->check.conv, p->frame, SVC_OF(r->op), p->at.qpn);

	r->stream = s && ladder_rail(l, s) ? s->id : NOWHERE;
	r->class = RUNG_OTHER;
	if (r->say)
		return;
	r->fate = FATE_DISCARDED;
	rung_note(r, "the ICRC is wrong: what it says may not be so");
}

/* wrong: so is its ICRC; of a piece nobody knows. */
static void packet(struct ladder *l, const struct taken *t, const struct frame *f, const uint8_t *data, size_t len,
		   bool wrong)
{
	struct packet p = { .frame = f, .at.frame = f, .data = data, .len = len - ICRC_LEN };
	struct span span;
	struct rung *r;
	uint64_t id;
	uint32_t i;

	if (len < BTH_LEN + ICRC_LEN)
		return;
	l->check.packets++;
	id = frame_id(f, p.data, p.len) | KEY_OF_BYTES;
	if (t->dir == TAKEN_IN && arrives(l, t, whole_id(l, t, f, data, id)))
		return;
	if (t->dir == TAKEN_OUT && l->early_ns && left_late(l, t, id))
		return;
	if (passes(l, t, id))
		return;
	r = ladder_rung(l, t->ns, t->no);
	if (!r)
		return;
	i = l->n - 1;
	r->id = id;
	r->where = t->where;
	r->out = t->dir == TAKEN_OUT;
	r->in = t->dir == TAKEN_IN;
	r->op = data[BTH_OPCODE];
	r->psn = be24_get(data + BTH_PSN);
	remarks(r, t->comment);
	p.op = opcode_get(r->op);
	p.at.op = p.op->name ? p.op->name : "";
	p.at.qpn = be24_get(data + BTH_DQPN);
	p.at.psn = r->psn;
	map_put(l, id, i);
	r->class = RUNG_OTHER;
	r->name = r->op == OPCODE_CNP ? "CNP" : "malformed";
	if (r->op == OPCODE_CNP || burst_parse(&p.b, &span, data, p.len) != PARSE_OK) {
		struct stream *s = conv_stream(l->check.conv, f, SVC_RC, p.at.qpn);

		r->stream = s && ladder_rail(l, s) ? s->id : NOWHERE;
		rung_note(r, r->op == OPCODE_CNP ? "the path is congested: send slower"
						 : "its headers are not those of any packet");
		return;
	}
	p.b.route.tclass = f->tos;
	r->name = p.op->name + (SVC_OF(r->op) == SVC_XRC ? 4 : 3);
	r->class = (uint8_t)class_of(&p);
	r->len = (uint32_t)p.b.payload_len;
	headers(r, &p);
	if (headers_doubtful(l, r, wrong)) {
		doubtful(l, r, &p);
		return;
	}
	if (SVC_OF(r->op) == SVC_UD)
		datagram(l, i, &p, (const uint8_t *)(uintptr_t)span.addr);
	else
		connected(l, i, &p);
}

/* Bytes that a snap length has cut off are taken for zeros, if the headers are there, and all of a message of the CM. */
static bool piece(struct ladder *l, const struct taken *t, struct frame *f)
{
	const struct opcode *op = f->len > BTH_OPCODE ? opcode_get(f->data[BTH_OPCODE]) : NULL;
	uint8_t whole[PKT_HDR_MAX + 4096u + ICRC_LEN] = { 0 };

	if (!op || f->len < BTH_LEN || f->len < op->hdr_len || f->whole > sizeof(whole) ||
	    (be24_get(f->data + BTH_DQPN) == QPN_GSI && f->len + ICRC_LEN < f->whole))
		return false;
	memcpy(whole, f->data, f->len);
	f->data = whole;
	f->len = f->whole;
	packet(l, t, f, whole, f->whole, false);
	return true;
}

void ladder_frame(struct ladder *l, const struct taken *t)
{
	struct frame f = { .no = t->no, .ns = t->ns };
	enum frame_kind kind;
	size_t seg, len, off = 0;
	bool good;

	if (!l->frames++ || t->ns < l->begin)
		l->begin = t->ns;
	if (t->ns > l->last)
		l->last = t->ns;
	kind = frame_get(&f, t->link, t->data, t->len);
	if (kind == FRAME_CUT)
		l->cut += !piece(l, t, &f);
	if (kind != FRAME_ROCE)
		return;
	seg = frame_segment(&f);
	for (unsigned i = 0; off < f.len; i++, off += seg) {
		len = f.len - off < seg ? f.len - off : seg;
		good = len >= BTH_LEN + ICRC_LEN && frame_icrc_good(&f, i, f.data + off, len);
		l->icrcs |= good;
		packet(l, t, &f, f.data + off, len, !good);
	}
}

void ladder_free(struct ladder *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		free(l->rung[i].note);
		free(l->rung[i].comment);
		free(l->rung[i].say);
		free(l->rung[i].detail);
	}
	cm_free(l);
	conv_free(&l->conv);
	check_cm_free(&l->check);
	free(l->rung);
	free(l->rail);
	free(l->conn);
	free(l->band);
	free(l->map);
}
