/* SPDX-License-Identifier: MIT */
/*
 * rule_blame.c - were it our own rules?  What is remembered of their decisions is searched for the packets that a failure
 * is about.
 */
#include "rule.h"

#include <stdio.h>
#include <string.h>

#include "../proto/opcode.h"
#include "text_cut.h"

#define TOLD 4u /* rules */

/* The doings of one rule. */
struct deed {
	unsigned rule, n;
	const struct rule_note *note; /* the last one */
};

static bool between(psn_t psn, psn_t first, psn_t last) { return !psn_before(psn, first) && !psn_before(last, psn); }

static bool is_cm(const struct rule_note *n, const struct rule_suspect *q)
{
	return (n->qpn == 1 || n->dqpn == 1) && ((int)n->device == q->device || (int)n->device == q->peer);
}

/* A packet between the two, and which way it went. */
static bool is_of(const struct rule_note *n, const struct rule_suspect *q, bool *leaves)
{
	if ((int)n->device == q->device && n->qpn == q->qpn) {
		*leaves = n->dir == TAP_OUT;
		return true;
	}
	*leaves = n->dir == TAP_IN;
	return (int)n->device == q->peer && n->qpn == q->dqpn && (n->dir == TAP_IN || n->dqpn == q->qpn);
}

/* A datagram for the QP, where it came, or where another QP of this host sent it. */
static bool is_datagram(const struct rule_note *n, const struct rule_suspect *q)
{
	if (SVC_OF(n->opcode) != SVC_UD)
		return false;
	return n->dir == TAP_IN ? (int)n->device == q->device && n->qpn == q->qpn : n->local && n->dqpn == q->qpn;
}

/* Not what is told of a port or a QP that it struck down. */
static bool is_of_packets(const struct rule_note *n)
{
	for (unsigned i = 0; i < ACTS; i++)
		if (n->acts >> i & 1 && i != ACT_NOTE && rule_act_about(i) == ABOUT_PACKET)
			return true;
	return false;
}

/* Was it this QP that was struck down, or one that may have its CQ? */
static bool is_strike(const struct rule_note *n, const struct rule_suspect *q)
{
	uint32_t acts = n->acts & q->acts;

	if (!n->event && (int)n->device != q->device)
		return false;
	for (unsigned i = 0; i < ACTS; i++)
		if (acts >> i & 1 &&
		    (rule_act_about(i) == ABOUT_DEVICE || i == ACT_CQ_OVERRUN || !n->qpn || n->qpn == q->qpn))
			return true;
	return false;
}

static bool is_meant(const struct rule_note *n, const struct rule_suspect *q)
{
	bool leaves;

	if (mono_before(n->at, q->since))
		return false;
	if (q->acts)
		return is_strike(n, q);
	if (n->event || n->opcode == OPCODE_CNP || !is_of_packets(n))
		return false;
	if (!q->qpn)
		return is_cm(n, q);
	if (q->datagrams)
		return is_datagram(n, q);
	if (!is_of(n, q, &leaves) || leaves == (q->responder == (n->kind == TAP_REQUEST)))
		return false;
	if (n->kind != TAP_REQUEST)
		return !q->responder && !psn_before(n->psn, q->psn);
	/* A packet acknowledged that never came in makes all that is behind it fail. */
	return between(n->psn, q->psn, q->last) || ((n->acts >> ACT_GHOST_ACK & 1) && psn_before(n->psn, q->psn));
}

/* Can the failure come of it? */
static bool is_able(const struct rule_note *n, const struct rule_suspect *q)
{
	const uint32_t late = 1u << ACT_DELAY | 1u << ACT_HOLD | 1u << ACT_RATE;
	uint32_t able = q->able, acts = n->acts;
	bool too_late = q->missed.ns ? mono_before(q->missed, mono_add(n->at, n->late_ns)) : n->late_ns >= q->late_ns;

	if (!too_late)
		able &= ~late;
	if (n->lost && acts >> ACT_RATE & 1) /* its queue was full */
		acts |= 1u << ACT_DROP;
	if (n->nak != q->nak)
		able &= ~(1u << ACT_NAK);
	if (q->fix && !n->fix)
		able &= ~(1u << ACT_CORRUPT);
	return q->acts || (acts & able);
}

struct deeds {
	struct deed v[TOLD];
	unsigned n;
	unsigned able; /* those that can bring the failure about */
};

static void deed_add(struct deeds *ds, const struct rule_suspect *q, const struct rule_note *note)
{
	unsigned k = 0;

	if (!note->n || !is_meant(note, q))
		return;
	ds->able += is_able(note, q);
	while (k < ds->n && ds->v[k].rule != note->rule)
		k++;
	if (k == TOLD)
		return;
	if (k == ds->n)
		ds->v[ds->n++] = (struct deed){ .rule = note->rule };
	ds->v[k].n++;
	ds->v[k].note = note;
}

static struct deeds deeds(const struct rules *rs, const struct rule_suspect *q)
{
	uint64_t first = rs->note_n > RULES_LOG ? rs->note_n - RULES_LOG : 0;
	struct deeds ds = { .n = 0 };

	for (unsigned i = 0; rs->kept && i < RULES_KEPT; i++)
		deed_add(&ds, q, &rs->kept[i]);
	for (uint64_t i = first; rs->note && i < rs->note_n; i++)
		deed_add(&ds, q, &rs->note[i % RULES_LOG]);
	return ds;
}

/* "rule 1 (cut)" */
static void name_put(const struct rule_note *n, char *text, size_t len)
{
	bool named = *n->name;

	snprintf(text, len, "rule %u%s%s%s", n->rule, named ? " (" : "", n->name, named ? ")" : "");
}

/* The words of a note without the rule, which stands before them here; it is behind each of the rule's actions. */
static void words_put(const struct rule_note *n, const char *name, char *text, size_t len)
{
	const char *from = n->text, *by;
	char first[32];
	size_t at = 0;

	snprintf(first, sizeof(first), " by rule %u", n->rule); /* a long text is cut off, maybe within the name */
	for (;;) {
		by = strstr(from, first);
		at += (size_t)snprintf(text + at, len - at, "%.*s", by ? (int)(by - from) : (int)strlen(from), from);
		if (by && at && text[at - 1] == ',')
			text[--at] = '\0';
		if (!by || strncmp(by + 4, name, strlen(name)) != 0)
			return;
		from = by + 4 + strlen(name);
	}
}

static size_t deed_put(const struct deed *d, const struct rule_suspect *q, char *text, size_t len)
{
	const struct rule_note *n = d->note;
	char name[RULE_NAME + 24], words[sizeof(n->text)], times[24] = "once";
	bool drop;
	int put;

	name_put(n, name, sizeof(name));
	words_put(n, name, words, sizeof(words));
	drop = !strcmp(words, "dropped");
	if (d->n > 1)
		snprintf(times, sizeof(times), "%u times", d->n);
	if (q->acts)
		put = snprintf(text, len, "%s: %s", name, words);
	else if (!q->qpn)
		put = snprintf(text, len, "%s: packets of the connection manager %s, %s", name, words, times);
	else if (q->datagrams)
		put = snprintf(text, len, "%s: datagrams to this QP %s, %s", name, words, times);
	else if (drop && n->kind == TAP_REQUEST)
		put = snprintf(text, len, "%s dropped this PSN %s", name, times);
	else if (n->kind == TAP_REQUEST)
		put = snprintf(text, len, "%s: PSN 0x%x %s, %s", name, (unsigned)n->psn.v, words, times);
	else
		put = snprintf(text, len, "%s: an answer to this PSN %s, %s", name, words, times);
	if (put >= 0 && (size_t)put < len)
		return (size_t)put;
	text_cut(text);
	return strlen(text);
}

/* While a port is down, or the like, all that passes it is dropped. */
static const struct rule_cut *cut_of(const struct rules *rs, const struct rule_suspect *q, int device)
{
	const struct rule_cut *c = device >= 0 ? &rs->cut[device] : NULL;

	/* A device that is wedged sends nothing that could be dropped. */
	bool is = c && ((c->n && !mono_before(c->last, q->since)) ||
			(c->state == STATE_WEDGED && rs->until[STATE_WEDGED][device].ns));

	return is && !q->acts ? c : NULL;
}

static size_t and_put(char *text, size_t at, size_t len)
{
	if (!at || at + 3 >= len)
		return at;
	memcpy(text + at, "; ", 3);
	return at + 2;
}

unsigned rules_blame(const struct rules *rs, const struct rule_suspect *q, char *text, size_t len)
{
	static const struct {
		const char *did, *then;
	} did[RULE_STATES] = {
		[STATE_DOWN] = { "took the port of", " down" },
		[STATE_WEDGED] = { "wedged", "" },
		[STATE_UNPLUGGED] = { "unplugged", "" },
	};
	struct deeds ds = deeds(rs, q);
	const struct rule_cut *c;
	int device = q->device;
	size_t at = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < ds.n; i++) {
		at = and_put(text, at, len);
		at += deed_put(&ds.v[i], q, text + at, len - at);
	}
	if (ds.able)
		return ds.able;
	c = cut_of(rs, q, device);
	if (!c) {
		device = q->peer;
		c = cut_of(rs, q, device);
	}
	if (!c)
		return 0;
	at = and_put(text, at, len);
	at += (size_t)snprintf(text + at, len - at, "rule %u %s %s%s", c->rule, did[c->state].did, rs->device[device],
			       did[c->state].then);
	if (c->n && at < len)
		snprintf(text + at, len - at, ": %llu packet%s dropped", (unsigned long long)c->n, c->n > 1 ? "s" : "");
	return q->able >> ACT_PORT_DOWN & 1 ? (unsigned)c->n + (c->state == STATE_WEDGED) : 0;
}
