/* SPDX-License-Identifier: MIT */
/* why_own.c - what rules did is named for the failures and waits that come of it, and for no others. */
#include <string.h>
#include <unistd.h>

#include <rdmad/told.h>

#include "daemon/base/clock.h"
#include "daemon/control/impair.h"
#include "daemon/control/why.h"
#include "proto/aeth.h"
#include "t/suite.h"

#define ANN (geteuid() + 1001) /* neither root nor the daemon's user */

static void blamed(struct why_entry *e, unsigned hint, const char *text)
{
	why_own(e);
	ck_assert_str_eq(e->own, text);
	ck_assert_str_eq(why_entry_hint(e, NULL), why_hint(hint));
}

START_TEST(rules)
{
	static const char text[] = "rules: [{name: cut, do: drop}]";
	struct burst b = { .op_first = OP_SEND_ONLY, .dqpn = 0x22, .psn = psn(7) };
	struct tap_pkt p = { .qpn = 0x11, .b = &b, .known = true, .now = { 1000 } };
	struct why_entry e = { .core = true,
			       .cause = WHY_RETRY_SILENT,
			       .w = { .cause = WHY_RETRY_SILENT, .qpn = 0x11, .dqpn = 0x22, .psn = 7, .timeouts = 3 } };
	struct rule_error err;
	struct rules *rs;

	devices_n = 1;
	blamed(&e, WHY_RETRY_SILENT, "");
	ck_assert_int_eq(impair_add(text, sizeof(text) - 1, 1, NULL, &err), 1);
	for (unsigned i = 0; i < 2; i++) {
		rs = impair_lock();
		rules_log(rs, rs->v[0], &p, p.now, (struct rule_did){ .lost = true }, "dropped by rule 1 (cut)");
		impair_unlock();
		/* One of three losses is not the reason, two are. */
		if (!i)
			blamed(&e, WHY_RETRY_SILENT, "rule 1 (cut) dropped this PSN once");
	}
	blamed(&e, WHY_BY_RULE, "rule 1 (cut) dropped this PSN 2 times");
	e.w.psn = 8;
	blamed(&e, WHY_RETRY_SILENT, "");
	impair_clear(0, 0);
}
END_TEST

/* A rule that touches all packets is not the reason of failures that it cannot bring about. */
START_TEST(harmless)
{
	static const char text[] = "rules: [{name: slow, do: {delay: 1ms}}, {do: {nak: remote-access}}]";
	static const unsigned causes[] = { WHY_REQ_NAK_ACCESS, WHY_RESP_RKEY, WHY_REQ_RNR_EXC, WHY_RETRY_SILENT };
	struct burst b = { .op_first = OP_WRITE_ONLY, .dqpn = 0x22, .psn = psn(7) };
	struct tap_pkt p = { .qpn = 0x11, .b = &b, .known = true, .now = { 1000 } };
	struct rule_error err;
	struct rules *rs;

	devices_n = 1;
	ck_assert_int_eq(impair_add(text, sizeof(text) - 1, 1, NULL, &err), 2);
	for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++) {
		bool responder = causes[i] == WHY_RESP_RKEY;
		struct why w = { .cause = (uint8_t)causes[i],
				 .qpn = responder ? 0x22 : 0x11,
				 .dqpn = responder ? 0x11 : 0x22,
				 .psn = 7,
				 .timeouts = 1,
				 .timeout_ns = 1000001,
				 .syndrome = i ? 0 : aeth_nak(NAK_REM_ACCESS),
				 .key.why = WHY_KEY_OLD };
		struct why_entry e = { .core = true, .cause = w.cause, .w = w };

		p.qpn = w.qpn;
		p.dir = responder ? TAP_IN : TAP_OUT;
		rs = impair_lock();
		rules_log(rs, rs->v[0], &p, p.now, (struct rule_did){ .late_ns = 1000000 },
			  "1 ms late by rule 1 (slow)");
		impair_unlock();
		why_own(&e);
		ck_assert(strstr(e.own, "rule 1 (slow): PSN 0x7 1 ms late, ") == e.own);
		ck_assert_str_eq(why_entry_hint(&e, NULL), why_advice(&w));
		if (i)
			continue;
		rs = impair_lock();
		rules_log(rs, rs->v[1], &p, p.now, (struct rule_did){ 0 },
			  "answered with NAK remote access error by rule 2");
		impair_unlock();
		why_own(&e);
		ck_assert_str_eq(why_entry_hint(&e, NULL), why_hint(WHY_BY_RULE));
		e.w.timeout_ns--;
		e.cause = WHY_RETRY_SILENT;
		why_own(&e);
		ck_assert_str_eq(why_entry_hint(&e, NULL), why_hint(WHY_BY_RULE));
	}
	impair_clear(0, 0);
}
END_TEST

/* Programs that hang, by two rules of which one drops. */
START_TEST(waits)
{
	static const char text[] = "rules: [{name: cut, do: drop}, {name: busy, do: rnr}]";
	static const struct {
		unsigned cause, rule;
		const char *done, *own;
	} t[] = {
		{ WHY_WAIT_ACK, 0, "dropped by rule 1 (cut)", "rule 1 (cut) dropped this PSN once" },
		{ WHY_WAIT_UC, 0, "dropped by rule 1 (cut)", "rule 1 (cut) dropped this PSN once" },
		{ WHY_WAIT_RNR, 1, "answered with RNR NAK (1 ms) by rule 2 (busy)",
		  "rule 2 (busy): PSN 0x7 answered with RNR NAK (1 ms), once" },
	};
	struct burst b = { .op_first = OP_SEND_ONLY, .psn = psn(7) };
	struct tap_pkt p = { .b = &b, .known = true, .now = { 1000 } };
	struct rule_error err;
	struct rules *rs;

	devices_n = 1;
	ck_assert_int_eq(impair_add(text, sizeof(text) - 1, 1, NULL, &err), 2);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		bool uc = t[i].cause == WHY_WAIT_UC;
		struct why w = { .cause = (uint8_t)t[i].cause,
				 .qpn = 0x10 + (uint32_t)i,
				 .psn = 7,
				 .since = { uc ? 2000 : 1000 },
				 .timeouts = 2,
				 .rnrs = 2 };
		struct why_entry e = { .core = true, .cause = w.cause, .w = w };

		p.qpn = w.qpn;
		p.dir = uc ? TAP_IN : TAP_OUT;
		blamed(&e, t[i].cause, "");
		rs = impair_lock();
		rules_log(rs, rs->v[t[i].rule], &p, p.now, (struct rule_did){ 0 }, t[i].done);
		impair_unlock();
		blamed(&e, WHY_BY_RULE, t[i].own);
		if (uc)
			continue;
		e.w.timeouts = e.w.rnrs = 3; /* most were not the rule's */
		blamed(&e, t[i].cause, t[i].own);
		e.w.since.ns++; /* it waits since later */
		blamed(&e, t[i].cause, "");
	}
	impair_clear(0, 0);
}
END_TEST

/* Nothing comes of a device that is wedged, be it one's own or the peer's, and no packet shows it. */
START_TEST(wedged)
{
	static const char text[] = "rules: [{match: {device: b}, at: 1ns, do: wedge}]";
	static const unsigned causes[] = { WHY_WAIT_RECV, WHY_WAIT_ACK, WHY_WAIT_RNR, WHY_WAIT_PSN, WHY_WAIT_UC };
	struct rule_error err;

	devices_n = 2;
	devices[0] = (struct device){ .name = "a" };
	devices[1] = (struct device){ .index = 1, .name = "b", .gid[0].gid = { [15] = 7 } };
	ck_assert_int_eq(impair_add(text, sizeof(text) - 1, 1, NULL, &err), 1);
	for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++)
		for (int k = 0; k < 3; k++) { /* its own, the peer's, of neither */
			struct why_entry e = { .core = true,
					       .cause = (uint8_t)causes[i],
					       .device = !k,
					       .w = { .qpn = 0x11, .dgid[15] = k == 1 ? 7 : 0 } };
			bool is = k < 2;

			why_own(&e);
			ck_assert_int_eq(e.by_rule, is);
			ck_assert_int_eq(!strncmp(e.own, "rule 1 wedged b ", 16), is);
			ck_assert_int_eq(why_entry_grade(&e), is || i ? WHY_WAIT : WHY_NOTE);
		}
	impair_clear(0, 0);
}
END_TEST

/* Nobody repeats a datagram: one that is waited for may have been lost before the wait began. */
START_TEST(datagram)
{
	static const char text[] = "rules: [{name: cut, do: drop}]";
	struct burst b = { .op_first = SVC_UD | OP_SEND_ONLY, .dqpn = 0x11, .psn = psn(7) };
	struct tap_pkt p = { .qpn = 0x11, .b = &b, .known = true, .dir = TAP_IN, .now = { 1000 } };
	struct why w = { .cause = WHY_WAIT_RECV, .type = QPT_UD, .qpn = 0x11, .since = { 2000 } };
	struct why_entry e = { .core = true, .cause = WHY_WAIT_RECV, .w = w };
	struct rule_error err;
	struct rules *rs;

	devices_n = 1;
	ck_assert_int_eq(impair_add(text, sizeof(text) - 1, 1, NULL, &err), 1);
	blamed(&e, WHY_WAIT_RECV, "");
	ck_assert_int_eq(why_entry_grade(&e), WHY_NOTE);
	rs = impair_lock();
	rules_log(rs, rs->v[0], &p, p.now, (struct rule_did){ .lost = true }, "dropped by rule 1 (cut)");
	impair_unlock();
	blamed(&e, WHY_BY_RULE, "rule 1 (cut): datagrams to this QP dropped, once");
	ck_assert_int_eq(why_entry_grade(&e), WHY_WAIT);
	e.w.qpn++;
	blamed(&e, WHY_WAIT_RECV, "");
	impair_clear(0, 0);
}
END_TEST

START_TEST(summary)
{
	json_t *list = json_pack("[{s:s s:s}, {s:s s:s}]", "grade", "wait", "cause", "WAIT_RECV", "grade", "note",
				 "cause", "WAIT_RECV");
	char text[80] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");

	ck_assert_ptr_nonnull(f);
	told_summary(f, list);
	fclose(f);
	ck_assert_str_eq(text, "1 note (WAIT_RECV), 1 wait (WAIT_RECV)");
	json_decref(list);
}
END_TEST

/* Where a rule has answered nothing is said of the peer's receives. */
START_TEST(fair)
{
	static const unsigned causes[] = { WHY_REQ_RNR_EXC, WHY_WAIT_RNR };

	for (size_t i = 0; i < 4; i++) {
		struct why w = {
			.cause = (uint8_t)causes[i / 2], .is_wr = true, .rnrs = 2, .dqpn = 0x22, .dgid[15] = 1
		};
		char text[WHY_TEXT];
		struct words t = words_begin(text, sizeof(text));

		why_words(&t, &w, i % 2);
		ck_assert_int_eq(strstr(text, "receive") != NULL, !(i % 2));
		ck_assert_int_eq(strstr(text, " as if by ") != NULL, i % 2);
		ck_assert_ptr_nonnull(strstr(text, "QP 0x22"));
	}
}
END_TEST

/* Packets of the connection manager may be those of other users. */
START_TEST(others)
{
	static const char text[] = "rules: [{name: deaf, match: {packet: cm}, do: drop}]";
	static const char deed[] = "rule 1 (deaf): packets of the connection manager dropped, once";
	struct burst b = { .op_first = SVC_UD | OP_SEND_ONLY, .dqpn = 1 };
	struct tap_pkt p = { .qpn = 1, .b = &b, .now = clock_now() };
	struct why_entry e = { .cause = WHY_CM_UNREACHABLE, .owner.uid = ANN };
	struct rule_error err;
	struct rules *rs;

	devices_n = 1;
	ck_assert_int_eq(impair_add(text, sizeof(text) - 1, 1, NULL, &err), 1);
	rs = impair_lock();
	rules_log(rs, rs->v[0], &p, p.now, (struct rule_did){ .lost = true }, "dropped by rule 1 (deaf)");
	impair_unlock();
	blamed(&e, WHY_CM_UNREACHABLE, "");
	e.owner.uid = 0;
	blamed(&e, WHY_CM_UNREACHABLE, deed);
	e.owner.uid = geteuid();
	blamed(&e, WHY_CM_UNREACHABLE, deed);
	impair_clear(0, 0);
}
END_TEST

TEST_MAIN("why_own", rules, harmless, waits, wedged, datagram, summary, fair, others)
