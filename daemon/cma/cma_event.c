/* SPDX-License-Identifier: MIT */
/*
 * cma_event.c - events of ids for their programs: a list per channel, and a descriptor that is readable while the
 * list is not empty, and once more with each.
 *
 *	agent			id			told
 *	REQ, SIDR_REQ		(a new one)		CONNECT_REQUEST, to the listener
 *	REP			CONNECT			CONNECT_RESPONSE
 *	RTU			CONNECT			ESTABLISHED
 *	SIDR_REP		CONNECT			ESTABLISHED, UNREACHABLE
 *	REJ, TIMEOUT		CONNECT			REJECTED, UNREACHABLE
 *	DREQ, DREP, none	CONNECT > DISCONNECT	DISCONNECTED, once
 *	TIMEWAIT_EXIT		DISCONNECT		TIMEWAIT_EXIT
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cma.h"
#include "cma_agent.h"
#include "../base/log.h"
#include "../shard/publish.h"

/* ---- records ----------------------------------------------------------------------- */

bool cma_channel_say(const struct cma_channel *ch)
{
	char token = 0;

	return write(ch->near, &token, sizeof(token)) == sizeof(token);
}

void cma_channel_light(struct cma_channel *ch)
{
	while (ch->tokens < ch->record_n && cma_channel_say(ch))
		ch->tokens++;
	if (ch->tokens > ch->record_n) {
		ch->over += ch->tokens - ch->record_n;
		ch->tokens = ch->record_n;
	}
}

struct cma_record *cma_event_put(struct cma_id *id, enum cma_event_type type, int status)
{
	struct cost cost = { { [QUOTA_HEAP] = sizeof(struct cma_record) } };
	struct cma_record *r;

	cma_hooks.event(id, type, status);
	if (id->passive && !id->cookie)
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r || bill_open(&r->bill, id->ch->who.uid, &cost)) {
		log_warn("no memory for a CM event of user %u", (unsigned)id->ch->who.uid);
		free(r);
		return NULL;
	}
	r->id = id;
	r->ev.cookie = id->cookie;
	r->ev.id = id->number;
	r->ev.type = type;
	r->ev.status = status;
	r->ev.ud = id->qp_type == QPT_UD;
	link_add_tail(&id->ch->records, &r->link);
	link_add_tail(&id->records, &r->of_id);
	id->ch->record_n++;
	cma_count.events++;
	cma_channel_light(id->ch);
	return r;
}

static void record_free(struct cma_record *r)
{
	struct cma_channel *ch = r->id->ch;

	if (r->fresh) {
		r->fresh->request = NULL;
		r->id->waiting--;
		cma_listen_full(r->id, false);
	}
	if (r->group)
		r->group->record = NULL;
	link_del(&r->link);
	link_del(&r->of_id);
	ch->record_n--;
	cma_count.events--;
	cma_channel_light(ch);
	bill_close(&r->bill);
	free(r);
}

/* With the event, what the library would ask for next.  Of datagrams it asks when it needs it: to ask settles the Q_Key. */
static void init_add(struct cma_id *id, struct cmm_event *ev)
{
	if (id->qp_type != QPT_UD && !ev->status &&
	    (ev->type == CMA_EV_ADDR_RESOLVED || ev->type == CMA_EV_ROUTE_RESOLVED ||
	     ev->type == CMA_EV_CONNECT_REQUEST))
		cma_qp_attrs(id, &(uint8_t){ QPS_INIT }, 1, &ev->init);
}

/* Options that the peer has chosen are the library's to judge. */
static void qp_follow(struct cma_id *id, struct cmm_event *ev)
{
	if (ev->type != CMA_EV_CONNECT_RESPONSE || !id->qp.qpn || ev->conn.ece_vendor)
		return;
	ev->qp.tried = 1;
	ev->qp.err = cma_establish(id, &id->qp);
}

int cma_event_get(struct cma_channel *ch, struct cmm_event *ev)
{
	struct cma_record *r;

	if (link_empty(&ch->records))
		return EAGAIN;
	r = LINK_OF(ch->records.next, struct cma_record, link);
	*ev = r->ev;
	cma_id_info(r->fresh ? r->fresh : r->id, &ev->info);
	init_add(r->fresh ? r->fresh : r->id, ev);
	qp_follow(r->id, ev);
	if (r->group)
		r->group->told++;
	else
		r->id->told++;
	record_free(r);
	ev->left = ch->record_n;
	return 0;
}

/* With the id that only this record knows. */
void cma_event_drop(struct cma_record *r)
{
	struct cma_id *fresh = r->fresh;

	record_free(r);
	if (fresh)
		cma_id_destroy(fresh);
}

void cma_events_drop_id(struct cma_id *id)
{
	while (!link_empty(&id->records))
		cma_event_drop(LINK_OF(id->records.next, struct cma_record, of_id));
	if (id->request)
		record_free(id->request);
}

/* ---- requests ---------------------------------------------------------------------------- */

/* The service that is called, and the caller's port and address: the same in both kinds of request. */
struct caller {
	uint64_t service_id;
	uint16_t port;
	struct cm_ip ip;
	uint8_t qp_type;
};

static bool caller_get(struct caller *c, const struct cm_event *ev)
{
	const uint8_t *data = ev->type == CM_EV_REQ ? ev->msg.req.data : ev->msg.sidr_req.data;
	uint16_t pkey = ev->type == CM_EV_REQ ? ev->msg.req.pkey : ev->msg.sidr_req.pkey;

	c->service_id = ev->type == CM_EV_REQ ? ev->msg.req.service_id : ev->msg.sidr_req.service_id;
	c->port = (uint16_t)c->service_id;
	c->qp_type = QPT_UD;
	if (ev->type == CM_EV_REQ) {
		switch (ev->msg.req.transport) {
		case CM_RC: c->qp_type = QPT_RC; break;
		case CM_UC: c->qp_type = QPT_UC; break;
		case CM_XRC: c->qp_type = QPT_XRC_RECV; break;
		default: return false;
		}
	}
	/* Rule 7.9: the addresses that are said are those that the MAD has. */
	return (pkey & 0x7fff) == 0x7fff && cm_ip_get(&c->ip, data) && gid_same(c->ip.src, ev->route.dgid) &&
	       gid_same(c->ip.dst, ev->route.sgid);
}

static void conn_of_req(struct cmm_conn *c, const struct cm_req *r)
{
	c->qp_num = r->qpn;
	c->srq = r->srq;
	c->responder_resources = r->init_depth;
	c->initiator_depth = r->resp_res;
	c->flow_control = r->flow_ctrl;
	c->retry_count = r->retry_cnt;
	c->rnr_retry_count = r->rnr_retry;
	c->ece_vendor = r->vendor_id;
	c->ece_options = r->ece;
	c->data_len = CM_REQ_DATA - CM_IP_LEN;
	memcpy(c->data, r->data + CM_IP_LEN, c->data_len);
}

static void id_of_caller(struct cma_id *id, struct device *dev, int row, const struct caller *c,
			 const struct cm_event *ev)
{
	int family = c->ip.version == 4 ? AF_INET : AF_INET6;
	unsigned scope = dev->gid[row].ifindex;

	id->passive = true;
	id->state = CMA_CONNECT;
	id->dev = dev;
	id->sgid_index = (uint8_t)row;
	memcpy(id->sgid, ev->route.sgid, 16);
	memcpy(id->dgid, ev->route.dgid, 16);
	cma_addr_of_gid(&id->src, family, c->ip.dst, c->port, scope);
	cma_addr_of_gid(&id->dst, family, c->ip.src, c->ip.sport, scope);
	id->routed = true;
	id->mtu = dev->mtu;
	if (ev->type == CM_EV_REQ) {
		const struct cm_req *r = &ev->msg.req;

		id->mtu = r->mtu;
		id->flow_label = r->path.flow_label;
		id->tos = r->path.tclass;
		id->life = r->path.ack_timeout ? r->path.ack_timeout - 1 : 0;
		id->resp_res = r->init_depth;
		id->init_depth = r->resp_res;
	} else {
		id->flow_label = cm_flow_label(c->port, c->ip.sport);
		id->life = CMA_LIFE;
	}
	cma_id_tie(id, ev->id);
}

/* false: it is not for anybody here. */
static bool request(struct device *dev, const struct cm_event *ev)
{
	struct cma_record *r;
	struct cma_id *listener, *id;
	struct caller c;
	int row;

	if (!caller_get(&c, ev))
		return false;
	row = cma_row(dev, ev->route.sgid);
	listener = cma_port_find((uint16_t)(c.service_id >> 16), c.port, c.ip.dst,
				 c.ip.version == 4 ? AF_INET : AF_INET6);
	if (row < 0 || !listener || (listener->dev && listener->dev != dev) || listener->qp_type != c.qp_type ||
	    (listener->from_here && !cma_gid_here(c.ip.src)))
		return false;
	if (listener->waiting >= listener->backlog) {
		agent_request_drop(dev, ev->id); /* it comes again */
		return true;
	}
	id = cma_id_new(listener->ch, listener->ps, c.qp_type);
	if (!id)
		return false;
	id_of_caller(id, dev, row, &c, ev);
	r = cma_event_put(listener, CMA_EV_CONNECT_REQUEST, 0);
	if (!r) {
		cma_id_destroy(id);
		return true;
	}
	r->fresh = id;
	id->request = r;
	if (++listener->waiting >= listener->backlog)
		cma_listen_full(listener, true);
	r->ev.id = id->number;
	if (ev->type == CM_EV_REQ) {
		conn_of_req(&r->ev.conn, &ev->msg.req);
	} else {
		r->ev.conn.data_len = CM_SIDR_REQ_DATA - CM_IP_LEN;
		memcpy(r->ev.conn.data, ev->msg.sidr_req.data + CM_IP_LEN, r->ev.conn.data_len);
	}
	return true;
}

/* ---- answers ------------------------------------------------------------------------------- */

static void response(struct cma_id *id, const struct cm_rep *rep)
{
	struct cma_record *r = cma_event_put(id, CMA_EV_CONNECT_RESPONSE, 0);
	struct cmm_conn *c;

	if (!r)
		return;
	c = &r->ev.conn;
	c->qp_num = id->qp_type == QPT_XRC_SEND ? rep->eecn : rep->qpn;
	c->srq = rep->srq;
	c->responder_resources = rep->init_depth;
	c->initiator_depth = rep->resp_res;
	c->flow_control = rep->flow_ctrl;
	c->rnr_retry_count = rep->rnr_retry;
	c->ece_vendor = (uint32_t)rep->vendor[0] << 16 | (uint32_t)rep->vendor[1] << 8 | rep->vendor[2];
	c->ece_options = rep->ece;
	c->data_len = CM_REP_DATA;
	memcpy(c->data, rep->data, CM_REP_DATA);
}

static void rejected(struct cma_id *id, const struct cm_rej *rej)
{
	struct cma_record *r = cma_event_put(id, CMA_EV_REJECTED, rej->reason);

	if (!r)
		return;
	r->ev.conn.data_len = CM_REJ_DATA;
	memcpy(r->ev.conn.data, rej->data, CM_REJ_DATA);
}

/* One Q_Key for an id: another one than it works with already is an error. */
static void found(struct cma_id *id, const struct cm_sidr_rep *rep)
{
	bool ok = rep->status == SIDR_OK, fits = !id->qkey || id->qkey == rep->qkey;
	struct cma_record *r;

	if (!ok)
		r = cma_event_put(id, CMA_EV_UNREACHABLE, rep->status);
	else
		r = cma_event_put(id, fits ? CMA_EV_ESTABLISHED : CMA_EV_ADDR_ERROR, fits ? 0 : -EINVAL);
	if (!r)
		return;
	r->ev.conn.data_len = CM_SIDR_REP_DATA;
	memcpy(r->ev.conn.data, rep->data, CM_SIDR_REP_DATA);
	if (!ok || !fits)
		return;
	id->qkey = rep->qkey;
	r->ev.conn.qp_num = rep->qpn;
	r->ev.conn.qkey = rep->qkey;
	cma_path_av(id, &r->ev.av);
}

static void disconnected(struct cma_id *id, int status)
{
	unsigned owner = qpn_owner(id->qpn); /* the QPN is what the program said */

	if (id->state != CMA_CONNECT)
		return;
	id->state = CMA_DISCONNECT;
	if (owner < shards_n)
		publish_before(shards[owner]);
	cma_event_put(id, CMA_EV_DISCONNECTED, status);
}

void cma_event_from_agent(struct device *dev, const struct cm_event *ev)
{
	struct cma_id *id = cma_id_by_cm(dev, ev->id);

	if (ev->type == CM_EV_REQ || ev->type == CM_EV_SIDR_REQ) {
		if (!request(dev, ev))
			agent_id_free(dev, ev->id); /* REJ 28, SIDR status 2 */
		return;
	}
	if (!id) /* destroyed meanwhile */
		return;
	id->sent = ev->sent;
	switch (ev->type) {
	case CM_EV_REP: response(id, &ev->msg.rep); break;
	case CM_EV_RTU: cma_event_put(id, CMA_EV_ESTABLISHED, 0); break;
	case CM_EV_REJ: rejected(id, &ev->msg.rej); break;
	case CM_EV_TIMEOUT: cma_event_put(id, CMA_EV_UNREACHABLE, -ETIMEDOUT); break;
	case CM_EV_DREQ:
	case CM_EV_DREP: disconnected(id, 0); break;
	case CM_EV_DREQ_TIMEOUT: disconnected(id, -ETIMEDOUT); break;
	case CM_EV_TIMEWAIT_EXIT:
		if (id->state == CMA_DISCONNECT) /* else it was rejected, and that was its end */
			cma_event_put(id, CMA_EV_TIMEWAIT_EXIT, 0);
		break;
	case CM_EV_SIDR_REP: found(id, &ev->msg.sidr_rep); break;
	case CM_EV_REQ:
	case CM_EV_SIDR_REQ: break;
	}
}
