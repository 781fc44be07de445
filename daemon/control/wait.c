/* SPDX-License-Identifier: MIT */
/*
 * wait.c - for what live programs wait: asked of each shard, between two turns, when somebody wants to know.  What moves is
 * not told of.
 */
#include <stdlib.h>

#include "why.h"
#include "../base/clock.h"
#include "../shard/inbox.h"

#define ROWS    128u
#define WAIT_NS 1000000000u /* who waits for less is busy */

struct waits {
	const struct session *viewer;
	uint32_t qpn; /* 0: all */
	mono_t now;
	unsigned n;
	struct why_entry v[ROWS];
};

/* false: there is no room for more. */
static bool row_put(struct waits *s, const struct ctx *c, const struct why *w)
{
	struct why_entry *e = &s->v[s->n];

	if (mono_since(s->now, w->since) < WAIT_NS)
		return true;
	*e = (struct why_entry){
		.core = true, .cause = w->cause, .w = *w, .qpn = w->qpn, .device = (int)c->dev->index
	};
	e->w.at = s->now;
	why_owner_of(&e->owner, c);
	return ++s->n < ROWS;
}

static bool cq_look(struct waits *s, struct ctx_cq *cq)
{
	struct why w = { .cause = WHY_WAIT_POLL, .cqn = cq->obj.number, .since = cq->published };

	w.got = ring_behind(&cq->ring);
	w.max = RING_LOAD(&cq->ring.hdr->arm) != CQ_ARM_NONE;
	return !w.got || w.got > cq->ring.mask + 1 || row_put(s, cq->obj.ctx, &w);
}

static void look_job(struct shard *shard, void *arg)
{
	struct waits *s = arg;
	struct why w;

	for (const struct ctx *c = shard->ctxs; c && s->n < ROWS; c = c->next) {
		if (!why_sees(s->viewer, c->uid))
			continue;
		for (struct obj *o = c->objs[OBJ_QP]; o; o = o->next)
			if ((!s->qpn || s->qpn == o->number) && hca_wait(c->hca, o->number, &w) && !row_put(s, c, &w))
				return;
		for (struct obj *o = c->objs[OBJ_CQ]; o && !s->qpn; o = o->next)
			if (!cq_look(s, (struct ctx_cq *)o))
				return;
	}
}

/* A peer that has ended is waited for in vain. */
static void peer_look(struct why_entry *e, uid_t viewer)
{
	if ((e->cause == WHY_WAIT_RECV || e->cause == WHY_WAIT_ACK) && why_peer_look(e, viewer) &&
	    e->cause == WHY_WAIT_RECV)
		e->cause = e->w.cause = WHY_WAIT_PEER;
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
	for (unsigned i = 0; i < shards_n; i++)
		shard_call(shards[i], look_job, s);
	for (unsigned i = 0; i < s->n; i++) {
		struct why_entry *e = &s->v[i];
		struct words t = words_begin(e->text, sizeof(e->text));

		peer_look(e, viewer->uid);
		why_words(&t, &e->w);
		why_own(e);
		why_entry_json(e, list);
	}
	free(s);
	return list;
}
