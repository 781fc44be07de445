/* SPDX-License-Identifier: MIT */
/* wait_cm.c - connections that wait: for the peer's connection manager, or for their own program. */
#include "why.h"

#include "../cma/cma.h"
#include "../cma/cma_agent.h"

#define PIECE 64u

struct asked {
	struct cma_id *id;
	bool waits;
	struct cm_wait w;
};

struct batch {
	const struct device *dev;
	struct asked v[PIECE];
	unsigned n;
};

/* With the lock of the agents. */
static int ask(struct cm *cm, void *arg, mono_t)
{
	struct batch *b = arg;

	for (unsigned i = 0; i < b->n; i++)
		if (b->v[i].id->dev == b->dev)
			b->v[i].waits = cm_wait(cm, b->v[i].id->cm_id, &b->v[i].w);
	return 0;
}

static const char *message(enum cm_state s)
{
	switch (s) {
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD: return "REP";
	case CM_DREQ_SENT: return "DREQ";
	case CM_SIDR_REQ_SENT: return "SIDR_REQ";
	default: return "REQ";
	}
}

static void sentence(struct words *t, const struct cma_id *id, const struct cm_wait *w, mono_t now)
{
	if (w->sent)
		words_put(t, "%s to ", message(w->state));
	else
		words_put(t, id->passive ? "REQ of " : "REP of ");
	addr_words(t, &id->dst);
	words_put(t, " (%s ", w->sent ? "from" : "to");
	addr_words(t, &id->src);
	words_put(t, ")");
	if (!w->sent)
		words_put(t, id->passive ? ": the program has neither accepted nor rejected it"
					 : ": the program has not fetched the event");
	else if (w->state == CM_MRA_REQ_RCVD || w->state == CM_MRA_REP_RCVD)
		words_put(t, ": the peer asks for patience (MRA), it was sent %u time%s", (unsigned)w->sent,
			  w->sent == 1 ? "" : "s");
	else
		words_put(t, " unanswered %u time%s", (unsigned)w->sent, w->sent == 1 ? "" : "s");
	words_put(t, ", for ");
	time_words(t, mono_since(now, w->since));
}

static void entry(struct why_entry *e, const struct asked *a, mono_t now)
{
	struct words t;

	*e = (struct why_entry){ .cause = a->w.sent ? WHY_WAIT_CM : WHY_WAIT_ACCEPT,
				 .device = (int)a->id->dev->index,
				 .qpn = a->id->qpn };
	why_owner_of_session(&e->owner, a->id->ch->who.session);
	why_cm_way(e, a->id, a->w.since);
	t = words_begin(e->text, sizeof(e->text));
	sentence(&t, a->id, &a->w, now);
}

unsigned waits_cm(struct why_entry *v, unsigned max, unsigned *at, const struct session *viewer, mono_t now,
		  mono_t then)
{
	struct cma_id *ids[PIECE];
	struct batch b = { .n = 0 };
	unsigned n = cma_ids_tied(at, ids, max < PIECE ? max : PIECE), rows = 0;

	for (unsigned i = 0; i < n; i++)
		if (ids[i]->dev && why_sees(viewer, ids[i]->ch->who.uid))
			b.v[b.n++].id = ids[i];
	for (unsigned d = 0; d < devices_n && b.n; d++) {
		b.dev = &devices[d];
		agent_ask(&devices[d], ask, &b);
	}
	for (unsigned i = 0; i < b.n; i++)
		if (b.v[i].waits && !mono_before(then, b.v[i].w.since))
			entry(&v[rows++], &b.v[i], now);
	return rows;
}
