/* SPDX-License-Identifier: MIT */
/*
 * qp.c - the QP and the SRQ of an id, and the CQs that are made for them when the program names none.
 *
 * The daemon says which attributes each state takes, since it knows what REQ and REP agreed on.
 */
#include "cma.h"

#include "../verbs/attr.h"
#include "../verbs/ctx.h"

/* Of libibverbs; their contracts are in lib/verbs/qp.h. */
struct ibv_qp *rdmad_create_qp(struct ibv_context *, struct ibv_qp_init_attr_ex *, const struct ibv_qp_attr *,
			       const int *mask, unsigned n);
void rdmad_qp_state(struct ibv_qp *, enum ibv_qp_state);

static void attr_read(const struct cma_id *id, enum ibv_qp_state state, const struct cmm_attr *m, struct ibv_qp_attr *a,
		      int *mask)
{
	qp_attr_from(a, &m->attr);
	a->qp_state = state;
	if (m->mask & QPA_AV)
		av_to_attr(&m->attr.av, id->id.port_num, &a->ah_attr);
	*mask = (int)m->mask;
}

static int attr_ask(struct cma_id *id, enum ibv_qp_state state, struct ibv_qp_attr *a, int *mask)
{
	struct cmm_req req = { .op = CMM_INIT_QP_ATTR };
	struct cmm_rep rep;
	int err;

	req.qp.state = state;
	err = id_call(id, &req, &rep);
	if (err)
		return err;
	attr_read(id, state, &rep.qp, a, mask);
	return 0;
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	return result(attr_ask(to_id(id), attr->qp_state, attr, mask));
}

/* ---- through the states ----------------------------------------------------------- */

void init_learn(struct cma_id *id, const struct cmm_attr *a)
{
	pthread_mutex_lock(&id->lock);
	id->init_attr = a ? *a : (struct cmm_attr){ 0 };
	pthread_mutex_unlock(&id->lock);
}

static struct cmm_attr init_told(struct cma_id *id)
{
	struct cmm_attr a;

	pthread_mutex_lock(&id->lock);
	a = id->init_attr;
	pthread_mutex_unlock(&id->lock);
	return a;
}

struct cmm_qp qp_name(const struct cma_id *id)
{
	struct ibv_qp *qp = id->id.qp;

	return qp ? (struct cmm_qp){ .key = to_ctx(qp->context)->key, .qpn = qp->handle } : (struct cmm_qp){ 0 };
}

void qp_moved(struct cma_id *id, enum ibv_qp_state state, int err)
{
	struct ibv_qp_init_attr unused;
	struct ibv_qp_attr got;

	if (id->id.qp && !err)
		rdmad_qp_state(id->id.qp, state);
	else if (id->id.qp)
		ibv_query_qp(id->id.qp, &got, IBV_QP_STATE, &unused); /* how far it has come */
}

void qp_to_err(struct cma_id *id)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	if (id->id.qp)
		ibv_modify_qp(id->id.qp, &a, IBV_QP_STATE);
}

/* ---- default CQs -------------------------------------------------------------------- */

static void cq_free(struct ibv_cq **cq, struct ibv_comp_channel **ch)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*ch)
		ibv_destroy_comp_channel(*ch);
	*cq = NULL;
	*ch = NULL;
}

static int cq_make(struct cma_id *id, uint32_t wrs, struct ibv_cq **cq, struct ibv_comp_channel **ch)
{
	int err;

	*ch = ibv_create_comp_channel(id->id.verbs);
	if (!*ch)
		return errno;
	*cq = ibv_create_cq(id->id.verbs, wrs ? (int)wrs : 1, id, *ch, 0);
	if (*cq)
		return 0;
	err = errno;
	cq_free(cq, ch);
	return err;
}

/* An SRQ of XRC completes on the CQ for receives: while it is there, so are they. */
static void cqs_free(struct cma_id *id)
{
	if (id->id.qp_type == IBV_QPT_XRC_RECV && id->id.srq)
		return;
	cq_free(&id->id.send_cq, &id->id.send_cq_channel);
	cq_free(&id->id.recv_cq, &id->id.recv_cq_channel);
}

/* Those that the program does not name, if the QP needs them. */
static int cqs_make(struct cma_id *id, struct ibv_qp_init_attr_ex *a)
{
	int err = 0;

	if (a->qp_type == IBV_QPT_XRC_RECV)
		return 0;
	if (!a->send_cq) {
		err = cq_make(id, a->cap.max_send_wr, &id->id.send_cq, &id->id.send_cq_channel);
		a->send_cq = id->id.send_cq;
	}
	if (!err && !a->recv_cq && a->qp_type != IBV_QPT_XRC_SEND) {
		err = cq_make(id, a->cap.max_recv_wr, &id->id.recv_cq, &id->id.recv_cq_channel);
		a->recv_cq = id->id.recv_cq;
	}
	if (err)
		cqs_free(id);
	return err;
}

/* ---- create and destroy ---------------------------------------------------------------- */

/* Ready for receives; for datagrams ready altogether. */
static struct ibv_qp *qp_new(struct cma_id *id, struct ibv_qp_init_attr_ex *init)
{
	struct ibv_qp_attr a[] = { { 0 }, { .qp_state = IBV_QPS_RTR }, { .qp_state = IBV_QPS_RTS } };
	int mask[] = { 0, IBV_QP_STATE, IBV_QP_STATE | IBV_QP_SQ_PSN };
	struct cmm_attr told = init_told(id);
	int err = 0;

	if (told.mask)
		attr_read(id, IBV_QPS_INIT, &told, &a[0], &mask[0]);
	else
		err = attr_ask(id, IBV_QPS_INIT, &a[0], &mask[0]);
	if (!err)
		return rdmad_create_qp(id->id.verbs, init, a, mask, init->qp_type == IBV_QPT_UD ? ARRAY_N(a) : 1);
	errno = err;
	return NULL;
}

static int pd_check(const struct cma_id *id, struct ibv_pd **pd)
{
	if (!*pd)
		*pd = id->id.pd;
	return !*pd || (*pd)->context != id->id.verbs ? EINVAL : 0;
}

static int xrcd_check(struct cma_id *id, uint32_t named, uint32_t *mask, struct ibv_xrcd **xrcd)
{
	if (!(*mask & named) || !*xrcd)
		*xrcd = dev_xrcd(id->dev);
	*mask |= named;
	return *xrcd ? 0 : errno;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *rid, struct ibv_qp_init_attr_ex *attr)
{
	struct cma_id *id = to_id(rid);
	struct ibv_qp_init_attr_ex a = *attr;
	struct ibv_qp *qp;
	int err;

	if (rid->qp || !rid->verbs)
		return fail(EINVAL);
	if (!(a.comp_mask & IBV_QP_INIT_ATTR_PD))
		a.pd = NULL;
	a.comp_mask |= IBV_QP_INIT_ATTR_PD;
	if (rid->srq && !a.srq)
		a.srq = rid->srq;
	err = pd_check(id, &a.pd);
	if (!err && a.qp_type == IBV_QPT_XRC_RECV)
		err = xrcd_check(id, IBV_QP_INIT_ATTR_XRCD, &a.comp_mask, &a.xrcd);
	if (!err)
		err = cqs_make(id, &a);
	if (err)
		return fail(err);
	qp = qp_new(id, &a);
	if (!qp) {
		err = errno;
		cqs_free(id);
		return fail(err);
	}
	rid->qp = qp;
	rid->pd = a.pd;
	id->ece = (struct ibv_ece){ 0 };
	*attr = a;
	return 0;
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex a = qp_attr_ex(attr, pd);

	if (rdma_create_qp_ex(id, &a))
		return -1;
	attr->send_cq = a.send_cq;
	attr->recv_cq = a.recv_cq;
	attr->srq = a.srq;
	attr->cap = a.cap;
	return 0;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	groups_detach(to_id(id));
	if (id->qp)
		ibv_destroy_qp(id->qp);
	id->qp = NULL;
	cqs_free(to_id(id));
}

/* ---- shared receive queues ---------------------------------------------------------------- */

/* The domain and the CQ of an SRQ of XRC. */
static int srq_xrc(struct cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int err = xrcd_check(id, IBV_SRQ_INIT_ATTR_XRCD, &attr->comp_mask, &attr->xrcd);

	if (err || (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ && attr->cq))
		return err;
	if (!id->id.recv_cq)
		err = cq_make(id, attr->attr.max_wr, &id->id.recv_cq, &id->id.recv_cq_channel);
	attr->cq = id->id.recv_cq;
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	return err;
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_pd *pd = attr->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attr->pd : NULL;
	bool xrc = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC;
	int err;

	if (id->srq || !id->verbs || pd_check(to_id(id), &pd))
		return fail(EINVAL);
	attr->pd = pd;
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	err = xrc ? srq_xrc(to_id(id), attr) : 0;
	if (err)
		return fail(err);
	id->srq = ibv_create_srq_ex(id->verbs, attr);
	if (!id->srq) {
		err = errno;
		if (xrc)
			cqs_free(to_id(id));
		return fail(err);
	}
	id->pd = pd;
	return 0;
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex a = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = pd,
	};

	if (rdma_create_srq_ex(id, &a))
		return -1;
	attr->attr = a.attr;
	return 0;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq)
		ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (id->qp_type == IBV_QPT_XRC_RECV)
		cqs_free(to_id(id));
}
