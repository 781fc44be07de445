/* SPDX-License-Identifier: MIT */
/*
 * cm_rx.c - what a received message does: THE table of state and message is below; nothing else decides it.
 *
 * A message that is not in the table is a repetition that needs no answer, or a message that came too late: it is
 * dropped. Messages that find no id are answered so that the peer forgets the connection, too (rule 7.7).
 */
#include "cm_in.h"

#include <string.h>

#include "bytes.h"

struct in {
	const struct gsi *g;
	const struct cm_msg *m;
};

/* ---- actions: true, or false: the message is not for this id after all -------------------- */

typedef bool act_fn(struct cm *, struct cm_id *, const struct in *);

static bool again(struct cm *c, struct cm_id *i, const struct in *)
{
	id_again(c, i);
	return true;
}

/* The RTU got lost.  Only who connects gets REPs. */
static bool rtu_again(struct cm *c, struct cm_id *i, const struct in *in) { return !i->passive && again(c, i, in); }

/* The program is slow: the peer shall not give up.  Not yet if it repeats itself early: that is only for what got lost. */
static bool ask_patience(struct cm *c, struct cm_id *i, const struct in *)
{
	if (mono_since(c->now, i->asked) < i->answer_ns / 2)
		return true;
	send_mra(c, i);
	id_state(c, i, i->passive ? CM_MRA_REQ_SENT : CM_MRA_REP_SENT);
	return true;
}

static bool be_patient(struct cm *c, struct cm_id *i, const struct in *in)
{
	const struct cm_mra *m = &in->m->mra;

	if (m->msg != (i->passive ? REJ_OF_REP : REJ_OF_REQ))
		return false;
	id_state(c, i, i->passive ? CM_MRA_REP_RCVD : CM_MRA_REQ_RCVD);
	id_patient(c, i, cm_timeout_ns(least(m->timeout, CM_MRA_MAX)));
	return true;
}

static bool refused(struct cm *c, struct cm_id *i, const struct in *in)
{
	id_event(c, i, CM_EV_REJ, in->g);
	id_dead(c, i);
	return true;
}

/* We thought that it was connected, the peer had given up waiting: packets may be under way. */
static bool torn(struct cm *c, struct cm_id *i, const struct in *in)
{
	id_event(c, i, CM_EV_REJ, in->g);
	id_timewait(c, i);
	return true;
}

static bool up(struct cm *c, struct cm_id *i, const struct in *in)
{
	id_state(c, i, CM_ESTABLISHED);
	id_event(c, i, CM_EV_RTU, in->g);
	return true;
}

static bool closing(struct cm *c, struct cm_id *i, const struct in *in)
{
	if (in->m->dreq.qpn != i->local_qpn)
		return false;
	i->tid = in->m->tid;
	id_state(c, i, CM_DREQ_RCVD);
	id_event(c, i, CM_EV_DREQ, in->g);
	return true;
}

/* A DREQ in place of the RTU: that got lost. */
static bool up_closing(struct cm *c, struct cm_id *i, const struct in *in)
{
	if (in->m->dreq.qpn != i->local_qpn)
		return false;
	cm_established(c, i->id, c->now);
	return closing(c, i, in);
}

/* Both ends closed at once. */
static bool crossed(struct cm *c, struct cm_id *i, const struct in *in)
{
	if (in->m->dreq.qpn != i->local_qpn)
		return false;
	i->tid = in->m->tid;
	send_drep(c, i, NULL);
	id_event(c, i, CM_EV_DREP, in->g);
	id_timewait(c, i);
	return true;
}

static bool closed(struct cm *c, struct cm_id *i, const struct in *in)
{
	id_event(c, i, CM_EV_DREP, in->g);
	id_timewait(c, i);
	return true;
}

static bool drep_again(struct cm *c, struct cm_id *i, const struct in *in)
{
	i->tid = in->m->tid;
	if (cm_last(i) == CM_DREP)
		id_again(c, i);
	else
		send_drep(c, i, NULL);
	return true;
}

static bool resolved(struct cm *c, struct cm_id *i, const struct in *in)
{
	id_event(c, i, CM_EV_SIDR_REP, in->g);
	id_dead(c, i);
	return true;
}

static bool sidr_again(struct cm *c, struct cm_id *i, const struct in *in)
{
	sidr_wait(c, i);
	return again(c, i, in);
}

/* ---- stale connections (rule 7.7) ------------------------------------------------------------ */

/* The peer has another connection with the QP of this one: it has forgotten this one, or was restarted. */
static void forgotten(struct cm *c, struct cm_id *i)
{
	struct cm_msg m = { .attr = CM_REJ, .tid = i->tid };
	struct gsi g;

	switch (i->state) {
	case CM_ESTABLISHED: send_dreq(c, i, NULL); break;
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		m.rej.local_id = i->remote_id;
		m.rej.remote_id = i->id;
		m.rej.msg = REJ_OF_OTHER;
		m.rej.reason = REJ_STALE;
		cm_msg_put(g.mad, &m);
		g.route = route_back(&i->route);
		id_event(c, i, CM_EV_REJ, &g);
		id_dead(c, i);
		break;
	default: break;
	}
}

/* ---- REQ, REP: connections begin --------------------------------------------------------------- */

static struct cm_msg rej_stranger(struct cm *c, const struct in *in, uint16_t reason, uint32_t local_id,
				  uint32_t remote_id, uint8_t msg)
{
	struct cm_msg m = { .attr = CM_REJ, .tid = in->m->tid };
	struct route back = route_back(&in->g->route);

	m.rej.local_id = local_id;
	m.rej.remote_id = remote_id;
	m.rej.msg = msg;
	m.rej.reason = reason;
	if (reason == REJ_GID) {
		m.rej.ari_len = 16;
		memcpy(m.rej.ari, in->g->route.dgid, 16);
	}
	out_put(c, &back, &m);
	return m;
}

/* And the same again, should it be repeated. */
static void rej_req(struct cm *c, const struct in *in, uint16_t reason)
{
	struct cm_msg m = rej_stranger(c, in, reason, 0, in->m->req.local_id, REJ_OF_REQ);
	struct route back = route_back(&in->g->route);

	past_put(c, &in->m->req, &back, &m);
}

static bool replied(struct cm *c, struct cm_id *i, const struct in *in)
{
	const struct cm_rep *rep = &in->m->rep;
	uint32_t qpn = i->qp.transport == CM_XRC ? rep->eecn : rep->qpn;
	struct cm_id *old = id_find_qpn(c, qpn, rep->ca_guid, &in->g->route);
	struct cm_qp *q = &i->qp;

	if (old && old != i) {
		rej_stranger(c, in, REJ_STALE, i->id, rep->local_id, REJ_OF_REP);
		forgotten(c, old);
		return true;
	}
	id_peer_set(c, i, rep->local_id, rep->ca_guid);
	id_qpn_set(c, i, qpn);
	q->sq_psn = rep->psn;
	q->max_rd_atomic = least(i->own_init_depth, rep->resp_res);
	q->max_dest_rd_atomic = least(i->own_resp_res, rep->init_depth);
	q->timeout = cm_ack_timeout(rep->ack_delay, i->plt);
	q->rnr_retry = rep->rnr_retry;
	q->srq = rep->srq;
	i->asked = c->now;
	id_state(c, i, CM_REP_RCVD);
	id_event(c, i, CM_EV_REP, in->g);
	return true;
}

static void qp_of_req(struct cm_qp *q, const struct cm_req *r)
{
	q->transport = r->transport;
	q->sq_psn = r->psn;
	q->max_rd_atomic = r->resp_res;
	q->max_dest_rd_atomic = r->init_depth;
	q->mtu = r->mtu;
	q->timeout = r->path.ack_timeout;
	q->retry_cnt = r->retry_cnt;
	q->rnr_retry = r->rnr_retry;
	q->srq = r->srq;
	q->route = (struct route){ .flow_label = r->path.flow_label,
				   .tclass = r->path.tclass,
				   .hop_limit = r->path.hop_limit };
	memcpy(q->route.sgid, r->path.dgid, 16);
	memcpy(q->route.dgid, r->path.sgid, 16);
}

/* 0, or why the REQ is not for us. */
static uint16_t refusal(const struct cm_req *r, const struct gsi *g)
{
	if (r->transport == CM_RD)
		return REJ_TRANSPORT;
	if (!gid_same(r->path.dgid, g->route.dgid) || !gid_same(r->path.sgid, g->route.sgid))
		return REJ_GID;
	return 0;
}

static bool refuse_stale(struct cm *c, struct cm_id *, const struct in *in)
{
	rej_stranger(c, in, REJ_STALE, 0, in->m->req.local_id, REJ_OF_REQ);
	return true;
}

static bool over(struct cm *c, const struct in *in)
{
	const struct cm_past *p = past_find(c, &in->m->req, in->g->route.sgid);

	if (!p)
		return false;
	out_mad(c, &p->back, p->rej);
	return true;
}

static void called(struct cm *c, const struct in *in)
{
	const struct cm_req *r = &in->m->req;
	struct cm_id *i, *l = id_find_service(c, r->service_id),
			 *old = id_find_qpn(c, r->qpn, r->ca_guid, &in->g->route);
	uint16_t why = refusal(r, in->g);

	if (!why && old) {
		why = REJ_STALE;
		forgotten(c, old);
	}
	if (!why && !l)
		why = REJ_SERVICE_ID;
	if (!why && l->full && !cm_req_hasty(r)) {
		c->n.dropped++;
		return;
	}
	if (!why && l->full)
		why = REJ_CONSUMER;
	if (why) {
		rej_req(c, in, why);
		return;
	}
	i = id_new(c, CM_REQ_RCVD);
	if (!i) {
		rej_req(c, in, REJ_NO_RESOURCES);
		return;
	}
	i->passive = true;
	i->hasty = cm_req_hasty(r);
	i->heard = 1;
	i->asked = c->now;
	i->host = l->host;
	i->listen_id = l->id;
	i->tid = in->m->tid;
	qp_of_req(&i->qp, r);
	i->route = i->qp.route;
	i->route.hop_limit = CM_HOPS;
	i->timeout_ns = cm_timeout_ns(least(r->local_timeout, CM_PEER_MAX));
	if (i->timeout_ns < CM_PEER_NS)
		i->timeout_ns = CM_PEER_NS;
	i->answer_ns = cm_timeout_ns(least(r->remote_timeout, CM_PEER_MAX));
	i->retries = r->max_retries;
	id_peer_set(c, i, r->local_id, r->ca_guid);
	id_qpn_set(c, i, r->qpn);
	i->proven = gid_known(c, i->route.dgid);
	id_event(c, i, CM_EV_REQ, in->g);
}

static void asked(struct cm *c, const struct in *in)
{
	const struct cm_sidr_req *r = &in->m->sidr_req;
	struct cm_id *i, *l = id_find_service(c, r->service_id);
	struct cm_msg m = { .attr = CM_SIDR_REP, .tid = in->m->tid };
	struct route back = route_back(&in->g->route);

	i = l && !l->full ? id_new(c, CM_SIDR_REQ_RCVD) : NULL;
	if (!i) {
		m.sidr_rep.request_id = r->request_id;
		m.sidr_rep.service_id = r->service_id;
		m.sidr_rep.status = l ? SIDR_REJECT : SIDR_SERVICE_ID;
		out_put(c, &back, &m);
		return;
	}
	i->passive = true;
	i->heard = 1;
	i->sidr = true;
	i->host = l->host;
	i->listen_id = l->id;
	i->service_id = r->service_id;
	i->tid = in->m->tid;
	i->route = back;
	id_peer_set(c, i, r->request_id, 0);
	id_event(c, i, CM_EV_SIDR_REQ, in->g);
}

/* ---- the table ------------------------------------------------------------------------------------ */

static act_fn *const table[CM_STATES][CM_SIDR_REP - CM_REQ + 1] = {
#define ON(m) [CM_##m - CM_REQ]
	[CM_REQ_SENT] = { ON(MRA) = be_patient, ON(REJ) = refused, ON(REP) = replied },
	[CM_MRA_REQ_RCVD] = { ON(REJ) = refused, ON(REP) = replied },
	[CM_REP_RCVD] = { ON(REP) = ask_patience, ON(REJ) = torn },
	[CM_MRA_REP_SENT] = { ON(REP) = again, ON(REJ) = torn },
	[CM_REQ_RCVD] = { ON(REQ) = ask_patience, ON(REJ) = refused },
	[CM_MRA_REQ_SENT] = { ON(REQ) = again, ON(REJ) = refused },
	[CM_REP_SENT] = { ON(REQ) = again, ON(MRA) = be_patient, ON(REJ) = refused, ON(RTU) = up,
			  ON(DREQ) = up_closing },
	[CM_MRA_REP_RCVD] = { ON(REJ) = refused, ON(RTU) = up, ON(DREQ) = up_closing },
	[CM_ESTABLISHED] = { ON(REP) = rtu_again, ON(REJ) = torn, ON(DREQ) = closing },
	[CM_DREQ_SENT] = { ON(REJ) = closed, ON(DREQ) = crossed, ON(DREP) = closed },
	[CM_TIMEWAIT] = { ON(REQ) = refuse_stale, ON(DREQ) = drep_again, ON(SIDR_REQ) = sidr_again },
	[CM_SIDR_REQ_SENT] = { ON(SIDR_REP) = resolved },
#undef ON
};

static bool from_peer(const struct cm_id *i, const struct gsi *g) { return gid_same(i->route.dgid, g->route.sgid); }

/* By both ids; but what answers a REQ comes from a peer whose id is not known yet. */
static struct cm_id *by_ids(struct cm *c, const struct cm_msg *m)
{
	struct cm_id *i = id_find(c, m->rtu.remote_id); /* MRA to DREP: both ids stand first */

	if (!i || i->state == CM_DEAD || i->sidr || i->state == CM_SIDR_REQ_SENT)
		return NULL;
	if (i->remote_id == m->rtu.local_id)
		return i;
	return !i->remote_id && (m->attr == CM_REP || m->attr == CM_REJ || m->attr == CM_MRA) ? i : NULL;
}

static struct cm_id *id_of(struct cm *c, const struct in *in)
{
	const struct cm_msg *m = in->m;
	struct cm_id *i = NULL;

	switch (m->attr) {
	case CM_REQ: return id_find_peer(c, m->req.local_id, m->req.ca_guid, &in->g->route);
	case CM_SIDR_REQ: return id_find_sidr(c, m->sidr_req.request_id, in->g->route.sgid);
	case CM_SIDR_REP: i = id_find(c, m->sidr_rep.request_id); break;
	default:
		/* A peer that timed out waiting for our first message does not know our comm ID: match it by its own and its GUID. */
		if (m->attr == CM_REJ && m->rej.reason == REJ_TIMEOUT && m->rej.ari_len >= 8)
			i = id_find_peer(c, m->rej.local_id, be64_get(m->rej.ari), &in->g->route);
		if (!i)
			i = by_ids(c, m);
	}
	return i && from_peer(i, in->g) ? i : NULL;
}

/*
 * No id: who asks to be connected, asked or disconnected gets an answer all the same; and who accepts what nobody here
 * asks for any more (our REJ was lost, or it took a repeated REQ for a new one) would wait for an RTU, and who sends an RTU
 * to somebody who has given up waiting for it, for data.
 */
static void stranger(struct cm *c, const struct in *in)
{
	struct cm_msg m = { .attr = CM_DREP, .tid = in->m->tid };
	struct route back = route_back(&in->g->route);

	switch (in->m->attr) {
	case CM_REQ:
		if (!over(c, in))
			called(c, in);
		break;
	case CM_SIDR_REQ: asked(c, in); break;
	case CM_DREQ:
		m.drep.local_id = in->m->dreq.remote_id;
		m.drep.remote_id = in->m->dreq.local_id;
		out_put(c, &back, &m);
		break;
	case CM_REP: rej_stranger(c, in, REJ_COMM_ID, in->m->rep.remote_id, in->m->rep.local_id, REJ_OF_REP); break;
	case CM_RTU: rej_stranger(c, in, REJ_COMM_ID, in->m->rtu.remote_id, in->m->rtu.local_id, REJ_OF_OTHER); break;
	default: c->n.dropped++;
	}
}

/* Ids that the message must have: 0 is nobody's. */
static bool has_ids(const struct cm_msg *m)
{
	return m->attr == CM_REJ ? m->rej.remote_id || m->rej.reason == REJ_TIMEOUT : m->rtu.local_id != 0;
}

/* He who names our comm id has got it from us, at the address that he says he is at. */
static void hear(struct cm *c, struct cm_id *i, const struct cm_msg *m)
{
	if (m->attr != CM_REQ && m->attr != CM_SIDR_REQ && m->rtu.remote_id == i->id)
		id_proven(c, i);
	else if (i->heard < UINT8_MAX / CM_TOLD)
		i->heard++;
}

void cm_rx(struct cm *c, const struct gsi *g, mono_t now)
{
	struct cm_msg m;
	struct in in = { g, &m };
	struct cm_id *i;
	act_fn *act;

	cm_clock(c, now);
	if (!cm_msg_get(&m, g->mad)) {
		c->n.dropped++;
		return;
	}
	c->n.rx[m.attr - CM_REQ]++;
	if (m.attr > CM_SIDR_REP || !has_ids(&m)) {
		c->n.dropped++;
		return;
	}
	i = id_of(c, &in);
	if (!i) {
		stranger(c, &in);
		return;
	}
	hear(c, i, &m);
	act = table[i->state][m.attr - CM_REQ];
	if (!act || !act(c, i, &in))
		c->n.dropped++;
}
