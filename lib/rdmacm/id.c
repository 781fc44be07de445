/* SPDX-License-Identifier: MIT */
/*
 * id.c - communication identifiers: created, found by their cookies, destroyed.
 *
 * An event carries the cookie of its id.  rdma_destroy_id() takes the id out of the map first, so that no event
 * is given to the program from then on, and then waits until it has given back those it has.
 */
#include "cma.h"
#include "../verbs/unacked.h"

#include <rdmad/keep.h>

#include <endian.h>

#define BUCKETS 1024u

_Static_assert(sizeof(struct rdma_cm_id) == 416, "the struct that programs were compiled with");

static pthread_mutex_t ids_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cma_id *ids[BUCKETS];
static uint64_t cookie_last;

/* ---- the map ------------------------------------------------------------------- */

static void map_add(struct cma_id *id)
{
	struct cma_id **head;

	pthread_mutex_lock(&ids_lock);
	id->cookie = ++cookie_last;
	head = &ids[id->cookie % BUCKETS];
	id->next = *head;
	*head = id;
	pthread_mutex_unlock(&ids_lock);
}

static void map_del(struct cma_id *id)
{
	struct cma_id **p;

	pthread_mutex_lock(&ids_lock);
	for (p = &ids[id->cookie % BUCKETS]; *p && *p != id; p = &(*p)->next)
		;
	if (*p)
		*p = id->next;
	pthread_mutex_unlock(&ids_lock);
}

static bool count_got(struct cma_id *id, uint64_t group_cookie, struct group **group)
{
	struct group *g = NULL;
	bool found = true;

	pthread_mutex_lock(&id->lock);
	if (group_cookie) {
		for (g = id->groups; g && g->cookie != group_cookie; g = g->next)
			;
		found = g;
	}
	if (g)
		g->got++;
	else if (found)
		id->got++;
	pthread_mutex_unlock(&id->lock);
	*group = g;
	return found;
}

struct cma_id *id_find_got(uint64_t cookie, uint64_t group_cookie, struct group **group)
{
	struct cma_id *id;

	pthread_mutex_lock(&ids_lock);
	for (id = ids[cookie % BUCKETS]; id && id->cookie != cookie; id = id->next)
		;
	if (id && !count_got(id, group_cookie, group))
		id = NULL;
	pthread_mutex_unlock(&ids_lock);
	return id;
}

static bool removed_now(struct cma_id *id, const struct rdma_event_channel *ch)
{
	bool now;

	pthread_mutex_lock(&id->lock);
	now = id->id.channel == ch && id->dev && !id->removed;
	if (now) {
		id->removed = true;
		id->got++;
	}
	pthread_mutex_unlock(&id->lock);
	return now;
}

struct cma_id *id_find_removed(const struct rdma_event_channel *ch)
{
	struct cma_id *id = NULL;

	pthread_mutex_lock(&ids_lock);
	for (unsigned i = 0; i < BUCKETS && !id; i++)
		for (id = ids[i]; id && !removed_now(id, ch); id = id->next)
			;
	pthread_mutex_unlock(&ids_lock);
	return id;
}

void id_acked(struct cma_id *id, struct group *g)
{
	pthread_mutex_lock(&id->lock);
	++*(g ? &g->acked : &id->acked);
	pthread_cond_broadcast(&id->cond);
	pthread_mutex_unlock(&id->lock);
}

void id_retire(struct cma_id *id)
{
	struct unacked u = { &to_chan(id->id.channel)->conn, "rdma_destroy_id", 0, "rdma_ack_cm_event", false };

	map_del(id);
	pthread_mutex_lock(&id->lock);
	while (id->acked != id->got)
		unacked_wait(&u, &id->cond, &id->lock, id->got - id->acked);
	pthread_mutex_unlock(&id->lock);
	unacked_end(&u);
}

/* ---- requests -------------------------------------------------------------------- */

static struct rdma_event_channel *channel_now(struct cma_id *id)
{
	struct rdma_event_channel *ch;

	pthread_mutex_lock(&id->lock);
	ch = id->id.channel;
	pthread_mutex_unlock(&id->lock);
	return ch;
}

/* If the id has moved meanwhile, the daemon did not know it there. */
int id_call(struct cma_id *id, struct cmm_req *req, struct cmm_rep *rep)
{
	struct rdma_event_channel *ch = id->id.channel, *now;
	struct cmm_rep unused;
	int err;

	req->id = id->handle;
	err = chan_call(to_chan(ch), req, rep ? rep : &unused);
	if (err != ENOENT || (now = channel_now(id)) == ch)
		return err;
	return chan_call(to_chan(now), req, rep ? rep : &unused);
}

int id_call_op(struct cma_id *id, enum cmm_op op)
{
	struct cmm_req req = { .op = op };

	return id_call(id, &req, NULL);
}

void handle_drop(struct chan *c, uint32_t handle)
{
	struct cmm_req req = { .op = CMM_DESTROY_ID, .id = handle };
	struct cmm_rep rep;

	chan_call(c, &req, &rep);
}

/* ---- what the daemon knows of an id ------------------------------------------------- */

static void addr_set(struct sockaddr_storage *to, const union cmm_addr *a)
{
	if (a->sa.sa_family == AF_INET)
		memcpy(to, &a->in, sizeof(a->in));
	else if (a->sa.sa_family == AF_INET6)
		memcpy(to, &a->in6, sizeof(a->in6));
}

enum { SELECT_EXACTLY = 2 }; /* ..._selector of a path record */

static int path_set(struct rdma_route *r, const struct cmm_info *m)
{
	if (!r->path_rec)
		r->path_rec = calloc(1, sizeof(*r->path_rec));
	if (!r->path_rec)
		return ENOMEM;
	*r->path_rec = (struct ibv_sa_path_rec){
		.flow_label = htobe32(m->flow_label),
		.hop_limit = m->hop_limit,
		.traffic_class = m->tclass,
		.reversible = 1,
		.numb_path = 1,
		.pkey = htobe16(m->pkey),
		.sl = m->sl,
		.mtu_selector = SELECT_EXACTLY,
		.mtu = m->mtu,
		.rate_selector = SELECT_EXACTLY,
		.rate = m->rate,
		.packet_life_time_selector = SELECT_EXACTLY,
		.packet_life_time = m->life,
	};
	memcpy(r->path_rec->sgid.raw, m->sgid, sizeof(m->sgid));
	memcpy(r->path_rec->dgid.raw, m->dgid, sizeof(m->dgid));
	r->num_paths = 1;
	return 0;
}

int id_update(struct cma_id *id, const struct cmm_info *m)
{
	struct rdma_addr *a = &id->id.route.addr;
	char name[RDMAD_NAME_LEN];

	addr_set(&a->src_storage, &m->src);
	addr_set(&a->dst_storage, &m->dst);
	if (!m->dev[0])
		return 0;
	if (!id->dev) {
		memcpy(name, m->dev, sizeof(name));
		name[sizeof(name) - 1] = 0;
		id->dev = dev_get(name);
		if (!id->dev)
			return errno;
		id->id.verbs = id->dev->verbs;
		if (!id->id.pd)
			id->id.pd = id->dev->pd;
	}
	id->id.port_num = m->port;
	memcpy(a->addr.ibaddr.sgid.raw, m->sgid, sizeof(m->sgid));
	memcpy(a->addr.ibaddr.dgid.raw, m->dgid, sizeof(m->dgid));
	a->addr.ibaddr.pkey = htobe16(m->pkey);
	return m->paths ? path_set(&id->id.route, m) : 0;
}

/* ---- create and destroy ---------------------------------------------------------------- */

struct cma_id *id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct cma_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	pthread_mutex_init(&id->lock, NULL);
	pthread_cond_init(&id->cond, NULL);
	map_add(id);
	return id;
}

void id_free(struct cma_id *id)
{
	if (id->sync)
		rdma_destroy_event_channel(id->id.channel);
	if (id->dev)
		dev_put(id->dev);
	free(id->id.route.path_rec);
	free(id->connect);
	free(id->qp_attr);
	rdma_freeaddrinfo(id->resolved);
	pthread_cond_destroy(&id->cond);
	pthread_mutex_destroy(&id->lock);
	keep_free(id);
}

int id_create(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps,
	      enum ibv_qp_type type)
{
	struct cmm_req req = { .op = CMM_CREATE_ID };
	struct rdma_event_channel *own = NULL;
	struct cma_id *id;
	struct cmm_rep rep;
	int err;

	if (!channel) {
		channel = own = rdma_create_event_channel();
		if (!own)
			return errno;
	}
	id = id_new(channel, context, ps, type);
	if (!id) {
		if (own)
			rdma_destroy_event_channel(own);
		return ENOMEM;
	}
	id->sync = own;
	req.create.cookie = id->cookie;
	req.create.ps = ps;
	req.create.qp_type = type;
	err = chan_call(to_chan(channel), &req, &rep);
	if (err) {
		map_del(id);
		id_free(id);
		return err;
	}
	id->handle = rep.create.id;
	*out = &id->id;
	return 0;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	bool ud = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;

	return result(id_create(channel, id, context, ps, ud ? IBV_QPT_UD : IBV_QPT_RC));
}

/* If the daemon is gone, or the id is of the parent process, there is nothing to say to it. */
EXPORT int rdma_destroy_id(struct rdma_cm_id *rid)
{
	struct cma_id *id = to_id(rid);
	int err = id_call_op(id, CMM_DESTROY_ID);

	if (err && err != EIO)
		return fail(err);
	id_event_drop(id);
	groups_leave(id);
	id_retire(id);
	id_free(id);
	return 0;
}

/* ---- the ports --------------------------------------------------------------------------- */

static __be16 port_of(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET: return ((const struct sockaddr_in *)sa)->sin_port;
	case AF_INET6: return ((const struct sockaddr_in6 *)sa)->sin6_port;
	}
	return 0;
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.src_addr); }

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.dst_addr); }

/* ---- other channels -------------------------------------------------------------------------- */

/* Under the lock: another thread that gets an event of the id from its new channel finds it there. */
static int channel_change(struct cma_id *id, struct rdma_event_channel *to, uint32_t *events)
{
	struct cmm_req req = { .op = CMM_MIGRATE, .id = id->handle };
	struct cmm_rep rep = { 0 };
	int err;

	pthread_mutex_lock(&id->lock);
	req.migrate.key = to_chan(id->id.channel)->key;
	err = chan_call(to_chan(to), &req, &rep);
	if (!err)
		id->id.channel = to;
	pthread_mutex_unlock(&id->lock);
	*events = rep.gone.events;
	return err;
}

static int id_move(struct cma_id *id, struct rdma_event_channel *to)
{
	struct rdma_event_channel *from = id->id.channel;
	struct cmm_req req = { .op = CMM_QUERY, .id = id->handle };
	struct unacked u = { &to_chan(from)->conn, "rdma_migrate_id", 0, "rdma_ack_cm_event", false };
	struct cmm_rep rep;
	uint32_t events;
	int err = channel_change(id, to, &events);

	if (err)
		return err;
	/* The old one may be readable for events that it has no more: its replies tell that, whatever is asked. */
	chan_call(to_chan(from), &req, &rep);
	/* Of those that the old channel gave; what comes from now on is the new one's. */
	pthread_mutex_lock(&id->lock);
	while ((int32_t)(id->acked - events) < 0)
		unacked_wait(&u, &id->cond, &id->lock, events - id->acked);
	pthread_mutex_unlock(&id->lock);
	unacked_end(&u);
	if (id->sync)
		rdma_destroy_event_channel(from);
	return 0;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *rid, struct rdma_event_channel *channel)
{
	struct cma_id *id = to_id(rid);
	struct rdma_event_channel *own = NULL;
	int err;

	if (!channel) {
		if (id->sync)
			return fail(EINVAL);
		channel = own = rdma_create_event_channel();
		if (!own)
			return -1;
	}
	id_event_drop(id);
	err = id_move(id, channel);
	if (err && own)
		rdma_destroy_event_channel(own);
	if (err)
		return fail(err);
	id->sync = own;
	return 0;
}
