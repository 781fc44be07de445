/* SPDX-License-Identifier: MIT */
/* blame.c - of the rules' decisions those are found that a failure is about, and no others. */
#include "rig.h"
#include "t/suite.h"

static struct lab lab;

/* The requester is QP 1, and QP 2 its peer, on the same device; its request of that PSN has failed. */
static struct rule_suspect of_requester(int rel)
{
	psn_t p = psn(FIRST + (uint32_t)rel);

	return (struct rule_suspect){ .peer = 0, .qpn = QP(1), .dqpn = QP(2), .psn = p, .last = p, .able = ~0u };
}

static void says(const struct rule_suspect *q, unsigned n, const char *wanted)
{
	char text[400];

	ck_assert_uint_eq(rules_blame(&lab.rules, q, text, sizeof(text)), n);
	ck_assert_str_eq(text, wanted);
}

static void pass(uint32_t qpn, uint32_t dqpn, enum tap_dir dir, unsigned op, int rel)
{
	lab_pkt(&lab, qpn, dir, op, rel);
	lab.b.dqpn = dqpn;
	lab_decide(&lab);
}

START_TEST(requests)
{
	struct rule_suspect q = of_requester(3), r = q;

	lab_begin(&lab, "rules: [{name: cut, match: {packet: write, direction: both}, do: drop}]");
	says(&q, 0, "");
	for (int i = 0; i < 5; i++)
		pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, i);
	says(&q, 1, "rule 1 (cut) dropped this PSN once");
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 3);
	pass(QP(2), QP(2), TAP_IN, OP_WRITE_ONLY, 3); /* at the peer */
	pass(QP(3), QP(4), TAP_OUT, OP_WRITE_ONLY, 3);
	pass(QP(2), QP(1), TAP_OUT, OP_WRITE_ONLY, 3); /* the peer's own */
	says(&q, 3, "rule 1 (cut) dropped this PSN 3 times");
	/* The other end, for whom these are requests that came. */
	r.responder = true;
	r.qpn = QP(2);
	r.dqpn = QP(1);
	says(&r, 3, "rule 1 (cut) dropped this PSN 3 times");
	r.psn = psn(FIRST + 1);
	says(&r, 5, "rule 1 (cut) dropped this PSN 5 times");
	q.since = (mono_t){ lab.now + 1 };
	says(&q, 0, "");
	lab_end(&lab);
}
END_TEST

START_TEST(answers)
{
	struct rule_suspect q = of_requester(3);

	lab_begin(&lab, "rules: [{match: {packet: [ack, cnp]}, do: drop}]");
	pass(QP(2), QP(1), TAP_OUT, OP_ACKNOWLEDGE, 2); /* of what is acknowledged already */
	pass(QP(2), QP(1), TAP_OUT, OPCODE_CNP, 16);    /* no answer */
	says(&q, 0, "");
	pass(QP(2), QP(1), TAP_OUT, OP_ACKNOWLEDGE, 5);
	pass(QP(2), QP(7), TAP_OUT, OP_ACKNOWLEDGE, 5);
	says(&q, 1, "rule 1: an answer to this PSN dropped, once");
	lab_end(&lab);
}
END_TEST

START_TEST(swallowed)
{
	struct rule_suspect q = of_requester(0);

	lab_begin(&lab, "rules: [{match: {packet: write}, do: swallow-ack}]");
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	pass(QP(1), QP(1), TAP_IN, OP_ACKNOWLEDGE, 0);
	says(&q, 2, "rule 1: an answer to this PSN swallowed, 2 times");
	lab_end(&lab);
}
END_TEST

START_TEST(several)
{
	struct rule_suspect q = of_requester(0);

	q.nak = NAK_REM_ACCESS;
	lab_begin(&lab, "rules:\n- {name: slow, match: {packet: write}, do: {delay: 5ms}}\n"
			"- {name: no, match: {packet: write}, do: {nak: remote-access}}\n");
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	says(&q, 2,
	     "rule 1 (slow): PSN 0xfffff0 5 ms late, once; "
	     "rule 2 (no): PSN 0xfffff0 answered with NAK remote access error, once");
	lab_end(&lab);
}
END_TEST

/* Deeds that cannot bring a failure about are told, and do not count. */
START_TEST(harmless)
{
	struct rule_suspect q = of_requester(0);

	lab_begin(&lab, "rules:\n- {match: {packet: write}, do: {delay: 5ms}}\n"
			"- {match: {packet: write}, do: {corrupt: header}}\n"
			"- {match: {packet: write}, do: {nak: remote-access}}\n");
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	q.nak = NAK_REM_ACCESS;
	ck_assert_uint_eq(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 3);
	q.nak = NAK_INV_REQ; /* another NAK than the rule's */
	ck_assert_uint_eq(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 2);
	q.late_ns = 5 * MS;
	ck_assert_uint_eq(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 2);
	q.late_ns++;
	ck_assert_uint_eq(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 1);
	q.fix = true; /* a wrong ICRC */
	says(&q, 0,
	     "rule 1: PSN 0xfffff0 5 ms late, once; rule 2: PSN 0xfffff0 header damaged, once; "
	     "rule 3: PSN 0xfffff0 answered with NAK remote access error, once");
	lab_end(&lab);
}
END_TEST

/* Each action of a rule stands with the rule's name in the list of decisions, as far as there is room. */
START_TEST(two_actions)
{
	struct rule_suspect q = of_requester(0);

	lab_begin(&lab, "rules: [{name: a, match: {packet: write}, do: [{delay: 5ms}, ecn]}]");
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	says(&q, 1, "rule 1 (a): PSN 0xfffff0 5 ms late; marked as having met congestion, once");
	lab_end(&lab);
	lab_begin(&lab, "rules: [{name: a name; of rule 1 that is nearly as long as can, match: {packet: write}, "
			"do: [{delay: 5ms}, {corrupt: {icrc: fix}}, drop]}]");
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	says(&q, 1,
	     "rule 1 (a name; of rule 1 that is nearly as long as can): PSN 0xfffff0 "
	     "5 ms late; payload damaged, ICRC ma, once");
	lab_end(&lab);
}
END_TEST

/* A receiver of datagrams knows neither their sender nor their PSN. */
START_TEST(datagrams)
{
	struct rule_suspect q = { .peer = -1, .qpn = QP(2), .datagrams = true, .able = ~0u };
	const unsigned op = SVC_UD | OP_SEND_ONLY;

	lab_begin(&lab, "rules: [{name: cut, match: {packet: send, direction: both}, do: drop}]");
	pass(QP(1), QP(3), TAP_OUT, op, 0);
	pass(QP(3), QP(3), TAP_IN, op, 0);
	pass(QP(1), QP(2), TAP_OUT, OP_SEND_ONLY, 0); /* of a connection */
	says(&q, 0, "");
	pass(QP(2), QP(2), TAP_IN, op, 0);
	says(&q, 1, "rule 1 (cut): datagrams to this QP dropped, once");
	pass(QP(1), QP(2), TAP_OUT, op, 1); /* to a QP of this number on another host */
	says(&q, 1, "rule 1 (cut): datagrams to this QP dropped, once");
	lab_pkt(&lab, QP(1), TAP_OUT, op, 2)->local = true;
	lab.b.dqpn = QP(2);
	lab_decide(&lab);
	says(&q, 2, "rule 1 (cut): datagrams to this QP dropped, 2 times");
	lab_end(&lab);
}
END_TEST

/* Acknowledged on the receiver's behalf, it never got there. */
START_TEST(ghosts)
{
	struct rule_suspect q = of_requester(6);

	lab_begin(&lab, "rules: [{match: {packet: write, psn: +2}, do: ghost-ack}]");
	for (int i = 0; i < 6; i++)
		pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, i);
	says(&q, 1, "rule 1: PSN 0xfffff2 acknowledged, and dropped, once");
	lab_end(&lab);
}
END_TEST

START_TEST(strikes)
{
	struct rule_suspect q = of_requester(0);

	lab_begin(&lab, "rules: [{name: end, match: {packet: write}, do: qp-fatal}]");
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	says(&q, 0, ""); /* the packet itself was let through */
	q.acts = 1u << ACT_CQ_OVERRUN;
	says(&q, 0, "");
	q.acts = 1u << ACT_QP_FATAL;
	says(&q, 1, "rule 1 (end): qp-fatal");
	q.qpn = QP(3); /* another one */
	says(&q, 0, "");
	lab_end(&lab);
	lab_begin(&lab, "rules: [{match: {packet: write}, do: device-fatal}]");
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	q.acts = 1u << ACT_DEVICE_FATAL;
	says(&q, 1, "rule 1: device-fatal");
	q.device = 1;
	says(&q, 0, "");
	lab_end(&lab);
	lab_begin(&lab, "rules: [{match: {packet: write}, do: cq-overrun}]");
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	q.device = 0;
	q.acts = 1u << ACT_CQ_OVERRUN; /* of all that have the CQ */
	says(&q, 1, "rule 1: cq-overrun");
	lab_end(&lab);
}
END_TEST

START_TEST(ports)
{
	struct rule_suspect q = of_requester(1);

	lab_begin(&lab, "rules: [{match: {packet: write}, when: {nth: 1}, do: port-down}]");
	for (int i = 0; i < 4; i++)
		pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, i);
	says(&q, 3, "rule 1 took the port of rdmad0 down: 3 packets dropped");
	q.device = 1;
	says(&q, 3, "rule 1 took the port of rdmad0 down: 3 packets dropped");
	q.able = 1u << ACT_DROP;
	says(&q, 0, "rule 1 took the port of rdmad0 down: 3 packets dropped");
	q.peer = -1;
	says(&q, 0, "");
	lab_end(&lab);
}
END_TEST

START_TEST(connection_managers)
{
	struct rule_suspect q = { .peer = -1, .able = ~0u };

	lab_begin(&lab, "rules: [{name: deaf, match: {packet: cm}, do: drop}]");
	for (int i = 0; i < 2; i++)
		pass(1, 1, TAP_OUT, SVC_UD | OP_SEND_ONLY, i);
	says(&q, 2, "rule 1 (deaf): packets of the connection manager dropped, 2 times");
	lab_end(&lab);
}
END_TEST

/* Of decisions that are no more remembered one is, of each queue pair and direction: the last. */
START_TEST(forgotten)
{
	struct rule_suspect q = of_requester(0), other = of_requester(1);

	lab_begin(&lab, "rules: [{match: {packet: write}, do: drop}]");
	ck_assert_uint_eq(rules_since(&lab.rules).ns, 0);
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 1);
	for (unsigned i = 0; i <= RULES_LOG; i++)
		pass(i ? QP(3) : QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	ck_assert_uint_ne(rules_since(&lab.rules).ns, 0);
	says(&q, 1, "rule 1 dropped this PSN once");
	says(&other, 0, "");
	lab_end(&lab);
	/* A mere note is no deed, and takes no deed's place. */
	lab_begin(&lab,
		  "rules: [{match: {packet: write}, when: {nth: 1}, do: drop}, {match: {packet: write}, do: note}]");
	for (unsigned i = 0; i < 2 * RULES_LOG + 2; i++)
		pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, i ? 1 : 0);
	says(&q, 1, "rule 1 dropped this PSN once");
	lab_end(&lab);
}
END_TEST

/* Packets that a rate makes late, or whose queue was full; jitter, as it came out. */
START_TEST(slowed)
{
	struct rule_suspect q = of_requester(2);

	lab_begin(&lab, "rules: [{match: {packet: write}, do: {rate: {limit: 8kbit, queue: 1500}}}]");
	q.able = 1u << ACT_RATE | 1u << ACT_DROP;
	q.late_ns = 1;
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 0);
	pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 1);
	for (int i = 0; i < 100; i++)
		pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 2);
	ck_assert_uint_ge(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 50);
	q.able = 1u << ACT_DROP; /* those that found the queue full */
	ck_assert_uint_ge(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 50);
	q = of_requester(1);
	q.able = 1u << ACT_RATE;
	q.late_ns = 1;
	ck_assert_uint_eq(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 1);
	q.late_ns = 3600000000000;
	ck_assert_uint_eq(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 0);
	lab_end(&lab);
	lab_begin(&lab, "rules: [{match: {packet: write}, do: {delay: {time: 1ms, jitter: 1s}}}]");
	for (int i = 0; i < 64; i++)
		pass(QP(1), QP(2), TAP_OUT, OP_WRITE_ONLY, 2);
	q = of_requester(2);
	q.late_ns = 100 * MS;
	ck_assert_uint_ge(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 32);
	/* UC: those that were still under way when they were missed. */
	q.missed = (mono_t){ lab.now + 500 * MS };
	ck_assert_uint_ge(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 10);
	q.missed = (mono_t){ lab.now + 2000 * MS };
	ck_assert_uint_eq(rules_blame(&lab.rules, &q, (char[400]){ 0 }, 400), 0);
	lab_end(&lab);
}
END_TEST

TEST_MAIN("blame", requests, answers, swallowed, several, harmless, two_actions, datagrams, ghosts, strikes, ports,
	  connection_managers, forgotten, slowed)
