/* SPDX-License-Identifier: MIT */
/* rule_do.c - "do" of a rule: a word, or a mapping of words to what there is to say about them, or a list of these. */
#include <stdio.h>
#include <string.h>

#include "rule_yaml.h"

#include "../proto/aeth.h"

#define COPIES_MOST 100u
#define BEHIND_MOST 10000u
#define WITHIN_NS   10000000u  /* a packet that none overtakes goes on then */
#define RNR_TIMER   12u        /* 0.64 ms */
#define FLAP_NS     100000000u /* down, and up */
#define FLAP_TIMES  3u

static bool ns_of(struct reader *rd, const struct node *n, void *act)
{
	return get_ns(rd, n, &((struct rule_act *)act)->ns);
}

static bool jitter_of(struct reader *rd, const struct node *n, void *act)
{
	return get_ns(rd, n, &((struct rule_act *)act)->jitter_ns);
}

static bool map_of(struct reader *rd, const struct node *n, const char *what, const struct key *keys, void *to)
{
	return node_some(rd, n, what) && node_map(rd, n, what, keys, to);
}

/* ---- values of act.def: what actions have more to say -------------------------------------------- */

static bool value_time(struct reader *rd, const struct node *n, void *act)
{
	const struct rule_act *a = act;

	if (!ns_of(rd, n, act))
		return false;
	return a->ns || node_bad(rd, n, "%s: 0 is no time%s", rule_act_word(a->kind),
				 a->kind == ACT_HOLD ? "" : "; for ever is the word alone");
}

static bool copies_of(struct reader *rd, const struct node *n, void *act)
{
	return get_u32(rd, n, 1, COPIES_MOST, "copies", &((struct rule_act *)act)->n);
}

static bool value_duplicate(struct reader *rd, const struct node *n, void *act)
{
	static const struct key keys[] = { { "copies", copies_of }, { "after", ns_of }, { NULL, NULL } };

	return node_is_map(n) ? map_of(rd, n, "duplicate", keys, act) : copies_of(rd, n, act);
}

static bool value_delay(struct reader *rd, const struct node *n, void *act)
{
	static const struct key keys[] = { { "time", ns_of }, { "jitter", jitter_of }, { NULL, NULL } };

	return node_is_map(n) ? map_of(rd, n, "delay", keys, act) : ns_of(rd, n, act);
}

static bool behind_of(struct reader *rd, const struct node *n, void *act)
{
	return get_u32(rd, n, 1, BEHIND_MOST, "behind", &((struct rule_act *)act)->n);
}

static bool value_reorder(struct reader *rd, const struct node *n, void *act)
{
	static const struct key keys[] = { { "behind", behind_of }, { "within", ns_of }, { NULL, NULL } };

	if (!(node_is_map(n) ? map_of(rd, n, "reorder", keys, act) : behind_of(rd, n, act)))
		return false;
	return ((struct rule_act *)act)->ns || node_bad(rd, n, "within 0 no packet overtakes another");
}

/* n of the action is the one or the other. */
struct damage {
	struct rule_act *act;
	uint32_t bits, xor; /* 0: not said */
};

static const char *const wheres[] = { "payload", "header", "icrc", "any" };

static bool where_of(struct reader *rd, const struct node *n, void *damage)
{
	unsigned i;

	if (!get_word(rd, n, "part of a packet", wheres, 4, &i))
		return false;
	((struct damage *)damage)->act->where = (enum rule_where)i;
	return true;
}

static bool bits_of(struct reader *rd, const struct node *n, void *damage)
{
	return get_u32(rd, n, 1, 1000, "bits", &((struct damage *)damage)->bits);
}

static bool byte_of(struct reader *rd, const struct node *n, void *damage)
{
	uint32_t v;

	if (!get_u32(rd, n, 0, 4200, "byte", &v))
		return false;
	((struct damage *)damage)->act->byte = (int32_t)v;
	return true;
}

static bool xor_of(struct reader *rd, const struct node *n, void *damage)
{
	return get_u32(rd, n, 1, 255, "xor", &((struct damage *)damage)->xor);
}

static bool icrc_of(struct reader *rd, const struct node *n, void *damage)
{
	static const char *const words[] = { "leave", "fix" };
	unsigned i;

	if (!get_word(rd, n, "way with the ICRC", words, 2, &i))
		return false;
	((struct damage *)damage)->act->fix = i;
	return true;
}

static bool value_corrupt(struct reader *rd, const struct node *n, void *act)
{
	static const struct key keys[] = {
		{ "where", where_of }, { "bits", bits_of }, { "byte", byte_of },
		{ "xor", xor_of },     { "icrc", icrc_of }, { NULL, NULL },
	};
	struct damage d = { .act = act };

	if (!(node_is_map(n) ? map_of(rd, n, "corrupt", keys, &d) : where_of(rd, n, &d)))
		return false;
	if (d.xor &&d.act->byte < 0)
		return node_bad(rd, n, "xor changes one byte: corrupt has byte, too");
	if (d.bits && d.act->byte >= 0)
		return node_bad(rd, n, "corrupt has bits, which are chance, or byte and xor; not both");
	if (d.act->fix && d.act->where == WHERE_ICRC)
		return node_bad(rd, n, "an ICRC that is made to fit is not damaged");
	if (d.xor || d.bits)
		d.act->n = d.xor +d.bits;
	return true;
}

static bool limit_of(struct reader *rd, const struct node *n, void *act)
{
	return get_rate(rd, n, &((struct rule_act *)act)->rate);
}

static bool queue_of(struct reader *rd, const struct node *n, void *act)
{
	if (!get_size(rd, n, &((struct rule_act *)act)->queue))
		return false;
	return ((struct rule_act *)act)->queue ||
	       node_bad(rd, n, "a queue has 1 byte at least; without one there is no bound");
}

static bool value_rate(struct reader *rd, const struct node *n, void *act)
{
	static const struct key keys[] = { { "limit", limit_of }, { "queue", queue_of }, { NULL, NULL } };

	if (!(node_is_map(n) ? map_of(rd, n, "rate", keys, act) : limit_of(rd, n, act)))
		return false;
	return ((struct rule_act *)act)->rate || node_bad(rd, n, "rate has a limit");
}

static bool value_rnr(struct reader *rd, const struct node *n, void *act)
{
	return get_u32(rd, n, 0, 31, "the RNR timer", &((struct rule_act *)act)->n);
}

static const char *const naks[] = {
	[NAK_PSN_SEQ] = "sequence",        [NAK_INV_REQ] = "invalid-request",       [NAK_REM_ACCESS] = "remote-access",
	[NAK_REM_OP] = "remote-operation", [NAK_INV_RD_REQ] = "invalid-rd-request", [NAK_IN_PROGRESS] = "in-progress",
};

static bool value_nak(struct reader *rd, const struct node *n, void *act)
{
	return get_word(rd, n, "NAK", naks, sizeof(naks) / sizeof(*naks), &((struct rule_act *)act)->n);
}

static bool times_of(struct reader *rd, const struct node *n, void *act)
{
	return get_u32(rd, n, 1, 1000000, "flap", &((struct rule_act *)act)->n);
}

static bool up_of(struct reader *rd, const struct node *n, void *act)
{
	return get_ns(rd, n, &((struct rule_act *)act)->up_ns);
}

static bool value_flap(struct reader *rd, const struct node *n, void *act)
{
	static const struct key keys[] = { { "times", times_of }, { "down", ns_of }, { "up", up_of }, { NULL, NULL } };
	const struct rule_act *a = act;

	if (!(node_is_map(n) ? map_of(rd, n, "flap", keys, act) : times_of(rd, n, act)))
		return false;
	return (a->ns && a->up_ns) || node_bad(rd, n, "a port that flaps is down for a time, and up for a time");
}

static bool value_swallow(struct reader *rd, const struct node *n, void *act)
{
	return get_u32(rd, n, 1, 1000000, "swallow-ack", &((struct rule_act *)act)->n);
}

/* ---- all of them ----------------------------------------------------------------------------- */

#define value_none NULL

static const struct {
	bool (*get)(struct reader *, const struct node *, void *);
	enum { MAY, MUST } without;
} how[ACTS] = {
#define ACT(name, about, value, without, word) [ACT_##name] = { value_##value, without },
#include "act.def"
#undef ACT
};

static struct rule_act *act_new(struct reader *rd, const struct node *n, struct rule *r)
{
	const char *word = node_word(rd, n, "an action");
	char list[320] = "";
	struct rule_act *a;
	size_t at = 0;

	if (!word)
		return NULL;
	if (r->act_n == RULE_ACTS) {
		node_bad(rd, n, "a rule does %u things at most", RULE_ACTS);
		return NULL;
	}
	for (unsigned k = 0; k < ACTS; k++) {
		if (strcmp(word, rule_act_word((enum rule_act_kind)k)))
			continue;
		a = &r->act[r->act_n++];
		*a = (struct rule_act){ .kind = (enum rule_act_kind)k, .n = 1, .byte = -1 };
		if (k == ACT_RNR)
			a->n = RNR_TIMER;
		if (k == ACT_REORDER)
			a->ns = WITHIN_NS;
		if (k == ACT_FLAP) {
			a->n = FLAP_TIMES;
			a->ns = a->up_ns = FLAP_NS;
		}
		return a;
	}
	for (unsigned k = 0; k < ACTS && at < sizeof(list); k++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", k ? " " : "",
				       rule_act_word((enum rule_act_kind)k));
	node_bad(rd, n, "\"%.40s\" is nothing to do; there are: %s", word, list);
	return NULL;
}

static bool act_pair(struct reader *rd, const struct node *key, const struct node *value, void *rule)
{
	struct rule_act *a = act_new(rd, key, rule);

	if (!a)
		return false;
	if (!how[a->kind].get)
		return node_bad(rd, value, "%s stands alone: there is nothing more to say about it",
				rule_act_word(a->kind));
	return how[a->kind].get(rd, value, a);
}

static bool one_act(struct reader *rd, const struct node *n, void *rule)
{
	struct rule_act *a;

	if (!node_is_scalar(n))
		return node_some(rd, n, "do") && node_pairs(rd, n, "an action", act_pair, rule);
	a = act_new(rd, n, rule);
	if (!a)
		return false;
	return how[a->kind].without == MAY || node_bad(rd, n, "%s needs a value", rule_act_word(a->kind));
}

bool get_do(struct reader *rd, const struct node *n, void *rule)
{
	if (!node_each(rd, n, one_act, rule))
		return false;
	return ((struct rule *)rule)->act_n || node_bad(rd, n, "there is nothing to do");
}

/* ---- and back again ---------------------------------------------------------------------------- */

static size_t corrupt_words(const struct rule_act *a, char *text, size_t len)
{
	const char *fix = a->fix ? ", icrc: fix" : "";

	if (a->byte >= 0)
		return (size_t)snprintf(text, len, "{corrupt: {where: %s, byte: %d, xor: %u%s}}", wheres[a->where],
					a->byte, a->n, fix);
	return (size_t)snprintf(text, len, "{corrupt: {where: %s, bits: %u%s}}", wheres[a->where], a->n, fix);
}

/* An act that did more than make the packet late; its own part of that is taken from *late_ns. */
static size_t act_words(const struct rule_act *a, uint64_t *late_ns, char *text, size_t len)
{
	switch (a->kind) {
	case ACT_DUPLICATE:
		return (size_t)snprintf(text, len, "{duplicate: {copies: %u, after: %lluns}}", a->n,
					(unsigned long long)a->ns);
	case ACT_REORDER:
		*late_ns -= a->ns < *late_ns ? a->ns : *late_ns;
		return (size_t)snprintf(text, len, "{reorder: {behind: %u, within: %lluns}}", a->n,
					(unsigned long long)a->ns);
	case ACT_CORRUPT: return corrupt_words(a, text, len);
	case ACT_ECN: return (size_t)snprintf(text, len, "ecn");
	default: return 0;
	}
}

static void answer_words(const struct rule *r, enum rule_answer answer, char *text, size_t len)
{
	for (unsigned i = 0; i < r->act_n; i++) {
		const struct rule_act *a = &r->act[i];

		if (answer == ANSWER_RNR && a->kind == ACT_RNR)
			snprintf(text, len, "{rnr: %u}", a->n);
		else if (answer == ANSWER_NAK && a->kind == ACT_NAK)
			snprintf(text, len, "{nak: %s}", naks[a->n]);
		else if (answer == ANSWER_ACK && a->kind == ACT_GHOST_ACK)
			snprintf(text, len, "ghost-ack");
	}
}

void rule_redo(const struct rule *r, const struct rule_did *did, char *text, size_t len)
{
	uint64_t late_ns = did->late_ns;
	unsigned acts = 0;
	size_t at = 0, n;

	snprintf(text, len, "%s", did->lost ? "drop" : "");
	if (did->lost && did->now)
		answer_words(r, did->answer, text, len);
	for (unsigned i = 0; !did->lost && did->now && i < r->act_n && at + 2 < len; i++) {
		n = act_words(&r->act[i], &late_ns, text + at + (at ? 2 : 0), len - at - (at ? 2 : 0));
		if (n && at)
			memcpy(text + at, ", ", 2);
		at += n ? n + (at ? 2 : 0) : 0;
		acts += n > 0;
	}
	/* of as many acts as a rule can have none was a delay */
	if (!did->lost && late_ns && acts < RULE_ACTS && at < len)
		snprintf(text + at, len - at, "%s{delay: %lluns}", at ? ", " : "", (unsigned long long)late_ns);
}
