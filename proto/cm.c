/* SPDX-License-Identifier: MIT */
/*
 * cm.c - what programs do with connections, and what happens when nothing comes (rules 7.3, 7.6, 7.7).
 *
 *	REQ_SENT --REP--> REP_RCVD --cm_rtu--> ESTABLISHED --cm_disconnect--> DREQ_SENT --DREP--> TIMEWAIT
 *	REQ_RCVD --cm_accept--> REP_SENT --RTU-----^   |                                             ^  |
 *	                                               +-------DREQ--> DREQ_RCVD --cm_disconnect-----+  v
 *	                                                                                               DEAD
 *
 * Received messages move ids in cm_rx.c.
 */
#include "cm_in.h"

#include <errno.h>
#include <string.h>

#include "bytes.h"

enum { RNR_FOR_EVER = 7, RNR_LONG = 0, RNR_SOON = 12 /* 0.64 ms */ };

#define TID_AGENT 2u /* the upper half of a TID: which agent of its sender; so says Linux's CM */

/*
 * How long the peer waits when we have no receive for it, by how often it tries again, which our REQ or REP says.
 * Kernels leave it at 0, 655 ms.  If it tries for ever there is no reason to let it wait that long; else that is its
 * patience.
 */
static uint8_t cm_rnr_timer(uint8_t rnr_retry) { return rnr_retry == RNR_FOR_EVER ? RNR_SOON : RNR_LONG; }

static uint64_t own_tid(const struct cm_id *i) { return (uint64_t)TID_AGENT << 32 | __builtin_bswap32(i->id); }

static void data_set(uint8_t *to, const uint8_t *data, size_t len)
{
	if (data)
		memcpy(to, data, len);
}

static struct cm_id *owned(const struct cm *c, uint32_t id)
{
	struct cm_id *i = id_find(c, id);

	return i && !i->freed ? i : NULL;
}

/* ---- messages of an id ------------------------------------------------------ */

static void send_rej(struct cm *c, struct cm_id *i, uint16_t reason, const uint8_t *ari, uint8_t ari_len,
		     const uint8_t *data)
{
	struct cm_msg m = { .attr = CM_REJ, .tid = i->tid };

	m.rej.remote_id = i->remote_id;
	m.rej.reason = reason;
	m.rej.ari_len = ari ? least(ari_len, CM_ARI) : 0;
	data_set(m.rej.ari, ari, m.rej.ari_len);
	data_set(m.rej.data, data, CM_REJ_DATA);
	m.rej.local_id = i->id;
	switch (i->state) {
	case CM_REQ_RCVD:
		m.rej.local_id = 0; /* rule 7.3: the peer has not heard of it */
		m.rej.msg = REJ_OF_REQ;
		break;
	case CM_MRA_REQ_SENT: m.rej.msg = REJ_OF_REQ; break;
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT: m.rej.msg = REJ_OF_REP; break;
	default: m.rej.msg = REJ_OF_OTHER;
	}
	id_send(c, i, &m);
}

/* The peer may not know our id yet, but knows us: by the GUID it finds what we called the connection. */
static void send_rej_timeout(struct cm *c, struct cm_id *i)
{
	uint8_t guid[8];

	be64_put(guid, c->cfg.ca_guid);
	send_rej(c, i, REJ_TIMEOUT, guid, sizeof(guid), NULL);
}

void send_mra(struct cm *c, struct cm_id *i)
{
	struct cm_msg m = { .attr = CM_MRA, .tid = i->tid };

	m.mra.local_id = i->id;
	m.mra.remote_id = i->remote_id;
	m.mra.msg = i->passive ? REJ_OF_REQ : REJ_OF_REP;
	m.mra.timeout = CM_MRA_TIMEOUT;
	id_send(c, i, &m);
}

void send_dreq(struct cm *c, struct cm_id *i, const uint8_t *data)
{
	struct cm_msg m = { .attr = CM_DREQ, .tid = own_tid(i) };

	m.dreq.local_id = i->id;
	m.dreq.remote_id = i->remote_id;
	m.dreq.qpn = i->qp.dest_qpn;
	data_set(m.dreq.data, data, CM_DREQ_DATA);
	id_state(c, i, CM_DREQ_SENT);
	id_send(c, i, &m);
	id_repeat(c, i);
}

/* i->tid is the DREQ's. */
void send_drep(struct cm *c, struct cm_id *i, const uint8_t *data)
{
	struct cm_msg m = { .attr = CM_DREP, .tid = i->tid };

	m.drep.local_id = i->id;
	m.drep.remote_id = i->remote_id;
	data_set(m.drep.data, data, CM_DREQ_DATA);
	id_send(c, i, &m);
}

/* The connection is over: the peer's QP may have another one. */
void id_timewait(struct cm *c, struct cm_id *i)
{
	id_state(c, i, CM_TIMEWAIT);
	link_del(&i->by_qpn);
	timer_set(&c->timers, &i->timer, mono_add(c->now, cm_timeout_ns(least(i->qp.timeout, CM_PEER_MAX))));
}

/* ---- listening, asking --------------------------------------------------------- */

int cm_listen(struct cm *c, uint64_t service_id, void *host, uint32_t *id)
{
	struct cm_id *i;

	if (id_find_service(c, service_id))
		return EADDRINUSE;
	i = id_new(c, CM_LISTEN);
	if (!i)
		return ENOMEM;
	i->host = host;
	id_peer_set(c, i, 0, service_id);
	*id = i->id;
	return 0;
}

int cm_listen_full(struct cm *c, uint32_t id, bool full)
{
	struct cm_id *i = owned(c, id);

	if (!i || i->state != CM_LISTEN)
		return EINVAL;
	i->full = full;
	return 0;
}

bool cm_listening(const struct cm *c, uint64_t service_id) { return id_find_service(c, service_id); }

int cm_connect(struct cm *c, const struct cm_connect *a, void *host, uint32_t *id, mono_t now)
{
	struct cm_id *i = id_new(c, CM_REQ_SENT);
	struct cm_msg m = { .attr = CM_REQ };
	struct cm_qp *q;

	cm_clock(c, now);
	if (!i)
		return ENOMEM;
	i->host = host;
	i->route = a->route;
	i->tid = m.tid = own_tid(i);
	i->local_qpn = a->req.qpn;
	i->own_resp_res = a->req.resp_res;
	i->own_init_depth = a->req.init_depth;
	i->plt = least(a->plt, 31);
	i->timeout_ns = 2 * cm_timeout_ns(i->plt) + cm_timeout_ns(least(a->req.remote_timeout, 31));
	i->retries = a->req.max_retries;
	i->answer_ns = cm_timeout_ns(least(a->req.local_timeout, 31));
	q = &i->qp;
	q->transport = a->req.transport;
	q->rq_psn = a->req.psn & PSN_MASK;
	q->mtu = a->req.mtu;
	q->timeout = a->req.path.ack_timeout;
	q->retry_cnt = a->req.retry_cnt;
	q->min_rnr_timer = cm_rnr_timer(a->req.rnr_retry);
	q->route = (struct route){ .flow_label = a->req.path.flow_label,
				   .tclass = a->req.path.tclass,
				   .hop_limit = a->req.path.hop_limit };
	memcpy(q->route.sgid, a->req.path.sgid, 16);
	memcpy(q->route.dgid, a->req.path.dgid, 16);
	m.req = a->req;
	m.req.local_id = i->id;
	m.req.ca_guid = c->cfg.ca_guid;
	id_send(c, i, &m);
	id_repeat(c, i);
	*id = i->id;
	return 0;
}

int cm_sidr(struct cm *c, const struct cm_sidr_req *req, const struct route *route, void *host, uint32_t *id,
	    mono_t now)
{
	struct cm_id *i = id_new(c, CM_SIDR_REQ_SENT);
	struct cm_msg m = { .attr = CM_SIDR_REQ };

	cm_clock(c, now);
	if (!i)
		return ENOMEM;
	i->host = host;
	i->route = *route;
	i->tid = m.tid = own_tid(i);
	i->timeout_ns = cm_timeout_ns(CM_SIDR_TIMEOUT);
	i->retries = CM_SIDR_RETRIES;
	m.sidr_req = *req;
	m.sidr_req.request_id = i->id;
	id_send(c, i, &m);
	id_repeat(c, i);
	*id = i->id;
	return 0;
}

/* ---- answering ------------------------------------------------------------------ */

int cm_accept(struct cm *c, uint32_t id, const struct cm_rep *rep, mono_t now)
{
	struct cm_id *i = owned(c, id);
	struct cm_msg m = { .attr = CM_REP };

	cm_clock(c, now);
	if (!i || (i->state != CM_REQ_RCVD && i->state != CM_MRA_REQ_SENT))
		return EINVAL;
	i->local_qpn = i->qp.transport == CM_XRC ? rep->eecn : rep->qpn;
	i->qp.rq_psn = rep->psn & PSN_MASK;
	i->qp.max_rd_atomic = rep->init_depth;
	i->qp.max_dest_rd_atomic = rep->resp_res;
	i->qp.min_rnr_timer = cm_rnr_timer(rep->rnr_retry);
	m.tid = i->tid;
	m.rep = *rep;
	m.rep.local_id = i->id;
	m.rep.remote_id = i->remote_id;
	m.rep.ca_guid = c->cfg.ca_guid;
	id_state(c, i, CM_REP_SENT);
	id_send(c, i, &m);
	id_repeat(c, i);
	return 0;
}

int cm_rtu(struct cm *c, uint32_t id, const uint8_t *data, mono_t now)
{
	struct cm_id *i = owned(c, id);
	struct cm_msg m = { .attr = CM_RTU };

	cm_clock(c, now);
	if (!i || (i->state != CM_REP_RCVD && i->state != CM_MRA_REP_SENT))
		return EINVAL;
	m.tid = i->tid;
	m.rtu.local_id = i->id;
	m.rtu.remote_id = i->remote_id;
	data_set(m.rtu.data, data, CM_RTU_DATA);
	id_state(c, i, CM_ESTABLISHED);
	id_send(c, i, &m);
	id_repeat_slowly(c, i, i->answer_ns < CM_PEER_NS ? CM_PEER_NS : i->answer_ns);
	return 0;
}

int cm_established(struct cm *c, uint32_t id, mono_t now)
{
	struct cm_id *i = owned(c, id);
	struct cm_msg m = { .attr = CM_RTU };
	struct gsi g;

	cm_clock(c, now);
	if (!i)
		return EINVAL;
	if (i->state != CM_REP_SENT && i->state != CM_MRA_REP_RCVD)
		return 0;
	m.tid = i->tid;
	m.rtu.local_id = i->remote_id;
	m.rtu.remote_id = i->id;
	i->proven = true; /* its QP is in our REP only */
	cm_msg_put(g.mad, &m);
	g.route = route_back(&i->route);
	id_state(c, i, CM_ESTABLISHED);
	id_event(c, i, CM_EV_RTU, &g);
	return 0;
}

int cm_reject(struct cm *c, uint32_t id, uint16_t reason, const uint8_t *ari, uint8_t ari_len, const uint8_t *data,
	      mono_t now)
{
	struct cm_id *i = owned(c, id);

	cm_clock(c, now);
	if (!i)
		return EINVAL;
	switch (i->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		send_rej_timeout(c, i); /* no other reason reaches a peer whose id is not known */
		break;
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD: send_rej(c, i, reason, ari, ari_len, data); break;
	default: return EINVAL;
	}
	id_dead(c, i);
	return 0;
}

int cm_disconnect(struct cm *c, uint32_t id, const uint8_t *data, mono_t now)
{
	struct cm_id *i = owned(c, id);

	cm_clock(c, now);
	if (!i || (i->state != CM_ESTABLISHED && i->state != CM_DREQ_RCVD))
		return EINVAL;
	if (i->state == CM_ESTABLISHED) {
		send_dreq(c, i, data);
	} else {
		send_drep(c, i, data);
		id_timewait(c, i);
	}
	return 0;
}

/* The peer repeats its question if the answer got lost.  If four in a row get lost, late, it is a new question. */
void sidr_wait(struct cm *c, struct cm_id *i)
{
	id_state(c, i, CM_TIMEWAIT);
	timer_set(&c->timers, &i->timer, mono_add(c->now, 9 * cm_timeout_ns(CM_SIDR_TIMEOUT)));
}

static void sidr_answer(struct cm *c, struct cm_id *i, const struct cm_sidr_rep *rep)
{
	struct cm_msg m = { .attr = CM_SIDR_REP, .tid = i->tid };

	m.sidr_rep = *rep;
	m.sidr_rep.request_id = i->remote_id;
	m.sidr_rep.service_id = i->service_id;
	id_send(c, i, &m);
	sidr_wait(c, i);
}

int cm_sidr_reply(struct cm *c, uint32_t id, const struct cm_sidr_rep *rep, mono_t now)
{
	struct cm_id *i = owned(c, id);

	cm_clock(c, now);
	if (!i || i->state != CM_SIDR_REQ_RCVD)
		return EINVAL;
	sidr_answer(c, i, rep);
	return 0;
}

/* ---- letting go -------------------------------------------------------------------- */

/* REQs for a listener that nobody has looked at are refused with it. */
static void unheard_free(struct cm *c, uint32_t listen_id)
{
	struct link *l = c->events.next, *next;

	for (; l != &c->events; l = next) {
		struct cm_ev *e = LINK_OF(l, struct cm_ev, link);

		next = l->next;
		if ((e->type != CM_EV_REQ && e->type != CM_EV_SIDR_REQ) || e->id->listen_id != listen_id)
			continue;
		cm_id_free(c, e->id->id, c->now);
		next = c->events.next; /* other events of the id may have gone, too */
	}
}

void cm_id_free(struct cm *c, uint32_t id, mono_t now)
{
	static const struct cm_sidr_rep no = { .status = SIDR_REJECT };
	struct cm_id *i = owned(c, id);

	cm_clock(c, now);
	if (!i)
		return;
	id_free_events(i);
	i->freed = true;
	link_add_tail(&c->rests, &i->rest);
	link_del(&i->by_qpn);
	switch (i->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD: send_rej_timeout(c, i); break;
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD: send_rej(c, i, REJ_CONSUMER, NULL, 0, NULL); break;
	case CM_ESTABLISHED: send_dreq(c, i, NULL); return;
	case CM_DREQ_RCVD:
		send_drep(c, i, NULL);
		id_timewait(c, i);
		return;
	case CM_SIDR_REQ_RCVD: sidr_answer(c, i, &no); return;
	case CM_DREQ_SENT:
	case CM_TIMEWAIT: return;
	case CM_LISTEN: unheard_free(c, id); break;
	default: break;
	}
	id_dead(c, i);
}

void cm_request_drop(struct cm *c, uint32_t id, mono_t now)
{
	struct cm_id *i = owned(c, id);

	if (!i || i->state != CM_REQ_RCVD || i->hasty) {
		cm_id_free(c, id, now);
		return;
	}
	c->n.dropped++;
	id_del(c, i);
}

int cm_host_set(struct cm *c, uint32_t id, void *host)
{
	struct cm_id *i = owned(c, id);

	if (!i)
		return EINVAL;
	i->host = host;
	return 0;
}

/* ---- time ----------------------------------------------------------------------------- */

static void gave_up(struct cm *c, struct cm_id *i)
{
	switch (i->state) {
	case CM_ESTABLISHED: return; /* the RTU; nothing answers it */
	case CM_DREQ_SENT:
		id_event(c, i, CM_EV_DREQ_TIMEOUT, NULL);
		id_timewait(c, i);
		return;
	case CM_TIMEWAIT:
		if (!i->sidr)
			id_event(c, i, CM_EV_TIMEWAIT_EXIT, NULL);
		break;
	default:
		if (i->state != CM_SIDR_REQ_SENT)
			send_rej_timeout(c, i);
		id_event(c, i, CM_EV_TIMEOUT, NULL);
	}
	id_dead(c, i);
}

void cm_tick(struct cm *c, mono_t now)
{
	struct timer *t;

	cm_clock(c, now);
	while ((t = heap_due(&c->timers, now))) {
		struct cm_id *i = LINK_OF(t, struct cm_id, timer);

		if (i->state == CM_TIMEWAIT || !i->retries_left) {
			gave_up(c, i);
			continue;
		}
		if (mono_reached(now, i->patient))
			i->retries_left--;
		if (id_again(c, i) && i->state != CM_ESTABLISHED)
			i->sent++;
		id_repeat_wait(c, i);
	}
}

mono_t cm_deadline(const struct cm *c) { return heap_next(&c->timers); }
