/* SPDX-License-Identifier: MIT */
/* why.c - the queue to the control thread, the store, and what the other end and other programs have to do with it. */
#include "why.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <ev.h>

#include <rdmad/clock.h>

#include "sessions.h"
#include "../base/log.h"
#include "../base/rights.h"
#include "../shard/inbox.h"
#include "../shard/net_refusal.h"
#include "../base/clock.h"

#define QUEUE 256u

/* ---- the queue ----------------------------------------------------------------- */

struct item {
	struct why w;
	struct why_owner owner;
	unsigned device;
};

/* Not on the heap: what it grows by is looked at for leaks. */
static struct {
	pthread_mutex_t lock;
	struct item v[QUEUE];
	unsigned head, n;
	bool open;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct ev_loop *why_loop;
static ev_async woken;

/* One program that fails all the time must not keep the daemon busy with telling it. */
static bool within_rate(struct ctx *c, mono_t now)
{
	if (mono_since(now, c->why_since) > 1000000000u) {
		c->why_since = now;
		c->why_n = 0;
	}
	return c->why_n++ < WHY_RATE;
}

void why_owner_of(struct why_owner *o, const struct ctx *c)
{
	*o = (struct why_owner){ .pid = c->pid, .uid = c->uid, .runs = c->runs, .ctx = c->id };
	memcpy(o->prog, c->prog, sizeof(o->prog));
}

void why_collect(struct shard *s, unsigned device)
{
	struct why w;

	while (hca_why(s->hca[device], &w)) {
		struct obj *o = obj_find(s, OBJ_QP, device, w.qpn);
		struct item *i;

		if (!o || !within_rate(o->ctx, w.at))
			continue;
		pthread_mutex_lock(&queue.lock);
		if (queue.open && queue.n < QUEUE) {
			i = &queue.v[(queue.head + queue.n++) % QUEUE];
			i->w = w;
			i->device = device;
			why_owner_of(&i->owner, o->ctx);
			ev_async_send(why_loop, &woken);
		}
		pthread_mutex_unlock(&queue.lock);
	}
}

static bool queue_take(struct item *i)
{
	bool any;

	pthread_mutex_lock(&queue.lock);
	any = queue.n;
	if (any) {
		*i = queue.v[queue.head];
		queue.head = (queue.head + 1) % QUEUE;
		queue.n--;
	}
	pthread_mutex_unlock(&queue.lock);
	return any;
}

/* ---- the store ------------------------------------------------------------------- */

static struct user {
	bool used;
	uid_t uid;
	uint64_t n; /* ever */
	struct why_entry v[WHY_KEPT];
} users[WHY_USERS];
static uint64_t entries_n;

static uint64_t last_of(const struct user *u) { return u->n ? u->v[(u->n - 1) % WHY_KEPT].number : 0; }

static struct user *user_get(uid_t uid)
{
	struct user *oldest = &users[0];

	for (unsigned i = 0; i < WHY_USERS; i++) {
		if (users[i].used && users[i].uid == uid)
			return &users[i];
		if (last_of(&users[i]) < last_of(oldest))
			oldest = &users[i];
	}
	memset(oldest, 0, sizeof(*oldest));
	oldest->used = true;
	oldest->uid = uid;
	return oldest;
}

static struct why_entry *entry_new(const struct why_owner *o, unsigned cause, int device, uint32_t qpn)
{
	struct user *u = user_get(o->uid);
	struct why_entry *e = &u->v[u->n++ % WHY_KEPT];

	*e = (struct why_entry){ .number = ++entries_n,
				 .when_ns = clock_ns(CLOCK_REALTIME),
				 .owner = *o,
				 .device = device,
				 .qpn = qpn,
				 .cause = (uint8_t)cause };
	return e;
}

const char *why_entry_hint(const struct why_entry *e, const struct why_entry *other)
{
	/* The reason of the other end is the one to do something about. */
	const struct why_entry *r = other ? other : e;

	if (r->by_rule || e->by_rule)
		return why_hint(WHY_BY_RULE);
	if (e->refused)
		return why_hint(e->refused);
	return r->core ? why_advice(&r->w) : why_hint(r->cause);
}

enum why_grade why_entry_grade(const struct why_entry *e)
{
	return e->by_rule && e->cause == WHY_WAIT_RECV ? WHY_WAIT : why_grade(e->cause);
}

static void entry_log(const struct why_entry *e)
{
	const char *hint = why_entry_hint(e, NULL);

	log_info("why: %s (pid %d, user %u)%s%s: %s%s%s%s%s", e->owner.prog, (int)e->owner.pid, (unsigned)e->owner.uid,
		 e->device >= 0 ? " " : "", e->device >= 0 ? devices[e->device].name : "", *e->own ? e->own : "",
		 *e->own ? ": " : "", e->text, *hint ? "; hint: " : "", hint);
}

bool why_user_sees(uid_t viewer, uid_t uid) { return viewer == 0 || viewer == rights_owner() || viewer == uid; }

/* ---- the other end, if it is ours ------------------------------------------------- */

const struct why_entry *why_other_end(const struct why_entry *e)
{
	if (!e->core || e->cause < WHY_REQ_NAK_INV || e->cause > WHY_REQ_NAK_OTHER)
		return NULL;
	for (unsigned u = 0; u < WHY_USERS; u++) {
		if (!users[u].used || users[u].uid != e->owner.uid)
			continue;
		for (unsigned i = 0; i < WHY_KEPT; i++) {
			const struct why_entry *o = &users[u].v[i];

			if (o->number && o->core && o->w.qpn == e->w.dqpn && o->w.dqpn == e->w.qpn &&
			    o->w.to == QPS_ERR && o->cause >= WHY_RESP_OP_SEQ && o->cause <= WHY_RESP_READ_MEM &&
			    o->w.at.ns <= e->w.at.ns && mono_since(e->w.at, o->w.at) < 10000000000u)
				return o;
		}
	}
	return NULL;
}

/* ---- keys of others ------------------------------------------------------------------ */

struct key_look {
	uint32_t key;
	uid_t viewer;
	bool found, maybe;
	unsigned device;
	struct why_owner owner;
};

static void key_job(struct shard *s, void *arg)
{
	struct key_look *l = arg;

	for (unsigned d = 0; d < devices_n && !l->found; d++) {
		const struct obj *o = obj_find(s, OBJ_MR, d, l->key);

		l->maybe |= o || obj_find(s, OBJ_MW, d, l->key) || hca_key_maybe(s->hca[d], l->key);
		if (!o || !why_user_sees(l->viewer, o->ctx->uid))
			continue;
		l->found = true;
		l->device = d;
		why_owner_of(&l->owner, o->ctx);
	}
}

/* A key is of a device and a context: one that was found there is that of another one, if his owner may know. */
static bool key_elsewhere(struct why_entry *e)
{
	struct key_look l = { .key = e->w.key.key, .viewer = e->owner.uid };
	struct words t;

	for (unsigned i = 0; i < shards_n && !l.found; i++)
		shard_call(shards[i], key_job, &l);
	e->w.key.unsure |= l.maybe;
	if (!l.found)
		return false;
	e->w.key.why = (int)l.device == e->device ? WHY_KEY_PD : WHY_KEY_DEVICE;
	t = words_begin(e->there, sizeof(e->there));
	words_put(&t, "the key is of %s, of an MR of %s (pid %d)", devices[l.device].name, l.owner.prog,
		  (int)l.owner.pid);
	return true;
}

/* A key that ended was that of another program: which. */
static void key_was_of(struct why_entry *e)
{
	struct words t = words_begin(e->there, sizeof(e->there));
	const struct session *s = sessions;

	while (s && !(s->uid == e->owner.uid && prog_number(s->pid, s->ctx ? s->ctx->id : 0) == e->w.key.end_prog))
		s = s->next;
	if (s)
		words_put(&t, "the key was of %s (pid %d)", s->prog, (int)s->pid);
	else
		words_put(&t, "the key was of a program that has ended or closed the device");
}

/* ---- what comes in ------------------------------------------------------------------ */

/* Its owner is told less than those who see all. */
static void peer_look(struct why_entry *e)
{
	if (!why_user_sees(e->owner.uid, 0)) {
		why_peers_look(e, 1, 0);
		memcpy(e->all, e->there, sizeof(e->all));
	}
	why_peers_look(e, 1, e->owner.uid);
}

static void enter(const struct item *i)
{
	struct why_entry *e = entry_new(&i->owner, i->w.cause, (int)i->device, i->w.qpn);
	struct words t = words_begin(e->text, sizeof(e->text));

	e->core = true;
	e->w = i->w;
	e->when_ns = clock_ns(CLOCK_REALTIME) - mono_since(clock_now(), i->w.at);
	if (e->cause == WHY_RETRY_SILENT && why_inside_only(e))
		e->cause = e->w.cause = WHY_RETRY_INSIDE;
	if (e->w.key.why == WHY_KEY_GONE && e->w.key.end_other)
		key_was_of(e);
	else if (e->w.key.why != WHY_KEY_NONE || !key_elsewhere(e))
		peer_look(e);
	why_own(e);
	why_words(&t, &e->w, e->by_rule);
	entry_log(e);
}

void why_catch_up(void)
{
	static struct item i; /* a KiB and more */

	while (queue_take(&i))
		enter(&i);
}

static void on_woken(struct ev_loop *, ev_async *, int) { why_catch_up(); }

void why_owner_of_session(struct why_owner *o, const struct session *s)
{
	*o = (struct why_owner){ .pid = s->pid, .uid = s->uid, .runs = s->runs, .ctx = s->ctx ? s->ctx->id : 0 };
	memcpy(o->prog, s->prog, sizeof(o->prog));
}

static struct why_entry *say(const struct why_owner *o, unsigned cause, const struct device *dev, uint32_t qpn,
			     const char *fmt, va_list ap)
{
	struct why_entry *e;

	why_catch_up(); /* what came before is told before */
	e = entry_new(o, cause, dev ? (int)dev->index : -1, qpn);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	why_own(e);
	entry_log(e);
	return e;
}

void why_say(const struct session *s, unsigned cause, const struct device *dev, uint32_t qpn, const char *fmt, ...)
{
	struct why_owner o;
	va_list ap;

	why_owner_of_session(&o, s);
	va_start(ap, fmt);
	say(&o, cause, dev, qpn, fmt, ap);
	va_end(ap);
}

static uint64_t words_hash(const char *s)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */

	while (*s)
		h = (h ^ (unsigned char)*s++) * 1099511628211u;
	return h | 1;
}

static struct why_entry *entry_like(const struct why_owner *o, unsigned cause, uint64_t like)
{
	struct user *u = user_get(o->uid);

	for (unsigned i = 0; i < WHY_KEPT; i++) {
		struct why_entry *e = &u->v[i];

		if (e->number && e->like == like && e->cause == cause && e->owner.pid == o->pid &&
		    !memcmp(&e->owner.runs, &o->runs, sizeof(o->runs)))
			return e;
	}
	return NULL;
}

static struct why_entry *say_like(const struct why_owner *o, unsigned cause, const struct device *dev, uint32_t qpn,
				  const char *like, const char *fmt, va_list ap)
{
	uint64_t hash = words_hash(like);
	struct why_entry *e = entry_like(o, cause, hash);

	if (!e) {
		e = say(o, cause, dev, qpn, fmt, ap);
		e->like = hash;
		return e;
	}
	e->again++;
	e->last_ns = clock_ns(CLOCK_REALTIME);
	return e;
}

struct why_entry *why_say_like(const struct session *s, unsigned cause, const struct device *dev, uint32_t qpn,
			       const char *like, const char *fmt, ...)
{
	struct why_entry *e;
	struct why_owner o;
	va_list ap;

	why_owner_of_session(&o, s);
	va_start(ap, fmt);
	e = say_like(&o, cause, dev, qpn, like, fmt, ap);
	va_end(ap);
	return e;
}

void why_say_own(unsigned cause, const char *fmt, ...)
{
	const struct why_owner o = { .pid = getpid(), .uid = rights_owner(), .prog = "rdmad" };
	va_list ap;

	va_start(ap, fmt);
	say_like(&o, cause, NULL, 0, "", fmt, ap);
	va_end(ap);
}

/* ---- who looks ---------------------------------------------------------------------- */

bool why_sees(const struct session *viewer, uid_t uid) { return why_user_sees(viewer->uid, uid); }

static void look_job(struct shard *s, void *)
{
	refusals_look(s->net);
	for (unsigned i = 0; i < devices_n; i++)
		why_collect(s, i);
}

void why_each(const struct session *viewer, uint32_t qpn, void (*each)(const struct why_entry *, void *), void *arg)
{
	uint64_t after = 0;

	for (unsigned i = 0; i < shards_n; i++) /* and the turn that has shown a completion has ended */
		shard_call(shards[i], look_job, NULL);
	why_catch_up();
	/* All rings at once in the order of their numbers: few, and seldom. */
	for (;;) {
		const struct why_entry *next = NULL;

		for (unsigned u = 0; u < WHY_USERS; u++) {
			if (!users[u].used || !why_sees(viewer, users[u].uid))
				continue;
			for (unsigned i = 0; i < WHY_KEPT; i++) {
				const struct why_entry *e = &users[u].v[i];

				if (e->number > after && (!next || e->number < next->number))
					next = e;
			}
		}
		if (!next)
			return;
		after = next->number;
		if (!qpn || next->qpn == qpn)
			each(next, arg);
	}
}

void why_start(struct ev_loop *loop)
{
	why_loop = loop;
	ev_async_init(&woken, on_woken);
	ev_async_start(loop, &woken);
	pthread_mutex_lock(&queue.lock);
	queue.open = true;
	pthread_mutex_unlock(&queue.lock);
}

void why_stop(struct ev_loop *loop)
{
	pthread_mutex_lock(&queue.lock);
	queue.open = false;
	pthread_mutex_unlock(&queue.lock);
	why_catch_up();
	ev_async_stop(loop, &woken);
}
