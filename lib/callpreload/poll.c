/* SPDX-License-Identifier: MIT */
/* poll.c - completions that are polled, and those that are not. */
#include "hooks.h"

#include "finding.h"
#include "work.h"

#define DRAIN_MAX  4096
#define DRAIN_STEP 16

static bool taken_any; /* by cq_drain(), of any CQ, ever */

static _Thread_local struct object *turn;

bool cq_polling(struct ibv_cq *cq)
{
	struct object *o;

	if (!check_on)
		return true;
	pthread_mutex_lock(&check_lock);
	o = object_find(OBJ_CQ, cq);
	if (o)
		o->cq.polled = true;
	pthread_mutex_unlock(&check_lock);
	turn = o && object_take(o) ? o : NULL;
	return true;
}

/* With check_lock. */
static void taken(const struct ibv_context *context, const struct ibv_wc *wc)
{
	struct object *qp = object_number(OBJ_QP, context, wc->qp_num);

	if (qp && !qp->dead)
		work_done(qp, wc);
}

void cq_polled(struct ibv_cq *cq, int n, const struct ibv_wc *wc)
{
	if (!check_on)
		return;
	if (n > 0) {
		pthread_mutex_lock(&check_lock);
		for (int i = 0; i < n; i++)
			taken(cq->context, &wc[i]);
		pthread_mutex_unlock(&check_lock);
	}
	if (turn)
		object_give(turn);
	turn = NULL;
}

void cq_taken(struct object *cq, const struct ibv_wc *wc)
{
	pthread_mutex_lock(&check_lock);
	cq->cq.polled = true;
	taken(cq->context, wc);
	pthread_mutex_unlock(&check_lock);
}

static bool is_error(const struct ibv_wc *wc)
{
	return wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR;
}

int cq_next(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct object *o;
	int k = 0;

	if (!__atomic_load_n(&taken_any, __ATOMIC_RELAXED))
		return slots_poll(cq, n, wc);
	pthread_mutex_lock(&check_lock);
	o = object_find(OBJ_CQ, cq);
	if (o && o->cq.taken_n && n > 0) {
		k = n < (int)o->cq.taken_n ? n : (int)o->cq.taken_n;
		memcpy(wc, o->cq.taken, (size_t)k * sizeof(*wc));
		o->cq.taken_n -= (uint32_t)k;
		memmove(o->cq.taken, o->cq.taken + k, o->cq.taken_n * sizeof(*wc));
	}
	pthread_mutex_unlock(&check_lock);
	return k ? k : slots_poll(cq, n, wc);
}

/* False: there are no more, or no room for them. */
static bool take_some(struct object *cq)
{
	struct ibv_wc *wc = realloc(cq->cq.taken, (cq->cq.taken_n + DRAIN_STEP) * sizeof(*wc));
	int n;

	if (!wc)
		return false;
	cq->cq.taken = wc;
	n = slots_poll((struct ibv_cq *)(uintptr_t)cq->p, DRAIN_STEP, wc + cq->cq.taken_n);
	if (n <= 0)
		return false;
	cq->cq.taken_n += (uint32_t)n;
	__atomic_store_n(&taken_any, true, __ATOMIC_RELAXED);
	return n == DRAIN_STEP && cq->cq.taken_n < DRAIN_MAX;
}

void cq_drain(struct object *cq, void *context)
{
	const struct ibv_wc *first = NULL; /* those that went well, or were flushed, may be left */

	if ((context && cq->context != context) || cq->held || cq->cq.real.start_poll ||
	    pthread_mutex_trylock(&cq->turn))
		return;
	while (take_some(cq))
		continue;
	for (uint32_t i = 0; i < cq->cq.taken_n && !first; i++)
		if (is_error(&cq->cq.taken[i]))
			first = &cq->cq.taken[i];
	if (first)
		finding(F_IGNORED, "made by", &cq->made,
			"%s: a completion with the error %s (wr_id %#llx, QP %#x) has not been polled%s",
			object_name(cq), ibv_wc_status_str(first->status), (unsigned long long)first->wr_id,
			first->qp_num, cq->cq.polled ? "" : ", and nothing else has");
	pthread_mutex_unlock(&cq->turn);
}

void cqs_end(const struct ibv_context *context)
{
	if (pthread_mutex_lock(&check_lock)) /* exit() in a handler */
		return;
	object_each(OBJ_CQ, cq_drain, (void *)(uintptr_t)context);
	pthread_mutex_unlock(&check_lock);
}
