/* SPDX-License-Identifier: MIT */
/* act.c - each action: what the verdict says. */
#include "rig.h"
#include "t/suite.h"

static struct lab lab;

#define DO(text) "rules: [{match: {packet: write}, do: " text "}]"

static struct rule_verdict *first(const char *text)
{
	lab_begin(&lab, text);
	lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, 5);
	return lab_decide(&lab);
}

START_TEST(nothing)
{
	ck_assert(!first("rules: [{match: {packet: read}, do: drop}]")->drop);
	ck_assert_str_eq(lab.v.text, "");
	lab_end(&lab);
}
END_TEST

START_TEST(drop)
{
	ck_assert(first(DO("drop"))->drop);
	ck_assert_int_eq(lab.v.answer, ANSWER_NONE);
	ck_assert_str_eq(lab.v.text, "dropped by rule 1");
	lab_end(&lab);
}
END_TEST

START_TEST(duplicate)
{
	ck_assert_uint_eq(first(DO("duplicate"))->copies, 1);
	lab_end(&lab);
	ck_assert_uint_eq(first(DO("{duplicate: {copies: 3, after: 2us}}"))->copies, 3);
	ck_assert_uint_eq(lab.v.copy_ns, 2000);
	ck_assert(!lab.v.drop);
	lab_end(&lab);
}
END_TEST

START_TEST(delay)
{
	uint64_t least = UINT64_MAX, most = 0;

	ck_assert_uint_eq(first(DO("{delay: 1.5ms}"))->delay_ns, 1500000);
	lab_end(&lab);
	lab_begin(&lab, DO("{delay: {time: 1ms, jitter: 100us}}"));
	for (int i = 0; i < 1000; i++) {
		lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, i);
		lab_decide(&lab);
		least = lab.v.delay_ns < least ? lab.v.delay_ns : least;
		most = lab.v.delay_ns > most ? lab.v.delay_ns : most;
	}
	ck_assert(least >= MS && least < MS + 2000 && most <= MS + 100000 && most > MS + 98000);
	lab_end(&lab);
}
END_TEST

START_TEST(reorder)
{
	ck_assert_uint_eq(first(DO("reorder"))->behind, 1);
	ck_assert_uint_eq(lab.v.delay_ns, 10 * MS);
	lab_end(&lab);
	ck_assert_uint_eq(first(DO("{reorder: {behind: 3, within: 1ms}}"))->behind, 3);
	ck_assert_uint_eq(lab.v.delay_ns, MS);
	lab_end(&lab);
}
END_TEST

START_TEST(ecn)
{
	ck_assert(first(DO("ecn"))->ecn);
	lab_end(&lab);
}
END_TEST

/* 140 bytes of 1120 bits at 1 Mbit/s: 1.12 ms each. */
START_TEST(rate)
{
	lab_begin(&lab, DO("{rate: {limit: 1mbit, queue: 500}}"));
	for (int i = 0; i < 6; i++) {
		lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, i);
		lab_decide(&lab);
		ck_assert_msg(lab.v.drop == (i > 3), "packet %d", i);
		if (i <= 3)
			ck_assert_uint_eq(lab.v.delay_ns, (uint64_t)i * 1088000);
	}
	lab.now += 100 * MS;
	lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, 6);
	ck_assert_uint_eq(lab_decide(&lab)->delay_ns, 0);
	lab_end(&lab);
}
END_TEST

START_TEST(blackhole)
{
	lab_begin(&lab, "rules: [{match: {packet: write}, when: {nth: 2}, do: {blackhole: 5ms}}]");
	ck_assert(!lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0));
	ck_assert(lab_drops(&lab, QP(1), OP_WRITE_ONLY, 1));
	lab.now += 4 * MS;
	ck_assert(lab_drops(&lab, QP(2), OP_WRITE_ONLY, 2));
	ck_assert(!lab_drops(&lab, QP(2), OP_SEND_ONLY, 3));
	lab.now += MS;
	ck_assert(!lab_drops(&lab, QP(1), OP_WRITE_ONLY, 4));
	lab_end(&lab);
	lab_begin(&lab, DO("blackhole"));
	ck_assert(lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0));
	lab.now += 3600000 * MS;
	ck_assert(lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0));
	lab_end(&lab);
}
END_TEST

/* ---- answers ------------------------------------------------------------------------------- */

static void answered(uint8_t syndrome)
{
	uint8_t pkt[TAP_PKT_MAX];
	struct burst b = { 0 };
	struct span span;
	struct route back;
	size_t len = rule_answer(&lab.v, &lab.p, QP(1), &back, pkt);

	ck_assert(lab.v.drop);
	ck_assert_int_eq(burst_parse(&b, &span, pkt, len - 4), PARSE_OK);
	ck_assert_uint_eq(b.op_first, OP_ACKNOWLEDGE);
	ck_assert_uint_eq(b.syndrome, syndrome);
	ck_assert_uint_eq(b.dqpn, QP(1));
	ck_assert(psn_eq(b.psn, lab.b.psn));
	ck_assert(gid_same(back.sgid, lab.route.dgid) && gid_same(back.dgid, lab.route.sgid));
}

/* Requests behind an answered one are dropped until that is sent again. */
static void muted(void)
{
	ck_assert(lab_drops(&lab, QP(1), OP_WRITE_ONLY, 6));
	ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, 7));
	ck_assert(!lab_drops(&lab, QP(2), OP_SEND_ONLY, 7));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 5));
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 6));
}

START_TEST(rnr)
{
	first("rules: [{match: {packet: write}, when: {times: 1}, do: {rnr: 14}}]");
	ck_assert_int_eq(lab.v.answer, ANSWER_RNR);
	answered(aeth_rnr(14));
	muted();
	lab_end(&lab);
}
END_TEST

START_TEST(nak)
{
	static const struct {
		const char *text;
		uint8_t syndrome;
	} t[] = {
		{ DO("{nak: sequence}"), 0x60 },           { DO("{nak: invalid-request}"), 0x61 },
		{ DO("{nak: remote-access}"), 0x62 },      { DO("{nak: remote-operation}"), 0x63 },
		{ DO("{nak: invalid-rd-request}"), 0x64 }, { DO("{nak: in-progress}"), 0x65 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		ck_assert_int_eq(first(t[i].text)->answer, ANSWER_NAK);
		answered(t[i].syndrome);
		lab_end(&lab);
	}
	/* An answer has no answer. */
	lab_begin(&lab, "rules: [{do: {nak: sequence}}]");
	ck_assert(!lab_drops(&lab, QP(1), OP_ACKNOWLEDGE, 0));
	ck_assert_uint_eq(lab.rules.v[0]->hits, 0);
	lab_end(&lab);
}
END_TEST

START_TEST(ghost_ack)
{
	ck_assert_int_eq(first(DO("ghost-ack"))->answer, ANSWER_ACK);
	answered(aeth_ack());
	lab_end(&lab);
	/* Nobody could say what a READ has read. */
	lab_begin(&lab, "rules: [{do: ghost-ack}]");
	ck_assert(!lab_drops(&lab, QP(1), OP_READ_REQUEST, 0));
	lab_end(&lab);
}
END_TEST

static bool ack_drops(int rel)
{
	lab_pkt(&lab, QP(1), TAP_IN, OP_ACKNOWLEDGE, rel);
	return lab_decide(&lab)->drop;
}

START_TEST(swallow_ack)
{
	ck_assert(!first("rules: [{match: {packet: write}, when: {nth: 1}, do: {swallow-ack: 2}}]")->drop);
	ck_assert(!ack_drops(4));
	ck_assert(ack_drops(5));
	lab_pkt(&lab, QP(1), TAP_IN, OP_ACKNOWLEDGE, 6);
	lab.b.syndrome = 0x60; /* a NAK is no ACK */
	ck_assert(!lab_decide(&lab)->drop);
	lab_pkt(&lab, QP(1), TAP_IN, OPCODE_CNP, 0);
	lab.b.psn = psn(0); /* which a CNP has without meaning anything by it */
	lab.b.syndrome = 0;
	ck_assert(!lab_decide(&lab)->drop);
	ck_assert(ack_drops(6));
	ck_assert(!ack_drops(6));
	lab_end(&lab);
}
END_TEST

START_TEST(hold_responses)
{
	lab_begin(&lab, "rules: [{match: {packet: [response, ack], direction: in}, do: {hold: 4ms}}]");
	for (unsigned ms = 0; ms < 6; ms++, lab.now += MS) {
		lab_pkt(&lab, QP(1), TAP_IN, OP_READ_RESP_ONLY, (int)ms);
		ck_assert_uint_eq(lab_decide(&lab)->delay_ns, (ms < 4 ? 4 - ms : 8 - ms) * MS);
	}
	lab_end(&lab);
}
END_TEST

/* A packet without a stream is not held, and was not acted on. */
START_TEST(hold_nothing)
{
	lab_begin(&lab, "rules: [{do: {hold: 4ms}}]");
	lab_pkt(&lab, 1, TAP_OUT, SVC_UD | OP_SEND_ONLY, 0);
	ck_assert_uint_eq(lab_decide(&lab)->delay_ns, 0);
	ck_assert_uint_eq(lab.rules.v[0]->hits, 0);
	lab_end(&lab);
}
END_TEST

/* It goes on when both times are over, and those behind it not before. */
START_TEST(hold_and_delay)
{
	static const char *const text[] = { DO("[{delay: 5ms}, {hold: 2ms}]"), DO("[{delay: 2ms}, {hold: 5ms}]") };

	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(first(text[i])->delay_ns, 5 * MS);
		lab.now += 3 * MS;
		lab_pkt(&lab, QP(1), TAP_OUT, OP_SEND_ONLY, 6);
		ck_assert_uint_eq(lab_decide(&lab)->delay_ns, 2 * MS);
		lab_end(&lab);
	}
	first("rules: [{match: {packet: write}, do: {rate: 1mbit}}, {match: {packet: write}, do: {hold: 1us}}]");
	lab.now += 2000;
	lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, 6);
	ck_assert_uint_eq(lab_decide(&lab)->delay_ns, 1088000 - 2000);
	lab_end(&lab);
}
END_TEST

/* ---- events --------------------------------------------------------------------------------- */

START_TEST(events_at_a_packet)
{
	static const struct {
		const char *text;
		enum rule_act_kind kind;
	} t[] = {
		{ DO("port-up"), ACT_PORT_UP },       { DO("device-fatal"), ACT_DEVICE_FATAL },
		{ DO("qp-fatal"), ACT_QP_FATAL },     { DO("cq-overrun"), ACT_CQ_OVERRUN },
		{ DO("gid-change"), ACT_GID_CHANGE },
	};
	struct rule_event e;

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		ck_assert(!first(t[i].text)->drop);
		ck_assert(mono_reached((mono_t){ lab.now }, rules_deadline(&lab.rules)));
		ck_assert(rules_event(&lab.rules, &e, (mono_t){ lab.now }));
		ck_assert_int_eq(e.kind, t[i].kind);
		ck_assert_uint_eq(e.devices, 1);
		ck_assert_uint_eq(e.qpn, QP(1));
		ck_assert(rule_about_qp(&lab.rules, &e, 0, QP(1), NULL) &&
			  !rule_about_qp(&lab.rules, &e, 0, QP(2), NULL));
		ck_assert(!rules_event(&lab.rules, &e, (mono_t){ lab.now }));
		ck_assert(mono_is_never(rules_deadline(&lab.rules)));
		lab_end(&lab);
	}
}
END_TEST

START_TEST(events_at_a_time)
{
	struct rule_event e;
	struct tap_qp qp;

	lab_begin(&lab, "rules: [{at: 3ms, match: {device: rdmad1, program: even}, do: qp-fatal}]");
	ck_assert_uint_eq(rules_deadline(&lab.rules).ns, lab.now + 3 * MS);
	ck_assert(!rules_event(&lab.rules, &e, (mono_t){ lab.now }));
	lab.now += 3 * MS;
	ck_assert(rules_event(&lab.rules, &e, (mono_t){ lab.now }));
	ck_assert_uint_eq(e.devices, 2);
	lab_qp(NULL, 1, QP(2), &qp);
	ck_assert(rule_about_qp(&lab.rules, &e, 1, QP(2), &qp) && !rule_about_qp(&lab.rules, &e, 0, QP(2), &qp));
	lab_qp(NULL, 1, QP(3), &qp);
	ck_assert(!rule_about_qp(&lab.rules, &e, 1, QP(3), &qp));
	ck_assert(!rules_event(&lab.rules, &e, (mono_t){ lab.now }));
	ck_assert(!lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0));
	lab_end(&lab);
}
END_TEST

START_TEST(port_down)
{
	struct rule_event e;

	lab_begin(&lab, "rules: [{at: 1ms, match: {device: rdmad0}, do: {port-down: 2ms}}]");
	ck_assert(!lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0));
	lab.now += MS;
	ck_assert(rules_event(&lab.rules, &e, (mono_t){ lab.now }));
	ck_assert_int_eq(e.kind, ACT_PORT_DOWN);
	ck_assert(lab_drops(&lab, QP(1), OP_WRITE_ONLY, 1));
	lab_pkt(&lab, QP(1), TAP_IN, OP_ACKNOWLEDGE, 0);
	ck_assert(lab_decide(&lab)->drop);
	lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, 0)->device = 1;
	ck_assert(!lab_decide(&lab)->drop);
	lab.now += 2 * MS;
	ck_assert(rules_event(&lab.rules, &e, (mono_t){ lab.now }));
	ck_assert_int_eq(e.kind, ACT_PORT_UP);
	ck_assert(!rules_event(&lab.rules, &e, (mono_t){ lab.now }));
	ck_assert(!lab_drops(&lab, QP(1), OP_WRITE_ONLY, 2));
	lab_end(&lab);
}
END_TEST

/* A port that a rule took down for ever comes up when the rule goes. */
START_TEST(port_and_rule)
{
	struct rule_event e;

	lab_begin(&lab, DO("port-down"));
	lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0);
	ck_assert(rules_event(&lab.rules, &e, (mono_t){ lab.now }));
	ck_assert(lab_drops(&lab, QP(1), OP_SEND_ONLY, 1));
	rules_clear(&lab.rules, 0, 0);
	ck_assert(rules_event(&lab.rules, &e, (mono_t){ lab.now }));
	ck_assert_int_eq(e.kind, ACT_PORT_UP);
	ck_assert(!lab_drops(&lab, QP(1), OP_SEND_ONLY, 2));
	lab_end(&lab);
}
END_TEST

/* The event of which the host is told at a moment; ACTS: none. */
static enum rule_act_kind told(void)
{
	struct rule_event e = { .kind = ACTS }, more;

	if (rules_event(&lab.rules, &e, (mono_t){ lab.now }))
		ck_assert(!rules_event(&lab.rules, &more, (mono_t){ lab.now }));
	return e.kind;
}

START_TEST(flap)
{
	static const enum rule_act_kind turns[] = { ACT_PORT_DOWN, ACT_PORT_UP, ACT_PORT_DOWN, ACT_PORT_UP, ACTS };

	lab_begin(&lab, "rules: [{at: 3ms, match: {device: rdmad0}, do: {flap: {times: 2, down: 3ms, up: 3ms}}}]");
	for (unsigned i = 0; i < sizeof(turns) / sizeof(*turns); i++) {
		lab.now += 2 * MS;
		ck_assert_int_eq(told(), ACTS);
		lab.now += 1 * MS;
		ck_assert_int_eq(told(), turns[i]);
		ck_assert_int_eq(lab_drops(&lab, QP(1), OP_WRITE_ONLY, (int)i), turns[i] == ACT_PORT_DOWN);
	}
	ck_assert(mono_is_never(rules_deadline(&lab.rules)));
	lab_end(&lab);
}
END_TEST

/* A port that is told to be up, or whose rule goes, flaps no more. */
START_TEST(flap_ends)
{
	lab_begin(&lab, "rules: [{at: 1ms, match: {device: rdmad0}, do: flap}, {at: 2ms, do: port-up}]");
	lab.now += MS;
	ck_assert_int_eq(told(), ACT_PORT_DOWN);
	lab.now += MS;
	ck_assert_int_eq(told(), ACT_PORT_UP);
	ck_assert(mono_is_never(rules_deadline(&lab.rules)));
	lab_end(&lab);
	lab_begin(&lab, "rules: [{at: 1ms, match: {device: rdmad0}, do: flap}]");
	lab.now += MS;
	ck_assert_int_eq(told(), ACT_PORT_DOWN);
	rules_clear(&lab.rules, 0, 0);
	ck_assert_int_eq(told(), ACT_PORT_UP);
	ck_assert(mono_is_never(rules_deadline(&lab.rules)));
	lab_end(&lab);
}
END_TEST

START_TEST(device_states)
{
	static const struct {
		const char *rules, *says;
		enum rule_act_kind begin, end;
	} t[] = {
		{ "rules: [{at: 1ms, match: {device: rdmad0}, do: {wedge: 2ms}}]", "wedged", ACT_WEDGE, ACT_UNWEDGE },
		{ "rules: [{at: 1ms, match: {device: rdmad0}, do: {unplug: 2ms}}]", "unplugged", ACT_UNPLUG, ACT_PLUG },
		{ "rules: [{at: 1ms, match: {device: rdmad0}, do: wedge}, {at: 3ms, do: unwedge}]", "wedged", ACT_WEDGE,
		  ACT_UNWEDGE },
		{ "rules: [{at: 1ms, match: {device: rdmad0}, do: unplug}, {at: 3ms, do: plug}]", "unplugged",
		  ACT_UNPLUG, ACT_PLUG },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		lab_begin(&lab, t[i].rules);
		lab.now += MS;
		ck_assert_int_eq(told(), t[i].begin);
		lab_pkt(&lab, QP(1), TAP_IN, OP_WRITE_ONLY, 0);
		ck_assert(lab_decide(&lab)->drop);
		ck_assert_ptr_nonnull(strstr(lab.v.text, t[i].says));
		ck_assert_int_eq(lab.v.wedged, t[i].begin == ACT_WEDGE);
		lab.now += 2 * MS;
		ck_assert_int_eq(told(), t[i].end);
		ck_assert(!lab_drops(&lab, QP(1), OP_WRITE_ONLY, 1) && !lab.v.wedged);
		ck_assert(mono_is_never(rules_deadline(&lab.rules)));
		lab_end(&lab);
	}
}
END_TEST

/* A state that a rule has made ends with it, whatever other rules there are. */
START_TEST(state_and_rule)
{
	lab_begin(&lab, "rules: [{at: 1ms, match: {device: rdmad0}, do: wedge}, {at: 2ms, match: {device: rdmad1}, do: "
			"unplug}]");
	lab.now += MS;
	ck_assert_int_eq(told(), ACT_WEDGE);
	lab.now += MS;
	ck_assert_int_eq(told(), ACT_UNPLUG);
	rules_clear(&lab.rules, 1, 0);
	ck_assert_int_eq(told(), ACT_UNWEDGE);
	ck_assert(!lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0));
	lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, 1)->device = 1;
	ck_assert(lab_decide(&lab)->drop);
	rules_clear(&lab.rules, 2, 0);
	ck_assert_int_eq(told(), ACT_PLUG);
	lab_end(&lab);
	lab_begin(&lab, "rules: [{at: 1ms, match: {device: rdmad0}, do: flap}, {match: {packet: read}, do: drop}]");
	lab.now += MS;
	ck_assert_int_eq(told(), ACT_PORT_DOWN);
	rules_clear(&lab.rules, 1, 0);
	ck_assert_int_eq(told(), ACT_PORT_UP);
	ck_assert(mono_is_never(rules_deadline(&lab.rules)));
	lab_end(&lab);
}
END_TEST

/* More at once than the host can be told: no end is lost, and nothing begins without it. */
START_TEST(told_too_much)
{
	char text[4096] = "rules:\n- {at: 1ms, match: {device: rdmad0}, do: unplug}\n";
	struct rule_event e;
	unsigned fatal = 0;

	for (unsigned i = 0; i < 32; i++)
		strcat(text, "- {at: 2ms, match: {device: rdmad0, program: even}, do: qp-fatal}\n");
	strcat(text,
	       "- {at: 2ms, match: {device: rdmad0}, do: plug}\n- {at: 2ms, match: {device: rdmad0}, do: wedge}\n");
	lab_begin(&lab, text);
	lab.now += MS;
	ck_assert_int_eq(told(), ACT_UNPLUG);
	lab.now += MS;
	while (rules_event(&lab.rules, &e, (mono_t){ lab.now }) && e.kind == ACT_QP_FATAL)
		fatal++;
	ck_assert_uint_eq(fatal, 32);
	ck_assert_int_eq(e.kind, ACT_PLUG);
	ck_assert_int_eq(told(), ACTS);
	ck_assert(!lab_drops(&lab, QP(1), OP_WRITE_ONLY, 0));
	ck_assert(mono_is_never(rules_deadline(&lab.rules)));
	lab_end(&lab);
}
END_TEST

/* ---- what waits ------------------------------------------------------------------------------ */

static void put(struct hold *h, int rel, uint64_t ns, unsigned behind)
{
	struct parcel *c;

	lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, rel);
	ck_assert_int_eq(tap_bytes(&lab.p), 0);
	c = parcel_new(h, &lab.p);
	c->at = mono_add(lab.p.now, ns);
	c->behind = behind;
	hold_put(h, c);
}

static int due(struct hold *h)
{
	struct parcel *c = hold_due(h, (mono_t){ lab.now });
	int rel;

	if (!c)
		return -1;
	rel = psn_diff(psn(be24_get(c->data + BTH_PSN)), psn(FIRST));
	free(c);
	return rel;
}

/* A packet of that QP, now, has to wait for others. */
static bool late(const struct hold *h, uint32_t qpn)
{
	lab_pkt(&lab, qpn, TAP_OUT, OP_WRITE_ONLY, 9);
	return hold_waits(h, &lab.p);
}

START_TEST(held)
{
	struct hold h = { 0 };

	lab_begin(&lab, DO("drop"));
	put(&h, 1, 3 * MS, 0);
	put(&h, 2, 1 * MS, 0);
	put(&h, 3, 3 * MS, 0);
	put(&h, 4, 9 * MS, 2);
	ck_assert_uint_eq(hold_deadline(&h).ns, lab.now + MS);
	ck_assert_int_eq(due(&h), -1);
	lab.now += 3 * MS;
	ck_assert(late(&h, QP(1)) && !late(&h, QP(2)));
	ck_assert_int_eq(due(&h), 2);
	ck_assert_int_eq(due(&h), 1);
	ck_assert(late(&h, QP(1))); /* or it would overtake the third */
	ck_assert_int_eq(due(&h), 3);
	ck_assert_int_eq(due(&h), -1);
	ck_assert(!late(&h, QP(1)));
	lab_pkt(&lab, QP(1), TAP_OUT, OP_WRITE_ONLY, 5);
	lab.p.qpn = QP(2);
	hold_passed(&h, &lab.p);
	lab.p.qpn = QP(1);
	hold_passed(&h, &lab.p);
	ck_assert_int_eq(due(&h), -1);
	hold_passed(&h, &lab.p);
	ck_assert_int_eq(due(&h), 4);
	put(&h, 6, MS, 0);
	hold_fini(&h);
	ck_assert_uint_eq(h.len, 0);
	lab_end(&lab);
}
END_TEST

TEST_MAIN("act", nothing, drop, duplicate, delay, reorder, ecn, rate, blackhole, rnr, nak, ghost_ack, swallow_ack,
	  hold_responses, hold_and_delay, hold_nothing, events_at_a_packet, events_at_a_time, port_down, port_and_rule,
	  flap, flap_ends, device_states, state_and_rule, told_too_much, held)
