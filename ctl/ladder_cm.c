/* SPDX-License-Identifier: MIT */
/*
 * ladder_cm.c - exchanges of the connection manager: which connection each message is of, and the states of queue pairs that
 * follow from them.
 */
#include <stdlib.h>
#include <string.h>

#include "../proto/cm_msg.h"
#include "ladder.h"

/* Side 0 sent the REQ (or SIDR_REQ). */
struct exchange {
	struct exchange *next;
	uint8_t gid[2][16];
	uint32_t id[2];
	uint32_t qpn[2]; /* 0: not known (yet) */
	uint8_t svc;
	bool sidr;
	uint32_t *rung;
	uint32_t n, cap;
};

void cm_free(struct ladder *l)
{
	struct exchange *x;

	while ((x = l->exchange)) {
		l->exchange = x->next;
		free(x->rung);
		free(x);
	}
}

void ladder_band(struct ladder *l, uint64_t ns, const uint8_t *gid, uint32_t qpn, const char *state, const char *why)
{
	struct band *b;

	if (!qpn)
		return;
	b = realloc(l->band, (l->bands + 1) * sizeof(*b));
	if (!b) {
		l->no_memory = true;
		return;
	}
	l->band = b;
	b += l->bands++;
	*b = (struct band){ .ns = ns, .at.qpn = qpn, .state = state, .why = why };
	memcpy(b->at.gid, gid, 16);
}

/* ---- which exchange ----------------------------------------------------------- */

static struct exchange *exchange_of(struct ladder *l, const struct packet *p, const struct cm_msg *m, unsigned *side)
{
	struct cm_ids ids = cm_msg_ids(m);
	bool sidr = m->attr == CM_SIDR_REQ || m->attr == CM_SIDR_REP;

	for (struct exchange *x = l->exchange; x; x = x->next)
		for (*side = 0; *side < 2; ++*side) {
			uint32_t mine = x->id[*side], yours = x->id[!*side];

			if (x->sidr != sidr || !gid_same(x->gid[*side], p->frame->sgid) ||
			    !gid_same(x->gid[!*side], p->frame->dgid))
				continue;
			if ((ids.local && ids.local == mine) || (ids.remote && ids.remote == yours))
				return x;
		}
	return NULL;
}

/* One that the REQ begins; any other message begins one whose beginning is not in the capture. */
static struct exchange *exchange_begin(struct ladder *l, const struct packet *p, const struct cm_msg *m)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	memcpy(x->gid[0], p->frame->sgid, 16);
	memcpy(x->gid[1], p->frame->dgid, 16);
	x->id[0] = cm_msg_ids(m).local;
	x->id[1] = cm_msg_ids(m).remote;
	x->sidr = m->attr == CM_SIDR_REQ || m->attr == CM_SIDR_REP;
	x->svc = x->sidr ? SVC_UD : SVC_RC;
	x->next = l->exchange;
	l->exchange = x;
	return x;
}

static bool exchange_put(struct exchange *x, uint32_t rung)
{
	uint32_t cap = x->cap ? 2 * x->cap : 8, *v;

	if (x->n == x->cap) {
		v = realloc(x->rung, cap * sizeof(*v));
		if (!v)
			return false;
		x->rung = v;
		x->cap = cap;
	}
	x->rung[x->n++] = rung;
	return true;
}

/* ---- what it means ------------------------------------------------------------------- */

static void both(struct ladder *l, uint64_t ns, const struct exchange *x, const char *state, const char *why)
{
	ladder_band(l, ns, x->gid[0], x->qpn[0], state, why);
	ladder_band(l, ns, x->gid[1], x->qpn[1], state, why);
}

static void meaning(struct ladder *l, struct rung *r, struct exchange *x, const struct cm_msg *m)
{
	switch (m->attr) {
	case CM_REQ:
		x->qpn[0] = m->req.qpn;
		x->svc = m->req.transport == CM_UC ? SVC_UC : m->req.transport == CM_XRC ? SVC_XRC : SVC_RC;
		rung_note(r, "asks for a connection: its QP is %#x, it expects PSN %#x first, path MTU %u", m->req.qpn,
			  m->req.psn, 128u << m->req.mtu);
		ladder_band(l, r->ns, x->gid[0], x->qpn[0], "INIT", "it sent a REQ");
		break;
	case CM_REP:
		x->qpn[1] = m->rep.qpn ? m->rep.qpn : m->rep.eecn;
		rung_note(r, "accepts: its QP is %#x, it expects PSN %#x first", x->qpn[1], m->rep.psn);
		both(l, r->ns, x, "RTR", "the REP tells both what they need to receive");
		break;
	case CM_RTU:
		rung_note(r, "ready: both may send");
		both(l, r->ns, x, "RTS", "the RTU ends the handshake");
		break;
	case CM_REJ:
		rung_note(r, "rejected, reason %u%s", m->rej.reason,
			  m->rej.reason == REJ_CONSUMER     ? ": the program said no"
			  : m->rej.reason == REJ_SERVICE_ID ? ": nobody listens"
			  : m->rej.reason == REJ_TIMEOUT    ? ": timed out"
			  : m->rej.reason == REJ_STALE      ? ": the old connection is still known"
							    : "");
		both(l, r->ns, x, "ERR", "rejected");
		break;
	case CM_DREQ:
		rung_note(r, "ends the connection");
		both(l, r->ns, x, "closing", "a DREQ ends the connection");
		break;
	case CM_DREP: rung_note(r, "agrees to the end"); break;
	case CM_MRA: rung_note(r, "the answer will take longer"); break;
	case CM_SIDR_REP:
		x->qpn[1] = m->sidr_rep.qpn;
		rung_note(r, m->sidr_rep.status ? "no: status %u" : "datagrams go to this QP (status %u)",
			  m->sidr_rep.status);
		break;
	case CM_SIDR_REQ: rung_note(r, "asks for the QP of a service of datagrams"); break;
	}
}

void ladder_cm(struct ladder *l, uint32_t i, const struct packet *p, const uint8_t *mad)
{
	struct rung *r = &l->rung[i];
	struct exchange *x;
	struct cm_msg m;
	unsigned side = 0;

	r->class = RUNG_CM;
	check_ud(&l->check, p, mad);
	if (!cm_msg_get(&m, mad)) {
		r->name = "MAD";
		return;
	}
	r->name = cm_attr_name(m.attr);
	x = exchange_of(l, p, &m, &side);
	if (!x) {
		x = exchange_begin(l, p, &m);
		side = 0;
	}
	if (!x || !exchange_put(x, i)) {
		l->no_memory = true;
		return;
	}
	r->from = (uint8_t)side;
	for (uint32_t k = 0; k + 1 < x->n; k++)
		if (l->rung[x->rung[k]].name == r->name && l->rung[x->rung[k]].id == r->id) {
			r->again++;
			rung_note(r, "the same as packet %llu", (unsigned long long)l->rung[x->rung[k]].no);
		}
	if (!r->again)
		meaning(l, r, x, &m);
	if (!x->id[1] && side == 1)
		x->id[1] = cm_msg_ids(&m).local;
}

/* ---- connections --------------------------------------------------------------------------- */

/* The stream to side 1 (dir 0) or to side 0 of an exchange is of connection c. */
static void join(struct ladder *l, const struct exchange *x, unsigned dir, uint32_t c)
{
	struct stream *s = x->qpn[!dir] ? conv_find(l->check.conv, x->gid[dir], x->gid[!dir], x->svc, x->qpn[!dir])
					: NULL;

	if (!s || !ladder_rail(l, s) || l->rail[s->id].conn != NOWHERE)
		return;
	l->rail[s->id].conn = c;
	l->rail[s->id].side = (uint8_t)dir;
}

/* The connection of an exchange that used the same queue pairs before. */
static uint32_t same_pair(const struct ladder *l, const struct exchange *x, bool *turned)
{
	for (uint32_t c = 0; c < l->conns; c++)
		for (unsigned t = 0; t < 2; t++) {
			const struct conn_side *a = l->conn[c].side;

			*turned = t;
			if (x->qpn[0] && x->qpn[1] && a[t].qpn == x->qpn[0] && a[!t].qpn == x->qpn[1] &&
			    gid_same(a[t].gid, x->gid[0]) && gid_same(a[!t].gid, x->gid[1]))
				return c;
		}
	return NOWHERE;
}

static void exchange_conn(struct ladder *l, const struct exchange *x)
{
	bool turned = false;
	uint32_t c = same_pair(l, x, &turned);

	if (c == NOWHERE) {
		c = conn_new(l, x->gid[0], x->qpn[0], x->gid[1], x->qpn[1], x->svc);
		turned = false;
		if (c == NOWHERE)
			return;
		join(l, x, 0, c);
		join(l, x, 1, c);
	}
	for (uint32_t k = 0; k < x->n; k++) {
		l->rung[x->rung[k]].conn = c;
		l->rung[x->rung[k]].from ^= turned;
	}
}

/* In the order in which they began. */
void cm_connections(struct ladder *l)
{
	struct exchange *x = l->exchange, *first = NULL, *next;

	for (; x; x = next) {
		next = x->next;
		x->next = first;
		first = x;
	}
	l->exchange = first;
	for (x = first; x; x = x->next)
		exchange_conn(l, x);
}
