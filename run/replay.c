/* SPDX-License-Identifier: MIT */
/*
 * replay.c - what rules did in one run, done again in another; and the first packet that is not as it was.
 *
 * ACKs are coalesced, so those that nobody disturbed are not compared.
 */
#include "config.h"

#include "tape.h"

#include <stdlib.h>
#include <string.h>

/* ---- the rules ------------------------------------------------------------------- */

/* A packet that is taken away by its rule does not count for the rules behind. */
static unsigned taken_before(const struct tape *t, unsigned i)
{
	unsigned n = 0;

	for (unsigned k = 0; k < i; k++)
		n += t->v[k].lost && *t->v[k].redo && packet_same(&t->v[k].p, &t->v[i].p);
	return n;
}

void replay_rules(FILE *f, const struct tape *t)
{
	json_t *deed;
	size_t k;

	for (unsigned i = 0; i < t->n; i++) {
		struct packet p = t->v[i].p;

		if (!*t->v[i].redo)
			continue;
		p.nth -= taken_before(t, i);
		json_array_foreach(t->v[i].deeds, k, deed)
		{
			char *act = NULL;

			if (asprintf(&act, "[%s]", json_is_string(deed) ? json_string_value(deed) : "") < 0)
				abort();
			packet_rule(f, &p, act);
			free(act);
		}
	}
}

/* ---- the comparison ---------------------------------------------------------------- */

enum met { MET, MET_NEVER, MET_CHANGED, MET_SPARED };

/* The same place in the stream of a queue pair, whatever stands there. */
static bool same_place(const struct packet *a, const struct packet *b)
{
	return !a->cm && !b->cm && a->has_rel && b->has_rel && a->in == b->in && a->sender == b->sender &&
	       a->kind == b->kind && a->rel == b->rel && a->iter == b->iter;
}

/* The fate of a packet of the old run in the new one. */
static enum met met_of(const struct taped *old, const struct tape *now, const struct taped **is)
{
	enum met met = MET_NEVER;

	*is = NULL;
	for (unsigned i = 0; i < now->n; i++) {
		const struct taped *t = &now->v[i];

		if (packet_same(&old->p, &t->p) && old->p.nth == t->p.nth) {
			*is = t;
			if (!packet_is_ack(&old->p) && old->p.bytes != t->p.bytes)
				return MET_CHANGED;
			return !strcmp(old->redo, t->redo) ? MET : MET_SPARED;
		}
		if (same_place(&old->p, &t->p) && !packet_is_ack(&old->p)) {
			*is = t;
			met = MET_CHANGED;
		}
	}
	return met;
}

static bool is_plain_ack(const struct taped *t)
{
	return packet_is_ack(&t->p) && !strcmp(t->p.word, "ack") && !*t->redo;
}

static void departure_put(FILE *f, enum met met, const struct taped *old, const struct taped *is)
{
	char was[128], now[128] = "";

	packet_tell(&old->p, was, sizeof(was));
	if (is)
		packet_tell(&is->p, now, sizeof(now));
	if (met == MET_NEVER)
		fprintf(f, "%s never came%s%s%s", was, *old->redo ? " (recorded: " : "", old->redo,
			*old->redo ? ")" : "");
	else if (met == MET_CHANGED)
		fprintf(f, "%s of %u bytes came as %s of %u bytes", was, old->p.bytes, now, is->p.bytes);
	else
		fprintf(f, "%s came, and what was done to it was %s instead of %s", was,
			*is->redo ? is->redo : "nothing", *old->redo ? old->redo : "nothing");
}

/* Packets that were not there before; the first one, or NULL. */
static const struct taped *new_ones(const struct tape *old, const struct tape *now, unsigned *n)
{
	const struct taped *first = NULL, *is;

	*n = 0;
	for (unsigned i = 0; i < now->n; i++) {
		if (is_plain_ack(&now->v[i]) || met_of(&now->v[i], old, &is) != MET_NEVER)
			continue;
		first = first ? first : &now->v[i];
		++*n;
	}
	return first;
}

bool replay_compare(FILE *f, const struct tape *old, const struct tape *now)
{
	unsigned n[MET_SPARED + 1] = { 0 }, more, repeated = 0, compared = 0;
	const struct taped *is, *extra;
	char text[128];

	for (unsigned i = 0; i < old->n; i++) {
		enum met met = is_plain_ack(&old->v[i]) ? MET : met_of(&old->v[i], now, &is);

		compared += !is_plain_ack(&old->v[i]);
		repeated += *old->v[i].redo && met == MET;
		n[met]++;
		if (met == MET || n[MET_NEVER] + n[MET_CHANGED] + n[MET_SPARED] > 1)
			continue;
		fprintf(f, "departs at packet %u of %u: ", i + 1, old->n);
		departure_put(f, met, &old->v[i], is);
		fputc('\n', f);
	}
	if (n[MET_NEVER] + n[MET_CHANGED] + n[MET_SPARED])
		fprintf(f, "in all %u packets never came, %u came changed, %u met another fate\n", n[MET_NEVER],
			n[MET_CHANGED], n[MET_SPARED]);
	else
		fprintf(f, "as recorded: all %u packets came%s\n", compared,
			compared < old->n ? " (ACKs are not compared)" : "");
	fprintf(f, "%u of %u disturbed packets were disturbed again\n", repeated, old->disturbed);
	extra = new_ones(old, now, &more);
	if (extra) {
		packet_tell(&extra->p, text, sizeof(text));
		fprintf(f, "%u packets came that were not recorded, the first was %s\n", more, text);
	}
	return !(n[MET_NEVER] + n[MET_CHANGED] + n[MET_SPARED]);
}
