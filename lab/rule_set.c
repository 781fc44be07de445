/* SPDX-License-Identifier: MIT */
/* rule_set.c - rules come and go; what they decided is remembered, and told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rule.h"

#include "../proto/cm_msg.h"
#include "../proto/opcode.h"
#include "ns_text.h"
#include "text_cut.h"

void rules_fini(struct rules *rs)
{
	rules_clear(rs, 0, 0);
	free(rs->note);
	rs->note = NULL;
	free(rs->kept);
	rs->kept = NULL;
	rs->note_n = 0;
	rs->event_n = 0;
	memset(rs->until, 0, sizeof(rs->until));
	memset(rs->flap, 0, sizeof(rs->flap));
	memset(rs->cut, 0, sizeof(rs->cut));
}

/* ---- coming and going ---------------------------------------------------------------------- */

static bool device_known(const struct rules *rs, const char *name)
{
	for (unsigned i = 0; i < rs->device_n; i++)
		if (!strcmp(rs->device[i], name))
			return true;
	return false;
}

/* what: may be a part of one of the rules. */
static int fail(struct rule **v, int n, struct rule_error *err, unsigned line, const char *fmt, const char *what)
{
	err->line = line;
	snprintf(err->text, sizeof(err->text), fmt, what);
	while (n)
		free(v[--n]);
	return -1;
}

int rules_add(struct rules *rs, const char *text, size_t len, const struct rule_host *host, struct rule_error *err)
{
	struct rule *v[RULES_MAX];
	uint64_t seed = 1;
	int n = rule_parse(text, len, v, RULES_MAX, &seed, err);

	if (n < 0)
		return -1;
	for (int i = 0; i < n && rs->device_n; i++)
		if (v[i]->device[0] && !device_known(rs, v[i]->device))
			return fail(v, n, err, v[i]->line, "there is no device \"%s\" here; rdmactl devices lists them",
				    v[i]->device);
	if (rs->n + (unsigned)n > RULES_MAX)
		return fail(v, n, err, 0, "too many rules: %s", "256 is the most");
	if (!rs->note)
		rs->note = calloc(RULES_LOG, sizeof(*rs->note));
	if (!rs->kept)
		rs->kept = calloc(RULES_KEPT, sizeof(*rs->kept));
	if (!rs->note || !rs->kept)
		return fail(v, n, err, 0, "out of memory%s", "");
	for (int i = 0; i < n; i++) {
		v[i]->id = ++rs->last_id;
		v[i]->owner = host->owner;
		v[i]->seed = host->seed ? *host->seed : seed;
		v[i]->added = host->now;
		v[i]->sender_base = rs->senders;
		if (host->qp_base)
			memcpy(v[i]->qp_base, host->qp_base, sizeof(v[i]->qp_base));
		rs->v[rs->n++] = v[i];
	}
	return n;
}

unsigned rules_clear(struct rules *rs, unsigned id, uint64_t owner)
{
	unsigned n = 0, kept = 0;

	for (unsigned i = 0; i < rs->n; i++) {
		struct rule *r = rs->v[i];

		if ((id && r->id != id) || (owner && r->owner != owner)) {
			rs->v[kept++] = r;
			continue;
		}
		free(r);
		n++;
	}
	rs->n = kept;
	/* A rule takes with it what it has made of devices. */
	for (unsigned i = 0; i < rs->device_n; i++) {
		if (!rule_get(rs, rs->flap[i].rule))
			rs->flap[i].left = 0;
		for (unsigned k = 0; k < RULE_STATES; k++)
			if (rs->until[k][i].ns && !rule_get(rs, rs->by[k][i]))
				rs->until[k][i] = RULE_OVER;
	}
	return n;
}

/* ---- text ---------------------------------------------------------------------------------------- */

static const struct {
	const char *word;
	enum rule_about about;
} acts[ACTS] = {
#define ACT(name, about, value, without, word) [ACT_##name] = { word, ABOUT_##about },
#include "act.def"
#undef ACT
};

const char *rule_act_word(enum rule_act_kind kind) { return kind < ACTS ? acts[kind].word : "?"; }
enum rule_about rule_act_about(enum rule_act_kind kind) { return acts[kind].about; }

void rule_about(const struct rule *r, char *text, size_t len)
{
	size_t at = 0;
	char ns[32];

	text[0] = '\0';
	for (unsigned i = 0; i < r->act_n && at < len; i++) {
		const struct rule_act *a = &r->act[i];

		at += (size_t)snprintf(text + at, len - at, "%s%s", i ? ", " : "", rule_act_word(a->kind));
		if (!a->ns || at >= len)
			continue;
		at += (size_t)snprintf(text + at, len - at, " %s", ns_text(ns, sizeof(ns), a->ns));
	}
}

/* ---- the list of decisions ------------------------------------------------------------------------ */

/* Of the notes of a queue pair's packets in one direction the last one is kept, when many others' have come since. */
static unsigned kept_place(const struct rule_note *n)
{
	uint64_t key = (uint64_t)n->qpn << 8 | n->device << 2 | (unsigned)(n->dir == TAP_OUT) << 1 |
		       (n->kind == TAP_REQUEST);

	return (unsigned)(key * 0x9e3779b97f4a7c15u >> 32) % RULES_KEPT;
}

mono_t rules_since(const struct rules *rs)
{
	return rs->note && rs->note_n > RULES_LOG ? rs->note[rs->note_n % RULES_LOG].at : (mono_t){ 0 };
}

void rules_log(struct rules *rs, const struct rule *r, const struct tap_pkt *p, mono_t now, struct rule_did did,
	       const char *text)
{
	struct rule_note *n;

	if (!rs->note || !rs->kept)
		return;
	n = &rs->note[rs->note_n % RULES_LOG];
	if (n->n && n->acts != 1u << ACT_NOTE) /* which does nothing to a packet */
		rs->kept[kept_place(n)] = *n;
	*n = (struct rule_note){ .n = ++rs->note_n, .at = now, .rule = r->id, .device = p->device, .event = !p->b };
	n->qpn = r->qpn;
	memcpy(n->name, r->name, sizeof(n->name));
	if (p->b) {
		n->dir = p->dir;
		n->local = p->local;
		n->known = p->known;
		n->has_rel = p->has_rel;
		n->opcode = p->b->op_first;
		n->kind = p->kind;
		n->cm = p->cm;
		n->syndrome = p->b->syndrome;
		n->sender = p->sender > r->sender_base ? p->sender - r->sender_base : 0;
		n->nth = p->known ? p->qp.nth - r->qp_base[p->device] : 0;
		n->qpn = p->qpn;
		n->dqpn = p->b->dqpn;
		n->psn = p->b->psn;
		n->rel = p->rel;
		n->iter = p->iter;
		n->payload_len = (uint16_t)p->b->payload_len;
		rule_redo(r, &did, n->redo, sizeof(n->redo));
	}
	n->late_ns = did.late_ns;
	n->lost = did.lost;
	for (unsigned i = 0; i < r->act_n; i++) {
		const struct rule_act *a = &r->act[i];

		n->acts |= 1u << a->kind;
		if (a->kind == ACT_NAK)
			n->nak = a->n;
		else if (a->kind == ACT_CORRUPT)
			n->fix = a->fix;
	}
	snprintf(n->text, sizeof(n->text), "%s", text);
	text_cut(n->text);
}

const struct rule_note *rules_note_get(const struct rules *rs, uint64_t i)
{
	if (!rs->note || !i || i > rs->note_n || rs->note_n - i >= RULES_LOG)
		return NULL;
	return &rs->note[(i - 1) % RULES_LOG];
}

bool rules_note(const struct rules *rs, uint64_t i, char *text, size_t len)
{
	const struct rule_note *n = rules_note_get(rs, i);
	char qp[32] = "", rel[40] = "";
	const char *op;

	if (!n)
		return false;
	if (n->event) {
		snprintf(text, len, "rule %u: %s", n->rule, n->text);
		return true;
	}
	op = opcode_get(n->opcode)->name;
	if (n->known && (int32_t)n->nth > 0)
		snprintf(qp, sizeof(qp), " QP %u", n->nth);
	else if (n->qpn == 1)
		snprintf(qp, sizeof(qp), " CM%s%s", n->cm ? " " : "", n->cm ? cm_attr_name(n->cm) : "");
	if (n->has_rel && n->iter > 1)
		snprintf(rel, sizeof(rel), " PSN %+d, transmission %u", (int)n->rel, n->iter);
	else if (n->has_rel)
		snprintf(rel, sizeof(rel), " PSN %+d", (int)n->rel);
	snprintf(text, len, "%s%s %s %s%s: %s", n->device < rs->device_n ? rs->device[n->device] : "?", qp,
		 n->dir == TAP_OUT ? "out" : "in", op ? op : "?", rel, n->text);
	return true;
}
