/* SPDX-License-Identifier: MIT */
/*
 * srq.c - shared receive queues.
 *
 * The ring has room for the max_wr of its creation, WRs that the daemon has not taken yet.  The daemon tells in it how many
 * have completed: a post fails with ENOMEM when max_wr have not.
 */
#include "pd.h"
#include "srq.h"
#include "xrc.h"
#include "slots.h"
#include "unacked.h"

static int srq_map(struct rd_srq *s, const struct msg_rep *rep)
{
	uint32_t slots = rep->srq.slots, stride = rep->srq.stride;

	if (!slots || slots & (slots - 1) || slots < rep->srq.max_wr || rep->srq.map_len < ring_bytes(slots, stride) ||
	    stride < sizeof(struct recv_wr) + rep->srq.max_sge * sizeof(struct sge))
		return EPROTO;
	ring_attach(&s->ring, s->mem.mem, slots, stride);
	s->bell = rep->srq.bell;
	s->max_wr = rep->srq.max_wr;
	s->max_sge = rep->srq.max_sge;
	return 0;
}

/* xrcd and cq: of XRC; else both NULL. */
static struct ibv_srq *srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr *init, struct ibv_xrcd *xrcd,
				  struct ibv_cq *cq)
{
	struct rd_ctx *c = to_ctx(pd->context);
	struct msg_req req = { .op = MSG_SRQ_CREATE };
	struct rd_srq *s;
	struct rd_pd *mem;
	struct msg_rep rep;
	int err;

	if (!init->attr.max_wr ||
	    (!*c->attr.profile && (init->attr.max_wr > c->attr.max_srq_wr || init->attr.max_sge > c->attr.max_srq_sge)))
		return err_null(refuse(c, 0, "ibv_create_srq", EINVAL, "max_wr %u (1 to %u), max_sge %u (up to %u)",
				       init->attr.max_wr, c->attr.max_srq_wr, init->attr.max_sge, c->attr.max_srq_sge));
	s = pd_calloc(pd, sizeof(*s), RES_SRQ, &mem);
	if (!s)
		return NULL;
	s->mem_pd = mem;
	req.srq.pd = pd->handle;
	req.srq.max_wr = init->attr.max_wr;
	req.srq.max_sge = init->attr.max_sge ? init->attr.max_sge : 1;
	req.srq.xrcd = xrcd ? to_xrcd(xrcd)->handle : 0;
	req.srq.cq = xrcd ? cq->handle : 0;
	s->cq = xrcd ? to_cq(cq) : NULL;
	req.srq.cookie = map_add(c, &s->node, MAP_SRQ);
	err = slab_call(c, &req, &rep, -1, &s->mem);
	if (err)
		goto fail;
	s->srq.handle = rep.srq.handle;
	err = srq_map(s, &rep);
	if (err) {
		ctx_call_id(c, MSG_SRQ_DESTROY, s->srq.handle);
		goto fail;
	}
	s->srq.context = pd->context;
	s->srq.srq_context = init->srq_context;
	s->srq.pd = pd;
	pd_object(pd, 1);
	pthread_mutex_init(&s->srq.mutex, NULL);
	pthread_cond_init(&s->srq.cond, NULL);
	pthread_mutex_init(&s->lock, NULL);
	init->attr.max_wr = s->max_wr;
	init->attr.max_sge = s->max_sge;
	return &s->srq;
fail:
	slab_done(c, &s->mem);
	map_del(c, &s->node);
	pd_free(mem, s, RES_SRQ);
	return err_null(err);
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	return srq_create(pd, init, NULL, NULL);
}

/* The inline in verbs.h turns a plain SRQ into ibv_create_srq(): XRC and tag matching are left. */
struct ibv_srq *srq_create_ex(struct ibv_context *, struct ibv_srq_init_attr_ex *a)
{
	const uint32_t basic = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;

	const uint32_t xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	if (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && a->srq_type == IBV_SRQT_XRC) {
		if (a->comp_mask & ~(basic | xrc))
			return err_null(EOPNOTSUPP);
		if ((a->comp_mask & (basic | xrc)) != (basic | xrc) || !a->pd || !a->xrcd || !a->cq)
			return err_null(EINVAL);
		return srq_create(a->pd, (struct ibv_srq_init_attr *)a, a->xrcd, a->cq);
	}
	if (a->comp_mask & ~basic || (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && a->srq_type != IBV_SRQT_BASIC))
		return err_null(EOPNOTSUPP);
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD))
		return err_null(EINVAL);
	return ibv_create_srq(a->pd, (struct ibv_srq_init_attr *)a);
}

/* Only an XRC SRQ has a number on the wire. */
int srq_get_num(struct ibv_srq *srq, uint32_t *num)
{
	if (!to_srq(srq)->cq)
		return EOPNOTSUPP;
	*num = srq->handle;
	return 0;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *a, int mask)
{
	struct msg_req req = { .op = MSG_SRQ_MODIFY };
	struct rd_srq *s = to_srq(srq);
	struct msg_rep rep;
	int err;

	if (!mask || mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;
	req.srq_mod.handle = srq->handle;
	req.srq_mod.mask = (uint32_t)mask;
	req.srq_mod.max_wr = a->max_wr;
	req.srq_mod.limit = a->srq_limit;
	pthread_mutex_lock(&s->lock); /* nothing is posted by the max_wr of before when the daemon has the new one */
	err = ctx_call(to_ctx(srq->context), &req, &rep);
	if (!err && mask & IBV_SRQ_MAX_WR)
		s->max_wr = a->max_wr;
	pthread_mutex_unlock(&s->lock);
	return err;
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *a)
{
	struct msg_req req = { .op = MSG_SRQ_QUERY, .id.handle = srq->handle };
	struct msg_rep rep;
	int err = ctx_call(to_ctx(srq->context), &req, &rep);

	if (err)
		return err;
	a->max_wr = rep.srq.max_wr;
	a->max_sge = rep.srq.max_sge;
	a->srq_limit = rep.srq.limit;
	return 0;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct rd_ctx *c = to_ctx(srq->context);
	struct rd_srq *s = to_srq(srq);
	struct unacked u = { &c->conn, "ibv_destroy_srq", srq->handle, "ibv_ack_async_event", false };
	int err = ctx_call_id(c, MSG_SRQ_DESTROY, srq->handle);

	if (err)
		return err;
	if (s->cq)
		cq_purge_srq(s->cq, srq->handle);
	map_del(c, &s->node);
	pthread_mutex_lock(&srq->mutex);
	while (srq->events_completed != s->node.async_got)
		unacked_wait(&u, &srq->cond, &srq->mutex, s->node.async_got - srq->events_completed);
	pthread_mutex_unlock(&srq->mutex);
	unacked_end(&u);
	slab_done(c, &s->mem);
	pd_object(srq->pd, -1);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&srq->cond);
	pthread_mutex_destroy(&srq->mutex);
	pd_free(s->mem_pd, s, RES_SRQ);
	return 0;
}
