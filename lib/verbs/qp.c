/* SPDX-License-Identifier: MIT */
/* qp.c - queue pairs: created, taken through their states, queried, destroyed. */
#include "ah.h"
#include "attr.h"
#include "cntr.h"
#include "flow.h"
#include "qp.h"
#include "xrc.h"
#include "slots.h"
#include "unacked.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdmad/feature.h>
#include <rdmad/gid.h>
#include <rdmad/wr.h>

/* ---- create ------------------------------------------------------------------- */

static int type_check(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_RAW_PACKET: return 0;
	case IBV_QPT_DRIVER: return EOPNOTSUPP;
	}
	return EINVAL;
}

/* The operations for which ibv_wr_*() can be asked for: IBV_QP_EX_WITH_ bits. */
static uint64_t ex_ops(enum ibv_qp_type type, uint32_t without)
{
	uint64_t ops = 0;

#define WR(name, code, kind, packet, on, data, len, right, wc, text) \
	if ((on) >> type & 1 && !((without) >> (code)&1))            \
		ops |= IBV_QP_EX_WITH_##text;
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC
	return ops;
}

static int attr_check(const struct rd_ctx *c, const struct ibv_qp_init_attr_ex *a)
{
	const struct msg_device_attr *d = &c->attr;
	int err = type_check(a->qp_type);

	if (err)
		return err;
	if (a->qp_type == IBV_QPT_XRC_RECV)
		return !(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !a->xrcd                       ? EINVAL
		       : a->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD) ? EOPNOTSUPP
												 : 0;
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->send_cq ||
	    (!a->recv_cq && !a->srq && a->qp_type != IBV_QPT_XRC_SEND))
		return EINVAL;
	/* The daemon says which number of a profile it is. */
	if (!*d->profile && (a->cap.max_send_wr > d->max_qp_wr || a->cap.max_send_sge > d->max_sge ||
			     a->cap.max_inline_data > d->max_inline))
		return EINVAL;
	if (!*d->profile && !a->srq && (a->cap.max_recv_wr > d->max_qp_wr || a->cap.max_recv_sge > d->max_sge))
		return EINVAL;
	if (a->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
				       IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER))
		return EOPNOTSUPP;
	if (a->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) {
		if (a->qp_type != IBV_QPT_RAW_PACKET)
			return EOPNOTSUPP;
		if (a->max_tso_header > RD_TSO_HDR)
			return EINVAL;
	}
	if (qp_create_flags(a) & ~(a->qp_type == IBV_QPT_UD ? (uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0))
		return EOPNOTSUPP;
	if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && a->send_ops_flags & ~ex_ops(a->qp_type, 0))
		return EOPNOTSUPP;
	return 0;
}

static bool ring_sane(uint32_t slots, uint32_t stride, uint64_t off, uint64_t len, size_t least)
{
	return slots && !(slots & (slots - 1)) && stride >= least && off <= len &&
	       ring_bytes(slots, stride) <= len - off;
}

static int qp_map(struct rd_qp *qp, const struct msg_rep *rep)
{
	const struct qp_cap *cap = &rep->qp.cap;
	bool rq = rep->qp.rq_slots;
	size_t sq_least = sizeof(struct send_wr) + cap->max_send_sge * sizeof(struct sge);
	size_t rq_least = sizeof(struct recv_wr) + cap->max_recv_sge * sizeof(struct sge);

	if (sq_least < sizeof(struct send_wr) + cap->max_inline)
		sq_least = sizeof(struct send_wr) + cap->max_inline;
	if (!ring_sane(rep->qp.sq_slots, rep->qp.sq_stride, 0, rep->qp.map_len, sq_least) ||
	    rep->qp.sq_slots < cap->max_send_wr ||
	    (rq && (!ring_sane(rep->qp.rq_slots, rep->qp.rq_stride, rep->qp.rq_off, rep->qp.map_len, rq_least) ||
		    rep->qp.rq_slots < cap->max_recv_wr)))
		return EPROTO;
	ring_attach(&qp->sq, qp->mem.mem, rep->qp.sq_slots, rep->qp.sq_stride);
	if (rq)
		ring_attach(&qp->rq, (char *)qp->mem.mem + rep->qp.rq_off, rep->qp.rq_slots, rep->qp.rq_stride);
	qp->cap = *cap;
	if (!rq)
		qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
	qp->bell = rep->qp.bell;
	if (qp->bell)
		__atomic_store_n(&qp->ctx->many, true, __ATOMIC_RELAXED);
	return 0;
}

static void qp_init(struct rd_qp *qp, struct ibv_context *context, const struct ibv_qp_init_attr_ex *a)
{
	bool target = a->qp_type == IBV_QPT_XRC_RECV;

	qp->qp.context = context;
	qp->qp.qp_context = a->qp_context;
	qp->qp.pd = target ? NULL : a->pd;
	pd_object(qp->qp.pd, 1);
	qp->qp.send_cq = target ? NULL : a->send_cq;
	qp->qp.recv_cq = a->qp_type == IBV_QPT_XRC_SEND || target ? NULL : a->recv_cq;
	qp->qp.srq = a->qp_type == IBV_QPT_XRC_SEND || target ? NULL : a->srq;
	qp->qp.qp_type = a->qp_type;
	qp->qp.state = IBV_QPS_RESET;
	qp->ctx = to_ctx(context);
	qp->sq_sig_all = a->sq_sig_all;
	qp->raw_fd = -1;
	qp->max_tso_header = a->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER ? a->max_tso_header : 0;
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	pthread_mutex_init(&qp->sq_lock, NULL);
	pthread_mutex_init(&qp->rq_lock, NULL);
	qp->is_ex = a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (qp->is_ex)
		wr_ex_ops(qp);
}

/* As adapters give it, and as long as the ring is: programs post a few more than they asked for. */
static uint32_t depth(uint32_t asked, uint32_t max)
{
	uint32_t n = pow2_at_least(asked);

	if (!asked || asked >= max)
		return asked;
	return n < max ? n : max;
}

static void qp_req(struct msg_req *req, const struct ibv_qp_init_attr_ex *a, const struct msg_device_attr *d)
{
	uint32_t max_inline = d->max_inline;
	bool xrc = a->qp_type == IBV_QPT_XRC_SEND;

	req->op = MSG_QP_CREATE;
	req->qp.type = a->qp_type;
	if (a->qp_type == IBV_QPT_XRC_RECV) {
		req->qp.xrcd = to_xrcd(a->xrcd)->handle;
		return;
	}
	req->qp.pd = a->pd->handle;
	req->qp.send_cq = a->send_cq->handle;
	req->qp.recv_cq = xrc ? 0 : (a->recv_cq ? a->recv_cq : a->send_cq)->handle;
	req->qp.srq = a->srq && !xrc ? a->srq->handle : 0;
	req->qp.cap = (struct qp_cap){ depth(a->cap.max_send_wr, d->max_qp_wr),
				       a->srq || xrc ? 0 : depth(a->cap.max_recv_wr, d->max_qp_wr), a->cap.max_send_sge,
				       a->srq || xrc ? 0 : a->cap.max_recv_sge, a->cap.max_inline_data };
	/* As much as a slot holds anyway.  rxe gives as much, and rdma_xclient relies on it. */
	if (req->qp.cap.max_inline < a->cap.max_send_sge * sizeof(struct sge))
		req->qp.cap.max_inline = a->cap.max_send_sge * (uint32_t)sizeof(struct sge);
	if (req->qp.cap.max_inline > max_inline && a->cap.max_inline_data <= max_inline)
		req->qp.cap.max_inline = max_inline;
	req->qp.sq_sig_all = !!a->sq_sig_all;
	req->qp.not_own = !!(qp_create_flags(a) & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
}

static void qp_free(struct rd_qp *qp)
{
	raw_close(qp);
	steer_end(qp);
	slab_done(qp->ctx, &qp->mem);
	pd_object(qp->qp.pd, -1);
	pthread_mutex_destroy(&qp->sq_lock);
	pthread_mutex_destroy(&qp->rq_lock);
	pthread_cond_destroy(&qp->qp.cond);
	pthread_mutex_destroy(&qp->qp.mutex);
	pd_free(qp->mem_pd, qp, RES_QP);
}

static void cap_out(const struct qp_cap *c, struct ibv_qp_cap *out)
{
	*out = (struct ibv_qp_cap){ c->max_send_wr, c->max_recv_wr, c->max_send_sge, c->max_recv_sge, c->max_inline };
}

/* An operation of ibv_wr_*() that a profile does not have: 0 or EOPNOTSUPP. */
static int profile_check(struct rd_ctx *c, const struct ibv_qp_init_attr_ex *a)
{
	unsigned f = FEATURES;

	if (!(a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return 0;
	if (c->attr.no & NO(WR_API))
		f = FEATURE_WR_API;
	for (unsigned op = 0; op < 32 && f == FEATURES; op++)
		if (a->send_ops_flags & ~ex_ops(a->qp_type, 1u << op))
			f = feature_missing(c->attr.no, 0, 1u << op);
	return f == FEATURES ? 0 : refuse_feature(c, 0, "ibv_create_qp_ex", EOPNOTSUPP, f);
}

/* Programs try how much inline data there may be (libfabric, a dozen times for each type): those are refused alike, and told once. */
static int refuse_cap(struct rd_ctx *c, const struct ibv_qp_init_attr_ex *a, int err)
{
	if (a->cap.max_inline_data > c->attr.max_inline)
		return refuse(c, 0, "ibv_create_qp", err, "max_inline_data above %u, type %u", c->attr.max_inline,
			      (unsigned)a->qp_type);
	return refuse(c, 0, "ibv_create_qp", err,
		      "max_send_wr %u and max_recv_wr %u (up to %u), sge %u and %u (up to %u), type %u, comp_mask 0x%x",
		      a->cap.max_send_wr, a->cap.max_recv_wr, c->attr.max_qp_wr, a->cap.max_send_sge,
		      a->cap.max_recv_sge, c->attr.max_sge, (unsigned)a->qp_type, a->comp_mask);
}

struct rd_qp *qp_make(struct ibv_context *context, struct ibv_qp_init_attr_ex *a, struct ibv_wq *wq,
		      const struct msg_steps *steps)
{
	struct rd_ctx *c = to_ctx(context);
	struct msg_req req = { 0 };
	struct rd_pd *mem;
	struct rd_qp *qp;
	struct msg_rep rep;
	int err = attr_check(c, a);

	if (err)
		return err_null(refuse_cap(c, a, err));
	err = profile_check(c, a);
	if (err)
		return err_null(err);
	qp = pd_calloc(a->comp_mask & IBV_QP_INIT_ATTR_PD ? a->pd : NULL, sizeof(*qp), RES_QP, &mem);
	if (!qp)
		return NULL;
	qp->mem_pd = mem;
	qp_init(qp, context, a);
	qp_req(&req, a, &c->attr);
	qp->wq = wq;
	req.qp.wq = wq != NULL;
	if (steps)
		req.qp.steps = *steps;
	req.qp.cookie = map_add(c, &qp->node, MAP_QP);
	err = a->qp_type == IBV_QPT_RAW_PACKET && !wq ? raw_open(qp) : 0;
	if (!err && a->qp_type == IBV_QPT_XRC_RECV)
		err = ctx_call(c, &req, &rep);
	else if (!err)
		err = slab_call(c, &req, &rep, qp->raw_fd, &qp->mem);
	if (err)
		goto fail;
	qp->qpn = qp->qp.qp_num = qp->qp.handle = rep.qp.qpn;
	if (a->qp_type == IBV_QPT_XRC_RECV) {
		a->cap = (struct ibv_qp_cap){ 0 };
		return qp;
	}
	err = qp_map(qp, &rep);
	if (err) {
		ctx_call_id(c, MSG_QP_DESTROY, qp->qpn);
		goto fail;
	}
	cq_add_qp(to_cq(a->send_cq), &qp->send_user, qp);
	if (qp->qp.recv_cq && qp->qp.recv_cq != qp->qp.send_cq)
		cq_add_qp(to_cq(qp->qp.recv_cq), &qp->recv_user, qp);
	cap_out(&qp->cap, &a->cap);
	return qp;
fail:
	map_del(c, &qp->node);
	qp_free(qp);
	return err_null(err);
}

struct ibv_qp *qp_create_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a)
{
	struct rd_qp *qp;

	if (a->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH))
		return rss_create(context, a);
	qp = qp_make(context, a, NULL, NULL);
	return qp ? &qp->qp : NULL;
}

/* One more holder of a receiving QP of XRC, which may be another process's. */
struct ibv_qp *qp_open(struct ibv_context *context, struct ibv_qp_open_attr *a)
{
	const uint32_t need = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV };
	struct msg_req req = { .op = MSG_QP_OPEN };
	struct ibv_qp_init_attr unused;
	struct ibv_qp_attr attr;
	struct msg_rep rep;
	struct rd_qp *qp;
	int err;

	if (a->comp_mask & ~(need | IBV_QP_OPEN_ATTR_CONTEXT))
		return err_null(EOPNOTSUPP);
	if ((a->comp_mask & need) != need || a->qp_type != IBV_QPT_XRC_RECV || !a->xrcd)
		return err_null(EINVAL);
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return err_null(ENOMEM);
	init.qp_context = a->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? a->qp_context : NULL;
	qp_init(qp, context, &init);
	req.qp_open.qpn = a->qp_num;
	req.qp_open.xrcd = to_xrcd(a->xrcd)->handle;
	req.qp_open.cookie = map_add(qp->ctx, &qp->node, MAP_QP);
	err = ctx_call(qp->ctx, &req, &rep);
	if (err) {
		map_del(qp->ctx, &qp->node);
		qp_free(qp);
		return err_null(err);
	}
	qp->qpn = qp->qp.qp_num = qp->qp.handle = a->qp_num;
	ibv_query_qp(&qp->qp, &attr, IBV_QP_STATE, &unused); /* sets the state */
	return &qp->qp;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct ibv_qp_init_attr_ex ex = qp_attr_ex(a, pd);
	struct ibv_qp *qp = qp_create_ex(pd->context, &ex);

	if (qp)
		a->cap = ex.cap;
	return qp;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return to_qp(qp)->is_ex ? &to_qp(qp)->ex : NULL; }

/* ---- modify and query ---------------------------------------------------------- */

/* Programs give a QP the flags of their MRs; these say nothing about a QP. */
#define MR_ONLY (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

#define ATTRS (((IBV_QP_DEST_QPN << 1) - 1) | IBV_QP_RATE_LIMIT) /* the bits between the two are nobody's */

static bool is_no_state(const struct ibv_qp_attr *a, int mask)
{
	return mask & IBV_QP_STATE && (unsigned)a->qp_state > IBV_QPS_ERR;
}

static int attr_in(struct rd_ctx *c, struct qp_attr *m, const struct ibv_qp_attr *a, int mask)
{
	memset(m, 0, sizeof(*m));
	m->qkey = a->qkey;
	m->rq_psn = a->rq_psn & 0xffffff;
	m->sq_psn = a->sq_psn & 0xffffff;
	m->dest_qpn = a->dest_qp_num & QPN_MASK;
	m->access = a->qp_access_flags & ~(unsigned int)MR_ONLY;
	m->rate_limit = a->rate_limit;
	m->pkey_index = a->pkey_index;
	m->state = (uint8_t)a->qp_state;
	m->cur_state = (uint8_t)a->cur_qp_state;
	m->path_mtu = (uint8_t)a->path_mtu;
	m->port = a->port_num;
	m->timeout = a->timeout;
	m->retry_cnt = a->retry_cnt;
	m->rnr_retry = a->rnr_retry;
	m->min_rnr_timer = a->min_rnr_timer;
	m->max_rd_atomic = a->max_rd_atomic;
	m->max_dest_rd_atomic = a->max_dest_rd_atomic;
	m->en_sqd_async_notify = a->en_sqd_async_notify;
	if (is_no_state(a, mask))
		return EINVAL;
	return mask & IBV_QP_AV ? av_from_attr(c, &m->av, &a->ah_attr) : 0;
}

static uint32_t state_changes(struct rd_qp *qp)
{
	uint32_t n;

	pthread_mutex_lock(&qp->qp.mutex);
	n = qp->changes;
	pthread_mutex_unlock(&qp->qp.mutex);
	return n;
}

static void state_changed(struct ibv_qp *qp, enum ibv_qp_state state)
{
	pthread_mutex_lock(&qp->mutex);
	to_qp(qp)->changes++;
	__atomic_store_n(&qp->state, state, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&qp->mutex);
}

/* A state that was asked for when there had been so many changes: it may be the one before the last. */
static void state_seen(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t changes)
{
	pthread_mutex_lock(&qp->mutex);
	if (to_qp(qp)->changes == changes)
		__atomic_store_n(&qp->state, state, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&qp->mutex);
}

/* Everything posted is gone, with its completions. */
static void qp_reset(struct rd_qp *qp)
{
	struct ibv_qp *q = &qp->qp;

	if (!q->send_cq)
		return;
	cq_purge(to_cq(q->send_cq), qp);
	if (q->recv_cq && q->recv_cq != q->send_cq)
		cq_purge(to_cq(q->recv_cq), qp);
	pthread_mutex_lock(&qp->sq_lock);
	__atomic_store_n(&qp->sq_done, qp->sq.pos, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&qp->sq_lock);
	pthread_mutex_lock(&qp->rq_lock);
	__atomic_store_n(&qp->rq_done, qp->rq.pos, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&qp->rq_lock);
}

/* Attributes that one end of XRC has no use for are ignored, as the kernel does: programs set both up like RC. */
static int mask_of_type(enum ibv_qp_type type, int mask)
{
	if (type == IBV_QPT_XRC_SEND)
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (type == IBV_QPT_XRC_RECV)
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	return mask;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct msg_req req = { .op = MSG_QP_MODIFY };
	struct msg_rep rep;
	int err;

	if (mask & ~ATTRS)
		return refuse(to_ctx(qp->context), qp->qp_num, "ibv_modify_qp", EOPNOTSUPP,
			      "attr_mask %#x is no attribute", (unsigned)(mask & ~ATTRS));
	req.qp_mod.qpn = qp->handle;
	req.qp_mod.mask = (uint32_t)mask_of_type(qp->qp_type, mask);
	err = attr_in(to_ctx(qp->context), &req.qp_mod.attr, attr, mask);
	if (err && is_no_state(attr, mask))
		return refuse(to_ctx(qp->context), qp->qp_num, "ibv_modify_qp", err, "qp_state %u is no state",
			      (unsigned)attr->qp_state);
	if (err)
		return av_refuse(to_ctx(qp->context), qp->qp_num, "ibv_modify_qp", &attr->ah_attr);
	err = ctx_call(to_ctx(qp->context), &req, &rep);
	if (err)
		return err;
	if (!(mask & IBV_QP_STATE))
		return 0;
	state_changed(qp, attr->qp_state);
	if (attr->qp_state == IBV_QPS_RESET)
		qp_reset(to_qp(qp));
	return 0;
}

static int steps_in(struct rd_ctx *c, enum ibv_qp_type type, const struct ibv_qp_attr *attr, const int *mask,
		    unsigned n, struct msg_steps *s)
{
	int err = n <= MSG_STEPS ? 0 : EINVAL;

	s->n = n;
	for (unsigned i = 0; i < n && !err; i++) {
		s->v[i].mask = (uint32_t)mask_of_type(type, mask[i]);
		err = attr_in(c, &s->v[i].attr, &attr[i], mask[i]);
	}
	return err;
}

EXPORT struct ibv_qp *rdmad_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *a,
				      const struct ibv_qp_attr *attr, const int *mask, unsigned n)
{
	struct msg_steps s = { 0 };
	int err = steps_in(to_ctx(context), a->qp_type, attr, mask, n, &s);
	struct rd_qp *qp;

	if (err)
		return err_null(err);
	qp = qp_make(context, a, NULL, &s);
	if (!qp)
		return NULL;
	if (n)
		state_changed(&qp->qp, attr[n - 1].qp_state);
	return &qp->qp;
}

EXPORT void rdmad_qp_state(struct ibv_qp *qp, enum ibv_qp_state state) { state_changed(qp, state); }

static void attr_out(struct ibv_qp_attr *a, const struct qp_attr *m)
{
	qp_attr_from(a, m);
	a->qp_state = m->state;
	a->cur_qp_state = m->state;
	av_to_attr(&m->av, m->port, &a->ah_attr);
	a->en_sqd_async_notify = m->en_sqd_async_notify;
	a->sq_draining = m->sq_draining;
	a->rate_limit = m->rate_limit;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct msg_req req = { .op = MSG_QP_QUERY, .id.handle = qp->handle };
	struct rd_qp *q = to_qp(qp);
	uint32_t changes = state_changes(q);
	struct msg_rep rep;
	int err = ctx_call(q->ctx, &req, &rep);

	if (err)
		return err;
	attr_out(attr, &rep.qp_query.attr);
	if (q->ctx->attr.lids && gid_is_v4(attr->ah_attr.grh.dgid.raw)) {
		attr->ah_attr.is_global = 0;
		attr->ah_attr.dlid = gid_lid(attr->ah_attr.grh.dgid.raw);
	}
	cap_out(&q->cap, &attr->cap);
	*init = (struct ibv_qp_init_attr){
		.qp_context = qp->qp_context,
		.send_cq = qp->send_cq,
		.recv_cq = qp->recv_cq,
		.srq = qp->srq,
		.cap = attr->cap,
		.qp_type = qp->qp_type,
		.sq_sig_all = q->sq_sig_all,
	};
	if (mask & IBV_QP_STATE) /* who asks for other things may go by the state that he set */
		state_seen(qp, rep.qp_query.attr.state, changes);
	return 0;
}

/* ---- destroy ------------------------------------------------------------------- */

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct rd_qp *q = to_qp(qp);
	struct unacked u = { &q->ctx->conn, "ibv_destroy_qp", qp->handle, "ibv_ack_async_event", false };
	int err;

	if (q->flows)
		return EBUSY;
	/* Datagrams that the daemon has not taken yet go out before: nobody sends them again.  An adapter has long sent them. */
	if ((qp->qp_type == IBV_QPT_UD || qp->qp_type == IBV_QPT_UC) && ring_behind(&q->sq))
		ctx_turn(q->ctx);
	err = ctx_call_id(q->ctx, MSG_QP_DESTROY, qp->handle);
	if (err)
		return err;
	if (qp->send_cq)
		cq_del_qp(to_cq(qp->send_cq), &q->send_user);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		cq_del_qp(to_cq(qp->recv_cq), &q->recv_user);
	cntr_detach(q);
	rss_end(q);
	map_del(q->ctx, &q->node);
	pthread_mutex_lock(&qp->mutex);
	while (qp->events_completed != q->node.async_got)
		unacked_wait(&u, &qp->cond, &qp->mutex, q->node.async_got - qp->events_completed);
	pthread_mutex_unlock(&qp->mutex);
	unacked_end(&u);
	qp_free(q);
	return 0;
}

/* ---- multicast, and small things -------------------------------------------------- */

static int mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid, enum msg_op op)
{
	struct msg_req req = { .op = op };
	struct msg_rep rep;

	if (qp->qp_type != IBV_QPT_UD || !gid_is_group(gid->raw))
		return EINVAL;
	req.mcast.qpn = qp->handle;
	req.mcast.lid = lid;
	memcpy(req.mcast.gid, gid->raw, sizeof(req.mcast.gid));
	return ctx_call(to_ctx(qp->context), &req, &rep);
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return mcast(qp, gid, lid, MSG_MCAST_ATTACH);
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return mcast(qp, gid, lid, MSG_MCAST_DETACH);
}

/* A message is written by one thread from its first byte to its last, but it may be retried: nothing is
 * promised. */
EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *, enum ibv_wr_opcode, uint32_t) { return 0; }
