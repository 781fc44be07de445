/* SPDX-License-Identifier: MIT */
/* rule_match.c - "match" and "when" of a rule: which packets, and which of these. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rule_yaml.h"

#include "../proto/cm_msg.h"
#include "../proto/opcode.h"

#define PSN_MOST 0xffffff
#define ALL_OPS  UINT32_MAX

/* ---- QPs ---------------------------------------------------------------------------------- */

static bool get_device(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_text(rd, n, "the name of a device", r->device, sizeof(r->device));
}

static bool get_prog(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_text(rd, n, "the name of a program", r->prog, sizeof(r->prog));
}

static bool get_qp_number(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_u32(rd, n, 1, 0xfffffe, "the number of a QP", &r->qpn);
}

static bool get_qp_nth(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_range(rd, n, 1, UINT32_MAX, "a count of QPs", &r->nth_qp);
}

static bool get_qp_sender(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_range(rd, n, 1, UINT32_MAX, "a count of QPs", &r->sender);
}

static bool get_qp(struct reader *rd, const struct node *n, void *rule)
{
	static const struct key keys[] = {
		{ "number", get_qp_number }, { "nth", get_qp_nth }, { "sender", get_qp_sender }, { NULL, NULL }
	};

	if (node_is_scalar(n))
		return get_qp_number(rd, n, rule);
	return node_some(rd, n, "qp") && node_map(rd, n, "qp", keys, rule);
}

/* ---- packets -------------------------------------------------------------------------------- */

static bool get_direction(struct reader *rd, const struct node *n, void *rule)
{
	static const char *const words[] = { "out", "in", "both" };
	struct rule *r = rule;
	unsigned i;

	if (!get_word(rd, n, "direction", words, 3, &i))
		return false;
	r->dirs = i + 1;
	return true;
}

static bool get_path(struct reader *rd, const struct node *n, void *rule)
{
	static const char *const words[] = { "wire", "local", "both" };
	struct rule *r = rule;
	unsigned i;

	if (!get_word(rd, n, "path", words, 3, &i))
		return false;
	r->paths = i + 1;
	return true;
}

static bool one_service(struct reader *rd, const struct node *n, void *rule)
{
	static const char *const words[] = { "rc", "uc", "ud", "xrc", "cnp" };
	static const uint8_t service[] = { SVC_RC, SVC_UC, SVC_UD, SVC_XRC, SVC_CNP };
	struct rule *r = rule;
	unsigned i;

	if (!get_word(rd, n, "service", words, 5, &i))
		return false;
	if (r->services == 0xff)
		r->services = 0;
	r->services |= 1u << (service[i] >> 5);
	return true;
}

static bool get_service(struct reader *rd, const struct node *n, void *rule)
{
	return node_some(rd, n, "service") && node_each(rd, n, one_service, rule);
}

static const struct {
	const char *word;
	unsigned kinds; /* bit per enum op_kind */
	unsigned roles; /* bit per enum kind_role */
	unsigned syndromes;
} classes[] = {
	{ "request", 0, 1u << ROLE_MESSAGE | 1u << ROLE_ASK, 0 },
	{ "response", 0, 1u << ROLE_RESPONSE, 0 },
#define KIND(name, role, word) { word, 1u << KIND_##name, 0, 0 },
#define OP(code, name, kind, place, hdrs, pay, uc)
#include "../proto/opcode.def"
#undef KIND
#undef OP
	{ "ack", 0, 0, 1 },
	{ "nak", 0, 0, 2 },
	{ "rnr", 0, 0, 4 },
	{ "cm", 0, 0, 0 }, /* these two are no operations */
	{ "cnp", 0, 0, 0 },
};
#define CLASSES (sizeof(classes) / sizeof(*classes))

static bool same_word(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b) && !(*a == '-' && *b == '_'))
			return false;
	return !*a && !*b;
}

/* The messages of the CM of a word, "cm" or "cm-req"; 0: it is none. */
static uint32_t cm_of(const char *word)
{
	if (!strcmp(word, "cm"))
		return UINT32_MAX;
	for (uint16_t a = CM_REQ; !strncmp(word, "cm-", 3) && a <= CM_APR; a++)
		if (same_word(word + 3, cm_attr_name(a)))
			return rule_cm_bit(a);
	return 0;
}

/* The operations of a word: class or opcode; 0: it is neither. */
static uint32_t ops_of(const char *word, unsigned *syndromes)
{
	uint32_t ops = 0;
	const struct opcode *op;

	*syndromes = 0;
	for (unsigned i = 0; i < 32; i++) {
		op = opcode_get((uint8_t)i);
		/* Without the service in front of the name. */
		if (op->name && same_word(word, strchr(op->name, '_') + 1))
			return 1u << i;
	}
	for (unsigned c = 0; c < CLASSES; c++) {
		if (!*word || strcmp(word, classes[c].word))
			continue;
		*syndromes = classes[c].syndromes;
		for (unsigned i = 0; i < 32; i++) {
			op = opcode_get((uint8_t)i);
			if (op->name && (classes[c].kinds >> op->kind & 1 || classes[c].roles >> op->role & 1))
				ops |= 1u << i;
		}
	}
	return ops;
}

/* "\"x\" is no kind of packet; there are ..." */
static bool no_packet(struct reader *rd, const struct node *n, const char *word)
{
	char list[160] = "";
	size_t at = 0;

	for (unsigned c = 0; c < CLASSES && at < sizeof(list); c++)
		if (*classes[c].word)
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s, ", classes[c].word);
	return node_bad(
		rd, n,
		"\"%.40s\" is no kind of packet; there are %scm-req and the like, and opcodes such as send_middle",
		word, list);
}

static bool one_packet(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;
	const char *word = node_word(rd, n, "a kind of packet");
	unsigned syndromes;
	uint32_t ops;

	if (!word)
		return false;
	if (r->ops == ALL_OPS) {
		r->ops = 0;
		r->cm = 0;
		r->cnp = false;
	}
	r->cm |= cm_of(word);
	if (cm_of(word))
		return true;
	if (!strcmp(word, "cnp")) {
		r->cnp = true;
		return true;
	}
	ops = ops_of(word, &syndromes);
	r->ops |= ops;
	r->syndromes |= syndromes;
	return ops || syndromes || no_packet(rd, n, word);
}

static bool get_packet(struct reader *rd, const struct node *n, void *rule)
{
	return node_some(rd, n, "packet") && node_each(rd, n, one_packet, rule);
}

/* +3; not +03, as of all numbers. */
static bool relative(const char *s, const char **end, long long *to)
{
	char *e;

	if ((*s != '+' && *s != '-') || !isdigit((unsigned char)s[1]) || (s[1] == '0' && isdigit((unsigned char)s[2])))
		return false;
	*to = strtoll(s, &e, 10);
	*end = e;
	return true;
}

/* 17, 17..20: as in the packet.  +3, +0..+9: behind the QP's first one. */
static bool get_psn(struct reader *rd, const struct node *n, void *rule)
{
	const char *s = node_word(rd, n, "a PSN"), *end;
	struct rule *r = rule;
	long long from, to;
	bool good;

	if (!s)
		return false;
	if (*s != '+' && *s != '-')
		return get_range(rd, n, 0, PSN_MOST, "a PSN", &r->psn);
	good = relative(s, &end, &from);
	to = from;
	if (good && !strncmp(end, "..", 2)) {
		end += 2;
		to = PSN_MOST / 2;
		good = !*end || relative(end, &end, &to);
	}
	if (!good || *end || from > to || from < -PSN_MOST / 2 || to > PSN_MOST / 2)
		return node_bad(rd, n, "\"%.40s\" is no PSN; it looks like 17, 17..20, +3 or +0..+9", s);
	r->rel = (struct rule_range){ from, to };
	return true;
}

static bool get_iter(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_range(rd, n, 1, 255, "a number of transmissions", &r->iter);
}

static bool get_time(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_ns_range(rd, n, &r->ns);
}

bool get_match(struct reader *rd, const struct node *n, void *rule)
{
	static const struct key keys[] = {
		{ "device", get_device },       { "qp", get_qp },     { "program", get_prog },
		{ "direction", get_direction }, { "path", get_path }, { "service", get_service },
		{ "packet", get_packet },       { "psn", get_psn },   { "iter", get_iter },
		{ "time", get_time },           { NULL, NULL },
	};

	return node_map(rd, n, "match", keys, rule);
}

/* ---- which of these ------------------------------------------------------------------------------ */

static bool get_nth(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_range(rd, n, 1, INT64_MAX, "a count of packets", &r->nth);
}

static bool get_every(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	if (!get_u64(rd, n, &r->every))
		return false;
	return r->every || node_bad(rd, n, "every is 1 at least");
}

static bool get_probability(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_share(rd, n, &r->share);
}

static bool get_times(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	if (!get_u64(rd, n, &r->times))
		return false;
	return r->times || node_bad(rd, n, "times is 1 at least");
}

static bool get_per(struct reader *rd, const struct node *n, void *rule)
{
	static const char *const words[] = { "rule", "qp" };
	struct rule *r = rule;
	unsigned i;

	if (!get_word(rd, n, "count", words, 2, &i))
		return false;
	r->each_qp = i;
	return true;
}

bool get_when(struct reader *rd, const struct node *n, void *rule)
{
	static const struct key keys[] = {
		{ "nth", get_nth },     { "every", get_every }, { "probability", get_probability },
		{ "times", get_times }, { "per", get_per },     { NULL, NULL },
	};

	return node_map(rd, n, "when", keys, rule);
}
