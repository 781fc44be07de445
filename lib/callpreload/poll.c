/* SPDX-License-Identifier: MIT */
/* poll.c - completions that are polled, and those that are not. */
#include "hooks.h"

#include "finding.h"
#include "work.h"

#define DRAIN_MAX 4096

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

void cq_drain(struct object *cq, void *context)
{
	struct ibv_wc wc[16], first = { 0 };
	unsigned all = 0, errors = 0; /* those that went well, or were flushed, may be left */
	int n = 16;

	if (context && cq->context != context)
		return;
	while (n == 16 && all < DRAIN_MAX && !cq->held) {
		n = slots_poll((struct ibv_cq *)(uintptr_t)cq->p, 16, wc);
		for (int i = 0; i < n; i++) {
			if (is_error(&wc[i]) && !errors++)
				first = wc[i];
			all++;
		}
	}
	if (errors)
		finding(F_IGNORED, "made by", &cq->made,
			"%s: a completion with the error %s (wr_id %#llx, QP %#x) has not been polled%s",
			object_name(cq), ibv_wc_status_str(first.status), (unsigned long long)first.wr_id, first.qp_num,
			cq->cq.polled ? "" : ", and nothing else has");
}

void cqs_end(const struct ibv_context *context)
{
	pthread_mutex_lock(&check_lock);
	object_each(OBJ_CQ, cq_drain, (void *)(uintptr_t)context);
	pthread_mutex_unlock(&check_lock);
}
