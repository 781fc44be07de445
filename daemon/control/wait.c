/* SPDX-License-Identifier: MIT */
/*
 * wait.c - for what live programs wait: asked of each shard, a few objects between two turns, when somebody wants to know.  What
 * moves is not told of.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sessions.h"
#include "why.h"
#include "../base/clock.h"
#include "../shard/inbox.h"

#define ROWS  WHY_PEERS
#define PIECE 64u         /* objects that a shard looks at between two turns */
#define FRESH (2 * PIECE) /* some more, as the last chain of its table is looked at as a whole */

struct rows {
	unsigned n;
	struct why_entry v[ROWS];
};
_Static_assert(FRESH <= ROWS, "a piece fits");

struct waits {
	const struct session *viewer;
	uint32_t qpn;           /* 0: all */
	mono_t now, then;       /* what waits since then, or longer, is told of */
	unsigned shard, at, cm; /* what comes next: a place in a shard's table; then one among the connections */
	bool ended;
	struct rows fresh; /* found, and the other ends not yet asked */
	struct rows kept;
	unsigned notes; /* of those kept */
};

static void row_put(struct waits *s, const struct ctx *c, const struct why *w)
{
	struct why_entry *e = &s->fresh.v[s->fresh.n];

	if (s->fresh.n == FRESH)
		return;
	s->fresh.n++;
	*e = (struct why_entry){
		.core = true, .cause = w->cause, .w = *w, .qpn = w->qpn, .device = (int)c->dev->index
	};
	e->w.at = s->now;
	why_owner_of(&e->owner, c);
}

static void cq_look(struct waits *s, const struct obj *o)
{
	struct ctx_cq *cq = (struct ctx_cq *)o;
	struct why w = { .cause = WHY_WAIT_POLL, .cqn = cq->obj.number, .since = cq->published };

	w.got = ring_behind(&cq->ring);
	w.max = RING_LOAD(&cq->ring.hdr->arm);
	if (w.max == CQ_ARM_SOLICITED)
		w.cause = WHY_WAIT_SOLICITED;
	if (w.got && w.got <= cq->ring.mask + 1 && !mono_before(s->then, w.since))
		row_put(s, cq->obj.ctx, &w);
}

static void qp_look(struct waits *s, const struct obj *o)
{
	struct why w;

	hca_time(o->ctx->hca, s->now);
	if (hca_wait(o->ctx->hca, o->number, s->then, &w))
		row_put(s, o->ctx, &w);
}

static void look(struct obj *o, void *arg)
{
	struct waits *s = arg;

	if (!why_sees(s->viewer, o->ctx->uid))
		return;
	if (o->kind == OBJ_QP)
		qp_look(s, o);
	else if (o->kind == OBJ_CQ)
		cq_look(s, o);
}

static void look_job(struct shard *shard, void *arg)
{
	struct waits *s = arg;

	if (!obj_scan(shard, &s->at, PIECE, look, s))
		s->at = UINT_MAX;
}

static void one_job(struct shard *shard, void *arg)
{
	struct waits *s = arg;

	for (unsigned d = 0; d < devices_n; d++)
		for (struct obj *o = obj_find(shard, OBJ_QP, d, s->qpn); o; o = obj_other(o))
			if (why_sees(s->viewer, o->ctx->uid))
				qp_look(s, o);
}

static bool is_note(const struct why_entry *e) { return why_grade(e->cause) == WHY_NOTE; }

static bool same(const struct why_entry *a, const struct why_entry *b)
{
	return a->device == b->device && a->qpn == b->qpn && a->w.cqn == b->w.cqn && a->owner.ctx == b->owner.ctx &&
	       a->core && b->core;
}

/* One that hangs takes the place of one that may well be idle. */
static void keep(struct waits *s, const struct why_entry *e)
{
	struct rows *k = &s->kept;
	unsigned i;

	for (i = 0; i < k->n; i++)
		if (same(&k->v[i], e))
			return;
	if (i == ROWS) {
		if (is_note(e) || !s->notes)
			return;
		do
			i--;
		while (!is_note(&k->v[i]));
		s->notes--;
	} else {
		k->n++;
	}
	k->v[i] = *e;
	s->notes += is_note(e);
}

static void settle(struct waits *s)
{
	why_peers_look(s->fresh.v, s->fresh.n, s->viewer->uid);
	for (unsigned i = 0; i < s->fresh.n; i++)
		keep(s, &s->fresh.v[i]);
	s->fresh.n = 0;
}

struct waits *waits_begin(const struct session *viewer, uint32_t qpn)
{
	struct waits *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->viewer = viewer;
	s->qpn = qpn;
	s->shard = qpn ? qpn_owner(qpn) : 0;
	s->now = clock_now();
	s->then.ns = ns_since(s->now.ns, WHY_WAIT_NS);
	return s;
}

void waits_end(struct waits *s) { free(s); }

size_t waits_len(void) { return sizeof(struct waits); }

/* Only one place is left to look at: that of this QP. */
static void look_one(struct waits *s)
{
	if (s->shard < shards_n)
		shard_call(shards[s->shard], one_job, s);
	s->shard = shards_n;
}

static void look_on(struct waits *s)
{
	shard_call(shards[s->shard], look_job, s);
	if (s->at != UINT_MAX)
		return;
	s->at = 0;
	s->shard++;
}

static void stuck_put(struct waits *s, const struct session *x, const struct stuck *w)
{
	struct why_entry *e = &s->fresh.v[s->fresh.n];
	struct words t;

	*e = (struct why_entry){ .cause = WHY_WAIT_EVENTS, .device = x->ctx ? (int)x->ctx->dev->index : -1 };
	why_owner_of_session(&e->owner, x);
	t = words_begin(e->text, sizeof(e->text));
	words_put(&t, "%s waits: %s, for ", w->verb, w->text);
	time_words(&t, mono_since(s->now, w->since));
	if (++s->fresh.n == FRESH)
		settle(s);
}

/* Programs that wait for themselves.  A session is a look at a word, so all in one go. */
static void look_sessions(struct waits *s)
{
	for (const struct session *x = sessions; x && !s->qpn; x = x->next)
		for (const struct stuck *w = why_sees(s->viewer, x->uid) ? x->stuck : NULL; w; w = w->next)
			stuck_put(s, x, w);
}

static void look_cm(struct waits *s)
{
	s->fresh.n = waits_cm(s->fresh.v, FRESH, &s->cm, s->viewer, s->now, s->then);
	for (unsigned i = s->fresh.n; s->qpn && i-- > 0;)
		if (s->fresh.v[i].qpn != s->qpn)
			s->fresh.v[i] = s->fresh.v[--s->fresh.n];
	s->ended = s->cm == UINT_MAX;
	if (s->ended) {
		settle(s);
		look_sessions(s);
	}
}

bool waits_look(struct waits *s)
{
	if (s->ended || (s->kept.n == ROWS && !s->notes))
		return false;
	if (s->shard >= shards_n)
		look_cm(s);
	else if (s->qpn)
		look_one(s);
	else
		look_on(s);
	settle(s);
	return true;
}

/* ---- rows --------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
	const struct why_entry *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->qpn < y->qpn ? -1 : x->qpn > y->qpn ? 1 : x->w.cqn < y->w.cqn ? -1 : x->w.cqn > y->w.cqn;
}

/* For the same thing: the one that sends, and the one that should receive. */
static bool are_twins(const struct why_entry *a, const struct why_entry *b)
{
	bool same = (a->cause == WHY_WAIT_RNR && b->cause == WHY_WAIT_EMPTY) ||
		    (a->cause == WHY_WAIT_PSN && b->cause == WHY_WAIT_PSN && a->w.is_wr && !b->w.is_wr);

	return same && a->w.dqpn == b->qpn && b->w.dqpn == a->qpn && device_of_gid(a->w.dgid) == b->device &&
	       device_of_gid(b->w.dgid) == a->device;
}

/* Both ends of one connection wait for the same: one of them tells of the other. */
static void merge(struct rows *k)
{
	for (unsigned i = 0; i < k->n; i++)
		for (unsigned j = 0; j < k->n; j++) {
			struct why_entry *a = &k->v[i], *b = &k->v[j];
			struct words t;

			if (!are_twins(a, b))
				continue;
			t = words_begin(a->there, sizeof(a->there));
			words_put(&t, "%s (pid %d): %s", b->owner.prog, (int)b->owner.pid, b->text);
			b->twin = a->number;
		}
}

static void sentence(struct why_entry *e)
{
	struct words t = words_begin(e->text, sizeof(e->text));

	why_words(&t, &e->w, e->by_rule);
}

json_t *waits_json(struct waits *s)
{
	struct why_list l = { .viewer = s->viewer, .rows = json_array() };
	struct rows *k = &s->kept;

	qsort(k->v, k->n, sizeof(k->v[0]), by_place);
	for (unsigned i = 0; i < k->n; i++) {
		struct why_entry *e = &k->v[i];

		e->number = i + 1;
		why_own(e);
		if (e->core)
			sentence(e);
	}
	merge(k);
	for (unsigned i = 0; i < k->n; i++)
		why_entry_json(&k->v[i], &l);
	return l.rows;
}
