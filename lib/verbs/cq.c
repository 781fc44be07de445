/* SPDX-License-Identifier: MIT */
/*
 * cq.c - completion queues and their channels.
 *
 * A resize adds a ring: what was published before it lies in the old one, and is polled first.
 *
 *	cur  ...eeeee|          gets no more; when it is empty the next takes its place
 *	last         |eee.....
 */
#include "cq.h"
#include "qp.h"
#include "slots.h"
#include "unacked.h"

#include <rdmad/keep.h>

#include <stdlib.h>
#include <unistd.h>

#include <rdmad/own.h>

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct msg_req req = { .op = MSG_CHANNEL_CREATE };
	struct rd_channel *ch = calloc(1, sizeof(*ch));
	struct msg_rep rep;
	int err;

	if (!ch)
		return err_null(ENOMEM);
	err = ctx_call_fd(to_ctx(context), &req, &rep, &ch->ch.fd, MSG_CHANNEL_DESTROY);
	if (err) {
		free(ch);
		return err_null(err);
	}
	ch->ch.context = context;
	ch->handle = rep.obj.handle;
	return &ch->ch;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct rd_channel *ch = to_channel(channel);
	struct ibv_context *context = channel->context;
	bool busy;

	pthread_mutex_lock(&context->mutex);
	busy = channel->refcnt;
	pthread_mutex_unlock(&context->mutex);
	if (busy)
		return EBUSY;
	close(channel->fd); /* first: that the daemon closes its end is an event for who has it in epoll(7) */
	ctx_call_id(to_ctx(context), MSG_CHANNEL_DESTROY, ch->handle);
	keep_free(ch);
	return 0;
}

static void channel_ref(struct ibv_comp_channel *ch, int n)
{
	if (!ch)
		return;
	pthread_mutex_lock(&ch->context->mutex);
	ch->refcnt += n;
	pthread_mutex_unlock(&ch->context->mutex);
}

/* ---- create, resize, destroy ---------------------------------------------------- */

static void cq_ring_free(struct rd_cq *cq, struct cq_ring *r)
{
	slab_done(to_ctx(cq->cq.context), &r->mem);
	free(r);
}

/* The ring that came with a reply; after an error its memory is the caller's. */
static int cq_ring_make(struct cq_ring **out, const struct msg_rep *rep, const struct piece *mem)
{
	uint32_t slots = rep->cq.slots, stride = rep->cq.stride;
	struct cq_ring *r;

	if (!slots || slots & (slots - 1) || stride < sizeof(struct cqe) || rep->cq.map_len < ring_bytes(slots, stride))
		return EPROTO;
	r = calloc(1, sizeof(*r));
	if (!r)
		return ENOMEM;
	r->mem = *mem;
	ring_attach(&r->ring, r->mem.mem, slots, stride);
	*out = r;
	return 0;
}

/* The oldest ring is empty, for good if there is a newer one.  false: there is none. */
static bool cq_ring_next(struct rd_cq *cq)
{
	struct cq_ring *r = cq->cur;

	if (!r->next)
		return false;
	cq->cur = r->next;
	cq_ring_free(cq, r);
	return true;
}

#define WC_TIMES (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct rd_cq *cq_create(struct ibv_context *context, const struct ibv_cq_init_attr_ex *a)
{
	struct msg_req req = { .op = MSG_CQ_CREATE };
	struct ibv_pd *own = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? a->parent_domain : NULL;
	struct rd_ctx *c = to_ctx(context);
	struct rd_pd *mem;
	struct rd_cq *cq;
	struct msg_rep rep;
	struct piece ring;
	int err;

	if (!a->cqe || (a->cqe > c->attr.max_cqe && !*c->attr.profile) ||
	    a->comp_vector >= (uint32_t)context->num_comp_vectors)
		return err_null(refuse(c, 0, "ibv_create_cq", EINVAL, "cqe %u (1 to %u), comp_vector %u (of %d)",
				       a->cqe, c->attr.max_cqe, a->comp_vector, context->num_comp_vectors));
	cq = pd_calloc(own, sizeof(*cq), RES_CQ, &mem);
	if (!cq)
		return NULL;
	cq->mem = mem;
	req.cq.cqe = a->cqe;
	req.cq.channel = a->channel ? to_channel(a->channel)->handle : 0;
	req.cq.vector = a->comp_vector;
	req.cq.times = !!(a->wc_flags & WC_TIMES);
	req.cq.cookie = map_add(c, &cq->node, MAP_CQ);
	err = slab_call(c, &req, &rep, -1, &ring);
	if (err)
		goto fail;
	cq->cq.handle = rep.cq.handle;
	err = cq_ring_make(&cq->cur, &rep, &ring);
	if (err) {
		slab_done(c, &ring);
		ctx_call_id(c, MSG_CQ_DESTROY, cq->cq.handle);
		goto fail;
	}
	cq->last = cq->cur;
	cq->cq.context = context;
	cq->cq.channel = a->channel;
	cq->cq.cq_context = a->cq_context;
	cq->cq.cqe = (int)rep.cq.cqe;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	pthread_mutex_init(&cq->lock, NULL);
	channel_ref(a->channel, 1);
	return cq;
fail:
	map_del(c, &cq->node);
	pd_free(mem, cq, RES_CQ);
	return err_null(err);
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector)
{
	const struct ibv_cq_init_attr_ex a = {
		.cqe = cqe > 0 ? (uint32_t)cqe : 0,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};
	struct rd_cq *cq = cq_create(context, &a);

	return cq ? &cq->cq : NULL;
}

struct ibv_cq_ex *cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *a)
{
	const uint64_t have = IBV_WC_STANDARD_FLAGS | WC_TIMES;
	uint32_t flags = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? a->flags : 0;
	struct rd_cq *cq;

	if (a->wc_flags & ~have || a->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) ||
	    flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		return err_null(EOPNOTSUPP);
	if (a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && (!a->parent_domain || !to_pd(a->parent_domain)->base))
		return err_null(EINVAL);
	cq = cq_create(context, a);
	if (!cq)
		return NULL;
	cq->single = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq_ex_ops(&cq->ex);
	return &cq->ex;
}

/* The daemon goes over to the ring that it has sent, which lies behind those that the CQ has, or forgets it. */
static int cq_ring_add(struct rd_cq *cq, const struct msg_rep *rep, struct piece *mem)
{
	struct rd_ctx *c = to_ctx(cq->cq.context);
	struct msg_req req = { .op = MSG_CQ_SWAP, .id.handle = cq->cq.handle };
	struct cq_ring *r = NULL;
	struct msg_rep swapped;
	int bad = cq_ring_make(&r, rep, mem), err;

	req.id.lost = !r;
	err = ctx_call(c, &req, &swapped);
	if (bad || err) {
		slab_done(c, mem);
		free(r);
		return bad ? bad : err;
	}
	cq->last->next = r;
	cq->last = r;
	return 0;
}

EXPORT int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct rd_ctx *c = to_ctx(ibcq->context);
	struct rd_cq *cq = to_cq(ibcq);
	struct msg_req req = { .op = MSG_CQ_RESIZE, .cq_resize = { ibcq->handle, (uint32_t)cqe } };
	struct msg_rep rep;
	struct piece ring;
	uint32_t held = 0;
	int err;

	if (cqe <= 0 || ((uint32_t)cqe > c->attr.max_cqe && !*c->attr.profile))
		return refuse(c, 0, "ibv_resize_cq", EINVAL, "cqe %d is not 1 to %u", cqe, c->attr.max_cqe);
	if (cqe < ibcq->cqe)
		ctx_turn(c);
	cq_lock_any(cq);
	for (struct cq_ring *r = cq->cur; r; r = r->next)
		held += ring_ahead(&r->ring);
	err = held > (uint32_t)cqe ? EINVAL : slab_call(c, &req, &rep, -1, &ring);
	if (!err)
		err = cq_ring_add(cq, &rep, &ring);
	if (!err)
		ibcq->cqe = (int)rep.cq.cqe;
	cq_unlock_any(cq);
	return err;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct rd_ctx *c = to_ctx(ibcq->context);
	struct rd_cq *cq = to_cq(ibcq);
	struct unacked comp = { &c->conn, "ibv_destroy_cq", ibcq->handle, "ibv_ack_cq_events", false };
	struct unacked async = { &c->conn, "ibv_destroy_cq", ibcq->handle, "ibv_ack_async_event", false };
	int err = ctx_call_id(c, MSG_CQ_DESTROY, ibcq->handle);

	if (err)
		return err;
	map_del(c, &cq->node);
	channel_forget(ibcq->channel);
	pthread_mutex_lock(&ibcq->mutex);
	while (ibcq->comp_events_completed != cq->node.comp_got)
		unacked_wait(&comp, &ibcq->cond, &ibcq->mutex, cq->node.comp_got - ibcq->comp_events_completed);
	while (ibcq->async_events_completed != cq->node.async_got)
		unacked_wait(&async, &ibcq->cond, &ibcq->mutex, cq->node.async_got - ibcq->async_events_completed);
	pthread_mutex_unlock(&ibcq->mutex);
	unacked_end(&comp);
	unacked_end(&async);
	channel_ref(ibcq->channel, -1);
	while (cq_ring_next(cq))
		;
	cq_ring_free(cq, cq->cur);
	hash_free(&cq->users);
	pthread_mutex_destroy(&cq->lock);
	pthread_cond_destroy(&ibcq->cond);
	pthread_mutex_destroy(&ibcq->mutex);
	pd_free(cq->mem, cq, RES_CQ);
	return 0;
}

int cq_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *a)
{
	struct msg_req req = { .op = MSG_CQ_MODERATE };
	struct msg_rep rep;
	int err;

	if (a->attr_mask != IBV_CQ_ATTR_MODERATE)
		return a->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE ? EOPNOTSUPP : EINVAL;
	req.moderate.handle = cq->handle;
	req.moderate.count = a->moderate.cq_count;
	req.moderate.period_us = a->moderate.cq_period;
	err = ctx_call(to_ctx(cq->context), &req, &rep);
	if (err)
		return err;
	cq_lock_any(to_cq(cq));
	to_cq(cq)->moderated = a->moderate.cq_count > 1 || a->moderate.cq_period;
	cq_unlock_any(to_cq(cq));
	return 0;
}

/* ---- arming ------------------------------------------------------------------------ */

static bool cq_unpolled(struct rd_cq *cq)
{
	struct cq_ring *r = cq->cur;

	while (r && !ring_ahead(&r->ring))
		r = r->next;
	return r;
}

/* With the lock held.  After a resize the daemon looks at the new ring only. */
static enum due cq_due(struct rd_cq *cq)
{
	if (!cq->cq.channel || cq->moderated || !cq_unpolled(cq))
		return DUE_NONE;
	if (cq->cur == cq->last && bell_ask(to_ctx(cq->cq.context)->bell, cq->cq.handle))
		return DUE_LOOK;
	return cq_disarm(cq->last->ring.hdr) ? DUE_SEND : DUE_NONE;
}

enum due cq_left(struct rd_cq *cq)
{
	enum due due = DUE_NONE;

	if (!cq->single && pthread_mutex_trylock(&cq->lock))
		return DUE_NONE;
	if (RING_LOAD(&cq->last->ring.hdr->arm) != CQ_ARM_NONE)
		due = cq_due(cq);
	if (!cq->single)
		pthread_mutex_unlock(&cq->lock);
	return due;
}

/*
 * The specification promises an event for what comes later.  Adapters, which are told how far the program has polled, have one for
 * what has not been polled, too, and programs trust in that: they poll, find nothing, arm, and sleep.  A program that arms because of
 * an event polls behind it; if something is left then, there is one before it sleeps (event.c).
 */
int cq_req_notify(struct ibv_cq *ibcq, int solicited_only)
{
	struct rd_cq *cq = to_cq(ibcq);
	enum due due;

	cq_lock_any(cq);
	cq_arm(cq->last->ring.hdr, solicited_only ? CQ_ARM_SOLICITED : CQ_ARM_ANY);
	due = __atomic_load_n(&cq->heard, __ATOMIC_RELAXED) ? DUE_NONE : cq_due(cq);
	cq_unlock_any(cq);
	cq_event_due(to_ctx(ibcq->context), cq->node.hash.key, due);
	return 0;
}

/* ---- the QPs it serves ------------------------------------------------------------ */

/* A QP is made and destroyed by any thread, also if only one polls: the table may move then. */
void cq_add_qp(struct rd_cq *cq, struct cq_user *u, struct rd_qp *qp)
{
	cq_lock_table(cq);
	u->qp = qp;
	hash_add(&cq->users, &u->hash, qp->qpn);
	cq_unlock_table(cq);
}

/* Some completions in a ring. */
struct doomed {
	uint32_t qpn; /* 0: of that SRQ of XRC */
	uint32_t srqn;
};

static bool is_doomed(const struct doomed *d, const struct cqe *e)
{
	if (!e->qpn)
		return true; /* since an earlier time */
	return d->qpn ? e->qpn == d->qpn && e->srq != 2 : e->srq == 2 && e->srqn == d->srqn;
}

/*
 *	eDDeDe|   -->   ...eee|	  e: the others, in their order; D: doomed; their slots are free again
 *
 * The first one stays if the program looks at it (rd_cq.now): then the slots behind it are passed over when it is done.
 */
static void ring_purge(struct rd_cq *cq, struct cq_ring *of, const struct doomed *d)
{
	struct ring *r = &of->ring;
	uint32_t n = ring_ahead(r), first = of == cq->cur && cq->now, to = n;

	for (uint32_t i = n; i-- > first;) {
		struct cqe *e = ring_slot(r, r->pos + i);

		if (!is_doomed(d, e) && --to != i)
			*(struct cqe *)ring_slot(r, r->pos + to) = *e;
	}
	for (uint32_t i = first; i < to; i++) {
		struct cqe *e = ring_slot(r, r->pos + i);

		e->qpn = e->srq = 0;
	}
	if (!first && to)
		ring_consume(r, to);
}

/* If only one thread polls, without a lock, it may do so now: then they only lose their QP. */
static void ring_hide(struct ring *r, const struct doomed *d)
{
	uint32_t n = ring_ahead(r);

	for (uint32_t i = 0; i < n; i++) {
		struct cqe *e = ring_slot(r, r->pos + i);

		if (is_doomed(d, e))
			e->qpn = 0;
	}
}

/* With the lock held. */
static void rings_purge(struct rd_cq *cq, const struct doomed *d)
{
	for (struct cq_ring *r = cq->cur; r; r = r->next)
		if (cq->single)
			ring_hide(&r->ring, d);
		else
			ring_purge(cq, r, d);
}

static void purge(struct rd_cq *cq, const struct doomed *d)
{
	cq_lock_any(cq);
	rings_purge(cq, d);
	cq_unlock_any(cq);
}

/* Nothing that was posted keeps the daemon busy any more.  Not more than that: a poller without the lock may divide by the rest. */
static void pace_end(struct rd_cq *cq) { __atomic_store_n(&cq->pace.left, 0, __ATOMIC_RELAXED); }

void cq_purge(struct rd_cq *cq, struct rd_qp *qp)
{
	cq_lock_any(cq);
	rings_purge(cq, &(struct doomed){ .qpn = qp->qpn });
	pace_end(cq);
	if (cq == to_cq(qp->qp.send_cq)) {
		qp->pace = (struct pace){ 0 };
		qp->done_ns = 0;
	}
	cq_unlock_any(cq);
}

void cq_purge_srq(struct rd_cq *cq, uint32_t srqn) { purge(cq, &(struct doomed){ .srqn = srqn }); }

/* Without the lock of a poller the completions stay: nobody finds the QP. */
void cq_del_qp(struct rd_cq *cq, struct cq_user *u)
{
	cq_lock_table(cq);
	hash_del(&cq->users, &u->hash);
	cq->last_qp = NULL;
	pace_end(cq);
	if (!cq->single)
		rings_purge(cq, &(struct doomed){ .qpn = u->qp->qpn });
	cq_unlock_table(cq);
}

/* Completions of a QP that is no more (or of QPN 0, see ring_hide) find no user and are passed over. */
static struct rd_qp *user_find(struct rd_cq *cq, uint32_t qpn)
{
	struct cq_user *u;

	if (cq->last_qp && cq->last_qp->qpn == qpn)
		return cq->last_qp;
	if (cq->single)
		pthread_mutex_lock(&cq->lock);
	u = (struct cq_user *)hash_find(&cq->users, qpn); /* its first member */
	if (u)
		cq->last_qp = u->qp;
	if (cq->single)
		pthread_mutex_unlock(&cq->lock);
	return u ? u->qp : NULL;
}

/* A completion tells how far the queue of its WR has come. */
static void qp_settle(struct rd_cq *cq, struct rd_qp *qp, const struct cqe *e)
{
	if (e->is_send) {
		uint32_t n = e->wqe - qp->sq_done;

		if ((int32_t)n > 0) {
			if (e->time_ns != qp->done_ns) /* else it came together with the one before */
				qp->pace = (struct pace){ .took = e->time_ns - qp->done_ns };
			qp->pace.done += n;
			qp->pace.left = RING_LOAD(&qp->sq.hdr->prod) - e->wqe;
			cq->pace = qp->pace;
			cq->sent_n += e->op == IBV_WC_SEND ? n : 0;
			qp->done_ns = e->time_ns;
			__atomic_store_n(&qp->sq_done, e->wqe, __ATOMIC_RELEASE);
		}
	} else if (!e->srq) {
		__atomic_store_n(&qp->rq_done, qp->rq_done + 1, __ATOMIC_RELEASE);
	}
}

EXPORT int64_t rdmad_cq_since(struct ibv_cq *ibcq)
{
	struct rd_cq *cq = to_cq(ibcq);
	int64_t since = 0;

	cq_lock(cq);
	if (!cq_is_empty(cq)) {
		struct ring *r = &cq->cur->ring;
		const struct cqe *e = cur_used(r) ? ring_slot(r, r->pos) : NULL;

		since = e ? (int64_t)e->time_ns + e->nth : 1;
	}
	cq_unlock(cq);
	return since;
}

struct cqe *cqe_next(struct rd_cq *cq)
{
	for (;;) {
		struct ring *r = &cq->cur->ring;
		struct rd_qp *qp;
		struct cqe *e;

		if (!cur_used(r)) {
			if (!cq_ring_next(cq))
				return NULL;
			continue;
		}
		e = ring_slot(r, r->pos);
		if (e->srq == 2 && e->qpn) /* the QP may be another process's */
			return e;
		qp = user_find(cq, e->qpn);
		if (qp) {
			qp_settle(cq, qp, e);
			return e;
		}
		ring_consume(r, 1);
	}
}

void cqe_done(struct rd_cq *cq) { ring_consume(&cq->cur->ring, 1); }
