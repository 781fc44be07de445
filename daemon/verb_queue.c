/* SPDX-License-Identifier: MIT */
/*
 * verb_queue.c - CQs, SRQs and QPs: sizes checked against the limits, queue memory laid out and shared.
 *
 *	a QP's memory	| ring_hdr | SQ slots ...      | ring_hdr | RQ slots ... |
 *			0                              rq_off
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raw.h"
#include "rules.h"
#include "session.h"
#include "why.h"

struct job {
	struct call *call;
	void *obj;
	struct shmem shm;
	uint32_t slots, stride;
	const struct qp_rings *rings;
	int err;
};

/* n at most 2^31. */
static uint32_t pow2_at_least(uint32_t n)
{
	return n < 2 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

static uint32_t align_up(uint32_t n, uint32_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/* The descriptor goes with the reply and is closed then; the mapping stays. */
static void shm_reply(struct call *call, struct shmem *shm)
{
	call->fds[call->fd_n++] = shm->fd;
	shm->fd = -1;
}

/* ---- cq -------------------------------------------------------------------------- */

static void cq_create_job(struct shard *s, void *arg)
{
	struct job *j = arg;

	j->err = cq_make(j->call->s->ctx, j->obj, j->call->req, j->slots);
}

int verb_cq_create(struct call *call)
{
	uint32_t cqe = call->req->cq.cqe;
	struct job j = { .call = call };
	struct cq *cq;

	if (!cqe || cqe > RD_MAX_CQE)
		return refuse(call, WHY_VERB_LIMIT, EINVAL, "cqe %u is not 1 to %u", cqe, RD_MAX_CQE);
	j.slots = pow2_at_least(cqe);
	cq = j.obj = calloc(1, sizeof(*cq));
	if (!cq)
		return ENOMEM;
	j.err = shmem_make(&cq->shm, "rdmad-cq", ring_bytes(j.slots, sizeof(struct cqe)));
	if (!j.err) {
		shard_call(call->s->ctx->shard, cq_create_job, &j);
		if (j.err)
			shmem_free(&cq->shm);
	}
	if (j.err) {
		free(cq);
		return j.err;
	}
	call->rep->cq.handle = cq->obj.number;
	call->rep->cq.slots = call->rep->cq.cqe = j.slots;
	call->rep->cq.stride = sizeof(struct cqe);
	call->rep->cq.map_len = cq->shm.len;
	shm_reply(call, &cq->shm);
	return 0;
}

static void cq_resize_job(struct shard *s, void *arg)
{
	struct job *j = arg;
	struct ctx *c = j->call->s->ctx;
	struct cq *cq = (struct cq *)obj_get(c, OBJ_CQ, j->call->req->cq_resize.handle);

	j->err = cq ? cq_swap(c, cq, &j->shm, j->slots) : EINVAL;
}

int verb_cq_resize(struct call *call)
{
	uint32_t cqe = call->req->cq_resize.cqe;
	struct job j = { .call = call };
	struct shmem fresh;

	if (!cqe || cqe > RD_MAX_CQE)
		return EINVAL;
	j.slots = pow2_at_least(cqe);
	j.err = shmem_make(&j.shm, "rdmad-cq", ring_bytes(j.slots, sizeof(struct cqe)));
	if (j.err)
		return j.err;
	fresh = j.shm;
	j.shm.fd = -1;
	shard_call(call->s->ctx->shard, cq_resize_job, &j);
	shmem_free(&j.shm);	/* the old one, or the new one that nobody took */
	if (j.err) {
		close(fresh.fd);
		return j.err;
	}
	call->rep->cq.handle = call->req->cq_resize.handle;
	call->rep->cq.slots = call->rep->cq.cqe = j.slots;
	call->rep->cq.stride = sizeof(struct cqe);
	call->rep->cq.map_len = fresh.len;
	shm_reply(call, &fresh);
	return 0;
}

static void cq_moderate_job(struct shard *s, void *arg)
{
	struct job *j = arg;
	const struct msg_req *req = j->call->req;
	struct cq *cq = (struct cq *)obj_get(j->call->s->ctx, OBJ_CQ, req->moderate.handle);

	j->err = cq ? 0 : EINVAL;
	if (cq)
		publish_moderate(cq, req->moderate.count, req->moderate.period_us * UINT64_C(1000));
}

int verb_cq_moderate(struct call *call)
{
	struct job j = { .call = call };

	shard_call(call->s->ctx->shard, cq_moderate_job, &j);
	return j.err;
}

/* ---- srq --------------------------------------------------------------------------- */

static uint32_t recv_stride(uint32_t max_sge)
{
	return align_up((uint32_t)(sizeof(struct recv_wr) + max_sge * sizeof(struct sge)), 32);
}

static void srq_create_job(struct shard *s, void *arg)
{
	struct job *j = arg;

	j->err = srq_make(j->call->s->ctx, j->obj, j->call->req, j->slots, j->stride);
}

int verb_srq_create(struct call *call)
{
	const struct msg_req *req = call->req;
	struct msg_rep *rep = call->rep;
	struct job j = { .call = call };
	struct srq *srq;

	if (!req->srq.max_wr || req->srq.max_wr > RD_MAX_WR || req->srq.max_sge > RD_MAX_SGE)
		return refuse(call, WHY_VERB_LIMIT, EINVAL, "max_wr %u is not 1 to %u, or max_sge %u is more than %u", req->srq.max_wr, RD_MAX_WR,
			      req->srq.max_sge, RD_MAX_SGE);
	j.slots = pow2_at_least(req->srq.max_wr);
	j.stride = recv_stride(req->srq.max_sge);
	srq = j.obj = calloc(1, sizeof(*srq));
	if (!srq)
		return ENOMEM;
	j.err = shmem_make(&srq->shm, "rdmad-srq", ring_bytes(j.slots, j.stride));
	if (!j.err) {
		shard_call(call->s->ctx->shard, srq_create_job, &j);
		if (j.err)
			shmem_free(&srq->shm);
	}
	if (j.err) {
		free(srq);
		return j.err;
	}
	rep->srq.handle = srq->obj.number;
	rep->srq.slots = j.slots;
	rep->srq.stride = j.stride;
	rep->srq.bell = srq->bell;
	rep->srq.max_wr = req->srq.max_wr;
	rep->srq.max_sge = req->srq.max_sge;
	rep->srq.limit = req->srq.limit;
	rep->srq.map_len = srq->shm.len;
	shm_reply(call, &srq->shm);
	return 0;
}

static void srq_modify_job(struct shard *s, void *arg)
{
	struct job *j = arg;
	const struct msg_req *req = j->call->req;
	struct ctx *c = j->call->s->ctx;

	j->err = 0;
	if (!obj_get(c, OBJ_SRQ, req->srq_mod.handle))
		j->err = EINVAL;
	if (!j->err && (req->srq_mod.mask & 1))
		j->err = hca_srq_resize(c->hca, req->srq_mod.handle, req->srq_mod.max_wr);
	if (!j->err && (req->srq_mod.mask & 2))
		j->err = hca_srq_limit(c->hca, req->srq_mod.handle, req->srq_mod.limit);
}

/* The ring keeps its size: receives only pass through it, the queue is in the core. */
int verb_srq_modify(struct call *call)
{
	struct job j = { .call = call };

	if ((call->req->srq_mod.mask & ~3u) || ((call->req->srq_mod.mask & 1) && !call->req->srq_mod.max_wr) ||
	    ((call->req->srq_mod.mask & 1) && call->req->srq_mod.max_wr > RD_MAX_WR))
		return EINVAL;
	shard_call(call->s->ctx->shard, srq_modify_job, &j);
	return j.err;
}

static void srq_query_job(struct shard *s, void *arg)
{
	struct job *j = arg;
	struct ctx *c = j->call->s->ctx;
	struct srq *srq = (struct srq *)obj_get(c, OBJ_SRQ, j->call->req->id.handle);
	struct msg_rep *rep = j->call->rep;
	struct srq_init init;

	j->err = srq ? hca_srq_query(c->hca, srq->obj.number, &init) : EINVAL;
	if (j->err)
		return;
	rep->srq.handle = srq->obj.number;
	rep->srq.slots = srq->rq.slots;
	rep->srq.stride = srq->rq.ring.stride;
	rep->srq.bell = srq->bell;
	rep->srq.max_wr = init.max_wr;
	rep->srq.max_sge = init.max_sge;
	rep->srq.limit = init.limit;
	rep->srq.map_len = srq->shm.len;
}

int verb_srq_query(struct call *call)
{
	struct job j = { .call = call };

	shard_call(call->s->ctx->shard, srq_query_job, &j);
	return j.err;
}

/* ---- qp ------------------------------------------------------------------------------ */

static int qp_caps_check(const struct msg_req *req)
{
	const struct qp_cap *cap = &req->qp.cap;

	if (req->qp.type != QPT_RC && req->qp.type != QPT_UC && req->qp.type != QPT_UD && req->qp.type != QPT_XRC_SEND &&
	    req->qp.type != QPT_XRC_RECV && req->qp.type != QPT_RAW)
		return EOPNOTSUPP;
	if (cap->max_send_wr > RD_MAX_WR || cap->max_recv_wr > RD_MAX_WR || cap->max_send_sge > RD_MAX_SGE ||
	    cap->max_recv_sge > RD_MAX_SGE || cap->max_inline > RD_MAX_INLINE)
		return EINVAL;
	return 0;
}

static void qp_create_job(struct shard *s, void *arg)
{
	struct job *j = arg;

	j->err = qp_make(j->call->s->ctx, j->obj, j->call->req, j->rings);
}

static int target_create(struct call *call, struct job *j)
{
	struct qp *qp = j->obj;

	qp->shm.fd = -1;
	shard_call(call->s->ctx->shard, qp_create_job, j);
	if (j->err)
		free(qp);
	else
		call->rep->qp.qpn = qp->obj.number;
	return j->err;
}

int verb_qp_create(struct call *call)
{
	const struct msg_req *req = call->req;
	struct qp_rings r = { 0 };
	struct job j = { .call = call, .rings = &r, .err = qp_caps_check(req) };
	size_t len;
	struct qp *qp;

	if (j.err)
		return j.err;
	qp = j.obj = calloc(1, sizeof(*qp));
	if (!qp)
		return ENOMEM;
	if (req->qp.type == QPT_XRC_RECV)
		return target_create(call, &j);
	qp->cap = req->qp.cap;
	r.sq_slots = pow2_at_least(qp->cap.max_send_wr);
	r.sq_stride = (uint32_t)sizeof(struct send_wr) + send_tail_len(qp->cap.max_send_sge, qp->cap.max_inline);
	r.rq_off = len = align_up((uint32_t)ring_bytes(r.sq_slots, r.sq_stride), 64);
	if (req->qp.srq || req->qp.type == QPT_XRC_SEND) {
		qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
	} else {
		r.rq_slots = pow2_at_least(qp->cap.max_recv_wr);
		r.rq_stride = recv_stride(qp->cap.max_recv_sge);
		len += ring_bytes(r.rq_slots, r.rq_stride);
	}
	j.err = req->qp.type == QPT_RAW && !req->qp.wq ? raw_new(&qp->raw, call->fd_in) : 0;
	if (!j.err && qp->raw)
		call->fd_in = -1;
	if (!j.err)
		j.err = shmem_make(&qp->shm, "rdmad-qp", len);
	if (!j.err) {
		shard_call(call->s->ctx->shard, qp_create_job, &j);
		if (j.err)
			shmem_free(&qp->shm);
	}
	if (j.err) {
		raw_free(qp->raw);
		free(qp);
		return j.err;
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
	shm_reply(call, &qp->shm);
	return 0;
}

static void qp_modify_job(struct shard *s, void *arg)
{
	struct job *j = arg;
	struct ctx *c = j->call->s->ctx;
	struct qp *qp = (struct qp *)obj_get(c, OBJ_QP, j->call->req->qp_mod.qpn);

	j->err = qp ? qp_change(c, qp, &j->call->req->qp_mod.attr, j->call->req->qp_mod.mask) :
		 refuse(j->call, WHY_VERB_HANDLE, EINVAL, "there is no QP 0x%x of this program", j->call->req->qp_mod.qpn);
}

int verb_qp_modify(struct call *call)
{
	struct job j = { .call = call };

	shard_call(call->s->ctx->shard, qp_modify_job, &j);
	return j.err;
}

static void qp_query_job(struct shard *s, void *arg)
{
	struct job *j = arg;
	struct ctx *c = j->call->s->ctx;
	struct qp *qp = (struct qp *)obj_get(c, OBJ_QP, j->call->req->id.handle);
	struct msg_rep *rep = j->call->rep;
	struct qp_init init;

	j->err = qp ? hca_qp_query(c->hca, qp->obj.number, &rep->qp_query.attr, &init) : EINVAL;
	if (j->err)
		return;
	rep->qp_query.cap = qp->cap;
	rep->qp_query.sq_sig_all = init.sq_sig_all;
}

int verb_qp_query(struct call *call)
{
	struct job j = { .call = call };

	shard_call(call->s->ctx->shard, qp_query_job, &j);
	return j.err;
}

static void qp_rate_job(struct shard *s, void *arg)
{
	struct job *j = arg;
	const struct msg_req *req = j->call->req;
	struct ctx *c = j->call->s->ctx;
	struct qp *qp = (struct qp *)obj_get(c, OBJ_QP, req->rate.qpn);

	j->err = qp ? hca_qp_rate(c->hca, qp->obj.number, req->rate.kbps, req->rate.burst, shard_now()) : EINVAL;
}

int verb_qp_rate(struct call *call)
{
	struct job j = { .call = call };

	shard_call(call->s->ctx->shard, qp_rate_job, &j);
	return j.err;
}

static void raw_rules_job(struct shard *s, void *arg)
{
	struct job *j = arg;
	struct qp *qp = (struct qp *)obj_get(j->call->s->ctx, OBJ_QP, j->call->req->id.handle);

	j->err = qp && qp->raw ? 0 : EINVAL;
	if (!j->err)
		j->obj = raw_rules(qp->raw, j->obj);
}

int verb_raw_rules(struct call *call)
{
	struct job j = { .call = call };
	struct rules_set *fresh = NULL;

	j.err = call->fd_in >= 0 ? rules_read(&fresh, call->fd_in) : 0;
	if (j.err)
		return j.err;
	j.obj = fresh;
	shard_call(call->s->ctx->shard, raw_rules_job, &j);
	rules_free(j.obj);	/* the old ones, or those that nobody took */
	return j.err;
}
