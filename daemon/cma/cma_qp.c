/* SPDX-License-Identifier: MIT */
/*
 * cma_qp.c - from what REQ and REP agreed on to the attributes of the QP, and the QP of the program through its states.
 *
 * The QP is in a context of the program, which has another session than the channel of its id.
 */
#include <errno.h>
#include <string.h>

#include "cma.h"
#include "cma_agent.h"
#include "cma_refuse.h"
#include "../shard/ctx.h"

/* ---- attributes -------------------------------------------------------------------------- */

struct qp_ask {
	uint32_t cm_id;
	struct cm_qp qp;
};

static int job_qp(struct cm *cm, void *arg, mono_t)
{
	struct qp_ask *a = arg;

	return cm_qp_get(cm, a->cm_id, &a->qp) ? 0 : EINVAL;
}

static void attr_init(struct cma_id *id, struct qp_attr *a, uint32_t *mask)
{
	a->port = 1;
	*mask = QPA_STATE | QPA_PKEY_INDEX | QPA_PORT;
	if (id->qp_type == QPT_UD) {
		if (!id->qkey)
			id->qkey = CMA_UDP_QKEY;
		a->qkey = id->qkey;
		*mask |= QPA_QKEY;
		return;
	}
	*mask |= QPA_ACCESS_FLAGS;
	if (id->cm_id)
		a->access = ACC_REMOTE_WRITE | (id->resp_res ? ACC_REMOTE_READ | ACC_REMOTE_ATOMIC : 0);
}

/* Rule 7.8. */
static void attr_rtr(const struct cma_id *id, const struct cm_qp *q, struct qp_attr *a, uint32_t *mask)
{
	a->av = (struct av){ .flow_label = q->route.flow_label,
			     .sgid_index = id->sgid_index,
			     .hop_limit = q->route.hop_limit,
			     .tclass = q->route.tclass };
	memcpy(a->av.dgid, q->route.dgid, 16);
	a->path_mtu = q->mtu;
	a->dest_qpn = q->dest_qpn;
	a->rq_psn = id->psn;
	*mask = QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN;
	if (id->qp_type == QPT_UC)
		return;
	a->max_dest_rd_atomic = q->max_dest_rd_atomic;
	a->min_rnr_timer = q->min_rnr_timer;
	*mask |= QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
}

static void attr_rts(const struct cma_id *id, const struct cm_qp *q, struct qp_attr *a, uint32_t *mask)
{
	a->sq_psn = q->sq_psn;
	*mask = QPA_STATE | QPA_SQ_PSN;
	if (id->qp_type == QPT_UC)
		return;
	a->timeout = id->timeout_set ? id->timeout : q->timeout; /* RDMA_OPTION_ID_ACK_TIMEOUT */
	a->retry_cnt = q->retry_cnt;
	a->rnr_retry = q->rnr_retry;
	a->max_rd_atomic = q->max_rd_atomic;
	*mask |= QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC;
}

/* The agent is asked once, for all states. */
int cma_qp_attrs(struct cma_id *id, const uint8_t *states, unsigned n, struct cmm_attr *a)
{
	struct qp_ask ask = { .cm_id = id->cm_id };
	bool asked = false;
	int err = id->dev ? 0 : EINVAL;

	for (unsigned i = 0; i < n && !err; i++) {
		a[i] = (struct cmm_attr){ .attr.state = states[i] };
		if (!id->cm_id || id->qp_type == QPT_UD || states[i] == QPS_INIT) {
			attr_init(id, &a[i].attr, &a[i].mask);
			continue;
		}
		if (states[i] != QPS_RTR && states[i] != QPS_RTS)
			return EINVAL;
		if (!asked)
			err = agent_ask(id->dev, job_qp, &ask);
		asked = true;
		if (!err && states[i] == QPS_RTR)
			attr_rtr(id, &ask.qp, &a[i].attr, &a[i].mask);
		else if (!err)
			attr_rts(id, &ask.qp, &a[i].attr, &a[i].mask);
	}
	return err;
}

/* ---- the program's QP -------------------------------------------------------------------------- */

static int qp_verb(const struct cma_id *id, const struct cmm_qp *qp, const struct msg_req *req)
{
	unsigned owner = qpn_owner(qp->qpn);
	const struct obj *o = NULL;

	if (id->dev && owner < shards_n)
		o = obj_find(shards[owner], OBJ_QP, id->dev->index, qp->qpn);
	while (o && o->ctx->key != qp->key)
		o = obj_other(o);
	return o ? cma_hooks.verb(o->ctx->session, req)
		 : cma_refuse(EINVAL, "QP 0x%x is none of this program's", qp->qpn);
}

/* Ignored, as the kernel does: one end of XRC has no use for it. */
static uint32_t unused(const struct cma_id *id)
{
	switch (id->qp_type) {
	case QPT_XRC_SEND: return QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
	case QPT_XRC_RECV: return QPA_MAX_QP_RD_ATOMIC | QPA_RETRY_CNT | QPA_RNR_RETRY;
	}
	return 0;
}

/* INIT once more: the rights to reads and atomics are known only now. */
int cma_qp_connect(struct cma_id *id, const struct cmm_qp *qp, const struct cmm_conn *conn)
{
	static const uint8_t states[MSG_STEPS] = { QPS_INIT, QPS_RTR, QPS_RTS };
	struct msg_req req = { .op = MSG_QP_STEPS, .qp_steps = { .qpn = qp->qpn, .steps.n = MSG_STEPS } };
	struct cmm_attr a[MSG_STEPS];
	int err;

	if (!qp->qpn)
		return 0;
	err = cma_qp_attrs(id, states, MSG_STEPS, a);
	if (err)
		return err;
	if (conn && conn->responder_resources != 255)
		a[1].attr.max_dest_rd_atomic = conn->responder_resources;
	if (conn && conn->initiator_depth != 255)
		a[2].attr.max_rd_atomic = conn->initiator_depth;
	for (unsigned i = 0; i < MSG_STEPS; i++) {
		req.qp_steps.steps.v[i].attr = a[i].attr;
		req.qp_steps.steps.v[i].mask = a[i].mask & ~unused(id);
	}
	return qp_verb(id, qp, &req);
}

int cma_qp_end(const struct cma_id *id, const struct cmm_qp *qp)
{
	const struct msg_req req = { .op = MSG_QP_MODIFY,
				     .qp_mod = { .qpn = qp->qpn, .mask = QPA_STATE, .attr.state = QPS_ERR } };

	return qp->qpn ? qp_verb(id, qp, &req) : 0;
}
