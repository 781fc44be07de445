/* SPDX-License-Identifier: MIT */
/* damage.c - corrupt: what becomes of the bytes. */
#include "rig.h"
#include "t/suite.h"

static struct lab lab;

#define DO(text) "rules: [{match: {packet: write}, do: " text "}]"

static bool icrc_good(void)
{
	static struct icrc_rx rx;
	struct icrc_flow flow;
	uint16_t id;

	icrc_rx_init(&rx);
	icrc_flow_init(&flow, lab.route.sgid, lab.route.dgid, 4791, 4791, true);
	return icrc_check(&rx, &flow, lab.room, lab.p.len, &id) && !id;
}

/* The bytes of the packet that lab is at that have changed: from..to, to not included. */
static unsigned spoilt(size_t *from, size_t *to)
{
	uint8_t before[TAP_PKT_MAX];
	unsigned bits = 0;

	ck_assert_int_eq(tap_bytes(&lab.p), 0);
	ck_assert(icrc_good());
	memcpy(before, lab.room, lab.p.len);
	ck_assert(rule_change(&lab.v, &lab.route, ROCE_PORT, lab.room, lab.p.len));
	*from = lab.p.len;
	*to = 0;
	for (size_t i = 0; i < lab.p.len - (lab.v.corrupt->fix ? 4 : 0); i++) {
		bits += (unsigned)__builtin_popcount(before[i] ^ lab.room[i]);
		if (before[i] == lab.room[i])
			continue;
		*from = i < *from ? i : *from;
		*to = i + 1;
	}
	return bits;
}

static unsigned spoil(const char *text, size_t *from, size_t *to)
{
	lab_begin(&lab, text);
	lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, 5);
	ck_assert_ptr_nonnull(lab_decide(&lab)->corrupt);
	return spoilt(from, to);
}

START_TEST(corrupt)
{
	size_t from, to;

	ck_assert_uint_eq(spoil(DO("corrupt"), &from, &to), 1);
	ck_assert(from >= 28 && to <= 128 && !icrc_good());
	lab_end(&lab);
	ck_assert_uint_eq(spoil(DO("{corrupt: {where: header, bits: 9}}"), &from, &to), 9);
	ck_assert(to <= 28 && !icrc_good());
	lab_end(&lab);
	ck_assert_uint_eq(spoil(DO("{corrupt: icrc}"), &from, &to), 1);
	ck_assert(from >= lab.p.len - 4 && !icrc_good());
	lab_end(&lab);
	ck_assert_uint_eq(spoil(DO("{corrupt: {where: payload, byte: 3, xor: 0x81, icrc: fix}}"), &from, &to), 2);
	ck_assert(from == 31 && to == 32 && icrc_good());
	lab_end(&lab);
	ck_assert_uint_eq(spoil(DO("{corrupt: any}"), &from, &to), 1);
	ck_assert(!icrc_good());
	lab_end(&lab);
}
END_TEST

/* len bytes of payload at PSN + rel; how many bits were flipped, and all of them there. */
static unsigned spoilt_payload(unsigned len, int rel)
{
	size_t from, to;
	unsigned bits;

	lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, rel);
	lab.b.payload_len = lab.span.len = len;
	lab.b.span_n = len != 0;
	ck_assert_ptr_nonnull(lab_decide(&lab)->corrupt);
	bits = spoilt(&from, &to);
	if (len)
		ck_assert_msg(from >= 28 && to <= 28 + len, "%u bytes: %zu..%zu", len, from, to);
	else
		ck_assert(to <= 28);
	return bits;
}

/* Not what fills the payload up to four bytes; and of several bits none is flipped back. */
START_TEST(corrupt_short)
{
	static const char *const text[] = { DO("corrupt"), DO("{corrupt: {bits: 2}}"), DO("{corrupt: {bits: 8}}"),
					    DO("{corrupt: {bits: 9}}") };
	static const unsigned bits[] = { 1, 2, 8, 9 };

	for (unsigned t = 0; t < 4; t++) {
		lab_begin(&lab, text[t]);
		for (int rel = 0; rel < 6000; rel++) {
			unsigned len = (unsigned)rel % 6, most = len ? len * 8 : 27 * 8;

			ck_assert_uint_eq(spoilt_payload(len, rel), bits[t] < most ? bits[t] : most);
		}
		lab_end(&lab);
	}
}
END_TEST

/* With an ICRC made anew, damage to it would be none. */
START_TEST(corrupt_any)
{
	size_t from, to;

	lab_begin(&lab, DO("{corrupt: {where: any, icrc: fix}}"));
	for (int rel = 0; rel < 1000; rel++) {
		lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, rel);
		lab_decide(&lab);
		ck_assert_uint_eq(spoilt(&from, &to), 1);
		ck_assert(icrc_good());
	}
	lab_end(&lab);
}
END_TEST

/* Of two rules, or of one, each does its part; the ICRC is as the last one leaves it. */
START_TEST(corrupt_twice)
{
	static const char *const text[] = {
		DO("[{corrupt: {where: header, byte: 3, xor: 1}}, {corrupt: {byte: 0, xor: 3, icrc: fix}}]"),
		"rules: [{do: {corrupt: {where: header, byte: 3, xor: 1, icrc: fix}}}, {do: {corrupt: {byte: 0, xor: "
		"3}}}]"
	};
	size_t from, to;

	ck_assert_uint_eq(spoil(text[0], &from, &to), 3);
	ck_assert(from == 3 && to == 29 && icrc_good());
	lab_end(&lab);
	ck_assert_uint_gt(spoil(text[1], &from, &to), 3); /* with those of the ICRC that was made to fit at first */
	ck_assert(from == 3 && !icrc_good() && !lab.v.corrupt->fix);
	lab_end(&lab);
}
END_TEST

TEST_MAIN("damage", corrupt, corrupt_twice, corrupt_short, corrupt_any)
