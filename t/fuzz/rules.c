/* SPDX-License-Identifier: MIT */
/*
 * rules.c - fuzz target: any text as a file of rules.  It is refused with a line that is there, and a reason; or its rules can be
 * put into force, do something, and what they did is a rule again.
 */
#include "lab/rule.h"

#include <string.h>

#include "file.h"
#include "proto/opcode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A deed that was done to one packet is in a recording, to be done again. */
static void again(const char *redo)
{
	static struct rules rs;
	struct rule_error err;
	char text[RULE_REDO + 32];

	snprintf(text, sizeof(text), "rules:\n- do: [%s]\n", redo);
	must(rules_add(&rs, text, strlen(text), &(struct rule_host){ .owner = 1 }, &err) == 1);
	rules_clear(&rs, 0, 0);
}

static void in_force(struct rules *rs)
{
	struct rule_did did = { .late_ns = 5, .now = true };
	char text[RULE_REDO];

	for (unsigned i = 0; i < rs->n; i++) {
		const struct rule *r = rs->v[i];

		must(r->act_n && r->act_n <= RULE_ACTS);
		rule_about(r, text, sizeof(text));
		must(*text);
		did.answer = (enum rule_answer)(i % 4);
		did.lost = did.answer != ANSWER_NONE;
		rule_redo(r, &did, text, sizeof(text));
		must(*text);
		again(text);
	}
}

static void packets(struct rules *rs)
{
	struct burst b = { .dqpn = 2, .n = 1 };
	struct rule_event e;
	struct rule_verdict v;
	mono_t now = { 1 };

	for (unsigned op = 0; op < 256; op++) {
		struct tap_pkt p = { .device = op & 1, .dir = op >> 1 & 1, .now = now, .qpn = 5, .b = &b };

		b.op_first = (uint8_t)op;
		b.dqpn = op & 3;
		if (!opcode_get(b.op_first)->name)
			continue;
		rules_decide(rs, NULL, &p, &v);
		must(strlen(v.text) < sizeof(v.text));
		now = mono_add(now, 1000000000);
		for (unsigned i = 0; i < 100 && rules_event(rs, &e, now); i++)
			must(e.kind < ACTS && rule_act_about(e.kind) != ABOUT_PACKET);
		rules_deadline(rs);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct rules rs = { .device = { "rdmad0", "rdmad1" }, .device_n = 2 };
	struct rule_error err = { 0 };
	unsigned lines = 1;
	int n = rules_add(&rs, (const char *)data, len, &(struct rule_host){ .owner = 1 }, &err);

	for (size_t i = 0; i < len; i++)
		lines += data[i] == '\n' || data[i] == '\r' || data[i] >= 0x80; /* of Unicode, too */
	must(n > 0 ? (unsigned)n == rs.n : n < 0 && *err.text && err.line <= lines);
	if (n > 0) {
		in_force(&rs);
		packets(&rs);
	}
	rules_clear(&rs, 0, 0);
	rules_fini(&rs);
	return 0;
}
