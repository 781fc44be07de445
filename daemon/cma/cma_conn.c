/* SPDX-License-Identifier: MIT */
/*
 * cma_conn.c - from an id's addresses to the messages of the CM.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cma.h"
#include "cma_agent.h"
#include "cma_refuse.h"
#include "../base/rights.h"
#include "../shard/ctx.h"

/* As kernels write it in a REQ (rule 7.5). */
#define RESPONSE_TIMEOUT 20u
#define HASTY_TIMEOUT    12u /* 17 ms */
#define MAX_CM_RETRIES   15u
#define BACKLOG_MAX      1024u

/* ---- listening ----------------------------------------------------------------------- */

/* The agent of a device listens once for all ids of a port. */
struct cma_service {
	struct link link;
	struct device *dev;
	uint64_t service_id;
	uint32_t cm_id;
	unsigned n;
};

static struct link services[256];

static struct link *service_chain(uint64_t service_id)
{
	struct link *l = &services[service_id % 256];

	if (!l->next)
		link_init(l);
	return l;
}

static struct cma_service *service_find(const struct device *dev, uint64_t service_id)
{
	struct link *head = service_chain(service_id);

	for (struct link *l = head->next; l != head; l = l->next) {
		struct cma_service *s = LINK_OF(l, struct cma_service, link);

		if (s->service_id == service_id && s->dev == dev)
			return s;
	}
	return NULL;
}

static int service_listen(struct cm *cm, void *arg, mono_t)
{
	struct cma_service *s = arg;

	return cm_listen(cm, s->service_id, NULL, &s->cm_id);
}

struct full {
	uint32_t cm_id;
	bool full;
};

static int service_full(struct cm *cm, void *arg, mono_t)
{
	const struct full *f = arg;

	return cm_listen_full(cm, f->cm_id, f->full);
}

static int service_join(struct device *dev, uint64_t service_id)
{
	struct cma_service *s = service_find(dev, service_id);
	int err;

	if (s) {
		s->n++;
		agent_call(dev, service_full, &(struct full){ s->cm_id, false }); /* the other one may have room */
		return 0;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return ENOMEM;
	*s = (struct cma_service){ .dev = dev, .service_id = service_id, .n = 1 };
	err = agent_call(dev, service_listen, s);
	if (err) {
		free(s);
		return err;
	}
	link_add_tail(service_chain(service_id), &s->link);
	return 0;
}

static void service_leave(struct device *dev, uint64_t service_id)
{
	struct cma_service *s = service_find(dev, service_id);

	if (!s || --s->n)
		return;
	agent_id_free(dev, s->cm_id);
	link_del(&s->link);
	free(s);
}

static uint64_t own_service(const struct cma_id *id) { return cm_service_id(id->ps, cma_addr_port(&id->src)); }

/* Those of the devices up to n. */
static void services_leave(const struct cma_id *id, unsigned n)
{
	for (unsigned d = 0; d < n; d++)
		if (!id->dev || id->dev == &devices[d])
			service_leave(&devices[d], own_service(id));
}

int cma_listen(struct cma_id *id, uint32_t backlog)
{
	union cmm_addr any = { .in.sin_family = AF_INET };
	int err = 0;

	if (id->state == CMA_IDLE)
		err = cma_bind(id, &any);
	if (!err)
		err = cma_must_be(id, CMA_BOUND);
	if (!err)
		err = cma_port_listen(id);
	if (err)
		return err;
	for (unsigned d = 0; d < devices_n && !err; d++) {
		if (id->dev && id->dev != &devices[d])
			continue;
		err = service_join(&devices[d], own_service(id));
		if (err)
			services_leave(id, d);
	}
	if (err)
		return err;
	id->backlog = backlog && backlog < BACKLOG_MAX ? backlog : BACKLOG_MAX;
	id->state = CMA_LISTEN;
	cma_port_listens(id, true);
	cma_count.listeners++;
	return 0;
}

void cma_unlisten(struct cma_id *id)
{
	services_leave(id, devices_n);
	id->state = CMA_BOUND;
	cma_port_listens(id, false);
	cma_count.listeners--;
}

void cma_listen_full(struct cma_id *id, bool full)
{
	struct cma_service *s;

	if (id->full == full)
		return;
	id->full = full;
	for (unsigned d = 0; d < devices_n; d++) {
		s = id->dev && id->dev != &devices[d] ? NULL : service_find(&devices[d], own_service(id));
		if (s && s->n == 1)
			agent_call(&devices[d], service_full, &(struct full){ s->cm_id, full });
	}
}

/* ---- connecting ------------------------------------------------------------------------ */

static struct route id_route(const struct cma_id *id)
{
	struct route r = { .flow_label = id->flow_label, .tclass = id->tos, .hop_limit = CMA_HOPS };

	memcpy(r.sgid, id->sgid, 16);
	memcpy(r.dgid, id->dgid, 16);
	return r;
}

void cma_path_av(const struct cma_id *id, struct av *av)
{
	*av = (struct av){
		.flow_label = id->flow_label, .sgid_index = id->sgid_index, .hop_limit = CMA_HOPS, .tclass = id->tos
	};
	memcpy(av->dgid, id->dgid, 16);
}

static void header_put(const struct cma_id *id, uint8_t *data)
{
	struct cm_ip ip = { .version = cma_family(&id->src) == AF_INET ? 4 : 6, .sport = cma_addr_port(&id->src) };

	cma_addr_gid(&id->src, ip.src);
	cma_addr_gid(&id->dst, ip.dst);
	cm_ip_put(data, &ip);
}

static uint8_t least(uint8_t a, uint8_t b) { return a < b ? a : b; }

/* 255: as much as there is (RDMA_MAX_RESP_RES). */
static uint8_t depth(uint8_t asked, uint8_t most) { return asked == 255 ? most : asked; }

/*
 * Peers know connections by their QP (rule 7.7): who could name another user's would end that one's.  Of no QP they know
 * none.
 */
static int qp_name(struct cma_id *id, uint32_t qpn)
{
	uid_t uid = id->ch->who.uid;
	unsigned owner = qpn_owner(qpn &= QPN_MASK);
	const struct obj *o = NULL;

	if (qpn && uid && uid != rights_owner()) {
		if (owner < shards_n)
			o = obj_find(shards[owner], OBJ_QP, id->dev->index, qpn);
		while (o && o->ctx->uid != uid)
			o = obj_other(o);
		if (!o)
			return cma_refuse(EINVAL, "qp_num 0x%x is none of this user's on %s", qpn, id->dev->name);
	}
	id->qpn = qpn;
	return 0;
}

struct cm_job {
	uint32_t cm_id;
	struct cm_connect connect;
	struct cm_sidr_req sidr_req;
	struct cm_sidr_rep sidr_rep;
	struct cm_rep rep;
	struct route route;
	uint16_t reason;
	uint8_t data[CMM_DATA];
};

static int job_connect(struct cm *cm, void *arg, mono_t now)
{
	struct cm_job *j = arg;

	return cm_connect(cm, &j->connect, NULL, &j->cm_id, now);
}

static int job_sidr(struct cm *cm, void *arg, mono_t now)
{
	struct cm_job *j = arg;

	return cm_sidr(cm, &j->sidr_req, &j->route, NULL, &j->cm_id, now);
}

static void req_fill(struct cm_req *r, const struct cma_id *id, const struct cmm_conn *c)
{
	*r = (struct cm_req){
		.service_id = cm_service_id(id->ps, cma_addr_port(&id->dst)),
		.qpn = id->qpn,
		.resp_res = id->resp_res,
		.init_depth = id->init_depth,
		.remote_timeout = c->hasty ? HASTY_TIMEOUT : RESPONSE_TIMEOUT,
		.local_timeout = RESPONSE_TIMEOUT,
		.flow_ctrl = c->flow_control,
		.vendor_id = c->ece_vendor,
		.ece = c->ece_options,
		.transport = id->qp_type == QPT_UC         ? CM_UC
			     : id->qp_type == QPT_XRC_SEND ? CM_XRC
							   : CM_RC,
		.ext_transport = id->qp_type == QPT_XRC_SEND,
		.psn = id->psn,
		.retry_cnt = least(c->retry_count, 7),
		.rnr_retry = least(c->rnr_retry_count, 7),
		.pkey = PKEY_DEFAULT,
		.mtu = id->mtu,
		.max_retries = MAX_CM_RETRIES,
		.srq = c->srq,
		.path = { .slid = 0xffff,
			  .dlid = 0xffff,
			  .flow_label = id->flow_label,
			  .tclass = id->tos,
			  .hop_limit = CMA_HOPS,
			  .ack_timeout = cm_ack_timeout(AGENT_ACK_DELAY, id->life) },
	};
	memcpy(r->path.sgid, id->sgid, 16);
	memcpy(r->path.dgid, id->dgid, 16);
	header_put(id, r->data);
	memcpy(r->data + CM_IP_LEN, c->data, c->data_len);
}

static int connect_ud(struct cma_id *id, const struct cmm_conn *c)
{
	struct cm_job j = { .route = id_route(id),
			    .sidr_req = { .pkey = PKEY_DEFAULT,
					  .service_id = cm_service_id(id->ps, cma_addr_port(&id->dst)) } };
	int err = cma_must_fit(c->data_len, "SIDR_REQ", CM_SIDR_REQ_DATA - CM_IP_LEN);

	if (err)
		return err;
	header_put(id, j.sidr_req.data);
	memcpy(j.sidr_req.data + CM_IP_LEN, c->data, c->data_len);
	id->qpn = c->qp_num & QPN_MASK; /* no message has it */
	err = agent_call(id->dev, job_sidr, &j);
	if (!err)
		cma_id_tie(id, j.cm_id);
	return err;
}

static int connect_rc(struct cma_id *id, const struct cmm_conn *c)
{
	struct cm_job j = { .connect = { .route = id_route(id), .plt = id->life } };
	int err = cma_must_fit(c->data_len, "REQ", CM_REQ_DATA - CM_IP_LEN);

	if (err)
		return err;
	id->resp_res = depth(c->responder_resources, RD_MAX_RD_ATOM);
	id->init_depth = depth(c->initiator_depth, RD_MAX_RD_ATOM);
	err = qp_name(id, c->qp_num);
	if (err)
		return err;
	req_fill(&j.connect.req, id, c);
	err = agent_call(id->dev, job_connect, &j);
	if (!err)
		cma_id_tie(id, j.cm_id);
	return err;
}

int cma_connect(struct cma_id *id, const struct cmm_conn *c)
{
	int err = cma_must_be(id, CMA_ROUTE_RESOLVED);

	if (err)
		return err;
	/* An event may come before this function is over, but is looked at after it. */
	err = id->qp_type == QPT_UD ? connect_ud(id, c) : connect_rc(id, c);
	if (!err)
		id->state = CMA_CONNECT;
	return err;
}

/* ---- answering ------------------------------------------------------------------------------ */

static int job_accept(struct cm *cm, void *arg, mono_t now)
{
	struct cm_job *j = arg;

	return cm_accept(cm, j->cm_id, &j->rep, now);
}

static int job_sidr_reply(struct cm *cm, void *arg, mono_t now)
{
	struct cm_job *j = arg;

	return cm_sidr_reply(cm, j->cm_id, &j->sidr_rep, now);
}

static int accept_ud(struct cma_id *id, const struct cmm_conn *c)
{
	struct cm_job j = { .cm_id = id->cm_id };
	int err = cma_must_fit(c->data_len, "SIDR_REP", CM_SIDR_REP_DATA);

	if (err)
		return err;
	if (!id->qkey)
		id->qkey = c->qkey ? c->qkey : CMA_UDP_QKEY;
	else if (c->qkey && c->qkey != id->qkey)
		return cma_refuse(EINVAL, "qkey 0x%x: the id has 0x%x", c->qkey, id->qkey);
	id->qpn = c->qp_num & QPN_MASK;
	j.sidr_rep.status = SIDR_OK;
	j.sidr_rep.qpn = id->qpn;
	j.sidr_rep.qkey = id->qkey;
	memcpy(j.sidr_rep.data, c->data, c->data_len);
	return agent_call(id->dev, job_sidr_reply, &j);
}

int cma_accept(struct cma_id *id, const struct cmm_conn *c)
{
	struct cm_job j = { .cm_id = id->cm_id };
	bool xrc = id->qp_type == QPT_XRC_RECV;
	int err = cma_must_be(id, CMA_CONNECT);

	if (!err && !id->passive)
		err = cma_refuse(EINVAL, "the id is not of a CONNECT_REQUEST");
	if (err)
		return err;
	if (id->qp_type == QPT_UD)
		return accept_ud(id, c);
	err = cma_must_fit(c->data_len, "REP", CM_REP_DATA);
	if (!err)
		err = qp_name(id, c->qp_num);
	if (err)
		return err;
	j.rep = (struct cm_rep){
		.qpn = xrc ? 0 : id->qpn,
		.eecn = xrc ? id->qpn : 0,
		.psn = id->psn,
		.resp_res = depth(c->responder_resources, least(id->resp_res, RD_MAX_RD_ATOM)),
		.init_depth = depth(c->initiator_depth, least(id->init_depth, RD_MAX_RD_ATOM)),
		.ack_delay = AGENT_ACK_DELAY,
		.flow_ctrl = c->flow_control,
		.rnr_retry = least(c->rnr_retry_count, 7),
		.srq = c->srq,
		.ece = c->ece_options,
		.vendor = { (uint8_t)(c->ece_vendor >> 16), (uint8_t)(c->ece_vendor >> 8), (uint8_t)c->ece_vendor },
	};
	memcpy(j.rep.data, c->data, c->data_len);
	return agent_call(id->dev, job_accept, &j);
}

static int job_rtu(struct cm *cm, void *arg, mono_t now)
{
	struct cm_job *j = arg;

	return cm_rtu(cm, j->cm_id, NULL, now);
}

int cma_establish(struct cma_id *id, const struct cmm_qp *qp)
{
	struct cm_job j = { .cm_id = id->cm_id };
	int err = cma_qp_connect(id, qp, NULL);

	if (err)
		return err;
	if (id->state != CMA_CONNECT || id->passive || id->qp_type == QPT_UD)
		return EINVAL;
	return agent_call(id->dev, job_rtu, &j);
}

static int job_reject(struct cm *cm, void *arg, mono_t now)
{
	struct cm_job *j = arg;

	return cm_reject(cm, j->cm_id, j->reason, NULL, 0, j->data, now);
}

int cma_reject(struct cma_id *id, uint16_t reason, const uint8_t *data, size_t len)
{
	struct cm_job j = { .cm_id = id->cm_id, .reason = reason };
	bool ud = id->qp_type == QPT_UD;
	int err = id->cm_id ? cma_must_fit((unsigned)len, ud ? "SIDR_REP" : "REJ", ud ? CM_SIDR_REP_DATA : CM_REJ_DATA)
			    : cma_refuse(EINVAL, "there is no request to be rejected");

	if (err)
		return err;
	if (ud) {
		j.sidr_rep.status = SIDR_REJECT;
		memcpy(j.sidr_rep.data, data, len);
		return agent_call(id->dev, job_sidr_reply, &j);
	}
	memcpy(j.data, data, len);
	return agent_call(id->dev, job_reject, &j);
}

/* ---- the end ------------------------------------------------------------------------------------ */

static int job_disconnect(struct cm *cm, void *arg, mono_t now)
{
	struct cm_job *j = arg;

	return cm_disconnect(cm, j->cm_id, NULL, now);
}

/* A connection that is over, or never was as with datagrams, is no error: kernels report none either. */
int cma_disconnect(struct cma_id *id)
{
	struct cm_job j = { .cm_id = id->cm_id };

	if (!id->cm_id)
		return EINVAL;
	if (id->qp_type != QPT_UD)
		agent_call(id->dev, job_disconnect, &j);
	return 0;
}

static int job_established(struct cm *cm, void *arg, mono_t now)
{
	struct cm_job *j = arg;

	return cm_established(cm, j->cm_id, now);
}

int cma_notify(struct cma_id *id, uint32_t event)
{
	struct cm_job j = { .cm_id = id->cm_id };

	if (!id->cm_id || event != EV_COMM_EST)
		return EINVAL;
	return agent_call(id->dev, job_established, &j);
}
