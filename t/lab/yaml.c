/* SPDX-License-Identifier: MIT */
/* yaml.c - texts that are wrong: each is refused, with the line and a word that says why. */
#include <stdio.h>

#include <yaml.h>

#include "rig.h"
#include "t/suite.h"

static const struct {
	unsigned line;
	const char *why, *text;
} bad[] = {
	{ 1, "nothing in it", "" },
	{ 1, "nothing in it", "# only a comment\n" },
	{ 1, "mapping", "drop" },
	{ 1, "mapping", "[1, 2]" },
	{ 1, "no rules", "seed: 1\n" },
	{ 1, "no rules", "rules: []\n" },
	{ 1, "is a list", "rules: drop\n" },
	{ 2, "not known", "seed: 1\nrule: []\n" },
	{ 1, "no whole number", "seed: many\nrules: [{do: drop}]\n" },
	{ 1, "no whole number", "seed: 010\nrules: [{do: drop}]\n" },
	{ 1, "no whole number", "seed: 0x\nrules: [{do: drop}]\n" },
	{ 1, "no whole number", "seed: -1\nrules: [{do: drop}]\n" },
	{ 1, "no whole number", "seed: 99999999999999999999999\nrules: [{do: drop}]\n" },
	{ 2, "no \"do\"", "rules:\n- name: x\n" },
	{ 2, "twice", "rules:\n- {do: drop, do: drop}\n" },
	{ 3, "there are: name, match, when, at, do", "rules:\n- name: x\n  then: drop\n" },
	{ 3, "\"qpn\" is not known in match; there are: device, qp", "rules:\n- match:\n    qpn: 1\n  do: drop\n" },
	{ 3, "not known in when", "rules:\n- do: drop\n  when: {often: 1}\n" },
	{ 2, "nothing to do; there are: drop duplicate", "rules:\n- do: lose\n" },
	{ 2, "do: there is nothing in it", "rules:\n- do: {}\n" },
	{ 2, "there is nothing to do", "rules:\n- do: []\n" },
	{ 2, "do: there is nothing in it", "rules:\n- do: [drop, {}]\n" },
	{ 2, "nothing to do", "rules:\n- do:\n" },
	{ 2, "needs a value", "rules:\n- do: delay\n" },
	{ 2, "stands alone", "rules:\n- do: {drop: 1}\n" },
	{ 2, "4 things at most", "rules:\n- do: [ecn, ecn, ecn, ecn, ecn]\n" },
	{ 2, "looks like 5ms", "rules:\n- do: {delay: 5}\n" },
	{ 2, "looks like 5ms", "rules:\n- do: {delay: -5ms}\n" },
	{ 2, "looks like 5ms", "rules:\n- do: {delay: 5 ms}\n" },
	{ 2, "looks like 5ms", "rules:\n- do: {delay: 5h}\n" },
	{ 2, "looks like 5ms", "rules:\n- do: {delay: 99999999999s}\n" },
	{ 2, "single value", "rules:\n- do: {delay: [5ms]}\n" },
	{ 2, "not known in delay", "rules:\n- do: {delay: {for: 1ms}}\n" },
	{ 2, "delay: there is nothing in it", "rules:\n- do: {delay: {}}\n" },
	{ 2, "0 is no time; for ever", "rules:\n- do: {blackhole: 0ms}\n" },
	{ 2, "0 is no time; for ever", "rules:\n- do: {port-down: 0s}\n" },
	{ 2, "0 is no time; for ever", "rules:\n- do: {wedge: 0s}\n" },
	{ 2, "0 is no time; for ever", "rules:\n- do: {unplug: 0.1ns}\n" },
	{ 2, "hold: 0 is no time", "rules:\n- do: {hold: 0s}\n" },
	{ 2, "no packet overtakes", "rules:\n- do: {reorder: {within: 0ms}}\n" },
	{ 2, "from 1 to 100", "rules:\n- do: {duplicate: 0}\n" },
	{ 2, "from 1 to 100", "rules:\n- do: {duplicate: 101}\n" },
	{ 2, "no part of a packet", "rules:\n- do: {corrupt: tail}\n" },
	{ 2, "no way with the ICRC", "rules:\n- do: {corrupt: {icrc: yes}}\n" },
	{ 2, "corrupt: there is nothing in it", "rules:\n- do: {corrupt: {}}\n" },
	{ 2, "corrupt has byte, too", "rules:\n- do: {corrupt: {xor: 0x40}}\n" },
	{ 2, "not both", "rules:\n- do: {corrupt: {bits: 3, byte: 2}}\n" },
	{ 2, "not both", "rules:\n- do: {corrupt: {xor: 1, byte: 2, bits: 3}}\n" },
	{ 2, "is not damaged", "rules:\n- do: {corrupt: {where: icrc, icrc: fix}}\n" },
	{ 2, "1 byte at least", "rules:\n- do: {rate: {limit: 1mbit, queue: 0}}\n" },
	{ 2, "looks like 100mbit", "rules:\n- do: {rate: 100}\n" },
	{ 2, "1kbit at least", "rules:\n- do: {rate: 0bit}\n" },
	{ 2, "has a limit", "rules:\n- do: {rate: {queue: 1k}}\n" },
	{ 2, "looks like 64k", "rules:\n- do: {rate: {limit: 1mbit, queue: 1g}}\n" },
	{ 2, "from 0 to 31", "rules:\n- do: {rnr: 32}\n" },
	{ 2, "no NAK; there are: sequence", "rules:\n- do: {nak: none}\n" },
	{ 2, "1 to 47 characters", "rules:\n- {name: '', do: drop}\n" },
	{ 2, "1 to 47 characters",
	  "rules:\n- {name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, do: drop}\n" },
	{ 2, "one line", "rules:\n- {name: \"a\\nb\", do: drop}\n" },
	{ 2, "zero byte", "rules:\n- {name: \"a\\0b\", do: drop}\n" },
	{ 2, "no kind of packet", "rules:\n- {match: {packet: ping}, do: drop}\n" },
	{ 2, "no kind of packet", "rules:\n- {match: {packet: [send, '']}, do: drop}\n" },
	{ 2, "packet: there is nothing in it", "rules:\n- {match: {packet: []}, do: drop}\n" },
	{ 2, "service: there is nothing in it", "rules:\n- {match: {service: []}, do: drop}\n" },
	{ 2, "qp: there is nothing in it", "rules:\n- {match: {qp: {}}, do: drop}\n" },
	{ 2, "no direction", "rules:\n- {match: {direction: up}, do: drop}\n" },
	{ 2, "no path", "rules:\n- {match: {path: air}, do: drop}\n" },
	{ 2, "no service", "rules:\n- {match: {service: [rc, tcp]}, do: drop}\n" },
	{ 2, "\"rd\" is no service", "rules:\n- {match: {service: rd}, do: drop}\n" },
	{ 2, "looks like 17", "rules:\n- {match: {psn: +}, do: drop}\n" },
	{ 2, "looks like 17", "rules:\n- {match: {psn: +3..+1}, do: drop}\n" },
	{ 2, "looks like 17", "rules:\n- {match: {psn: +010}, do: drop}\n" },
	{ 2, "looks like 17", "rules:\n- {match: {psn: +1..3}, do: drop}\n" },
	{ 2, "looks like 17", "rules:\n- {match: {psn: +99999999999}, do: drop}\n" },
	{ 2, "looks like 3", "rules:\n- {match: {psn: 1-2}, do: drop}\n" },
	{ 2, "0 to 16777215", "rules:\n- {match: {psn: 0x1000000}, do: drop}\n" },
	{ 2, "1 to 255", "rules:\n- {match: {iter: 0}, do: drop}\n" },
	{ 2, "1 to 255", "rules:\n- {match: {iter: 3..2}, do: drop}\n" },
	{ 2, "looks like 3", "rules:\n- {match: {iter: 1...2}, do: drop}\n" },
	{ 2, "no span of time", "rules:\n- {match: {time: 1s}, do: drop}\n" },
	{ 2, "no span of time", "rules:\n- {match: {time: 2s..1s}, do: drop}\n" },
	{ 2, "no span of time", "rules:\n- {match: {time: 0s..0s}, do: drop}\n" },
	{ 2, "no span of time", "rules:\n- {match: {time: 2s..2s}, do: drop}\n" },
	{ 2, "from 1 to", "rules:\n- {match: {qp: 0}, do: drop}\n" },
	{ 2, "not known in qp", "rules:\n- {match: {qp: {first: 1}}, do: drop}\n" },
	{ 2, "no device \"rdmad7\"", "rules:\n- {match: {device: rdmad7}, do: drop}\n" },
	{ 2, "looks like 0.01", "rules:\n- {when: {probability: 2}, do: drop}\n" },
	{ 2, "looks like 0.01", "rules:\n- {when: {probability: 101%}, do: drop}\n" },
	{ 2, "looks like 0.01", "rules:\n- {when: {probability: nan}, do: drop}\n" },
	{ 2, "1 at least", "rules:\n- {when: {every: 0}, do: drop}\n" },
	{ 2, "1 at least", "rules:\n- {when: {times: 0}, do: drop}\n" },
	{ 2, "no whole number", "rules:\n- {when: {times: 010}, do: drop}\n" },
	{ 2, "looks like 3", "rules:\n- {when: {nth: 010}, do: drop}\n" },
	{ 2, "looks like 3", "rules:\n- {when: {nth: 1..010}, do: drop}\n" },
	{ 2, "no count", "rules:\n- {when: {per: device}, do: drop}\n" },
	{ 2, "happens to packets", "rules:\n- {at: 1s, do: drop}\n" },
	{ 2, "happens to devices", "rules:\n- {at: 1s, match: {program: x}, do: port-down}\n" },
	{ 2, "happens to devices", "rules:\n- {at: 1s, match: {qp: {nth: 1}}, do: [qp-fatal, wedge]}\n" },
	{ 2, "of which QP", "rules:\n- {at: 1s, do: qp-fatal}\n" },
	{ 2, "about a moment", "rules:\n- {at: 1s, match: {packet: send}, do: port-down}\n" },
	{ 2, "about a moment", "rules:\n- {at: 1s, when: {times: 1}, do: port-down}\n" },
	{ 2, "about a moment", "rules:\n- {at: 1s, when: {per: qp}, do: port-down}\n" },
	{ 2, "up for a time", "rules:\n- {at: 1s, do: {flap: {up: 0ms}}}\n" },
	{ 2, "from 1 to", "rules:\n- {at: 1s, do: {flap: 0}}\n" },
	{ 2, "stands alone", "rules:\n- {at: 1s, do: {gid-move: 2}}\n" },
#ifndef SHIM_YAML_H /* libyaml's own words */
	{ 3, "one document", "rules: [{do: drop}]\n---\n " },
	{ 2, "did not find expected ',' or '}'", "rules:\n- {do: drop\n" },
	{ 4, "while scanning a quoted scalar that begins in line 2", "rules:\n- name: 'x\n  do: drop\n- do: drop" },
#endif
	{ 3, "UTF-8", "rules:\n- do: drop\n  name: \xdcx\n- do: drop\n" },
	{ 2, "this is no YAML", "rules:\n\t- do: drop\n" },
	{ 1, "this is no YAML", "rules: *nowhere\n" },
	{ 1, "this is no YAML", "\xff\xfe\xfd" },
	{ 2, "one document", "rules: [{do: drop}]\n--- x\n" },
	{ 1, "a key is a single value", "{[a]: b}\n" },
};

static int add(struct lab *l, const char *text, size_t len, struct rule_error *err)
{
	return rules_add(&l->rules, text, len, &(struct rule_host){ 0 }, err);
}

START_TEST(wrong)
{
	struct rule_error err;
	struct lab lab;

	lab_begin(&lab, "rules: [{do: drop}]");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ck_assert_msg(add(&lab, bad[i].text, strlen(bad[i].text), &err) < 0, "was taken:\n%s", bad[i].text);
		ck_assert_msg(strstr(err.text, bad[i].why) && err.line == bad[i].line,
			      "%s\nshould say \"%s\" of line %u, says \"%s\" of %u", bad[i].text, bad[i].why,
			      bad[i].line, err.text, err.line);
	}
	ck_assert_uint_eq(lab.rules.n, 1);
	lab_end(&lab);
}
END_TEST

/* One wrong rule, and none of the text is taken. */
START_TEST(all_or_nothing)
{
	static const char text[] = "rules:\n- do: drop\n- do: drop\n- do: lose\n";
	struct rule_error err;
	struct lab lab;

	lab_begin(&lab, "rules: [{do: drop}]");
	ck_assert_int_lt(add(&lab, text, strlen(text), &err), 0);
	ck_assert_uint_eq(err.line, 4);
	ck_assert_uint_eq(lab.rules.n, 1);
	lab_end(&lab);
}
END_TEST

START_TEST(too_much)
{
	static char text[2u << 20];
	struct rule_error err;
	struct lab lab;
	size_t n = 0;

	lab_begin(&lab, "rules: [{do: drop}]");
	memset(text, ' ', sizeof(text));
	ck_assert_int_lt(add(&lab, text, sizeof(text), &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "1 MiB"));
	n = (size_t)sprintf(text, "rules:\n");
	for (unsigned i = 0; i < RULES_MAX + 1; i++)
		n += (size_t)sprintf(text + n, "- do: drop\n");
	ck_assert_int_lt(add(&lab, text, n, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "more than 256"));
	ck_assert_uint_eq(err.line, RULES_MAX + 2);
	n -= strlen("- do: drop\n");
	ck_assert_int_lt(add(&lab, text, n, &err), 0); /* with the one that is there */
	/* Brackets without end, though they seem to have one; anchors; and a list that contains itself a million times over. */
	for (n = 0; n < 1000000; n += 5)
		memcpy(text + n, "[\"]\",", 5);
	ck_assert_int_lt(add(&lab, text, n, &err), 0);
	for (n = 0; n < 1000000;)
		n += (size_t)sprintf(text + n, "- &%zx a\n", n);
	ck_assert_int_lt(add(&lab, text, n, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "anchors"));
	strcpy(text, "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c "
		     "[*b,*b,*b,*b,*b,*b,*b,*b]\nrules: *c\n");
	ck_assert_int_lt(add(&lab, text, strlen(text), &err), 0);
	strcpy(text, "rules: &r [*r, *r]\n");
	ck_assert_int_lt(add(&lab, text, strlen(text), &err), 0);
	lab_end(&lab);
}
END_TEST

/* Of comments and strings nothing is counted. */
START_TEST(brackets)
{
	char text[512] = "rules:\n- {name: '[[[[[[[[', do: drop} # ";
	struct rule_error err;
	struct lab lab;

	lab_begin(&lab, "rules: [{do: drop}]");
	memset(text + strlen(text), '[', 100);
	ck_assert_msg(add(&lab, text, strlen(text), &err) == 1, "%s", err.text);
	lab_end(&lab);
}
END_TEST

/* Any beginning of a good text, and any byte of it changed: taken or refused, but no more than that. */
START_TEST(mutilated)
{
	static const char text[] = "seed: 7\nrules:\n- name: x\n  match: {qp: {nth: 1..2}, packet: [send, read], psn: "
				   "+0..+9, iter: 1, time: 1s..2s}\n"
				   "  when: {nth: 1.., probability: 1%}\n  do: [{delay: {time: 1ms, jitter: 2us}}, "
				   "{corrupt: {byte: 3, xor: 1}}]\n"
				   "- {at: 1s, match: {qp: 0x11}, do: qp-fatal}\n";
	struct rule_error err;
	char copy[sizeof(text)];
	unsigned taken = 0;
	struct lab lab;

	lab_begin(&lab, "rules: [{do: drop}]");
	ck_assert_int_eq(add(&lab, text, strlen(text), &err), 2);
	for (size_t i = 0; i < strlen(text); i++) {
		for (unsigned c = 0; c < 256; c += 3) {
			memcpy(copy, text, sizeof(text));
			copy[i] = (char)c;
			taken += add(&lab, copy, strlen(text), &err) > 0;
			ck_assert(memchr(err.text, 0, sizeof(err.text)));
			rules_clear(&lab.rules, 0, 0);
		}
		add(&lab, text, i, &err);
		rules_clear(&lab.rules, 0, 0);
	}
	ck_assert_uint_gt(taken, 0);
	lab_end(&lab);
}
END_TEST

TEST_MAIN("yaml", wrong, all_or_nothing, too_much, brackets, mutilated)
