/* SPDX-License-Identifier: MIT */
/* play_cm.c - the two programs of a connection made by the CM: one calls, one accepts whoever calls. */
#include "play.h"

#include <string.h>

#define SERVICE cm_service_id(CM_PS_TCP, 7174)

static struct route route_to(const struct node *n, const struct node *peer)
{
	struct route r = { .hop_limit = 64 };

	memcpy(r.sgid, n->gid, 16);
	memcpy(r.dgid, peer->gid, 16);
	return r;
}

static uint32_t ids[PAIRS][2];

int cm_call(unsigned i)
{
	struct pair *p = &world.pair[i];
	struct node *a = &world.node[p->node[0]], *b = &world.node[p->node[1]];
	struct cm_connect c = { .plt = 16, .route = route_to(a, b) };
	uint32_t listener;

	c.req.service_id = SERVICE;
	c.req.qpn = p->qpn[0];
	c.req.resp_res = c.req.init_depth = 4;
	c.req.remote_timeout = c.req.local_timeout = 20;
	c.req.psn = 1000;
	c.req.retry_cnt = c.req.rnr_retry = 7;
	c.req.pkey = PKEY_DEFAULT;
	c.req.mtu = p->attr.path_mtu;
	c.req.max_retries = 15;
	c.req.path = (struct cm_path){
		.slid = 0xffff, .dlid = 0xffff, .hop_limit = 64, .ack_timeout = cm_ack_timeout(15, 16)
	};
	memcpy(c.req.path.sgid, a->gid, 16);
	memcpy(c.req.path.dgid, b->gid, 16);
	if (!cm_listening(b->cm, SERVICE))
		cm_listen(b->cm, SERVICE, NULL, &listener);
	ids[i][1] = 0;
	return cm_connect(a->cm, &c, p, &ids[i][0], world_now());
}

int cm_hangup(unsigned i) { return cm_disconnect(world.node[world.pair[i].node[0]].cm, ids[i][0], NULL, world_now()); }

/* The QP as the messages agreed. false: it cannot be so. */
static bool connect_qp(const struct node *n, uint32_t id, unsigned pair, unsigned side, uint32_t rq_psn)
{
	struct qp_attr a = world.pair[pair].attr;
	struct cm_qp q;

	if (!cm_qp_get(n->cm, id, &q))
		return false;
	a.dest_qpn = q.dest_qpn;
	a.rq_psn = side ? rq_psn : q.rq_psn;
	a.sq_psn = q.sq_psn;
	a.av.hop_limit = 64;
	memcpy(a.av.dgid, q.route.dgid, 16);
	return world_connected(pair, side, &a);
}

static void to_err(const struct node *n, uint32_t qpn)
{
	hca_qp_modify(n->hca, qpn, &(struct qp_attr){ .state = QPS_ERR }, QPA_STATE, world_now());
}

static void reject(const struct node *n, uint32_t id)
{
	cm_reject(n->cm, id, REJ_CONSUMER, NULL, 0, NULL, world_now());
}

/* The pair whose side this id is; a new caller is a pair whose QP it names, and that was not called before. */
static int pair_of(const struct node *n, uint32_t id, unsigned *side)
{
	for (*side = 0; *side < 2; ++*side)
		for (unsigned i = 0; i < world.pairs; i++)
			if (world.pair[i].cm && world.pair[i].node[*side] == n->i && ids[i][*side] == id)
				return (int)i;
	return -1;
}

static int called(const struct node *n, const struct cm_event *ev)
{
	for (unsigned i = 0; i < world.pairs; i++)
		if (world.pair[i].cm && world.pair[i].node[1] == n->i && world.pair[i].qpn[0] == ev->msg.req.qpn &&
		    !ids[i][1]) {
			ids[i][1] = ev->id;
			return (int)i;
		}
	return -1;
}

static void happened(struct node *n, const struct cm_event *ev)
{
	struct cm_rep rep = { .psn = 5000, .resp_res = 4, .init_depth = 4, .ack_delay = 15, .rnr_retry = 7 };
	unsigned side = 1;
	int pair = ev->type == CM_EV_REQ ? called(n, ev) : pair_of(n, ev->id, &side);

	note_new(NOTE_CM, n->i)->cm = (uint8_t)ev->type;
	if (pair < 0) {
		if (ev->type == CM_EV_REQ)
			reject(n, ev->id);
		return;
	}
	rep.qpn = world.pair[pair].qpn[1];
	switch (ev->type) {
	case CM_EV_REQ:
		if (connect_qp(n, ev->id, (unsigned)pair, 1, rep.psn))
			cm_accept(n->cm, ev->id, &rep, world_now());
		else
			reject(n, ev->id);
		break;
	case CM_EV_REP:
		if (connect_qp(n, ev->id, (unsigned)pair, 0, 0))
			cm_rtu(n->cm, ev->id, NULL, world_now());
		else
			reject(n, ev->id);
		break;
	case CM_EV_DREQ:
		cm_disconnect(n->cm, ev->id, NULL, world_now());
		to_err(n, world.pair[pair].qpn[side]);
		break;
	case CM_EV_DREP:
	case CM_EV_DREQ_TIMEOUT: to_err(n, world.pair[pair].qpn[side]); break;
	default: break;
	}
}

void cm_turn(struct node *n)
{
	struct cm_event ev;
	struct gsi g;

	while (hca_gsi_rx(n->hca, &g))
		cm_rx(n->cm, &g, world_now());
	while (cm_event(n->cm, &ev))
		happened(n, &ev);
	while (cm_tx(n->cm, &g))
		hca_gsi_send(n->hca, &g);
}
