/* SPDX-License-Identifier: MIT */
/* rule.c - each way to match, and each way to choose among what matches. */
#include "rig.h"
#include "proto/cm_msg.h"
#include "t/suite.h"

static struct lab lab;

/* Those of n requests of QP 1, with consecutive PSNs, that are dropped: a bit each. */
static uint64_t dropped(const char *text, unsigned n)
{
	uint64_t bits = 0;

	lab_begin(&lab, text);
	for (unsigned i = 0; i < n; i++)
		bits |= (uint64_t)lab_drops(&lab, QP(1), OP_WRITE_ONLY, (int)i) << i;
	lab_end(&lab);
	return bits;
}

#define RULE(match, when) "rules:\n- match: {" match "}\n  when: {" when "}\n  do: drop\n"

START_TEST(by_default_what_leaves)
{
	lab_begin(&lab, "rules: [{do: drop}]");
	ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	lab_pkt(&lab, QP(1), TAP_IN, OP_SEND_ONLY, 0);
	ck_assert(!lab_decide(&lab)->drop);
	lab_end(&lab);
}
END_TEST

START_TEST(direction)
{
	lab_begin(&lab, RULE("direction: in", ""));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	lab_pkt(&lab, QP(1), TAP_IN, OP_SEND_ONLY, 0);
	ck_assert(lab_decide(&lab)->drop);
	lab_end(&lab);
	lab_begin(&lab, RULE("direction: both", ""));
	ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	lab_pkt(&lab, QP(1), TAP_IN, OP_SEND_ONLY, 0);
	ck_assert(lab_decide(&lab)->drop);
	lab_end(&lab);
}
END_TEST

START_TEST(device)
{
	lab_begin(&lab, RULE("device: rdmad1", ""));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	lab_pkt(&lab, QP(1), TAP_OUT, OP_SEND_ONLY, 1)->device = 1;
	ck_assert(lab_decide(&lab)->drop);
	lab_end(&lab);
}
END_TEST

START_TEST(path)
{
	lab_begin(&lab, RULE("path: local", ""));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	lab_pkt(&lab, QP(1), TAP_OUT, OP_SEND_ONLY, 1)->local = true;
	ck_assert(lab_decide(&lab)->drop);
	lab_end(&lab);
	lab_begin(&lab, RULE("path: wire", ""));
	ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	lab_end(&lab);
}
END_TEST

/* Those of QPs 1 to 4 that it means. */
static unsigned qps(const char *text)
{
	unsigned bits = 0;

	lab_begin(&lab, text);
	for (unsigned i = 1; i <= 4; i++)
		bits |= (unsigned)lab_drops(&lab, QP(i), OP_SEND_ONLY, 0) << i;
	lab_end(&lab);
	return bits;
}

START_TEST(queue_pairs)
{
	uint32_t base[RULE_DEVICES] = { 2 };
	struct rule_error err;
	const char *second = RULE("qp: {nth: 2}", "");

	ck_assert_uint_eq(qps(RULE("qp: 0x103", "")), 1u << 3);
	ck_assert_uint_eq(qps(RULE("qp: {number: 258}", "")), 1u << 2);
	ck_assert_uint_eq(qps(RULE("qp: {nth: 2..3}", "")), 3u << 2);
	ck_assert_uint_eq(qps(RULE("qp: {nth: 3..}", "")), 3u << 3);
	ck_assert_uint_eq(qps(RULE("program: even", "")), 1u << 2 | 1u << 4);
	ck_assert_uint_eq(qps(RULE("program: odd, qp: {nth: 1}", "")), 1u << 1);
	/* Each device counts its own. */
	lab_begin(&lab, RULE("qp: {nth: 2}", ""));
	ck_assert(lab_drops(&lab, QP(2), OP_SEND_ONLY, 0));
	lab_pkt(&lab, QP(2), TAP_OUT, OP_SEND_ONLY, 0)->device = 1;
	ck_assert(lab_decide(&lab)->drop);
	lab_end(&lab);
	/* Counted since the rule came. */
	lab_begin(&lab, RULE("packet: cm", ""));
	ck_assert_int_eq(rules_add(&lab.rules, second, strlen(second), &(struct rule_host){ .qp_base = base }, &err),
			 1);
	ck_assert(!lab_drops(&lab, QP(2), OP_SEND_ONLY, 0));
	ck_assert(lab_drops(&lab, QP(4), OP_SEND_ONLY, 0));
	lab_end(&lab);
}
END_TEST

/* The operations that it means: a bit each. */
static uint32_t ops(const char *text)
{
	uint32_t bits = 0;

	lab_begin(&lab, text);
	for (unsigned i = 0; i < 32; i++)
		if (opcode_get((uint8_t)i)->name)
			bits |= (uint32_t)lab_drops(&lab, QP(1), i, 0) << i;
	lab_end(&lab);
	return bits;
}

#define BIT(op) (1u << OP_##op)
#define SENDS                                                                                        \
	(BIT(SEND_FIRST) | BIT(SEND_MIDDLE) | BIT(SEND_LAST) | BIT(SEND_LAST_IMM) | BIT(SEND_ONLY) | \
	 BIT(SEND_ONLY_IMM) | BIT(SEND_LAST_INV) | BIT(SEND_ONLY_INV))
#define WRITES                                                                                            \
	(BIT(WRITE_FIRST) | BIT(WRITE_MIDDLE) | BIT(WRITE_LAST) | BIT(WRITE_LAST_IMM) | BIT(WRITE_ONLY) | \
	 BIT(WRITE_ONLY_IMM))
#define RESPONSES \
	(BIT(READ_RESP_FIRST) | BIT(READ_RESP_MIDDLE) | BIT(READ_RESP_LAST) | BIT(READ_RESP_ONLY) | BIT(ATOMIC_ACK))

START_TEST(packets)
{
	ck_assert_uint_eq(ops(RULE("packet: send", "")), SENDS);
	ck_assert_uint_eq(ops(RULE("packet: write", "")), WRITES);
	ck_assert_uint_eq(ops(RULE("packet: read", "")), BIT(READ_REQUEST));
	ck_assert_uint_eq(ops(RULE("packet: atomic", "")), BIT(COMPARE_SWAP) | BIT(FETCH_ADD));
	ck_assert_uint_eq(ops(RULE("packet: flush", "")), BIT(FLUSH));
	ck_assert_uint_eq(ops(RULE("packet: atomic-write", "")), BIT(ATOMIC_WRITE));
	ck_assert_uint_eq(ops(RULE("packet: response", "")), RESPONSES);
	ck_assert_uint_eq(ops(RULE("packet: request", "")), SENDS | WRITES | BIT(READ_REQUEST) | BIT(COMPARE_SWAP) |
								    BIT(FETCH_ADD) | BIT(FLUSH) | BIT(ATOMIC_WRITE));
	ck_assert_uint_eq(ops(RULE("packet: [send_middle, WRITE-LAST]", "")), BIT(SEND_MIDDLE) | BIT(WRITE_LAST));
	ck_assert_uint_eq(ops(RULE("packet: ack", "")), BIT(ACKNOWLEDGE));
	ck_assert_uint_eq(ops(RULE("packet: acknowledge", "")), BIT(ACKNOWLEDGE));
	ck_assert_uint_eq(ops(RULE("packet: [nak, rnr]", "")), 0);
}
END_TEST

START_TEST(acknowledgements)
{
	static const struct {
		const char *text;
		uint8_t syndrome;
		bool yes;
	} t[] = {
		{ RULE("packet: nak", ""), 0x60, true },
		{ RULE("packet: nak", ""), 0x20, false },
		{ RULE("packet: nak", ""), 0x1f, false },
		{ RULE("packet: rnr", ""), 0x2c, true },
		{ RULE("packet: rnr", ""), 0x62, false },
		{ RULE("packet: ack", ""), 0x62, false },
		{ RULE("packet: [acknowledge, nak]", ""), 0x1f, true },
		{ RULE("packet: [ack, nak]", ""), 0x62, true },
		{ RULE("packet: acknowledge", ""), 0x2c, true },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		lab_begin(&lab, t[i].text);
		lab_pkt(&lab, QP(1), TAP_OUT, OP_ACKNOWLEDGE, 0);
		lab.b.syndrome = t[i].syndrome;
		ck_assert_msg(lab_decide(&lab)->drop == t[i].yes, "%s of %#x", t[i].text, t[i].syndrome);
		lab_end(&lab);
	}
}
END_TEST

/* A datagram of queue pair 1 with this attribute. */
static bool drops_cm(uint16_t attr)
{
	memset(lab.payload, 0, MAD_LEN);
	cm_msg_put(lab.payload, &(struct cm_msg){ .attr = attr });
	lab_pkt(&lab, 1, TAP_OUT, SVC_UD | OP_SEND_ONLY, 0);
	lab.b.dqpn = 1;
	lab.b.payload_len = lab.span.len = MAD_LEN;
	return lab_decide(&lab)->drop;
}

START_TEST(service_and_cm)
{
	lab_begin(&lab, RULE("service: [ud, xrc]", ""));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	ck_assert(lab_drops(&lab, QP(1), SVC_UD | OP_SEND_ONLY, 1));
	lab_end(&lab);
	lab_begin(&lab, RULE("service: [rc, xrc]", "nth: 1"));
	ck_assert(!drops_cm(CM_REQ));
	ck_assert(!lab_drops(&lab, QP(1), OPCODE_CNP, 0));
	ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, 0)); /* neither of them was the first */
	lab_end(&lab);
	lab_begin(&lab, RULE("service: ud", ""));
	ck_assert(drops_cm(CM_REQ));
	ck_assert(!lab_drops(&lab, QP(1), OPCODE_CNP, 0));
	lab_end(&lab);
	lab_begin(&lab, RULE("service: cnp", ""));
	ck_assert(lab_drops(&lab, QP(1), OPCODE_CNP, 0));
	ck_assert(!drops_cm(CM_REQ));
	lab_end(&lab);
	lab_begin(&lab, RULE("packet: cm", ""));
	lab_pkt(&lab, 1, TAP_OUT, SVC_UD | OP_SEND_ONLY, 0);
	lab.b.dqpn = 1;
	ck_assert(lab_decide(&lab)->drop);
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	lab_end(&lab);
	/* "send" means no datagrams of the connection manager. */
	lab_begin(&lab, RULE("packet: send", ""));
	lab_pkt(&lab, 1, TAP_OUT, SVC_UD | OP_SEND_ONLY, 0);
	lab.b.dqpn = 1;
	ck_assert(!lab_decide(&lab)->drop);
	lab_end(&lab);
}
END_TEST

START_TEST(cm_messages)
{
	char text[RULE_TEXT];
	struct rule_error err;

	lab_begin(&lab, RULE("packet: [cm-rep, cm-sidr-req]", "nth: 2"));
	ck_assert(!drops_cm(CM_REP));
	ck_assert(!drops_cm(CM_REQ));
	ck_assert(drops_cm(CM_SIDR_REQ));
	ck_assert(!drops_cm(CM_REP));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	ck_assert(rules_note(&lab.rules, 1, text, sizeof(text)));
	ck_assert_str_eq(text, "rdmad0 CM SIDR_REQ out UD_SEND_ONLY: dropped by rule 1");
	lab_end(&lab);
	lab_begin(&lab, RULE("packet: cm", ""));
	ck_assert(drops_cm(CM_RTU));
	lab.payload[1] = 3; /* of another class */
	lab_pkt(&lab, 1, TAP_OUT, SVC_UD | OP_SEND_ONLY, 0);
	lab.b.dqpn = 1;
	ck_assert(lab_decide(&lab)->drop);
	ck_assert_uint_eq(lab.p.cm, 0);
	ck_assert_int_lt(rules_add(&lab.rules, "rules: [{match: {packet: cm-ack}, do: drop}]", 44,
				   &(struct rule_host){ 0 }, &err),
			 0);
	lab_end(&lab);
}
END_TEST

/* Counted by who speaks first, not by who was made first; those that only listen do not count. */
START_TEST(senders)
{
	static const char second[] = RULE("qp: {sender: 1}", "");
	struct rule_error err;

	lab_begin(&lab, RULE("qp: {sender: 2..3}", ""));
	lab_pkt(&lab, QP(3), TAP_IN, OP_SEND_ONLY, 0);
	ck_assert(!lab_decide(&lab)->drop);
	ck_assert(!lab_drops(&lab, QP(4), OP_SEND_ONLY, 0));
	ck_assert(lab_drops(&lab, QP(2), OP_ACKNOWLEDGE, 0));
	ck_assert(lab_drops(&lab, QP(3), OP_ACKNOWLEDGE, 0));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	ck_assert(!lab_drops(&lab, QP(4), OP_SEND_ONLY, 1));
	/* Since the rule came. */
	ck_assert_int_eq(rules_add(&lab.rules, second, strlen(second), &(struct rule_host){ 0 }, &err), 1);
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 2));
	ck_assert(lab_drops(&lab, QP(5), OP_SEND_ONLY, 0));
	ck_assert(!lab_drops(&lab, QP(6), OP_SEND_ONLY, 0));
	lab_end(&lab);
}
END_TEST

START_TEST(noted)
{
	const struct rule_note *n;

	lab_begin(&lab, "rules: [{match: {packet: ack}, do: note}]");
	ck_assert(!lab_drops(&lab, QP(2), OP_ACKNOWLEDGE, 5));
	ck_assert_str_eq(lab.v.text, "noted by rule 1");
	n = rules_note_get(&lab.rules, 1);
	ck_assert(n && n->sender == 1 && n->has_rel && n->rel == 5 && n->iter == 1 && n->syndrome == aeth_ack());
	ck_assert(!rules_note_get(&lab.rules, 2) && !rules_note_get(&lab.rules, 0));
	lab_end(&lab);
}
END_TEST

START_TEST(cnp)
{
	lab_begin(&lab, RULE("packet: [send, ack]", ""));
	ck_assert(!lab_drops(&lab, QP(1), OPCODE_CNP, 0));
	lab_end(&lab);
	lab_begin(&lab, RULE("packet: cnp", ""));
	ck_assert(lab_drops(&lab, QP(1), OPCODE_CNP, 0));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_MIDDLE, 0));
	lab_end(&lab);
}
END_TEST

START_TEST(psns)
{
	ck_assert_uint_eq(dropped(RULE("psn: 0xfffff2", ""), 32), 1u << 2);
	ck_assert_uint_eq(dropped(RULE("psn: 0..3", ""), 32), 0xf0000u); /* behind the wrap */
	ck_assert_uint_eq(dropped(RULE("psn: +3", ""), 32), 1u << 3);
	ck_assert_uint_eq(dropped(RULE("psn: +0..+2", ""), 32), 7u);
	ck_assert_uint_eq(dropped(RULE("psn: +14..+17", ""), 32), 0xfu << 14);
	ck_assert_uint_eq(dropped(RULE("psn: +30..", ""), 32), 3u << 30);
}
END_TEST

START_TEST(transmissions)
{
	lab_begin(&lab, RULE("psn: +3, iter: 1..2", ""));
	ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, 3));
	ck_assert_uint_eq(lab.p.iter, 1);
	ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, 3));
	ck_assert_uint_eq(lab.p.iter, 2);
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 3));
	ck_assert_uint_eq(lab.p.iter, 3);
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 2));
	/* The response to it is not it. */
	ck_assert(lab_drops(&lab, QP(1), OP_READ_RESP_ONLY, 3));
	lab_end(&lab);
	lab_begin(&lab, RULE("iter: 2..", ""));
	for (int i = 0; i < 100000; i++)
		ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, i));
	for (int i = 40000; i < 100000; i++) /* back further than what is counted at first */
		ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, i));
	ck_assert_uint_eq(lab.p.iter, 2);
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 100000));
	/* Another QP, or the same number given out again, begins anew. */
	ck_assert(!lab_drops(&lab, QP(2), OP_SEND_ONLY, 7));
	flow_gone(&lab.flows, 0, QP(1));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 7));
	lab_end(&lab);
}
END_TEST

/* However many came before, one that is sent again after many others is told from one that is new. */
START_TEST(transmissions_late)
{
	static const int jumps[] = { 0, 4000000, 8000000, 12000000 };

	for (unsigned i = 0; i < 4; i++) {
		lab_begin(&lab, RULE("iter: 1", ""));
		for (unsigned k = 0; k <= i; k++)
			ck_assert(lab_drops(&lab, QP(1), OP_WRITE_ONLY, jumps[k]));
		for (int rel = jumps[i] + 1; rel < jumps[i] + 2000; rel++)
			ck_assert(lab_drops(&lab, QP(1), OP_WRITE_ONLY, rel));
		for (int rel = jumps[i] + 1; rel < jumps[i] + 2000; rel++)
			ck_assert_msg(!lab_drops(&lab, QP(1), OP_WRITE_ONLY, rel), "%d", rel);
		lab_end(&lab);
	}
}
END_TEST

START_TEST(time_window)
{
	lab_begin(&lab, RULE("time: 2ms..4ms", ""));
	for (unsigned ms = 0; ms < 7; ms++, lab.now += MS)
		ck_assert_int_eq(lab_drops(&lab, QP(1), OP_SEND_ONLY, (int)ms), ms >= 2 && ms <= 4);
	lab_end(&lab);
	lab_begin(&lab, RULE("time: 2ms..", ""));
	lab.now += 3000 * MS;
	ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	lab_end(&lab);
}
END_TEST

START_TEST(counts)
{
	ck_assert_uint_eq(dropped(RULE("", "nth: 3"), 32), 1u << 2);
	ck_assert_uint_eq(dropped(RULE("", "nth: 3..5"), 32), 7u << 2);
	ck_assert_uint_eq(dropped(RULE("", "nth: 31.."), 32), 3u << 30);
	ck_assert_uint_eq(dropped(RULE("", "every: 8"), 32), 0x80808080u);
	ck_assert_uint_eq(dropped(RULE("", "every: 8, times: 2"), 32), 0x8080u);
	ck_assert_uint_eq(dropped(RULE("", "times: 3"), 32), 7u);
	ck_assert_uint_eq(dropped(RULE("packet: read", "nth: 1"), 32), 0);
}
END_TEST

START_TEST(counts_per_qp)
{
	ck_assert_uint_eq(qps(RULE("", "nth: 1")), 1u << 1);
	ck_assert_uint_eq(qps(RULE("", "nth: 1, per: qp")), 0x1eu);
	ck_assert_uint_eq(qps(RULE("", "nth: 1, per: rule")), 1u << 1);
}
END_TEST

START_TEST(probability)
{
	unsigned n = 0;

	lab_begin(&lab, RULE("", "probability: 2%"));
	for (int i = 0; i < 100000; i++)
		n += lab_drops(&lab, QP(1), OP_WRITE_ONLY, i);
	ck_assert_uint_ge(n, 1800);
	ck_assert_uint_le(n, 2200);
	lab_end(&lab);
	ck_assert_uint_eq(dropped(RULE("", "probability: 0"), 64), 0);
	ck_assert_uint_eq(dropped(RULE("", "probability: 100%"), 64), ~0ull);
}
END_TEST

/* The same seed and packets: the same fate, whatever comes between; another seed, rule, QP or transmission: another. */
START_TEST(seeds)
{
	static const char seed7[] = "seed: 7\nrules: [{when: {probability: 0.5}, do: drop}]";
	uint64_t one = dropped(seed7, 64), qp2 = 0, mixed = 0, again = 0;

	ck_assert_uint_ne(one, 0);
	ck_assert_uint_eq(dropped(seed7, 64), one);
	ck_assert_uint_ne(dropped("seed: 8\nrules: [{when: {probability: 0.5}, do: drop}]", 64), one);
	lab_begin(&lab, seed7);
	for (unsigned i = 0; i < 64; i++) {
		qp2 |= (uint64_t)lab_drops(&lab, QP(2), OP_WRITE_ONLY, (int)i) << i;
		mixed |= (uint64_t)lab_drops(&lab, QP(1), OP_WRITE_ONLY, (int)i) << i;
		lab_drops(&lab, QP(3), OP_ACKNOWLEDGE, (int)i);
	}
	for (unsigned i = 0; i < 64; i++)
		again |= (uint64_t)lab_drops(&lab, QP(1), OP_WRITE_ONLY, (int)i) << i;
	ck_assert_uint_eq(mixed, one);
	ck_assert_uint_ne(qp2, one);
	ck_assert_uint_ne(again, one);
	lab_end(&lab);
}
END_TEST

START_TEST(in_turn)
{
	char text[RULE_TEXT];

	lab_begin(&lab, "rules:\n"
			"- {name: late, match: {packet: write}, do: {delay: 1ms}}\n"
			"- {match: {packet: write}, do: [ecn, drop, {delay: 9ms}]}\n"
			"- {match: {packet: write}, do: ecn}\n");
	ck_assert(lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0));
	ck_assert_uint_eq(lab.v.delay_ns, MS);
	ck_assert_str_eq(lab.v.text,
			 "1 ms late by rule 1 (late); marked as having met congestion by rule 2; dropped by rule 2");
	ck_assert_uint_eq(lab.rules.v[2]->seen, 0);
	ck_assert(rules_note(&lab.rules, 2, text, sizeof(text)));
	ck_assert_str_eq(
		text,
		"rdmad0 QP 1 out RC_WRITE_ONLY PSN +0: marked as having met congestion by rule 2; dropped by rule 2");
	ck_assert(!rules_note(&lab.rules, 3, text, sizeof(text)));
	lab_end(&lab);
}
END_TEST

START_TEST(come_and_go)
{
	static const char one[] = "rules: [{do: drop}]";
	struct rule_error err;

	lab_begin(&lab, one);
	ck_assert_int_eq(rules_add(&lab.rules, one, strlen(one), &(struct rule_host){ .owner = 5 }, &err), 1);
	ck_assert_uint_eq(lab.rules.v[1]->id, 2);
	ck_assert_uint_eq(rules_clear(&lab.rules, 7, 0), 0);
	ck_assert_uint_eq(rules_clear(&lab.rules, 0, 5), 1);
	ck_assert_uint_eq(rules_clear(&lab.rules, 1, 0), 1);
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 0));
	/* A number is never used twice. */
	ck_assert_int_eq(rules_add(&lab.rules, one, strlen(one), &(struct rule_host){ 0 }, &err), 1);
	ck_assert_uint_eq(lab.rules.v[0]->id, 3);
	lab_end(&lab);
}
END_TEST

/* Of the list the last RULES_LOG are kept. */
START_TEST(long_log)
{
	char text[RULE_TEXT];

	lab_begin(&lab, "rules: [{do: drop}]");
	for (unsigned i = 0; i < RULES_LOG + 10; i++)
		lab_drops(&lab, QP(1), OP_SEND_ONLY, (int)i);
	ck_assert(!rules_note(&lab.rules, 10, text, sizeof(text)));
	ck_assert(rules_note(&lab.rules, 11, text, sizeof(text)));
	ck_assert_str_eq(text, "rdmad0 QP 1 out RC_SEND_ONLY PSN +10: dropped by rule 1");
	ck_assert(rules_note(&lab.rules, RULES_LOG + 10, text, sizeof(text)));
	lab_end(&lab);
}
END_TEST

/* Half a character at the end: of this name each has two bytes, none of which is ASCII. */
static bool is_cut(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text & 0x80 ? 1 : 0;
	return n % 2;
}

/* More is said than there is room for: what is cut off is UTF-8 still, and of a rule whose words have no room none are remembered. */
START_TEST(much_to_say)
{
	static const char name[] = "ééééééééééééééééééééééé"; /* 46 bytes */
	struct rule_suspect q = {
		.peer = -1, .qpn = QP(1), .able = 1u << ACT_DROP, .psn = psn(FIRST), .last = psn(FIRST)
	};
	char text[1024] = "rules:\n", own[60];
	size_t at = strlen(text);

	for (unsigned i = 0; i < 6; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "- {name: %s, match: {packet: write}, do: [ecn, {delay: %s}%s]}\n", name,
				       i % 2 ? "100us" : "1ms", i == 5 ? ", drop" : "");
	lab_begin(&lab, text);
	ck_assert(lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0));
	ck_assert(!is_cut(lab.v.text));
	for (unsigned i = 1; i <= 6; i++) {
		const char *said = rules_note_get(&lab.rules, i)->text;

		ck_assert(!is_cut(said));
		ck_assert_msg(i < 3 ? !strncmp(said, "marked as", 9) : i > 3 ? !*said : true, "%u: %s", i, said);
	}
	for (size_t room = sizeof(own); room > 20; room--) {
		rules_blame(&lab.rules, &q, own, room);
		ck_assert_msg(!is_cut(own), "%s", own);
	}
	lab_end(&lab);
}
END_TEST

TEST_MAIN("rule", by_default_what_leaves, direction, device, path, queue_pairs, packets, acknowledgements,
	  service_and_cm, cm_messages, senders, noted, cnp, psns, transmissions, transmissions_late, time_window,
	  counts, counts_per_qp, probability, seeds, in_turn, come_and_go, long_log, much_to_say)
