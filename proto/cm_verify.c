/* SPDX-License-Identifier: MIT */
/* cm_verify.c - a CM agent looked into: states, names, counts, and its invariants, walked. */
#include "cm_in.h"

#undef NDEBUG
#include <assert.h>
#include <string.h>

bool cm_qp_get(const struct cm *c, uint32_t id, struct cm_qp *qp)
{
	const struct cm_id *i = id_find(c, id);

	if (!i || i->freed || link_empty(&i->by_qpn))
		return false;
	*qp = i->qp;
	return true;
}

bool cm_wait(const struct cm *c, uint32_t id, struct cm_wait *w)
{
	const struct cm_id *i = id_find(c, id);

	if (!i || i->freed)
		return false;
	*w = (struct cm_wait){ .state = i->state, .sent = i->sent, .since = i->since };
	switch (i->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
	case CM_DREQ_SENT:
	case CM_SIDR_REQ_SENT: return true;
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
		w->sent = 0;
		w->since = i->asked;
		return true;
	default: return false;
	}
}

enum cm_state cm_state(const struct cm *c, uint32_t id)
{
	const struct cm_id *i = id_find(c, id);

	return i && !i->freed ? i->state : CM_NONE;
}

const char *cm_state_name(enum cm_state state)
{
	static const char *const name[CM_STATES] = {
		"none",      "listen",       "req_sent",      "mra_req_rcvd",  "rep_rcvd",    "mra_rep_sent",
		"req_rcvd",  "mra_req_sent", "rep_sent",      "mra_rep_rcvd",  "established", "dreq_sent",
		"dreq_rcvd", "timewait",     "sidr_req_sent", "sidr_req_rcvd", "dead",
	};

	return state < CM_STATES ? name[state] : "?";
}

const char *cm_event_name(enum cm_event_type type)
{
	static const char *const name[] = {
		[CM_EV_REQ] = "req",
		[CM_EV_REP] = "rep",
		[CM_EV_RTU] = "rtu",
		[CM_EV_REJ] = "rej",
		[CM_EV_TIMEOUT] = "timeout",
		[CM_EV_DREQ] = "dreq",
		[CM_EV_DREP] = "drep",
		[CM_EV_DREQ_TIMEOUT] = "dreq_timeout",
		[CM_EV_TIMEWAIT_EXIT] = "timewait_exit",
		[CM_EV_SIDR_REQ] = "sidr_req",
		[CM_EV_SIDR_REP] = "sidr_rep",
	};

	return type < sizeof(name) / sizeof(name[0]) ? name[type] : "?";
}

static unsigned length(const struct link *head)
{
	unsigned n = 0;

	for (const struct link *l = head->next; l != head; l = l->next)
		n++;
	return n;
}

unsigned cm_chain_max(const struct cm *c)
{
	unsigned most = 0;

	for (unsigned h = 0; h < CM_HASH; h++) {
		const struct link *v[] = { &c->by_id[h], &c->by_peer[h], &c->by_qpn[h] };

		for (unsigned k = 0; k < 3; k++)
			most = length(v[k]) > most ? length(v[k]) : most;
	}
	return most;
}

void cm_counts(const struct cm *c, struct cm_count *n) { *n = c->n; }

/* ---- invariants ------------------------------------------------------------ */

static bool repeats(enum cm_state s)
{
	return s == CM_REQ_SENT || s == CM_MRA_REQ_RCVD || s == CM_REP_SENT || s == CM_MRA_REP_RCVD ||
	       s == CM_DREQ_SENT || s == CM_SIDR_REQ_SENT;
}

static void verify_id(const struct cm *c, const struct cm_id *i)
{
	enum cm_state s = i->state;

	assert(i->id && s > CM_NONE && s < CM_STATES);
	assert(id_find(c, i->id) == i);
	/* An id that waits for the peer has a time to give up, one that waits for the host has none; RTUs are repeated. */
	if (s != CM_ESTABLISHED || i->passive)
		assert((repeats(s) || s == CM_TIMEWAIT) == !mono_is_never(i->timer.at));
	assert(mono_is_never(i->timer.at) || i->timer.pos);
	assert(i->retries_left <= i->retries || s == CM_TIMEWAIT);
	/* An id that the host has freed goes on by itself. */
	assert(i->freed == !link_empty(&i->rest));
	if (i->freed)
		assert(s == CM_DREQ_SENT || s == CM_TIMEWAIT);
	if (s == CM_DEAD)
		assert(link_empty(&i->by_peer) && link_empty(&i->by_qpn));
	if (s >= CM_REP_RCVD && s <= CM_TIMEWAIT && !i->sidr) {
		assert(i->remote_id && !link_empty(&i->by_peer));
		/* A connection that is over, or that nobody has any more, is in no other one's way. */
		assert((s == CM_TIMEWAIT || i->freed) == link_empty(&i->by_qpn));
	}
	for (unsigned k = 0; k < CM_EVS; k++)
		assert(link_empty(&i->ev[k].link) || (i->ev[k].id == i && !i->freed));
}

void cm_verify(const struct cm *c)
{
	uint32_t n = 0, by_state[CM_STATES] = { 0 };

	for (unsigned h = 0; h < CM_HASH; h++) {
		for (const struct link *l = c->by_id[h].next; l != &c->by_id[h]; l = l->next) {
			const struct cm_id *i = LINK_OF(l, const struct cm_id, by_id);

			verify_id(c, i);
			by_state[i->state]++;
			n++;
		}
	}
	assert(n == c->n.ids && n <= c->cfg.max_ids);
	assert(!memcmp(by_state, c->n.by_state, sizeof(by_state)));
	assert(c->timers.n <= n && c->out_tail - c->out_head <= c->out_size);
}
