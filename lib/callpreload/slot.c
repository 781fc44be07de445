/* SPDX-License-Identifier: MIT */
/*
 * slot.c - the functions of slots.def, which are put into contexts when they are opened.
 *
 * A context of another library may be older than the headers: what it does not have is left alone.
 */
#include "hooks.h"
#include "text.h"
#include "trace.h"

#define CONTEXTS_MAX 1024

static struct slots {
	struct ibv_context *context; /* NULL: free */
	bool closed;                 /* calls that come later still find the functions */
#define S_VERB(where, slot, ...)       S_FIELD_##where(slot)
#define S_POLL(where, slot, ...)       S_FIELD_##where(slot)
#define S_MAKE(type, where, slot, ...) S_FIELD_##where(slot)
#define S_FIELD_OPS(slot)              __typeof__(((struct ibv_context_ops *)0)->slot) slot;
#define S_FIELD_EXT(slot)              __typeof__(((struct verbs_context *)0)->slot) slot;
#include "slots.def"
} * all[CONTEXTS_MAX];
static unsigned all_n;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* It was put there when our functions were, and so before they are called. */
static const struct slots *slots_of(const struct ibv_context *context)
{
	unsigned n = __atomic_load_n(&all_n, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < n; i++)
		if (__atomic_load_n(&all[i]->context, __ATOMIC_RELAXED) == context)
			return all[i];
	abort();
}

static bool refuse(struct ibv_send_wr **bad, struct ibv_send_wr *wr)
{
	*bad = wr;
	return false;
}

static bool refuse_recv(struct ibv_recv_wr **bad, struct ibv_recv_wr *wr)
{
	*bad = wr;
	return false;
}

#define S_CALL(type, dead, kind, empty, real, slot, verb, params, args, before, after, ...)                    \
	static type my_##slot params                                                                           \
	{                                                                                                      \
		type r;                                                                                        \
		CALL_BODY(CALL_##verb, LEVEL_VERBS, dead, kind, empty, before, real args, after, __VA_ARGS__); \
		return r;                                                                                      \
	}
#define S_VERB(where, slot, verb, ctx, ...) \
	S_CALL(int, EINVAL, RESULT_ERR, false, slots_of(ctx)->slot, slot, verb, __VA_ARGS__)
#define S_POLL(where, slot, verb, ctx, ...) S_CALL(int, -1, RESULT_INT, !r, cq_next, slot, verb, __VA_ARGS__)
#define S_MAKE(type, where, slot, verb, ctx, ...) \
	S_CALL(type, NULL, RESULT_PTR, false, slots_of(ctx)->slot, slot, verb, __VA_ARGS__)
#include "slots.def"

/* A slot of ours for what is there; PUT_EXT: the newest lie at the lowest addresses. */
#define PUT_OPS(slot)                                  \
	do {                                           \
		s->slot = context->ops.slot;           \
		if (s->slot)                           \
			context->ops.slot = my_##slot; \
	} while (0)
#define PUT_EXT(slot_)                                                                                         \
	do {                                                                                                   \
		s->slot_ = v && v->sz >= sizeof(*v) - offsetof(struct verbs_context, slot_) ? v->slot_ : NULL; \
		if (s->slot_)                                                                                  \
			v->slot_ = my_##slot_;                                                                 \
	} while (0)

static struct slots *slots_new(const struct ibv_context *context)
{
	struct slots *s = NULL;

	for (unsigned i = 0; i < all_n; i++) {
		if (all[i]->context == context)
			return all[i]->closed ? all[i] : NULL; /* they are there */
		if (all[i]->closed)
			s = all[i];
	}
	if (all_n < CONTEXTS_MAX)
		s = NULL;
	if (!s && all_n < CONTEXTS_MAX && (s = calloc(1, sizeof(*s)))) {
		all[all_n] = s;
		__atomic_store_n(&all_n, all_n + 1, __ATOMIC_RELEASE);
	}
	return s;
}

void slots_put(struct ibv_context *context)
{
	struct verbs_context *v = verbs_get_ctx(context);
	struct slots *s;

	pthread_mutex_lock(&lock);
	s = slots_new(context);
	if (s) {
#define S_VERB(where, slot, ...)       PUT_##where(slot);
#define S_POLL(where, slot, ...)       PUT_##where(slot);
#define S_MAKE(type, where, slot, ...) PUT_##where(slot);
#include "slots.def"
		s->closed = false;
		__atomic_store_n(&s->context, context, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
}

void slots_gone(struct ibv_context *context)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < all_n; i++)
		if (all[i]->context == context)
			all[i]->closed = true;
	pthread_mutex_unlock(&lock);
}

int slots_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc) { return slots_of(cq->context)->poll_cq(cq, n, wc); }
