/* SPDX-License-Identifier: MIT */
/* object.c - what the program has made and destroyed. */
#include "object.h"

#include "finding.h"

#include <rdmad/keep.h>

#define BUCKETS 4096u
#define GRAVES  4096u

pthread_mutex_t check_lock = CHECK_LOCK_NEW;
bool check_on;

static struct object *by_pointer[BUCKETS], *by_number[BUCKETS];
static struct object *alive[OBJ_KINDS]; /* of each kind, but for inherited ones; the newest first */
static struct object *oldest, *newest;
static unsigned graves;
static _Thread_local struct object *ending[4]; /* a call within a call, each with its object */
static _Thread_local unsigned ending_n;
static _Thread_local pid_t own_tid;

static const char *const names[] = {
	[OBJ_CONTEXT] = "context",
	[OBJ_PD] = "PD",
	[OBJ_TD] = "thread domain",
	[OBJ_MR] = "MR",
	[OBJ_CQ] = "CQ",
	[OBJ_QP] = "QP",
	[OBJ_SRQ] = "SRQ",
	[OBJ_AH] = "AH",
	[OBJ_MW] = "MW",
	[OBJ_CHANNEL] = "channel",
	[OBJ_ID] = "rdma_cm_id",
	[OBJ_DM] = "device memory",
	[OBJ_XRCD] = "XRC domain",
	[OBJ_WQ] = "work queue",
	[OBJ_TABLE] = "indirection table",
	[OBJ_FLOW] = "flow",
	[OBJ_COUNTERS] = "counters",
};

static pid_t tid(void)
{
	if (!own_tid)
		own_tid = gettid();
	return own_tid;
}

static unsigned pointer_hash(const void *p) { return (unsigned)(((uintptr_t)p >> 4) * 0x9E3779B1u >> 8) % BUCKETS; }
static unsigned number_hash(uint32_t n) { return n * 0x9E3779B1u >> 8 & (BUCKETS - 1); }

const char *object_name(const struct object *o)
{
	static _Thread_local char text[4][48];
	static _Thread_local unsigned turn;
	char *t = text[turn++ % 4];

	if (o->kind == OBJ_QP || o->kind == OBJ_MR)
		snprintf(t, sizeof(text[0]), "%s %#x", o->kind == OBJ_MR ? "MR of lkey" : "QP", o->number);
	else
		snprintf(t, sizeof(text[0]), "%s %p", names[o->kind], o->p);
	return t;
}

struct object *object_any(enum object_kind kind, const void *p)
{
	struct object *o = by_pointer[pointer_hash(p)];

	while (o && (o->p != p || o->kind != kind))
		o = o->next;
	return o;
}

struct object *object_find(enum object_kind kind, const void *p)
{
	struct object *o = object_any(kind, p);

	return o && !o->dead && !o->inherited ? o : NULL;
}

struct object *object_number(enum object_kind kind, const struct ibv_context *context, uint32_t number)
{
	struct object *dead = NULL;

	for (struct object *o = by_number[number_hash(number)]; o; o = o->next_n) {
		if (o->number != number || o->kind != kind || o->context != context)
			continue;
		if (!o->dead)
			return o;
		if (!dead)
			dead = o;
	}
	return dead;
}

void object_each(enum object_kind kind, void (*fn)(struct object *, void *), void *arg)
{
	for (struct object *o = alive[kind]; o; o = o->older)
		fn(o, arg);
}

static void live(struct object *o)
{
	o->older = alive[o->kind];
	if (o->older)
		o->older->newer = o;
	alive[o->kind] = o;
}

static void die(struct object *o)
{
	o->dead = true;
	if (o->newer)
		o->newer->older = o->older;
	else
		alive[o->kind] = o->older;
	if (o->older)
		o->older->newer = o->newer;
}

static void number_drop(struct object *o)
{
	for (struct object **at = &by_number[number_hash(o->number)]; *at; at = &(*at)->next_n)
		if (*at == o) {
			*at = o->next_n;
			return;
		}
}

static void drop(struct object *o)
{
	struct object **at = &by_pointer[pointer_hash(o->p)];

	number_drop(o);
	while (*at && *at != o)
		at = &(*at)->next;
	if (*at)
		*at = o->next;
}

static void forget(struct object *o)
{
	drop(o);
	if (o->kind == OBJ_CQ)
		free(o->cq.taken);
	free(o->kept);
	free(o);
}

/* Into the grave; the oldest one there is forgotten. */
static void bury(struct object *o)
{
	struct object *old = oldest;

	die(o);
	if (newest)
		newest->grave = o;
	else
		oldest = o;
	newest = o;
	if (++graves <= GRAVES)
		return;
	oldest = old->grave;
	graves--;
	forget(old);
}

void object_number_set(struct object *o, uint32_t number)
{
	number_drop(o);
	o->number = number;
	o->next_n = by_number[number_hash(number)];
	by_number[number_hash(number)] = o;
}

static void turn_init(struct object *o)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&o->turn, &a);
	pthread_mutexattr_destroy(&a);
}

struct object *object_made(enum object_kind kind, const void *p, const struct ibv_context *context)
{
	struct object *o = object_find(kind, p), **at = &by_pointer[pointer_hash(p)];

	if (o) { /* by a call in a call */
		stack_take(&o->made);
		return o;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->p = p;
	o->kind = kind;
	o->context = context;
	turn_init(o);
	stack_take(&o->made);
	o->next = *at; /* in front of a dead one of that pointer */
	*at = o;
	live(o);
	return o;
}

void objects_leave(const struct ibv_context *context)
{
	const struct object *own;

	pthread_mutex_lock(&check_lock);
	own = object_find(OBJ_CONTEXT, context);
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct object *o = by_pointer[i]; o; o = o->next) {
			if (o->context != context || o->dead || o->inherited || o->kind == OBJ_CONTEXT)
				continue;
			o->left = own && own->kept;
			stack_take(&o->ended);
			bury(o);
		}
	pthread_mutex_unlock(&check_lock);
}

static bool has_functions(const struct object *o)
{
	return (o->kind == OBJ_CQ && o->cq.real.start_poll) || (o->kind == OBJ_QP && o->qp.real.wr_complete);
}

static void inherit(struct object *o)
{
	o->inherited = true;
	o->held = false;
	o->in = 0;
	turn_init(o); /* a thread of the parent may have it */
}

void object_forked(void)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		struct object **at = &by_pointer[i];

		for (struct object *o = *at; o; o = o->next)
			if (has_functions(o)) {
				inherit(o);
				*at = o;
				at = &o->next;
			}
		*at = NULL;
	}
	memset(by_number, 0, sizeof(by_number));
	memset(alive, 0, sizeof(alive));
	oldest = newest = NULL;
	graves = ending_n = 0;
	own_tid = 0;
}

/* Of what follows its pointer nothing is said.  Where its memory was not kept, it may be another object's by now. */
static bool is_gone(enum object_kind kind, const void *p, const char *verb, enum finding_kind what)
{
	struct object *o = p ? object_any(kind, p) : NULL;

	if (!o || !o->dead || o->inherited || (!o->kept && !o->left))
		return false;
	if (o->left)
		finding(F_USE_DESTROYED, "closed by", &o->ended, "%s(): the context of %s has been closed", verb,
			object_name(o));
	else
		finding(what, "destroyed by", &o->ended, "%s(): %s has been destroyed", verb, object_name(o));
	return true;
}

bool object_usable(enum object_kind kind, const void *p, const char *verb)
{
	bool gone;

	if (!check_on)
		return true;
	pthread_mutex_lock(&check_lock);
	gone = is_gone(kind, p, verb, F_USE_DESTROYED);
	pthread_mutex_unlock(&check_lock);
	return !gone;
}

bool object_ending(enum object_kind kind, const void *p, const char *verb)
{
	struct object *o;
	bool gone;

	if (!check_on)
		return true;
	pthread_mutex_lock(&check_lock);
	gone = is_gone(kind, p, verb, F_DOUBLE_DESTROY);
	o = gone ? NULL : object_find(kind, p);
	if (o) {
		pid_t in = __atomic_load_n(&o->in, __ATOMIC_ACQUIRE);

		if (in && in != tid())
			finding(F_THREADS, "made by", &o->made,
				"%s(): %s is destroyed while thread %d is in a call with it", verb, object_name(o),
				(int)in);
	}
	if (!gone && ending_n < ARRAY_N(ending))
		ending[ending_n++] = o;
	pthread_mutex_unlock(&check_lock);
	return !gone;
}

void object_ended(enum object_kind kind, const void *p, bool gone)
{
	struct object *o;

	if (!check_on)
		return;
	pthread_mutex_lock(&check_lock);
	o = object_find(kind, p);
	if (ending_n)
		ending_n--;
	if (o && gone) {
		stack_take(&o->ended);
		bury(o);
	}
	pthread_mutex_unlock(&check_lock);
}

EXPORT void rdmad_keep(void *p)
{
	struct object *o = ending_n ? ending[ending_n - 1] : NULL;

	if (o && (!o->kept || p == o->p)) { /* rather the object's than that of what goes with it */
		free(o->kept);
		o->kept = p;
	} else {
		free(p);
	}
}

bool object_take(struct object *o)
{
	if (pthread_mutex_trylock(&o->turn)) {
		pid_t in = __atomic_load_n(&o->in, __ATOMIC_ACQUIRE);

		if (o->single && in) {
			pthread_mutex_lock(&check_lock);
			finding(F_THREADS, "made by", &o->made,
				"%s is used by thread %d while thread %d is in a call with it; it was made for one "
				"thread (a thread domain, or IBV_CREATE_CQ_ATTR_SINGLE_THREADED)",
				object_name(o), (int)tid(), (int)in);
			pthread_mutex_unlock(&check_lock);
			return false;
		}
		pthread_mutex_lock(&o->turn);
	}
	__atomic_store_n(&o->in, tid(), __ATOMIC_RELEASE);
	return true;
}

void object_give(struct object *o)
{
	if (!o->held)
		__atomic_store_n(&o->in, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&o->turn);
}
