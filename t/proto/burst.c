/* SPDX-License-Identifier: MIT */
/*
 * burst.c - bursts that are made up, turned into packets, parsed and joined again; cut into slices; and
 * everything that a parser or a join has to refuse.  Real packets are in golden.c.
 */
#include "proto/burst.h"
#include "proto/hdr.h"
#include "t/suite.h"

#include <string.h>

#define MAX_PKTS 70u
#define MTU      256u

static uint64_t state = 7;

static uint32_t rnd(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 32);
}

static uint8_t payload[MAX_PKTS * MTU];
static struct span payload_span[5];

/* A burst of n packets with every field at random; last_len bytes in the last packet. */
static struct burst make(uint8_t op_first, uint8_t op_last, uint32_t n, uint32_t last_len)
{
	struct burst b = {
		.op_first = op_first,
		.op_last = op_last,
		.se = rnd() & 1,
		.ackreq = rnd() & 1,
		.migreq = rnd() & 1,
		.pkey = (uint16_t)rnd(),
		.dqpn = 1 + rnd() % 0xffffff,
		.psn = psn(0 - rnd() % 80),
		.n = n,
		.mtu = n > 1 ? MTU : last_len,
		.payload_len = (uint64_t)(n - 1) * MTU + last_len,
	};
	unsigned hdrs = opcode_get(op_first)->hdrs | opcode_get(op_last)->hdrs;
	uint64_t at = 0;

	if (hdrs & HDR_DETH) {
		b.qkey = rnd();
		b.sqpn = rnd() & 0xffffff;
	}
	if (hdrs & HDR_FETH)
		b.feth = rnd();
	if (hdrs & HDR_RETH)
		b.dma_len = rnd();
	if (hdrs & (HDR_RETH | HDR_ATOMIC)) {
		b.va = (uint64_t)rnd() << 32 | rnd();
		b.rkey = rnd();
	}
	if (hdrs & HDR_ATOMIC) {
		b.swap_add = (uint64_t)rnd() << 32 | rnd();
		b.compare = (uint64_t)rnd() << 32 | rnd();
	}
	if (hdrs & HDR_AETH) {
		b.syndrome = (uint8_t)rnd();
		b.msn = rnd() & 0xffffff;
	}
	if (hdrs & HDR_ATOMIC_ACK)
		b.orig = (uint64_t)rnd() << 32 | rnd();
	if (hdrs & HDR_IMM)
		b.imm = rnd();
	if (hdrs & HDR_IETH)
		b.inv_rkey = rnd();

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)rnd();
	b.span = payload_span;
	while (at < b.payload_len) { /* up to five pieces that do not care for packets */
		uint64_t left = b.payload_len - at;
		uint32_t len = b.span_n == 4 ? (uint32_t)left : 1 + rnd() % (uint32_t)left;

		payload_span[b.span_n++] = (struct span){ NULL, (uintptr_t)payload + at, len };
		at += len;
	}
	return b;
}

static void same_fields(const struct burst *a, const struct burst *b)
{
	ck_assert_uint_eq(a->op_first, b->op_first);
	ck_assert_uint_eq(a->op_last, b->op_last);
	ck_assert(a->se == b->se && a->ackreq == b->ackreq && a->migreq == b->migreq);
	ck_assert_uint_eq(a->pkey, b->pkey);
	ck_assert_uint_eq(a->dqpn, b->dqpn);
	ck_assert_uint_eq(a->psn.v, b->psn.v);
	ck_assert_uint_eq(a->n, b->n);
	ck_assert_uint_eq(a->mtu, b->mtu);
	ck_assert_uint_eq(a->payload_len, b->payload_len);
	ck_assert(a->qkey == b->qkey && a->sqpn == b->sqpn);
	ck_assert(a->va == b->va && a->rkey == b->rkey && a->dma_len == b->dma_len);
	ck_assert(a->swap_add == b->swap_add && a->compare == b->compare && a->orig == b->orig);
	ck_assert(a->syndrome == b->syndrome && a->msn == b->msn);
	ck_assert(a->imm == b->imm && a->inv_rkey == b->inv_rkey && a->feth == b->feth);
}

/* The payload of b is the bytes from off on. */
static void same_payload(const struct burst *b, uint64_t off)
{
	uint64_t at = 0;

	for (unsigned i = 0; i < b->span_n; i++) {
		ck_assert_uint_gt(b->span[i].len, 0);
		ck_assert_mem_eq((const void *)(uintptr_t)b->span[i].addr, payload + off + at, b->span[i].len);
		at += b->span[i].len;
	}
	ck_assert_uint_eq(at, b->payload_len);
}

/* Packet i of b as bytes without ICRC. */
static size_t wire(const struct burst *b, uint32_t i, uint8_t *out)
{
	size_t at = burst_hdr(b, i, out);
	uint32_t len = burst_pkt_len(b, i), pad = pad_len(len);

	memcpy(out + at, payload + burst_pkt_off(b, i), len);
	memset(out + at + len, 0, pad);
	return at + len + pad;
}

/* b as packets on the wire, parsed and joined again, is b; so is each of its slices. */
static void there_and_back(const struct burst *b)
{
	static uint8_t bytes[MAX_PKTS][PKT_HDR_MAX + MTU + 4];
	static struct span spans[MAX_PKTS], quick_spans[MAX_PKTS];
	struct burst back = { 0 }, quick = { 0 };

	for (uint32_t i = 0; i < b->n; i++) {
		struct burst one = { 0 }, slice;
		struct span span, cut[5];
		size_t len = wire(b, i, bytes[i]);

		ck_assert_int_eq(burst_parse(&one, &span, bytes[i], len), PARSE_OK);
		ck_assert_uint_eq(one.op_first, burst_opcode(b, i));
		ck_assert_uint_eq(one.psn.v, psn_add(b->psn, i).v);
		same_payload(&one, burst_pkt_off(b, i));
		burst_slice(b, i, 1, &slice, cut);
		ck_assert_uint_eq(slice.op_first, one.op_first);
		ck_assert_uint_eq(slice.op_last, one.op_first);
		ck_assert_uint_eq(slice.psn.v, one.psn.v);
		ck_assert(slice.se == one.se && slice.ackreq == one.ackreq);
		same_payload(&slice, burst_pkt_off(b, i));
		if (i == 0) {
			back = one;
			spans[0] = span;
			back.span = spans;
			quick = one;
			quick_spans[0] = span;
			quick.span = quick_spans;
		} else {
			bool middle = bytes[i][0] == bytes[i - 1][0]; /* and so was the one before */

			ck_assert(burst_join(&back, &one, spans, MAX_PKTS));
			if (burst_continue(&quick, bytes[i - 1], bytes[i], len, quick_spans, MAX_PKTS))
				ck_assert(middle);
			else
				ck_assert((!middle || slice.se) && burst_join(&quick, &one, quick_spans, MAX_PKTS));
		}
	}
	same_fields(&back, b);
	same_payload(&back, 0);
	same_fields(&quick, b);
	same_payload(&quick, 0);
}

START_TEST(every_opcode_alone) /* conf: CA17-2, rule 3.1, rule 3.2, rule 3.3, rule 3.4 */
{
	unsigned n = 0;

	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);

		if (!op->name)
			continue;
		n++;
		for (uint32_t k = 0; k < 40; k++) {
			uint32_t len = op->pay == PAY_NONE   ? 0
				       : op->pay == PAY_8    ? 8
				       : op->pay == PAY_FULL ? MTU
				       : op->pay == PAY_SOME ? 1 + rnd() % MTU
							     : k;
			struct burst b = make((uint8_t)code, (uint8_t)code, 1, len);

			there_and_back(&b);
		}
	}
	ck_assert_uint_eq(n, 25 + 14 + 2 + 25 + 1); /* RC, UC, UD, XRC, CNP */
}
END_TEST

static const struct {
	uint8_t first, last;
} kinds[] = {
	{ SVC_RC | OP_SEND_FIRST, SVC_RC | OP_SEND_LAST },
	{ SVC_RC | OP_SEND_FIRST, SVC_RC | OP_SEND_LAST_IMM },
	{ SVC_RC | OP_SEND_FIRST, SVC_RC | OP_SEND_LAST_INV },
	{ SVC_RC | OP_WRITE_FIRST, SVC_RC | OP_WRITE_LAST },
	{ SVC_RC | OP_WRITE_FIRST, SVC_RC | OP_WRITE_LAST_IMM },
	{ SVC_RC | OP_READ_RESP_FIRST, SVC_RC | OP_READ_RESP_LAST },
	{ SVC_UC | OP_SEND_FIRST, SVC_UC | OP_SEND_LAST },
	{ SVC_UC | OP_SEND_FIRST, SVC_UC | OP_SEND_LAST_IMM },
	{ SVC_UC | OP_WRITE_FIRST, SVC_UC | OP_WRITE_LAST },
	{ SVC_UC | OP_WRITE_FIRST, SVC_UC | OP_WRITE_LAST_IMM },
	/* bursts that are a part of a message */
	{ SVC_RC | OP_SEND_MIDDLE, SVC_RC | OP_SEND_LAST_IMM },
	{ SVC_RC | OP_WRITE_MIDDLE, SVC_RC | OP_WRITE_LAST },
	{ SVC_RC | OP_WRITE_FIRST, SVC_RC | OP_WRITE_MIDDLE },
	{ SVC_RC | OP_READ_RESP_MIDDLE, SVC_RC | OP_READ_RESP_MIDDLE },
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

START_TEST(every_burst)
{
	for (size_t k = 0; k < KINDS; k++) {
		bool whole = opcode_get(kinds[k].last)->place == PLACE_LAST;

		for (uint32_t n = 2; n <= MAX_PKTS; n = n < 5 ? n + 1 : n + 13) {
			struct burst b = make(kinds[k].first, kinds[k].last, n, whole ? 1 + rnd() % MTU : MTU);

			there_and_back(&b);
			b = make(kinds[k].first, kinds[k].last, n, MTU);
			there_and_back(&b);
		}
	}
}
END_TEST

START_TEST(slices)
{
	for (size_t k = 0; k < KINDS; k++) {
		bool whole = opcode_get(kinds[k].last)->place == PLACE_LAST;
		struct burst b = make(kinds[k].first, kinds[k].last, 9, whole ? 1 + rnd() % MTU : MTU);

		for (uint32_t from = 0; from < 9; from++) {
			for (uint32_t n = 1; n <= 9 - from; n++) {
				struct burst s;
				struct span spans[5];
				bool end = from + n == 9;

				burst_slice(&b, from, n, &s, spans);
				ck_assert_uint_eq(s.n, n);
				ck_assert_uint_eq(s.mtu, MTU);
				ck_assert_uint_eq(s.psn.v, psn_add(b.psn, from).v);
				ck_assert_uint_eq(s.payload_len,
						  end ? b.payload_len - (uint64_t)from * MTU : (uint64_t)n * MTU);
				ck_assert(s.ackreq == (end && b.ackreq) && s.se == (end && b.se));
				for (uint32_t i = 0; i < n; i++) {
					ck_assert_uint_eq(burst_opcode(&s, i), burst_opcode(&b, from + i));
					ck_assert_uint_eq(burst_pkt_len(&s, i), burst_pkt_len(&b, from + i));
				}
				same_payload(&s, (uint64_t)from * MTU);
			}
		}
	}
}
END_TEST

/* ---- what must be refused ------------------------------------------------ */

static enum parse_err parse(const uint8_t *data, size_t len)
{
	struct burst b = { 0 };
	struct span span;

	return burst_parse(&b, &span, data, len);
}

START_TEST(headers_cut_short) /* conf: CA17-24, rule 3.2 */
{
	uint8_t bytes[PKT_HDR_MAX + MTU];

	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);
		struct burst b;

		if (!op->name)
			continue;
		b = make((uint8_t)code, (uint8_t)code, 1, op->pay == PAY_FULL ? MTU : op->pay == PAY_NONE ? 0 : 8);
		wire(&b, 0, bytes);
		for (size_t len = 0; len < op->hdr_len; len++)
			ck_assert_int_eq(parse(bytes, len), PARSE_SHORT);
	}
}
END_TEST

START_TEST(malformed) /* conf: CA17-24, rule 3.1 */
{
	const uint8_t op = SVC_RC | OP_SEND_ONLY;
	uint8_t p[PKT_HDR_MAX + MTU];
	struct burst b = make(op, op, 1, 6);
	size_t len = wire(&b, 0, p);

	ck_assert_uint_eq(len, 12 + 8);
	ck_assert_int_eq(parse(p, len), PARSE_OK);
	for (unsigned tver = 1; tver < 16; tver++) {
		p[1] = (uint8_t)((p[1] & 0xf0) | tver);
		ck_assert_int_eq(parse(p, len), PARSE_TVER);
	}
	p[1] &= 0xf0;
	ck_assert_int_eq(parse(p, len - 1), PARSE_PAD);
	ck_assert_int_eq(parse(p, len - 2), PARSE_PAD);
	ck_assert_int_eq(parse(p, len - 3), PARSE_PAD);
	ck_assert_int_eq(parse(p, 12), PARSE_PAD); /* PadCnt 2 and nothing there */
	p[1] &= 0xcf;
	ck_assert_int_eq(parse(p, 12), PARSE_OK);
	memset(p + 5, 0, 3);
	ck_assert_int_eq(parse(p, len), PARSE_QPN0);
	p[7] = 1;
	for (unsigned code = 0; code < 256; code++) {
		p[0] = (uint8_t)code;
		if (!opcode_get(p[0])->name)
			ck_assert_int_eq(parse(p, sizeof(p)), PARSE_OPCODE);
	}
}
END_TEST

START_TEST(payload_rules) /* conf: rule 3.5 */
{
	uint8_t p[PKT_HDR_MAX + MTU + 4];
	unsigned seen[PAY_8 + 1] = { 0 };

	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);

		if (!op->name)
			continue;
		seen[op->pay]++;
		for (uint32_t len = 0; len <= 20; len++) {
			enum parse_err want = PARSE_OK;

			memset(p, 0, sizeof(p));
			p[0] = (uint8_t)code;
			p[1] = (uint8_t)(pad_len(len) << 4);
			p[7] = 16;
			if (op->pay == PAY_NONE ? len != 0 : op->pay == PAY_8 ? len != 8 : op->pay != PAY_ANY && !len)
				want = PARSE_PAYLOAD;
			else if (op->pay == PAY_FULL && len % 4)
				want = PARSE_PAYLOAD;
			ck_assert_msg(parse(p, op->hdr_len + len + pad_len(len)) == want, "%s %u", op->name, len);
		}
	}
	for (int pay = 0; pay <= PAY_8; pay++)
		ck_assert_uint_gt(seen[pay], 0);
}
END_TEST

/* clang-format off */
/* FIRST, MIDDLE and the packet to come, as three bursts of one; join_case spoils one thing. */
enum spoil { NOTHING, PSN, PSN_BACK, DQPN, PKEY, MIGREQ, SGID, DGID, FLOW, TCLASS, HOPS, SERVICE, KIND, FIRST, ONLY, LONGER,
	     SHORT_MIDDLE, NO_ROOM, NOT_ONE, BEHIND_SHORT, BEHIND_LAST, SPOILS };
/* clang-format on */

static bool joins(enum spoil what)
{
	struct burst b = make(SVC_RC | OP_SEND_FIRST, SVC_RC | OP_SEND_MIDDLE, 2, MTU), whole, p;
	struct span spans[16], one[8];
	unsigned room = 16;

	whole = make(SVC_RC | OP_SEND_FIRST, SVC_RC | OP_SEND_LAST, 3, 100);
	burst_slice(&whole, 0, 2, &b, spans);
	burst_slice(&whole, 2, 1, &p, one);
	switch (what) {
	case PSN: p.psn = psn_add(p.psn, 1); break;
	case PSN_BACK: p.psn = psn_sub(p.psn, 1); break;
	case DQPN: p.dqpn ^= 1; break;
	case PKEY: p.pkey ^= 1; break;
	case MIGREQ: p.migreq ^= true; break;
	case SGID: p.route.sgid[15] ^= 1; break;
	case DGID: p.route.dgid[0] ^= 1; break;
	case FLOW: p.route.flow_label ^= 1; break;
	case TCLASS: p.route.tclass ^= 1; break;
	case HOPS: p.route.hop_limit ^= 1; break;
	case SERVICE: p.op_first = p.op_last = SVC_UC | OP_SEND_LAST; break;
	case KIND: p.op_first = p.op_last = SVC_RC | OP_WRITE_LAST; break;
	case FIRST: p.op_first = p.op_last = SVC_RC | OP_SEND_FIRST; break;
	case ONLY: p.op_first = p.op_last = SVC_RC | OP_SEND_ONLY; break;
	case LONGER: p.payload_len = MTU + 1; break;
	case SHORT_MIDDLE: p.op_first = p.op_last = SVC_RC | OP_SEND_MIDDLE; break;
	case NO_ROOM: room = b.span_n + p.span_n - 1; break;
	case NOT_ONE: p.n = 2; break;
	case BEHIND_SHORT: b.payload_len--; break;
	case BEHIND_LAST: b.op_last = SVC_RC | OP_SEND_LAST; break;
	default: break;
	}
	return burst_join(&b, &p, spans, room);
}

START_TEST(join_refuses)
{
	ck_assert(joins(NOTHING));
	for (int what = NOTHING + 1; what < SPOILS; what++)
		ck_assert_msg(!joins((enum spoil)what), "spoil %d", what);
}
END_TEST

/* Two MIDDLEs, of which the second has a bit turned somewhere in the header or another length: only AckReq may differ. */
START_TEST(continue_refuses)
{
	struct burst whole = make(SVC_RC | OP_WRITE_FIRST, SVC_RC | OP_WRITE_LAST, 4, 100), first = { 0 }, b;
	static uint8_t prev[PKT_HDR_MAX + MTU + 4], next[PKT_HDR_MAX + MTU + 4];
	struct span spans[2];
	size_t len = wire(&whole, 1, prev);

	ck_assert_int_eq(burst_parse(&first, spans, prev, len), PARSE_OK);
	wire(&whole, 2, next);
	for (unsigned bit = 0; bit < 12 * 8; bit++) {
		b = first;
		next[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_msg(burst_continue(&b, prev, next, len, spans, 2) == (bit / 8 == 8), "bit %u", bit);
		ck_assert_uint_eq(b.n, bit / 8 == 8 ? 2 : 1);
		ck_assert(b.ackreq == (first.ackreq || bit == 8 * 8 + 7));
		next[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	b = first;
	ck_assert(!burst_continue(&b, prev, next, len - 4, spans, 2));
	ck_assert(!burst_continue(&b, prev, next, len + 4, spans, 2));
	ck_assert(!burst_continue(&b, prev, next, len, spans, 1));
	ck_assert(burst_continue(&b, prev, next, len, spans, 2));
}
END_TEST

/* A MIDDLE of XRC that is 4 bytes short is as long as one of RC: its XRCETH is not payload. */
START_TEST(continue_knows_xrc) /* conf: rule 3.4 */
{
	struct burst whole = make(SVC_XRC | OP_WRITE_FIRST, SVC_XRC | OP_WRITE_LAST, 4, 100), first = { 0 };
	static uint8_t prev[PKT_HDR_MAX + MTU], next[PKT_HDR_MAX + MTU];
	struct span spans[2];
	size_t len = wire(&whole, 1, prev);

	ck_assert_int_eq(burst_parse(&first, spans, prev, len), PARSE_OK);
	ck_assert_uint_eq(wire(&whole, 2, next), len);
	ck_assert(!burst_continue(&first, prev, next, len - 4, spans, 2));
	ck_assert(!burst_continue(&first, prev, next, len, spans, 2));
	ck_assert_uint_eq(first.n, 1);
}
END_TEST

/* A burst that is not open takes no packet, whatever that is: a receiver does not even ask. */
START_TEST(closed_takes_nothing)
{
	for (unsigned op = 0; op < 256; op++) {
		for (unsigned more = 0; more < 256 && opcode_get((uint8_t)op)->name; more++) {
			struct span spans[4] = { { 0 } };
			struct burst b = { .op_first = (uint8_t)op, .op_last = (uint8_t)op, .n = 1, .mtu = MTU };
			struct burst p = { .op_first = (uint8_t)more, .op_last = (uint8_t)more, .n = 1, .mtu = MTU };

			b.payload_len = p.payload_len = MTU;
			b.dqpn = p.dqpn = 7;
			p.psn = psn(1);
			b.span = spans;
			p.span = spans + 1;
			b.span_n = p.span_n = 1;
			if (opcode_get((uint8_t)more)->name && !burst_open(&b))
				ck_assert_msg(!burst_join(&b, &p, spans, 4), "%#x %#x", op, more);
			else if (more == op && opcode_get((uint8_t)op)->place == PLACE_MIDDLE)
				ck_assert_msg(burst_join(&b, &p, spans, 4), "%#x", op);
		}
	}
}
END_TEST

/* An ACK asked for in the middle is asked for at the end; a solicited event is the last packet's alone. */
START_TEST(join_keeps_ackreq)
{
	struct burst whole = make(SVC_RC | OP_SEND_FIRST, SVC_RC | OP_SEND_LAST, 3, 100), b, p;
	struct span spans[16], one[8];

	whole.se = whole.ackreq = false;
	burst_slice(&whole, 0, 2, &b, spans);
	burst_slice(&whole, 2, 1, &p, one);
	b.ackreq = b.se = true;
	ck_assert(burst_join(&b, &p, spans, 16));
	ck_assert(b.ackreq && !b.se);
}
END_TEST

/* READ_RESP: of two AETHs the later counts; its MSN is the newer one. */
START_TEST(join_takes_last_aeth)
{
	struct burst whole = make(SVC_RC | OP_READ_RESP_FIRST, SVC_RC | OP_READ_RESP_LAST, 2, 100), b, p;
	struct span spans[16], one[8];

	burst_slice(&whole, 0, 1, &b, spans);
	burst_slice(&whole, 1, 1, &p, one);
	b.msn = 5;
	p.msn = 6;
	b.syndrome = 0;
	p.syndrome = 0x1f;
	ck_assert(burst_join(&b, &p, spans, 16));
	ck_assert_uint_eq(b.msn, 6);
	ck_assert_uint_eq(b.syndrome, 0x1f);
}
END_TEST

/* Immediate data is four bytes, never a number. */
START_TEST(imm_on_the_wire) /* conf: rule 3.2 */
{
	uint8_t p[PKT_HDR_MAX];
	struct burst b = make(SVC_RC | OP_WRITE_ONLY_IMM, SVC_RC | OP_WRITE_ONLY_IMM, 1, 0);
	const uint8_t imm[4] = { 1, 2, 3, 4 };

	memcpy(&b.imm, imm, 4);
	ck_assert_uint_eq(burst_hdr(&b, 0, p), 32);
	ck_assert_mem_eq(p + 28, imm, 4);
}
END_TEST

TEST_MAIN("burst", every_opcode_alone, every_burst, slices, headers_cut_short, malformed, payload_rules, join_refuses,
	  continue_refuses, continue_knows_xrc, closed_takes_nothing, join_keeps_ackreq, join_takes_last_aeth,
	  imm_on_the_wire)
