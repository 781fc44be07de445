/* SPDX-License-Identifier: MIT */
/*
 * cma_agent.c - the thread of shard 0 turns the CM agents; what they say goes to the control thread in a
 * list.
 *
 *	hca_gsi_rx -> cm_rx	cm_tick		cm_tx -> hca_gsi_send	cm_event -> list, wake()
 *
 * What programs ask of an agent the control thread does itself, under a lock, and then wakes the shard, whose turn sends the MADs.
 * The shard waits for nobody: if the lock is taken it leaves the agents to its next turn.
 *
 * A request for a service that nobody listens to waits a moment before it is refused: programs that talk over
 * one connection and then make another one run for it, and with a kernel in between the listener wins.
 *
 * Requests cost the control thread time, and anybody in the network can send them.  So each address may send so many in a
 * second, and no more than NOTES_REQS of all wait for the control thread; the rest is lost, as on a wire: who means it asks again.
 */
#include "cma_agent.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../proto/hca.h"
#include "../../proto/secret.h"
#include "../base/log.h"
#include "../shard/guest.h"
#include "../shard/hooks.h"
#include "../shard/inbox.h"
#include "../shard/net.h"
#include "../base/clock.h"

#define GRACE_NS  CM_HASTE_NS
#define EARLY_MAX 64u /* of all devices; more are refused at once */

#define NOTES_REQS 256u
#define SOURCE_GAP 1000000u /* ns from one request of an address to the next, in the long run */
#define SOURCE_RUN 2048u    /* requests that may come at once */
#define SOURCES    1024u    /* a power of two; addresses that fall on one place share it */

/* A request that came before its listener; the first is the oldest. */
struct early {
	struct early *next;
	unsigned d;
	mono_t until;
	uint64_t service_id;
	struct gsi gsi;
};

struct note {
	struct note *next;
	struct device *dev;
	struct cm_event ev;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the agents; the shard's turn only tries it */
static struct cm *agent[DEVICES_MAX];
static bool called; /* atomic: an agent may have something to send or to say since the last turn */

/* Shard 0's. */
static mono_t next_at;                 /* nothing is due before */
static struct gsi unsent[DEVICES_MAX]; /* a MAD that hca_gsi_send() had no room for */
static bool unsent_is[DEVICES_MAX];
static struct early *early;
static unsigned early_n;

static struct {
	pthread_mutex_t lock;
	struct note *first, **end;
	unsigned reqs; /* of them, requests; atomic, for who only looks */
	void (*wake)(void);
} notes = { .lock = PTHREAD_MUTEX_INITIALIZER, .end = &notes.first };

static mono_t source[SOURCES]; /* when its requests would all have had their gap */
static uint64_t source_salt[2];

/* ---- what is to be told --------------------------------------------------------- */

static bool is_req(const struct cm_event *ev) { return ev->type == CM_EV_REQ || ev->type == CM_EV_SIDR_REQ; }

static void notes_put(struct device *dev, const struct cm_event *ev)
{
	struct note *n = malloc(sizeof(*n));
	bool first;

	if (!n) {
		log_warn("no memory for a CM event: a connection will time out");
		return;
	}
	*n = (struct note){ .dev = dev, .ev = *ev };
	pthread_mutex_lock(&notes.lock);
	first = !notes.first;
	*notes.end = n;
	notes.end = &n->next;
	if (is_req(ev))
		__atomic_add_fetch(&notes.reqs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&notes.lock);
	if (first && notes.wake)
		notes.wake();
}

/* ---- early requests ------------------------------------------------------------ */

static bool service_get(const struct gsi *g, uint64_t *service_id)
{
	struct cm_msg m;

	if (!cm_msg_get(&m, g->mad) || (m.attr != CM_REQ && m.attr != CM_SIDR_REQ))
		return false;
	*service_id = m.attr == CM_REQ ? m.req.service_id : m.sidr_req.service_id;
	return true;
}

/* It asks for an answer before a listener that comes later would have it. */
static bool is_hasty(const struct gsi *g)
{
	struct cm_msg m;

	return cm_msg_get(&m, g->mad) && m.attr == CM_REQ && cm_req_hasty(&m.req);
}

/* ---- how many requests -------------------------------------------------------------------- */

static bool source_may(const uint8_t gid[16], mono_t now)
{
	mono_t *t = &source[secret_hash_gid(source_salt, gid) & (SOURCES - 1)];

	if (mono_before(*t, now))
		*t = now;
	if (mono_since(*t, now) >= (uint64_t)SOURCE_RUN * SOURCE_GAP)
		return false;
	*t = mono_add(*t, SOURCE_GAP);
	return true;
}

/* Is it looked at?  What is no request always; of our own addresses only programs of ours send. */
static bool may_ask(struct shard *s, unsigned d, const struct gsi *g, mono_t now)
{
	uint64_t service_id;

	if (!service_get(g, &service_id) || net_device(s->net, g->route.sgid))
		return true;
	if (source_may(g->route.sgid, now) && __atomic_load_n(&notes.reqs, __ATOMIC_RELAXED) < NOTES_REQS)
		return true;
	hca_count(s->hca[d], HCA_STAT_CM_REQ_DROPPED, 1);
	return false;
}

/* ---- early requests, and those that are not --------------------------------------------------- */

/* A requester that repeats itself meanwhile asks once: its second copy must not outlive the answer to the first. */
static bool early_has(unsigned d, const struct gsi *g)
{
	for (const struct early *e = early; e; e = e->next)
		if (e->d == d && !memcmp(e->gsi.mad, g->mad, sizeof(g->mad)) &&
		    gid_same(e->gsi.route.sgid, g->route.sgid))
			return true;
	return false;
}

static bool early_put(unsigned d, const struct gsi *g, mono_t now)
{
	struct early *e, **end = &early;
	uint64_t service_id;

	if (early_has(d, g))
		return true;
	if (early_n >= EARLY_MAX || !service_get(g, &service_id) || cm_listening(agent[d], service_id) || is_hasty(g))
		return false;
	e = malloc(sizeof(*e));
	if (!e)
		return false;
	*e = (struct early){ .d = d, .until = mono_add(now, GRACE_NS), .service_id = service_id, .gsi = *g };
	while (*end)
		end = &(*end)->next;
	*end = e;
	early_n++;
	return true;
}

static bool early_take(mono_t now)
{
	bool any = false;

	for (struct early **p = &early, *e; (e = *p);) {
		if (!mono_reached(now, e->until) && !cm_listening(agent[e->d], e->service_id)) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		early_n--;
		cm_rx(agent[e->d], &e->gsi, now);
		free(e);
		any = true;
	}
	return any;
}

static void early_drop(void)
{
	for (struct early *e; (e = early);) {
		early = e->next;
		free(e);
	}
	early_n = 0;
}

/* ---- a turn ---------------------------------------------------------------------- */

static bool agent_tx(struct cm *cm, struct hca *hca, unsigned d)
{
	bool any = false;

	while (unsent_is[d] || cm_tx(cm, &unsent[d])) {
		unsent_is[d] = hca_gsi_send(hca, &unsent[d]);
		if (unsent_is[d])
			break;
		any = true;
	}
	return any;
}

static mono_t next_due(void)
{
	mono_t t = early ? early->until : MONO_NEVER;

	for (unsigned d = 0; d < devices_n; d++)
		if (agent[d])
			t = mono_min(t, cm_deadline(agent[d]));
	return t;
}

/* With the lock. */
static bool agents_work(struct shard *s, mono_t due)
{
	mono_t now = clock_now(); /* no earlier than what calls have said */
	struct cm_event ev;
	struct gsi g;
	bool any = early_take(now);

	__atomic_store_n(&called, false, __ATOMIC_RELAXED);
	for (unsigned d = 0; d < devices_n; d++) {
		struct cm *cm = agent[d];

		if (!cm)
			continue;
		while (hca_gsi_rx(s->hca[d], &g)) {
			if (may_ask(s, d, &g, now) && !early_put(d, &g, now))
				cm_rx(cm, &g, now);
			any = true;
		}
		if (mono_reached(due, cm_deadline(cm))) {
			cm_tick(cm, due);
			any = true;
		}
		any |= agent_tx(cm, s->hca[d], d);
		while (cm_event(cm, &ev)) {
			notes_put(&devices[d], &ev);
			any = true;
		}
	}
	next_at = next_due();
	return any;
}

static bool is_wanted(const struct shard *s, mono_t due)
{
	bool is = __atomic_load_n(&called, __ATOMIC_RELAXED) || mono_reached(due, next_at);

	for (unsigned d = 0; d < devices_n && !is; d++)
		is = unsent_is[d] || hca_gsi_waits(s->hca[d]);
	return is;
}

static bool agents_turn(struct shard *s, mono_t due)
{
	bool any;

	if (!is_wanted(s, due))
		return false;
	if (pthread_mutex_trylock(&lock)) {
		sched_yield(); /* who has it may wait for this core */
		return true;
	}
	any = agents_work(s, due);
	pthread_mutex_unlock(&lock);
	return any;
}

/* A MAD that came from an HCA of this very shard has woken nobody. */
static mono_t agents_deadline(const struct shard *s)
{
	bool due = __atomic_load_n(&called, __ATOMIC_RELAXED);

	for (unsigned d = 0; d < devices_n && !due; d++)
		due = hca_gsi_waits(s->hca[d]);
	return due ? (mono_t){ 0 } : next_at;
}

/* ---- the control thread ---------------------------------------------------------- */

bool agent_event(struct device **dev, struct cm_event *ev)
{
	struct note *n;

	pthread_mutex_lock(&notes.lock);
	n = notes.first;
	if (n) {
		notes.first = n->next;
		if (is_req(&n->ev))
			__atomic_sub_fetch(&notes.reqs, 1, __ATOMIC_RELAXED);
		if (!notes.first)
			notes.end = &notes.first;
	}
	pthread_mutex_unlock(&notes.lock);
	if (!n)
		return false;
	*dev = n->dev;
	*ev = n->ev;
	free(n);
	return true;
}

int agent_ask(struct device *dev, int (*fn)(struct cm *, void *arg, mono_t now), void *arg)
{
	int err;

	pthread_mutex_lock(&lock);
	err = fn(agent[dev->index], arg, clock_now());
	pthread_mutex_unlock(&lock);
	return err;
}

int agent_call(struct device *dev, int (*fn)(struct cm *, void *arg, mono_t now), void *arg)
{
	int err = agent_ask(dev, fn, arg);

	__atomic_store_n(&called, true, __ATOMIC_RELAXED);
	guest_turn(shards[0]);
	return err;
}

static int id_free(struct cm *cm, void *arg, mono_t now)
{
	cm_id_free(cm, *(uint32_t *)arg, now);
	return 0;
}

void agent_id_free(struct device *dev, uint32_t id) { agent_call(dev, id_free, &id); }

static int request_drop(struct cm *cm, void *arg, mono_t now)
{
	cm_request_drop(cm, *(uint32_t *)arg, now);
	return 0;
}

void agent_request_drop(struct device *dev, uint32_t id) { agent_call(dev, request_drop, &id); }

static int counts(struct cm *cm, void *arg, mono_t)
{
	cm_counts(cm, arg);
	return 0;
}

void agent_counts(struct device *dev, struct cm_count *n) { agent_ask(dev, counts, n); }

static void agents_set(struct shard *, void *arg)
{
	struct cm **v = arg;

	pthread_mutex_lock(&lock);
	early_drop();
	hooks.agents_turn = agents_turn;
	hooks.agents_deadline = agents_deadline;
	for (unsigned d = 0; d < devices_n; d++) {
		struct cm *old = agent[d];

		agent[d] = v[d];
		v[d] = old;
		unsent_is[d] = false;
	}
	next_at = next_due();
	pthread_mutex_unlock(&lock);
}

int agents_start(void (*wake)(void))
{
	struct cm *v[DEVICES_MAX] = { 0 };
	int err = 0;

	notes.wake = wake;
	if (getentropy(source_salt, sizeof(source_salt)))
		return EIO;
	for (unsigned d = 0; d < devices_n && !err; d++) {
		struct cm_cfg cfg = { .ca_guid = devices[d].guid, .max_ids = CM_IDS_MAX };

		if (getentropy(&cfg.seed, sizeof(cfg.seed)) || getentropy(&cfg.seed_hi, sizeof(cfg.seed_hi)))
			err = EIO;
		else
			v[d] = cm_new(&cfg);
		if (!err && !v[d])
			err = ENOMEM;
	}
	if (!err)
		shard_call(shards[0], agents_set, v);
	for (unsigned d = 0; d < devices_n; d++)
		cm_free(v[d]);
	return err;
}

/* MADs that wait are sent in the turn of shard_call(); an answer to them finds nobody. */
static void agents_last(struct shard *s, void *)
{
	pthread_mutex_lock(&lock);
	agents_work(s, (mono_t){ 0 });
	pthread_mutex_unlock(&lock);
}

void agents_stop(void)
{
	struct cm *v[DEVICES_MAX] = { 0 };
	struct cm_event ev;
	struct device *dev;

	if (!shards[0])
		return;
	shard_call(shards[0], agents_last, NULL);
	shard_call(shards[0], agents_set, v);
	for (unsigned d = 0; d < devices_n; d++)
		cm_free(v[d]);
	while (agent_event(&dev, &ev))
		;
	notes.wake = NULL;
}
