/* SPDX-License-Identifier: MIT */
/*
 * connect.c - connections: requested, accepted, refused, ended.
 *
 *	active			passive
 *	rdma_connect()   -->	CONNECT_REQUEST
 *				rdma_accept(): QP to RTR, RTS; REP
 *	(event.c: QP to    <--
 *	RTR, RTS; RTU)   -->	ESTABLISHED
 *	ESTABLISHED
 *	rdma_disconnect(): QP to ERR, on either side
 */
#include <stdio.h>

#include <rdmad/own.h>

#include "cma.h"

enum { RETRY_MAX = 7 }; /* 3 bits; of RNR NAKs: for ever */

static bool is_ud(const struct cma_id *id) { return id->id.qp_type == IBV_QPT_UD; }

/* A number of READs and atomics: the program's, and what the device has. */
static int depth_check(const struct cma_id *id, const char *call, const char *name, uint8_t got, uint8_t max)
{
	char text[96];

	if (got == RDMA_MAX_RESP_RES || got <= max)
		return 0;
	snprintf(text, sizeof(text), "conn_param: %s %u is more than %u (is all of it set?)", name, got, max);
	return rdmad_refused(id->dev->verbs, call, EINVAL, text);
}

/* 0 or an errno: what a connection must be told if it has no QP of the library's, and what the device cannot. */
static int param_check(const struct cma_id *id, const char *call, const struct rdma_conn_param *p)
{
	int err;

	if (id->id.ps != RDMA_PS_TCP || (!p && id->id.qp))
		return 0;
	if (!id->dev)
		return EINVAL;
	if (!p)
		return rdmad_refused(id->dev->verbs, call, EINVAL,
				     "neither a queue pair (rdma_create_qp) nor conn_param");
	err = depth_check(id, call, "responder_resources", p->responder_resources, id->dev->max_resp);
	return err ? err : depth_check(id, call, "initiator_depth", p->initiator_depth, id->dev->max_init);
}

static uint8_t least(uint8_t a, uint8_t b) { return a < b ? a : b; }

/* RDMA_MAX_... of the program: as much as limit and the device allow. */
static uint8_t depth(uint8_t asked, uint8_t limit, uint8_t device)
{
	return asked != RDMA_MAX_RESP_RES ? asked : least(limit, device);
}

/* data behind data of an endpoint's own (rdma_getaddrinfo). */
static int data_fill(const struct cma_id *id, struct cmm_conn *c, const struct rdma_conn_param *p)
{
	size_t len = p && p->private_data ? p->private_data_len : 0;

	if (id->connect_len + len > UINT8_MAX)
		return EINVAL;
	if (id->connect_len)
		memcpy(c->data, id->connect, id->connect_len);
	if (len)
		memcpy(c->data + id->connect_len, p->private_data, len);
	c->data_len = (uint8_t)(id->connect_len + len);
	return 0;
}

/* resp and init: what RDMA_MAX_... stands for. */
static int conn_fill(const struct cma_id *id, struct cmm_conn *c, const struct rdma_conn_param *p, uint8_t resp,
		     uint8_t init)
{
	const struct ibv_qp *qp = id->id.qp;
	uint8_t max_resp = id->dev ? id->dev->max_resp : 0, max_init = id->dev ? id->dev->max_init : 0;

	c->qp_num = qp ? qp->qp_num : p ? p->qp_num : 0;
	c->srq = qp ? qp->srq != NULL : p ? p->srq != 0 : 0;
	c->responder_resources = depth(p ? p->responder_resources : RDMA_MAX_RESP_RES, resp, max_resp);
	c->initiator_depth = depth(p ? p->initiator_depth : RDMA_MAX_INIT_DEPTH, init, max_init);
	c->flow_control = p ? p->flow_control : 1;
	c->retry_count = p ? least(p->retry_count, RETRY_MAX) : RETRY_MAX;
	c->rnr_retry_count = p ? least(p->rnr_retry_count, RETRY_MAX) : RETRY_MAX;
	c->ece_options = id->ece.options;
	c->hasty = id->hasty;
	return data_fill(id, c, p);
}

EXPORT int rdma_connect(struct rdma_cm_id *rid, struct rdma_conn_param *p)
{
	struct cmm_req req = { .op = CMM_CONNECT };
	struct cma_id *id = to_id(rid);
	int err = param_check(id, "rdma_connect", p);

	req.conn.conn.ece_vendor = id->ece.vendor_id;
	if (!err)
		err = conn_fill(id, &req.conn.conn, p, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
	if (!is_ud(id))
		req.conn.qp = qp_name(id);
	init_learn(id, NULL); /* the rights in INIT are others from now on */
	if (!err)
		err = id_call(id, &req, NULL);
	return err ? fail(err) : id_wait(id);
}

EXPORT int rdma_accept(struct rdma_cm_id *rid, struct rdma_conn_param *p)
{
	struct cmm_req req = { .op = CMM_ACCEPT };
	struct cma_id *id = to_id(rid);
	struct cmm_conn *c = &req.conn.conn;
	int err = param_check(id, "rdma_accept", p);

	if (!err)
		err = conn_fill(id, c, p, id->resp, id->init);
	c->ece_vendor = id->remote_ece.vendor_id; /* options answer those of the request */
	if (err)
		return fail(err);
	if (!is_ud(id))
		req.conn.qp = qp_name(id);
	req.conn.cookie = id->cookie;
	err = id_call(id, &req, NULL);
	if (req.conn.qp.qpn)
		qp_moved(id, IBV_QPS_RTS, err);
	if (err)
		return fail(err);
	if (is_ud(id)) { /* answered, and nothing more comes of it */
		id_event_drop(id);
		return 0;
	}
	return id_wait(id);
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	/* A QP of the id's has been connected before ESTABLISHED was shown. */
	return id->qp ? fail(EINVAL) : result(id_call_op(to_id(id), CMM_ESTABLISH));
}

enum { REASON_ECE = 35 };

static int reject(struct cma_id *id, const void *data, uint8_t len, uint8_t reason)
{
	struct cmm_req req = { .op = CMM_REJECT };

	req.reject.reason = reason;
	if (data && len) {
		memcpy(req.reject.data, data, len);
		req.reject.data_len = len;
	}
	return result(id_call(id, &req, NULL));
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len) { return reject(to_id(id), data, len, 0); }

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return reject(to_id(id), data, len, REASON_ECE);
}

EXPORT int rdma_disconnect(struct rdma_cm_id *rid)
{
	struct cmm_req req = { .op = CMM_DISCONNECT };
	struct cma_id *id = to_id(rid);
	struct cmm_rep rep;
	int err;

	req.own = qp_name(id);
	err = id_call(id, &req, &rep);
	qp_moved(id, IBV_QPS_ERR, err ? err : rep.end.qp_err);
	return err ? fail(err) : id_wait(id);
}
