/* SPDX-License-Identifier: MIT */
/*
 * limits.c - a device refuses what its profile does not have: features by the table of feature.def, then numbers.
 *
 *	EOPNOTSUPP	a feature, as rdma-core and the kernel's drivers answer what they do not have
 *	EINVAL		a size that is larger than the device states
 *	ENOMEM		one object too many, unless the profile has another errno for it
 *
 * rdmad's own profile has nothing that the handlers would not refuse themselves, so nothing is looked at for it.
 */
#include "limits.h"

#include <errno.h>

#include "../../proto/hca.h"
#include "../base/profile.h"
#include "../shard/inbox.h"
#include "why.h"

/* ---- features ------------------------------------------------------------------------ */

/* The feature that a message belongs to by itself. */
static unsigned of_message(uint32_t op)
{
	static const struct {
		uint32_t op, feature;
	} rows[] = {
#define FEATURE(name, word, types, ops, verb, text) { MSG_##verb, FEATURE_##name },
#include <rdmad/feature.def>
#undef FEATURE
	};

	for (unsigned i = 0; i < FEATURES; i++)
		if (rows[i].op == op)
			return rows[i].feature;
	return FEATURES;
}

/* By what it asks for. */
static unsigned of_request(const struct msg_req *req)
{
	switch (req->op) {
	case MSG_MW_ALLOC: return req->mw.type == 2 ? FEATURE_MW2 : FEATURES;
	case MSG_CQ_CREATE: return req->cq.times ? FEATURE_TIMESTAMPS : FEATURES;
	case MSG_MR_REG:
	case MSG_MR_REREG:
		return req->mr.access & ACC_ON_DEMAND ? FEATURE_ODP
		       : req->mr.kind == MR_NULL      ? FEATURE_NULL_MR
		       : req->mr.kind == MR_DMABUF    ? FEATURE_DMABUF
						      : FEATURES;
	}
	return FEATURES;
}

static int features_check(struct call *call, const struct profile *p)
{
	const struct msg_req *req = call->req;
	unsigned s = FEATURES, of[] = { of_message(req->op), of_request(req) };

	for (unsigned i = 0; i < sizeof(of) / sizeof(*of); i++)
		if (of[i] < FEATURES && p->no >> of[i] & 1)
			s = of[i];
	if (req->op == MSG_QP_CREATE && req->qp.type < 32 && s == FEATURES)
		s = feature_missing(p->no, 1u << req->qp.type, 0);
	return s == FEATURES
		       ? 0
		       : refuse(call, WHY_PROFILE, EOPNOTSUPP, "profile %s has no %s", p->name, feature_row(s)->text);
}

/* ---- sizes --------------------------------------------------------------------------- */

static int most(struct call *call, int err, const char *what, uint64_t asked, uint64_t limit)
{
	return asked <= limit
		       ? 0
		       : refuse(call, WHY_PROFILE, err, "%s %llu: profile %s allows %llu", what,
				(unsigned long long)asked, call->s->ctx->dev->profile->name, (unsigned long long)limit);
}

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

static int qp_check(struct call *call, const struct profile *p)
{
	const struct qp_cap *cap = &call->req->qp.cap;
	int err = most(call, EINVAL, "max_wr", larger(cap->max_send_wr, cap->max_recv_wr), p->max_qp_wr);

	if (!err)
		err = most(call, EINVAL, "max_sge", larger(cap->max_send_sge, cap->max_recv_sge), p->max_sge);
	return err ? err : most(call, EINVAL, "max_inline_data", cap->max_inline, p->max_inline);
}

static int modify_check(struct call *call, const struct profile *p, uint32_t mask, const struct qp_attr *a)
{
	int err = 0;

	if (mask & QPA_MAX_QP_RD_ATOMIC)
		err = most(call, EINVAL, "max_rd_atomic", a->max_rd_atomic, p->max_qp_init_rd_atom);
	if (!err && mask & QPA_MAX_DEST_RD_ATOMIC)
		err = most(call, EINVAL, "max_dest_rd_atomic", a->max_dest_rd_atomic, p->max_qp_rd_atom);
	return err;
}

static int steps_check(struct call *call, const struct profile *p, const struct msg_steps *s)
{
	int err = 0;

	for (unsigned i = 0; i < s->n && i < MSG_STEPS && !err; i++)
		err = modify_check(call, p, s->v[i].mask, &s->v[i].attr);
	return err;
}

static int sizes_check(struct call *call, const struct profile *p)
{
	const struct msg_req *req = call->req;
	int err;

	switch (req->op) {
	case MSG_QP_CREATE: err = qp_check(call, p); return err ? err : steps_check(call, p, &req->qp.steps);
	case MSG_QP_MODIFY: return modify_check(call, p, req->qp_mod.mask, &req->qp_mod.attr);
	case MSG_QP_STEPS: return steps_check(call, p, &req->qp_steps.steps);
	case MSG_CQ_CREATE: return most(call, EINVAL, "cqe", req->cq.cqe, p->max_cqe);
	case MSG_CQ_RESIZE: return most(call, EINVAL, "cqe", req->cq_resize.cqe, p->max_cqe);
	case MSG_SRQ_MODIFY:
		return req->srq_mod.mask & 1 ? most(call, EINVAL, "max_wr", req->srq_mod.max_wr, p->max_srq_wr) : 0;
	case MSG_SRQ_CREATE:
		err = most(call, EINVAL, "max_wr", req->srq.max_wr, p->max_srq_wr);
		return err ? err : most(call, EINVAL, "max_sge", req->srq.max_sge, p->max_srq_sge);
	case MSG_MR_REG:
	case MSG_MR_REREG:
		/* The null MR, and the whole address space on demand, have no length. */
		return req->mr.kind == MR_NULL || (req->mr.access & ACC_ON_DEMAND && req->mr.len == SIZE_MAX)
			       ? 0
			       : most(call, EINVAL, "length", req->mr.len, p->max_mr_size);
	case MSG_DM_ALLOC: return most(call, ENOMEM, "length", req->dm.len, p->max_dm);
	}
	return 0;
}

/* ---- objects ------------------------------------------------------------------------- */

struct live {
	unsigned device;
	struct hca_live n;
};

static void live_job(struct shard *s, void *arg)
{
	struct live *all = arg;
	struct hca_live here;

	hca_objects(s->hca[all->device], &here);
	all->n.pd += here.pd;
	all->n.mr += here.mr;
	all->n.cq += here.cq;
	all->n.srq += here.srq;
	all->n.qp += here.qp;
	all->n.mw += here.mw;
}

/* One more, in all contexts of the device. */
static int objects_check(struct call *call, const struct profile *p)
{
	struct live all = { .device = call->s->ctx->dev->index };
	const struct {
		uint32_t op;
		const uint32_t *there;
		uint64_t limit;
		int err;
		const char *name;
	} rows[] = {
		{ MSG_QP_CREATE, &all.n.qp, p->max_qp, p->qp_err ? p->qp_err : ENOMEM, "QPs" },
		{ MSG_MR_REG, &all.n.mr, p->max_mr, ENOMEM, "MRs" },
		{ MSG_CQ_CREATE, &all.n.cq, p->max_cq, ENOMEM, "CQs" },
		{ MSG_SRQ_CREATE, &all.n.srq, p->max_srq, ENOMEM, "SRQs" },
		{ MSG_PD_ALLOC, &all.n.pd, p->max_pd, ENOMEM, "PDs" },
		{ MSG_MW_ALLOC, &all.n.mw, p->max_mw, ENOMEM, "memory windows" },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].op != call->req->op)
			continue;
		for (unsigned s = 0; s < shards_n; s++)
			shard_call(shards[s], live_job, &all);
		if (*rows[i].there >= rows[i].limit)
			return refuse(call, WHY_PROFILE, rows[i].err, "profile %s allows %llu %s", p->name,
				      (unsigned long long)rows[i].limit, rows[i].name);
	}
	return 0;
}

/* -------------------------------------------------------------------------------------- */

int limits_check(struct call *call)
{
	const struct profile *p = call->s->ctx->dev->profile;
	int err;

	if (profile_is_own(p))
		return 0;
	err = features_check(call, p);
	if (!err)
		err = sizes_check(call, p);
	return err ? err : objects_check(call, p);
}

uint32_t limits_access(const struct profile *p, uint32_t access)
{
	if (p->no & NO(WRITE))
		access &= ~(uint32_t)ACC_REMOTE_WRITE;
	if (p->no & NO(READ))
		access &= ~(uint32_t)ACC_REMOTE_READ;
	if (p->no & NO(ATOMICS))
		access &= ~(uint32_t)ACC_REMOTE_ATOMIC;
	return access;
}
