/* SPDX-License-Identifier: MIT */
/* made.c - objects that are made, changed and destroyed. */
#include "hooks.h"

#include "work.h"

void made(enum object_kind kind, const void *p, const struct ibv_context *context)
{
	if (!check_on || !p)
		return;
	pthread_mutex_lock(&check_lock);
	object_made(kind, p, context);
	pthread_mutex_unlock(&check_lock);
}

void context_made(struct ibv_context *context)
{
	if (!context)
		return;
	slots_put(context);
	made(OBJ_CONTEXT, context, context);
}

static void left(struct object *o, void *context)
{
	if (o->context == context)
		work_forget(o);
}

bool context_ending(struct ibv_context *context)
{
	if (check_on)
		cqs_end(context);
	return true;
}

/* Nobody can say when what was left in it goes. */
void context_ended(struct ibv_context *context, bool gone)
{
	if (gone && check_on) {
		pthread_mutex_lock(&check_lock);
		object_each(OBJ_QP, left, context);
		object_each(OBJ_SRQ, left, context);
		pthread_mutex_unlock(&check_lock);
		objects_leave(context);
	}
	if (gone)
		slots_gone(context);
	object_ended(OBJ_CONTEXT, context, gone);
}

static bool is_single(const void *pd)
{
	const struct object *o = object_find(OBJ_PD, pd);

	return o && o->single;
}

void pd_made(struct ibv_pd *pd, struct ibv_context *context, const struct ibv_parent_domain_init_attr *a)
{
	struct object *o;

	if (!check_on || !pd)
		return;
	pthread_mutex_lock(&check_lock);
	o = object_made(OBJ_PD, pd, context);
	if (o && a) {
		o->pd = a->pd;
		o->single = a->td;
	}
	pthread_mutex_unlock(&check_lock);
}

bool mr_ending(struct ibv_mr *mr)
{
	struct object *o;

	if (!check_on)
		return true;
	pthread_mutex_lock(&check_lock);
	o = object_find(OBJ_MR, mr);
	if (o)
		work_dereg(o);
	pthread_mutex_unlock(&check_lock);
	return true;
}

void cq_ex_made(struct ibv_cq_ex *ex, const struct ibv_cq_init_attr_ex *a)
{
	bool single;

	if (!ex)
		return;
	single = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && a->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	made(OBJ_CQ, ex, ex->context);
	if (check_on && a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		pthread_mutex_lock(&check_lock);
		single |= is_single(a->parent_domain);
		pthread_mutex_unlock(&check_lock);
	}
	cq_ex_put(ex, single);
}

void qp_made(struct ibv_qp *qp, int sig_all, const struct ibv_qp_cap *cap)
{
	struct object *o;

	if (!qp)
		return;
	pthread_mutex_lock(&check_lock);
	o = check_on ? object_made(OBJ_QP, qp, qp->context) : NULL;
	if (o) {
		object_number_set(o, qp->qp_num);
		o->pd = qp->pd;
		o->single = is_single(qp->pd);
		o->qp.send_cq = object_find(OBJ_CQ, qp->send_cq);
		o->qp.recv_cq = object_find(OBJ_CQ, qp->recv_cq);
		o->qp.srq = object_find(OBJ_SRQ, qp->srq);
		o->qp.sig_all = sig_all;
		o->qp.max_send = cap->max_send_wr;
		o->qp.max_send_sge = cap->max_send_sge;
		o->qp.max_recv_sge = cap->max_recv_sge;
		if (o->qp.send_cq)
			o->qp.send_cq->cq.users++;
		if (o->qp.recv_cq)
			o->qp.recv_cq->cq.users++;
	}
	pthread_mutex_unlock(&check_lock);
	qp_ex_put(qp);
}

void qp_modified(struct ibv_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct object *o;

	if (!check_on || !(mask & IBV_QP_STATE))
		return;
	pthread_mutex_lock(&check_lock);
	o = object_find(OBJ_QP, qp);
	if (o && a->qp_state == IBV_QPS_RESET)
		work_forget(o);
	if (o)
		o->qp.erred = false; /* somebody knows of it */
	pthread_mutex_unlock(&check_lock);
}

/* With the last QP of a CQ goes what it has not polled. */
bool qp_ending(struct ibv_qp *qp)
{
	struct object *o, *s, *r;

	if (!check_on)
		return true;
	pthread_mutex_lock(&check_lock);
	o = object_find(OBJ_QP, qp);
	s = o ? o->qp.send_cq : NULL;
	r = o ? o->qp.recv_cq : NULL;
	if (s && s->cq.users == (s == r ? 2 : 1))
		cq_drain(s, NULL);
	if (r && r != s && r->cq.users == 1)
		cq_drain(r, NULL);
	pthread_mutex_unlock(&check_lock);
	return true;
}

/* The library forgets the completions of a QP that is destroyed. */
static void cq_leave(struct object *cq)
{
	if (cq && !--cq->cq.users)
		cq->cq.taken_n = 0;
}

void qp_ended(struct ibv_qp *qp, bool gone)
{
	struct object *o;

	if (check_on && gone) {
		pthread_mutex_lock(&check_lock);
		o = object_find(OBJ_QP, qp);
		if (o) {
			work_forget(o);
			draft_free(o);
			cq_leave(o->qp.send_cq);
			cq_leave(o->qp.recv_cq);
		}
		pthread_mutex_unlock(&check_lock);
	}
	object_ended(OBJ_QP, qp, gone);
}

void srq_made(struct ibv_srq *srq, uint32_t max_sge, bool xrc)
{
	struct object *o;

	if (!check_on || !srq)
		return;
	pthread_mutex_lock(&check_lock);
	o = object_made(OBJ_SRQ, srq, srq->context);
	if (o) {
		o->pd = srq->pd;
		o->srq.max_sge = max_sge;
		o->srq.xrc = xrc;
		o->single = is_single(srq->pd);
	}
	pthread_mutex_unlock(&check_lock);
}

void srq_ended(struct ibv_srq *srq, bool gone)
{
	struct object *o;

	if (check_on && gone) {
		pthread_mutex_lock(&check_lock);
		o = object_find(OBJ_SRQ, srq);
		if (o)
			work_forget(o);
		pthread_mutex_unlock(&check_lock);
	}
	object_ended(OBJ_SRQ, srq, gone);
}
