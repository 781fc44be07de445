/* SPDX-License-Identifier: MIT */
/*
 * verb_queue.c - CQs, SRQs and QPs: sizes checked against the limits, queue memory laid out and shared.
 *
 *	a QP's memory	| ring_hdr | SQ slots ...      | ring_hdr | RQ slots ... |
 *			0                              rq_off
 *
 * It is a piece of a slab of the context (slab.h), as is that of an SRQ and of a CQ until it is resized.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../shard/raw.h"
#include "../shard/steer.h"
#include "call.h"
#include "limits.h"
#include "why.h"
#include "../shard/ctx_obj.h"
#include "../shard/drain.h"
#include "../shard/publish.h"
#include "../shard/inbox.h"
#include "../base/clock.h"
#include "../base/rights.h"

static uint32_t align_up(uint32_t n, uint32_t to) { return (n + to - 1) & ~(to - 1); }

/* Memory for a queue, a piece of a slab, and then its object, in the shard. */
static int queue_make(struct job *j, int (*make)(struct job *), size_t len, struct shmem *shm)
{
	const struct session *s = j->call->s;
	int err = slab_take(&s->ctx->slabs, s->uid, len, shm);

	if (err)
		return err;
	err = job_run(j, make);
	if (err)
		slab_give(shm);
	return err;
}

/* A descriptor, if there is one, goes with the reply and is closed then; the mapping stays. */
static void mem_reply(struct call *call, struct msg_mem *mem, struct shmem *shm)
{
	struct slab_place at = slab_place(shm);
	int fd = slab_fd(shm);

	*mem = (struct msg_mem){ .slab = at.slab, .off = at.off, .all = at.all };
	if (fd >= 0)
		call->fds[call->fd_n++] = fd;
}

/* ---- cq -------------------------------------------------------------------------- */

static int cq_create_job(struct job *j)
{
	return cq_make(j->call->s->ctx, j->obj, j->call->req, pow2_at_least(j->call->req->cq.cqe));
}

static void cq_reply(struct call *call, uint32_t handle, uint32_t slots, struct shmem *shm)
{
	call->rep->cq.handle = handle;
	call->rep->cq.slots = call->rep->cq.cqe = slots;
	call->rep->cq.stride = sizeof(struct cqe);
	call->rep->cq.map_len = shm->len;
	mem_reply(call, &call->rep->cq.mem, shm);
}

int verb_cq_create(struct call *call)
{
	uint32_t cqe = call->req->cq.cqe;
	struct job j = { .call = call };
	struct ctx_cq *cq;
	int err;

	if (!cqe || cqe > RD_MAX_CQE)
		return refuse(call, WHY_VERB_LIMIT, EINVAL, "cqe %u is not 1 to %u", cqe, RD_MAX_CQE);
	cq = j.obj = obj_new(call, sizeof(*cq), &(struct cost){ { [QUOTA_CQS] = 1 } }, &err);
	if (!cq)
		return err;
	cq->piece.fd = cq->next.fd = -1;
	err = queue_make(&j, cq_create_job, ring_bytes(pow2_at_least(cqe), sizeof(struct cqe)), &cq->shm);
	if (err)
		obj_drop(&cq->obj);
	else
		cq_reply(call, cq->obj.number, pow2_at_least(cqe), &cq->shm);
	return err;
}

/* Its memory besides the piece that it began with, and that of a resize which is under way (0: none). */
static int cq_bill(struct ctx_cq *cq, size_t next)
{
	size_t own = cq->shm.slab ? 0 : cq->shm.len;
	uint64_t was = cq->obj.bill.cost.n[QUOTA_MAPS];
	int err = bill_set(&cq->obj.bill, QUOTA_MAPS, (own ? HELD_MAPS : 0) + (next ? HELD_MAPS : 0));

	if (!err)
		err = bill_set(&cq->obj.bill, QUOTA_QUEUE_LEN, own + next);
	if (err)
		bill_set(&cq->obj.bill, QUOTA_MAPS, was);
	return err;
}

static int cq_resize_job(struct job *j)
{
	const struct msg_req *req = j->call->req;
	struct ctx_cq *cq = (struct ctx_cq *)obj_get(j->call->s->ctx, OBJ_CQ, req->cq_resize.handle);
	struct shmem *shm = j->arg, before;
	int err = cq ? cq_bill(cq, shm->len) : EINVAL;

	if (err)
		return err;
	before = cq->next;
	cq->next = *shm;
	cq->next_slots = pow2_at_least(req->cq_resize.cqe);
	*shm = before;
	return 0;
}

int verb_cq_resize(struct call *call)
{
	uint32_t cqe = call->req->cq_resize.cqe;
	struct shmem shm, fresh;
	struct job j = { .call = call, .arg = &shm };
	int err;

	if (!cqe || cqe > RD_MAX_CQE)
		return EINVAL;
	err = shmem_make(&shm, "rdmad-cq", ring_bytes(pow2_at_least(cqe), sizeof(struct cqe)));
	if (err)
		return err;
	fresh = shm;
	shm.fd = -1;
	err = job_run(&j, cq_resize_job);
	shmem_free(&shm); /* of a resize that was given up, or the new one that nobody took */
	if (err)
		close(fresh.fd);
	else
		cq_reply(call, call->req->cq_resize.handle, pow2_at_least(cqe), &fresh);
	return err;
}

static int cq_swap_job(struct job *j)
{
	const struct msg_req *req = j->call->req;
	struct ctx_cq *cq = (struct ctx_cq *)obj_get(j->call->s->ctx, OBJ_CQ, req->id.handle);
	struct shmem *unused = j->arg;

	if (!cq || !cq->next.mem)
		return EINVAL;
	if (req->id.lost) {
		*unused = cq->next;
		cq->next = (struct shmem){ .fd = -1 };
	} else {
		cq_swap(cq, unused);
	}
	return cq_bill(cq, 0);
}

int verb_cq_swap(struct call *call)
{
	struct shmem unused = { .fd = -1 };
	struct job j = { .call = call, .arg = &unused };
	int err = job_run(&j, cq_swap_job);

	shmem_free(&unused);
	return err;
}

int verb_cq_event(struct call *call)
{
	const struct msg_req *req = call->req;
	struct ctx_cq *cq = (struct ctx_cq *)obj_get(call->s->ctx, OBJ_CQ, req->cq_event.handle);

	if (!cq || cq->cookie != req->cq_event.cookie) /* another has got its number */
		return EINVAL;
	publish_event(cq);
	return 0;
}

int verb_cq_moderate(struct call *call)
{
	const struct msg_req *req = call->req;
	struct ctx_cq *cq = (struct ctx_cq *)obj_get(call->s->ctx, OBJ_CQ, req->moderate.handle);

	if (!cq)
		return EINVAL;
	publish_moderate(cq, req->moderate.count, req->moderate.period_us * UINT64_C(1000));
	return 0;
}

/* ---- srq --------------------------------------------------------------------------- */

static uint32_t recv_stride(uint32_t max_sge)
{
	return align_up((uint32_t)(sizeof(struct recv_wr) + max_sge * sizeof(struct sge)), 32);
}

static int srq_create_job(struct job *j)
{
	const struct msg_req *req = j->call->req;

	return srq_make(j->call->s->ctx, j->obj, req, pow2_at_least(req->srq.max_wr), recv_stride(req->srq.max_sge));
}

static struct cost srq_cost(uint32_t max_wr, uint32_t max_sge)
{
	size_t heap = hca_srq_len(max_wr, max_sge);

	return (struct cost){ { [QUOTA_SRQS] = 1, [QUOTA_MAPS] = quota_maps_of(heap), [QUOTA_HEAP] = heap } };
}

int verb_srq_create(struct call *call)
{
	const struct msg_req *req = call->req;
	struct msg_rep *rep = call->rep;
	struct job j = { .call = call };
	struct ctx_srq *srq;
	struct cost cost;
	int err;

	if (!req->srq.max_wr || req->srq.max_wr > RD_MAX_WR || req->srq.max_sge > RD_MAX_SGE)
		return refuse(call, WHY_VERB_LIMIT, EINVAL, "max_wr %u is not 1 to %u, or max_sge %u is more than %u",
			      req->srq.max_wr, RD_MAX_WR, req->srq.max_sge, RD_MAX_SGE);
	rep->srq.slots = pow2_at_least(req->srq.max_wr);
	rep->srq.stride = recv_stride(req->srq.max_sge);
	cost = srq_cost(req->srq.max_wr, req->srq.max_sge);
	srq = j.obj = obj_new(call, sizeof(*srq), &cost, &err);
	if (!srq)
		return err;
	err = queue_make(&j, srq_create_job, ring_bytes(rep->srq.slots, rep->srq.stride), &srq->shm);
	if (err) {
		obj_drop(&srq->obj);
		return err;
	}
	rep->srq.handle = srq->obj.number;
	rep->srq.bell = srq->bell;
	rep->srq.max_wr = req->srq.max_wr;
	rep->srq.max_sge = req->srq.max_sge;
	rep->srq.limit = req->srq.limit;
	rep->srq.map_len = srq->shm.len;
	mem_reply(call, &rep->srq.mem, &srq->shm);
	return 0;
}

static int srq_charge(struct bill *bill, uint64_t heap, uint64_t maps)
{
	uint64_t was = bill->cost.n[QUOTA_MAPS];
	int err = bill_set(bill, QUOTA_MAPS, maps);

	if (!err)
		err = bill_set(bill, QUOTA_HEAP, heap);
	if (err)
		bill_set(bill, QUOTA_MAPS, was);
	return err;
}

static int srq_resize(struct ctx *c, struct ctx_srq *srq, uint32_t max_wr)
{
	struct bill *bill = &srq->obj.bill;
	uint64_t was = bill->cost.n[QUOTA_HEAP], maps = bill->cost.n[QUOTA_MAPS], fixed;
	struct srq_init init;
	size_t heap;
	int err = hca_srq_query(c->hca, srq->obj.number, &init);

	if (err)
		return err;
	fixed = was - hca_srq_len(init.max_wr, init.max_sge);
	heap = hca_srq_len(max_wr, init.max_sge);
	err = srq_charge(bill, fixed + heap, quota_maps_of(heap));
	if (err)
		return err;
	err = hca_srq_resize(c->hca, srq->obj.number, max_wr);
	if (err)
		srq_charge(bill, was, maps);
	return err;
}

/* The ring keeps its size: receives only pass through it, the queue is in the core. */
int verb_srq_modify(struct call *call)
{
	const struct msg_req *req = call->req;
	uint32_t handle = req->srq_mod.handle, mask = req->srq_mod.mask;
	struct ctx *c = call->s->ctx;
	struct ctx_srq *srq = (struct ctx_srq *)obj_get(c, OBJ_SRQ, handle);
	int err = 0;

	if ((mask & 3) == 3 && req->srq_mod.limit > req->srq_mod.max_wr)
		return EINVAL; /* and nothing has changed */
	if ((mask & ~3u) || ((mask & 1) && (!req->srq_mod.max_wr || req->srq_mod.max_wr > RD_MAX_WR)) || !srq)
		return EINVAL;
	drain_srq(srq, clock_now()); /* what the program posted before it asked counts */
	if (mask & 1)
		err = srq_resize(c, srq, req->srq_mod.max_wr);
	if (!err && (mask & 2))
		err = hca_srq_limit(c->hca, handle, req->srq_mod.limit);
	return err;
}

int verb_srq_query(struct call *call)
{
	struct ctx *c = call->s->ctx;
	struct ctx_srq *srq = (struct ctx_srq *)obj_get(c, OBJ_SRQ, call->req->id.handle);
	struct msg_rep *rep = call->rep;
	struct srq_init init;
	int err = srq ? hca_srq_query(c->hca, srq->obj.number, &init) : EINVAL;

	if (err)
		return err;
	rep->srq.handle = srq->obj.number;
	rep->srq.slots = srq->rq.slots;
	rep->srq.stride = srq->rq.ring.stride;
	rep->srq.bell = srq->bell;
	rep->srq.max_wr = init.max_wr;
	rep->srq.max_sge = init.max_sge;
	rep->srq.limit = init.limit;
	rep->srq.map_len = srq->shm.len;
	return 0;
}

/* ---- qp ------------------------------------------------------------------------------ */

static int qp_caps_check(const struct msg_req *req)
{
	const struct qp_cap *cap = &req->qp.cap;

	if (req->qp.type != QPT_RC && req->qp.type != QPT_UC && req->qp.type != QPT_UD &&
	    req->qp.type != QPT_XRC_SEND && req->qp.type != QPT_XRC_RECV && req->qp.type != QPT_RAW)
		return EOPNOTSUPP;
	if (cap->max_send_wr > RD_MAX_WR || cap->max_recv_wr > RD_MAX_WR || cap->max_send_sge > RD_MAX_SGE ||
	    cap->max_recv_sge > RD_MAX_SGE || cap->max_inline > RD_MAX_INLINE || req->qp.steps.n > MSG_STEPS)
		return EINVAL;
	return 0;
}

/* A queue pair whose CQ takes nothing would work, and its program wait for completions for ever. */
static int cq_ok(struct call *call, uint32_t handle)
{
	const struct ctx_cq *cq = (struct ctx_cq *)obj_get(call->s->ctx, OBJ_CQ, handle);

	return cq && cq->overrun
		       ? refuse(call, WHY_VERB_REFUSED, EINVAL,
				"CQ %u has overrun, and takes no completions any more: create another one", handle)
		       : 0;
}

/* With the rights that a device of its profile gives. */
static int qp_change_as(struct ctx *c, struct ctx_qp *qp, const struct qp_attr *to, uint32_t mask)
{
	struct qp_attr attr = *to;

	/* As of kernels since 6.4. */
	if (mask & QPA_QKEY && attr.qkey & QKEY_PRIVILEGED && c->uid && c->uid != rights_owner())
		return EPERM;
	attr.access = limits_access(c->dev->profile, attr.access);
	return qp_change(c, qp, &attr, mask);
}

static int qp_steps(struct ctx *c, struct ctx_qp *qp, const struct msg_steps *s)
{
	int err = 0;

	for (uint32_t i = 0; i < s->n && !err; i++)
		err = qp_change_as(c, qp, &s->v[i].attr, s->v[i].mask);
	return err;
}

static int qp_create_job(struct job *j)
{
	int err = cq_ok(j->call, j->call->req->qp.send_cq);

	if (!err)
		err = cq_ok(j->call, j->call->req->qp.recv_cq);
	if (!err)
		err = qp_make(j->call->s->ctx, j->obj, j->call->req, j->arg);
	if (err)
		return err;
	err = qp_steps(j->call->s->ctx, j->obj, &j->call->req->qp.steps);
	if (err) {
		obj_destroy(j->obj);
		events_forget(j->obj);
	}
	return err;
}

static int target_create(struct job *j)
{
	struct ctx_qp *qp = j->obj;
	int err;

	qp->shm.fd = -1;
	err = job_run(j, qp_create_job);
	if (err)
		obj_drop(&qp->obj);
	else
		j->call->rep->qp.qpn = qp->obj.number;
	return err;
}

/* How its memory is laid out; the bytes of all of it. */
static size_t qp_layout(const struct msg_req *req, struct qp_cap *cap, struct qp_rings *r)
{
	size_t len;

	*cap = req->qp.cap;
	r->sq_slots = pow2_at_least(cap->max_send_wr);
	r->sq_stride = (uint32_t)sizeof(struct send_wr) + send_tail_len(cap->max_send_sge, cap->max_inline);
	r->rq_off = len = align_up((uint32_t)ring_bytes(r->sq_slots, r->sq_stride), 64);
	if (req->qp.srq || req->qp.type == QPT_XRC_SEND) {
		cap->max_recv_wr = cap->max_recv_sge = 0;
		return len;
	}
	r->rq_slots = pow2_at_least(cap->max_recv_wr);
	r->rq_stride = recv_stride(cap->max_recv_sge);
	return len + ring_bytes(r->rq_slots, r->rq_stride);
}

/* len: of its rings; 0: none. */
static struct cost qp_cost(const struct msg_req *req, const struct qp_cap *cap, const struct qp_rings *r, size_t len)
{
	struct qp_init init = { .type = (uint8_t)req->qp.type, .srqn = req->qp.srq, .cap = *cap };
	struct cost cost = { { [QUOTA_QPS] = 1 } };
	size_t heap;

	if (len)
		init.cap.max_inline = slot_inline(r);
	heap = hca_qp_len(&init);
	cost.n[QUOTA_MAPS] = 2 * quota_maps_of(heap); /* both queues */
	cost.n[QUOTA_HEAP] = heap + sizeof(struct bell_queue);
	if (req->qp.type == QPT_RAW && !req->qp.wq) { /* its packet socket and its rules */
		cost.n[QUOTA_RAWS] = 1;
		cost.n[QUOTA_FDS] = 1;
		cost.n[QUOTA_MAPS] += HELD_MAPS;
		cost.n[QUOTA_HEAP] += RAW_LEN;
	}
	return cost;
}

int verb_qp_create(struct call *call)
{
	const struct msg_req *req = call->req;
	struct qp_rings r = { 0 };
	struct job j = { .call = call, .arg = &r };
	int err = qp_caps_check(req);
	struct qp_cap cap = { 0 };
	struct cost cost;
	size_t len;
	struct ctx_qp *qp;

	if (err)
		return err;
	len = req->qp.type == QPT_XRC_RECV ? 0 : qp_layout(req, &cap, &r);
	cost = qp_cost(req, &cap, &r, len);
	qp = j.obj = obj_new(call, sizeof(*qp), &cost, &err);
	if (!qp)
		return err;
	if (!len)
		return target_create(&j);
	qp->cap = cap;
	err = req->qp.type == QPT_RAW && !req->qp.wq ? raw_new(&qp->raw, call->fd_in, call->s->uid) : 0;
	if (err == EXDEV)
		err = refuse(call, WHY_VERB_REFUSED, EPERM,
			     "the packet socket is not of the daemon's network namespace");
	if (!err && qp->raw)
		call->fd_in = -1;
	if (!err)
		err = queue_make(&j, qp_create_job, len, &qp->shm);
	if (err) {
		raw_free(qp->raw);
		obj_drop(&qp->obj);
		return err;
	}
	call->rep->qp.qpn = qp->obj.number;
	call->rep->qp.bell = qp->bell;
	call->rep->qp.sq_slots = r.sq_slots;
	call->rep->qp.sq_stride = r.sq_stride;
	call->rep->qp.rq_slots = r.rq_slots;
	call->rep->qp.rq_stride = r.rq_stride;
	call->rep->qp.rq_off = r.rq_off;
	call->rep->qp.map_len = len;
	call->rep->qp.cap = qp->cap;
	mem_reply(call, &call->rep->qp.mem, &qp->shm);
	return 0;
}

int verb_qp_modify(struct call *call)
{
	const struct msg_req *req = call->req;
	struct ctx *c = call->s->ctx;
	struct ctx_qp *qp = (struct ctx_qp *)obj_get(c, OBJ_QP, req->qp_mod.qpn);

	return qp ? qp_change_as(c, qp, &req->qp_mod.attr, req->qp_mod.mask)
		  : refuse(call, WHY_VERB_HANDLE, EINVAL, "there is no QP 0x%x of this program", req->qp_mod.qpn);
}

int verb_qp_steps(struct call *call)
{
	const struct msg_req *req = call->req;
	struct ctx *c = call->s->ctx;
	struct ctx_qp *qp = (struct ctx_qp *)obj_get(c, OBJ_QP, req->qp_steps.qpn);
	int err = qp && req->qp_steps.steps.n <= MSG_STEPS ? 0 : EINVAL;

	if (err)
		return refuse(call, WHY_VERB_HANDLE, err,
			      "there is no QP 0x%x of this program, or it shall make %u steps", req->qp_steps.qpn,
			      req->qp_steps.steps.n);
	return qp_steps(c, qp, &req->qp_steps.steps);
}

int verb_qp_query(struct call *call)
{
	struct ctx *c = call->s->ctx;
	struct ctx_qp *qp = (struct ctx_qp *)obj_get(c, OBJ_QP, call->req->id.handle);
	struct msg_rep *rep = call->rep;
	struct qp_init init;
	int err = qp ? hca_qp_query(c->hca, qp->obj.number, &rep->qp_query.attr, &init) : EINVAL;

	if (err)
		return err;
	rep->qp_query.cap = qp->cap;
	rep->qp_query.sq_sig_all = init.sq_sig_all;
	return 0;
}

int verb_qp_rate(struct call *call)
{
	const struct msg_req *req = call->req;
	struct ctx *c = call->s->ctx;
	struct ctx_qp *qp = (struct ctx_qp *)obj_get(c, OBJ_QP, req->rate.qpn);

	return qp ? hca_qp_rate(c->hca, qp->obj.number, req->rate.kbps, req->rate.burst, clock_now()) : EINVAL;
}

int verb_qp_count(struct call *call) { return qp_count(call->s->ctx, call->req); }

static int raw_steer_job(struct job *j)
{
	struct ctx_qp *qp = (struct ctx_qp *)obj_get(j->call->s->ctx, OBJ_QP, j->call->req->id.handle);

	if (!qp || !qp->raw)
		return EINVAL;
	j->arg = raw_steer(qp->raw, j->arg);
	return 0;
}

int verb_raw_steer(struct call *call)
{
	struct job j = { .call = call };
	struct steer_set *fresh = NULL;
	int err = call->fd_in >= 0 ? steer_read(&fresh, call->fd_in) : 0;

	if (err)
		return err;
	j.arg = fresh;
	err = job_run(&j, raw_steer_job);
	steer_free(j.arg); /* the old ones, or those that nobody took */
	return err;
}
