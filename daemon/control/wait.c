/* SPDX-License-Identifier: MIT */
/*
 * wait.c - for what live programs wait: asked of each shard, between two turns, when somebody wants to know.  What moves is
 * not told of.
 */
#include <stdlib.h>
#include <string.h>

#include "why.h"
#include "../base/clock.h"
#include "../shard/inbox.h"

#define ROWS    WHY_PEERS
#define PIECE   64u         /* objects that a shard looks at between two turns */
#define WAIT_NS 1000000000u /* who waits for less is busy */

struct rows {
	unsigned n;
	struct why_entry v[ROWS];
};

struct waits {
	const struct session *viewer;
	uint32_t qpn;     /* 0: all */
	mono_t now, then; /* what waits since then, or longer, is told of */
	struct {          /* what a shard comes to next: the control thread, which makes and destroys objects, waits */
		bool begun;
		const struct ctx *ctx;
		const struct obj *qp, *cq;
	} at;
	struct rows fresh; /* found, and the other ends not yet asked */
	struct rows kept;
	unsigned notes; /* of those kept */
};

static void row_put(struct waits *s, const struct ctx *c, const struct why *w)
{
	struct why_entry *e = &s->fresh.v[s->fresh.n];

	if (s->fresh.n == ROWS)
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
	w.max = RING_LOAD(&cq->ring.hdr->arm) != CQ_ARM_NONE;
	if (w.got && w.got <= cq->ring.mask + 1 && !mono_before(s->then, w.since))
		row_put(s, cq->obj.ctx, &w);
}

static void qp_look(struct waits *s, const struct obj *o)
{
	struct why w;

	if (hca_wait(o->ctx->hca, o->number, s->then, &w))
		row_put(s, o->ctx, &w);
}

static const struct obj *next_object(struct waits *s)
{
	const struct obj **from, *o;

	for (; !s->at.qp && !s->at.cq && s->at.ctx; s->at.ctx = s->at.ctx->next) {
		if (!why_sees(s->viewer, s->at.ctx->uid))
			continue;
		s->at.qp = s->at.ctx->objs[OBJ_QP];
		s->at.cq = s->at.ctx->objs[OBJ_CQ];
	}
	from = s->at.qp ? &s->at.qp : &s->at.cq;
	o = *from;
	if (o)
		*from = o->next;
	return o;
}

static void look_job(struct shard *shard, void *arg)
{
	struct waits *s = arg;

	if (!s->at.begun)
		s->at.ctx = shard->ctxs;
	s->at.begun = true;
	for (unsigned i = 0; i < PIECE && s->fresh.n < ROWS; i++) {
		const struct obj *o = next_object(s);

		if (!o)
			return;
		if (o->kind == OBJ_QP)
			qp_look(s, o);
		else
			cq_look(s, o);
	}
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

/* One that hangs takes the place of one that may well be idle. */
static void keep(struct waits *s, const struct why_entry *e)
{
	struct rows *k = &s->kept;
	unsigned i = k->n;

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

static void collect(struct waits *s)
{
	unsigned owner = qpn_owner(s->qpn);

	if (s->qpn && owner < shards_n)
		shard_call(shards[owner], one_job, s);
	for (unsigned i = 0; !s->qpn && i < shards_n; i++) {
		memset(&s->at, 0, sizeof(s->at));
		while (!s->at.begun || s->at.qp || s->at.cq || s->at.ctx) {
			shard_call(shards[i], look_job, s);
			if (s->fresh.n == ROWS)
				settle(s);
			if (s->kept.n == ROWS && !s->notes)
				return;
		}
	}
	settle(s);
}

json_t *wait_json(const struct session *viewer, uint32_t qpn)
{
	struct waits *s = calloc(1, sizeof(*s));
	json_t *list = json_array();

	if (!s)
		return list;
	s->viewer = viewer;
	s->qpn = qpn;
	s->now = clock_now();
	s->then.ns = ns_since(s->now.ns, WAIT_NS);
	collect(s);
	for (unsigned i = 0; i < s->kept.n; i++) {
		struct why_entry *e = &s->kept.v[i];
		struct words t = words_begin(e->text, sizeof(e->text));

		why_words(&t, &e->w);
		why_own(e);
		why_entry_json(e, list);
	}
	free(s);
	return list;
}
