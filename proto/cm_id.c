/* SPDX-License-Identifier: MIT */
/*
 * cm_id.c - ids: what the agent knows of each connection, the tables that find it, and what waits to go out.
 *
 * An id is found by our number for it, by the peer's (a repeated REQ knows no other), and by the peer's QP
 * (which tells a connection that the peer has forgotten).  A peer is known by its CA GUID.
 */
#include "cm_in.h"

#include <stdlib.h>
#include <string.h>

#define BY_ID(l)   LINK_OF(l, struct cm_id, by_id)
#define BY_PEER(l) LINK_OF(l, struct cm_id, by_peer)
#define BY_QPN(l)  LINK_OF(l, struct cm_id, by_qpn)

static unsigned place(const struct cm *c, uint32_t id)
{
	return (unsigned)secret_hash(c->secret.key, id) & (CM_HASH - 1);
}

/* Numbers that the peer chooses, and its address. */
static unsigned peer_place(const struct cm *c, uint32_t number, uint64_t guid, const uint8_t gid[16])
{
	const uint64_t *key = c->secret.key;

	guid ^= secret_hash_gid(key, gid);
	return (unsigned)secret_hash(key, number ^ secret_hash(key, guid)) & (CM_HASH - 1);
}

_Static_assert(sizeof(struct cm_id) <= CM_ID_LEN, "CM_ID_LEN");

struct cm *cm_new(const struct cm_cfg *cfg)
{
	struct cm *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->cfg = *cfg;
	if (!c->cfg.max_ids)
		c->cfg.max_ids = CM_IDS;
	c->secret = (struct secret){ .key = { cfg->seed, cfg->seed_hi } };
	for (unsigned i = 0; i < CM_HASH; i++) {
		link_init(&c->by_id[i]);
		link_init(&c->by_peer[i]);
		link_init(&c->by_qpn[i]);
	}
	link_init(&c->events);
	link_init(&c->rests);
	return c;
}

void cm_free(struct cm *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < CM_HASH; i++)
		while (!link_empty(&c->by_id[i]))
			id_del(c, BY_ID(c->by_id[i].next));
	heap_fini(&c->timers);
	free(c->out);
	free(c);
}

void cm_next_id(struct cm *c, uint32_t id) { c->next_id = id; }

/* ---- making and losing ------------------------------------------------------ */

static uint32_t number(struct cm *c)
{
	uint32_t id = c->next_id;

	c->next_id = 0;
	while (!id || id_find(c, id))
		id = (uint32_t)secret_next(&c->secret);
	return id;
}

struct cm_id *id_new(struct cm *c, enum cm_state state)
{
	struct cm_id *i;

	if ((c->n.ids >= c->cfg.max_ids && link_empty(&c->rests)) || heap_reserve(&c->timers, c->n.ids + 1))
		return NULL;
	i = calloc(1, sizeof(*i));
	if (!i)
		return NULL;
	if (c->n.ids >= c->cfg.max_ids)
		id_dead(c, LINK_OF(c->rests.next, struct cm_id, rest));
	i->id = number(c);
	i->state = state;
	link_init(&i->by_id);
	link_init(&i->by_peer);
	link_init(&i->by_qpn);
	link_init(&i->rest);
	timer_init(&i->timer);
	for (unsigned k = 0; k < CM_EVS; k++)
		link_init(&i->ev[k].link);
	link_add_tail(&c->by_id[place(c, i->id)], &i->by_id);
	c->n.ids++;
	c->n.by_state[state]++;
	return i;
}

void id_free_events(struct cm_id *i)
{
	for (unsigned k = 0; k < CM_EVS; k++)
		link_del(&i->ev[k].link);
}

void id_del(struct cm *c, struct cm_id *i)
{
	id_free_events(i);
	link_del(&i->by_id);
	link_del(&i->by_peer);
	link_del(&i->by_qpn);
	link_del(&i->rest);
	timer_del(&c->timers, &i->timer);
	c->n.ids--;
	c->n.by_state[i->state]--;
	free(i);
}

void id_state(struct cm *c, struct cm_id *i, enum cm_state state)
{
	c->n.by_state[i->state]--;
	c->n.by_state[state]++;
	i->state = state;
	timer_stop(&i->timer);
}

void id_dead(struct cm *c, struct cm_id *i)
{
	id_state(c, i, CM_DEAD);
	link_del(&i->by_peer);
	link_del(&i->by_qpn);
	if (i->passive && !i->sidr)
		past_id(c, i);
	if (i->freed)
		id_del(c, i);
}

/* ---- finding ------------------------------------------------------------------ */

struct cm_id *id_find(const struct cm *c, uint32_t id)
{
	const struct link *head = &c->by_id[place(c, id)];

	for (struct link *l = head->next; l != head; l = l->next)
		if (BY_ID(l)->id == id)
			return BY_ID(l);
	return NULL;
}

struct cm_id *id_find_peer(const struct cm *c, uint32_t remote_id, uint64_t guid, const struct route *from)
{
	const struct link *head = &c->by_peer[peer_place(c, remote_id, guid, from->sgid)];

	for (struct link *l = head->next; l != head; l = l->next)
		if (BY_PEER(l)->remote_id == remote_id && BY_PEER(l)->remote_guid == guid && !BY_PEER(l)->sidr &&
		    route_is_back(from, &BY_PEER(l)->route))
			return BY_PEER(l);
	return NULL;
}

struct cm_id *id_find_sidr(const struct cm *c, uint32_t request_id, const uint8_t *gid)
{
	const struct link *head = &c->by_peer[peer_place(c, request_id, 0, gid)];

	for (struct link *l = head->next; l != head; l = l->next)
		if (BY_PEER(l)->remote_id == request_id && BY_PEER(l)->sidr && gid_same(BY_PEER(l)->route.dgid, gid))
			return BY_PEER(l);
	return NULL;
}

struct cm_id *id_find_qpn(const struct cm *c, uint32_t qpn, uint64_t guid, const struct route *from)
{
	const struct link *head = &c->by_qpn[peer_place(c, qpn, guid, from->sgid)];

	if (!qpn)
		return NULL; /* a connection without a QP takes none from another */
	for (struct link *l = head->next; l != head; l = l->next)
		if (BY_QPN(l)->qp.dest_qpn == qpn && BY_QPN(l)->remote_guid == guid &&
		    route_is_back(from, &BY_QPN(l)->route))
			return BY_QPN(l);
	return NULL;
}

/* Listeners stand in the table of peers, under their service id: nobody's comm id is 0. */
struct cm_id *id_find_service(const struct cm *c, uint64_t service_id)
{
	static const uint8_t nobody[16];
	const struct link *head = &c->by_peer[peer_place(c, 0, service_id, nobody)];

	for (struct link *l = head->next; l != head; l = l->next)
		if (BY_PEER(l)->state == CM_LISTEN && BY_PEER(l)->remote_guid == service_id)
			return BY_PEER(l);
	return NULL;
}

void id_peer_set(struct cm *c, struct cm_id *i, uint32_t remote_id, uint64_t guid)
{
	link_del(&i->by_peer);
	i->remote_id = remote_id;
	i->remote_guid = guid;
	link_add_tail(&c->by_peer[peer_place(c, remote_id, guid, i->route.dgid)], &i->by_peer);
}

void id_qpn_set(struct cm *c, struct cm_id *i, uint32_t qpn)
{
	i->qp.dest_qpn = qpn;
	link_del(&i->by_qpn);
	/* Of those without a QP there may be many, and nobody looks for one. */
	link_add_tail(&c->by_qpn[qpn ? peer_place(c, qpn, i->remote_guid, i->route.dgid) : place(c, i->id)],
		      &i->by_qpn);
}

/* ---- events ---------------------------------------------------------------------- */

void id_event(struct cm *c, struct cm_id *i, enum cm_event_type type, const struct gsi *g)
{
	struct cm_ev *e = i->ev;

	if (i->freed)
		return;
	while (!link_empty(&e->link))
		if (++e == i->ev + CM_EVS)
			abort(); /* no way through the states raises more */
	e->id = i;
	e->type = type;
	e->msg = g;
	e->sent = i->sent;
	e->route = i->route;
	if (g) {
		e->route = route_back(&g->route);
		memcpy(e->mad, g->mad, MAD_LEN);
	}
	link_add_tail(&c->events, &e->link);
}

bool cm_event(struct cm *c, struct cm_event *e)
{
	struct cm_ev *v;

	if (link_empty(&c->events))
		return false;
	v = LINK_OF(c->events.next, struct cm_ev, link);
	link_del(&v->link);
	memset(e, 0, sizeof(*e));
	e->type = v->type;
	e->id = v->id->id;
	e->host = v->id->host;
	if (v->type == CM_EV_REQ || v->type == CM_EV_SIDR_REQ)
		e->listen_id = v->id->listen_id;
	e->sent = v->sent;
	e->route = v->route;
	if (v->msg)
		cm_msg_get(&e->msg, v->mad);
	return true;
}

/* ---- sending ------------------------------------------------------------------------ */

static bool out_grow(struct cm *c)
{
	uint32_t size = c->out_size ? 2 * c->out_size : 16, n = c->out_tail - c->out_head;
	struct gsi *v;

	if (size > CM_OUT_MAX)
		return false;
	v = calloc(size, sizeof(*v));
	if (!v)
		return false;
	for (uint32_t k = 0; k < n; k++)
		v[k] = c->out[(c->out_head + k) & (c->out_size - 1)];
	free(c->out);
	c->out = v;
	c->out_size = size;
	c->out_head = 0;
	c->out_tail = n;
	return true;
}

/* No room: lost, as on the wire. */
void out_mad(struct cm *c, const struct route *route, const uint8_t *mad)
{
	struct gsi *g;

	if (c->out_tail - c->out_head == c->out_size && !out_grow(c)) {
		c->n.dropped++;
		return;
	}
	g = &c->out[c->out_tail++ & (c->out_size - 1)];
	g->route = *route;
	memcpy(g->mad, mad, MAD_LEN);
	c->n.tx[mad[17] - CM_REQ]++;
}

void out_put(struct cm *c, const struct route *route, const struct cm_msg *m)
{
	uint8_t mad[MAD_LEN];

	cm_msg_put(mad, m);
	out_mad(c, route, mad);
}

void id_send(struct cm *c, struct cm_id *i, const struct cm_msg *m)
{
	cm_msg_put(i->last, m);
	id_again(c, i);
}

static unsigned known_place(const struct cm *c, const uint8_t gid[16])
{
	return (unsigned)secret_hash_gid(c->secret.key, gid) & (CM_KNOWN - 1);
}

void id_proven(struct cm *c, struct cm_id *i)
{
	struct cm_known *k = &c->known[known_place(c, i->route.dgid)];

	i->proven = true;
	memcpy(k->gid, i->route.dgid, 16);
	k->until = mono_add(c->now, CM_KNOWN_NS);
}

bool gid_known(const struct cm *c, const uint8_t gid[16])
{
	const struct cm_known *k = &c->known[known_place(c, gid)];

	return mono_before(c->now, k->until) && gid_same(k->gid, gid);
}

/*
 * Anybody can ask in another one's name.  So he whose name it is gets no more than a few MADs, until one comes from there that
 * has our comm id, which only those know who got it.  All MADs have one length: counting them is counting bytes.
 *
 * One who has had his MADs and says nothing may be up, all his RTUs lost.  He is not asked again: who connects repeats his RTU
 * by himself (cm_rtu()).
 */
static bool may_tell(struct cm_id *i)
{
	if (i->told >= CM_TOLD * i->heard)
		return false;
	i->told++;
	return true;
}

bool id_again(struct cm *c, struct cm_id *i)
{
	if (i->passive && !i->proven && !may_tell(i))
		return false;
	out_mad(c, &i->route, i->last);
	return true;
}

/*
 * The times that both ends have agreed on are made for a subnet manager that thinks and for programs that sleep:
 * seconds between repetitions.  A program that waits for its connection waits for one second or two.  So the first half
 * of the repetitions come early, each after twice the time of the one before; the rest are spread over what is left.
 * There are no more of them than agreed, and nobody gives up sooner:
 *
 *	agreed   0         T         2T        3T   ...   16T: given up
 *	sent     0 ... . .   .      .         .     ...   16T: given up
 */
void id_repeat_wait(struct cm *c, struct cm_id *i)
{
	uint64_t left = mono_since(i->give_up, c->now), wait = left / (i->retries_left + 1u);

	if (i->state == CM_ESTABLISHED) {
		wait = i->pause_ns; /* nobody waits for the end, so what was slept through is not made up for */
	} else if (!mono_reached(c->now, i->patient)) {
		wait = i->timeout_ns;
	} else if (i->retries_left > (i->retries + 1u) / 2 && i->pause_ns < wait) {
		wait = i->pause_ns;
		i->pause_ns *= 2;
	}
	timer_set(&c->timers, &i->timer, i->retries_left ? mono_add(c->now, wait) : mono_max(i->give_up, c->now));
}

static void repeat(struct cm *c, struct cm_id *i, uint64_t each_ns, uint64_t first_ns)
{
	i->retries_left = i->retries;
	i->pause_ns = first_ns;
	i->patient = c->now;
	i->give_up = mono_add(c->now, (i->retries + 1u) * each_ns);
	id_repeat_wait(c, i);
}

void id_repeat(struct cm *c, struct cm_id *i)
{
	i->sent = 1;
	i->since = c->now;
	repeat(c, i, i->timeout_ns, CM_FIRST_NS);
}

void id_repeat_slowly(struct cm *c, struct cm_id *i, uint64_t ns) { repeat(c, i, ns, ns); }

/*
 * Its answer will take time: what it repeats itself may be lost, so it goes on being asked, but in the rhythm agreed
 * on, and what is asked meanwhile does not count.
 */
void id_patient(struct cm *c, struct cm_id *i, uint64_t ns)
{
	i->patient = mono_add(c->now, ns);
	i->pause_ns = i->timeout_ns;
	i->give_up = mono_add(i->patient, (i->retries_left + 1u) * i->timeout_ns);
	id_repeat_wait(c, i);
}

bool cm_tx(struct cm *c, struct gsi *g)
{
	if (c->out_head == c->out_tail)
		return false;
	*g = c->out[c->out_head++ & (c->out_size - 1)];
	if (c->out_head == c->out_tail && c->out_size > CM_OUT_KEPT) {
		free(c->out);
		c->out = NULL;
		c->out_size = c->out_head = c->out_tail = 0;
	}
	return true;
}
