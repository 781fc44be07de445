/* SPDX-License-Identifier: MIT */
/*
 * check_cm.c - datagrams, and the exchanges of the connection manager in them.
 *
 * Side 0 sent the REQ (or SIDR_REQ), side 1 got it.  All that the two agree on is handed to the streams of
 * their queue pairs: mates, MTU, first PSNs.
 */
#include "check_in.h"

#include <stdlib.h>
#include <string.h>

#include "../proto/bytes.h"
#include "../proto/cm_msg.h"

#define MSGS      (CM_APR - CM_REQ + 1)
#define BIT(attr) (1u << ((attr)-CM_REQ))
#define MAD_HEAD  24u
#define ENDS      (BIT(CM_REJ) | BIT(CM_DREQ) | BIT(CM_DREP) | BIT(CM_SIDR_REP))
#define KEPT_NS   60000000000u /* an exchange that has ended: its messages may be sent again */
#define BUCKETS   4096u

struct cm_conv {
	struct cm_conv *next[2]; /* in the bucket of the id of each side, if that is known */
	uint64_t no;             /* it is the so many-th */
	uint8_t gid[2][16];
	uint32_t id[2]; /* 0: not known */
	bool sidr;
	uint64_t tid;     /* of its first message */
	uint64_t ns;      /* of its newest */
	unsigned seen[2]; /* BIT()s of what each side sent */
	uint8_t mad[2][MSGS][MAD_LEN];
	struct cm_req req;
	struct cm_rep rep;
};

/* By ids: each message that fits an exchange has one of its two. */
struct cm {
	struct cm_conv *bucket[2][BUCKETS]; /* by the id of side 0, and of side 1 */
	uint64_t convs, looked_ns;          /* looked_ns: when those that have ended were looked for */
};

void check_cm_free(struct check *c)
{
	struct cm_conv *v;

	for (unsigned i = 0; c->cm && i < BUCKETS; i++)
		while ((v = c->cm->bucket[0][i])) {
			c->cm->bucket[0][i] = v->next[0];
			free(v);
		}
	free(c->cm);
	c->cm = NULL;
}

/* The two addresses count alike, whoever of them sends. */
static struct cm_conv **bucket_of(struct cm *cm, unsigned side, uint32_t id, const uint8_t *a, const uint8_t *b)
{
	uint32_t h = id ^ (be32_get(a + 12) + be32_get(b + 12));

	h = (h ^ h >> 16) * 0x7feb352du;
	return &cm->bucket[side][(h ^ h >> 15) % BUCKETS];
}

/* The id of a side has become known. */
static void put(struct check *c, struct cm_conv *v, unsigned side, uint32_t id)
{
	struct cm_conv **at = bucket_of(c->cm, side, id, v->gid[0], v->gid[1]);

	v->id[side] = id;
	v->next[side] = *at;
	*at = v;
}

/* ---- ids --------------------------------------------------------------------------- */

static bool is_sidr(uint16_t attr) { return attr == CM_SIDR_REQ || attr == CM_SIDR_REP; }

/* Those of LAP and APR, too, of which no more is read. */
static struct cm_ids ids_of(const struct cm_msg *m, const uint8_t *mad)
{
	if (m->attr == CM_LAP || m->attr == CM_APR)
		return (struct cm_ids){ be32_get(mad + MAD_HEAD), be32_get(mad + MAD_HEAD + 4) };
	return cm_msg_ids(m);
}

/* Does the conversation have this message sent by side? */
static bool fits(const struct cm_conv *v, unsigned side, const struct cm_ids *ids, uint16_t attr)
{
	uint32_t mine = v->id[side], yours = v->id[!side];

	switch (attr) {
	case CM_REQ:
	case CM_SIDR_REQ: return side == 0 && ids->local == mine;
	case CM_REP:
	case CM_SIDR_REP: return side == 1 && ids->remote == yours;
	case CM_REJ:
		if (!ids->local || !ids->remote) /* its sender has made no id yet, or knows none of the peer's */
			return ids->local ? ids->local == mine : ids->remote == yours;
	}
	return (ids->local == mine || !mine) && (ids->remote == yours || !yours);
}

/* It has ended long ago. */
static bool is_old(const struct cm_conv *v, uint64_t now)
{
	return ((v->seen[0] | v->seen[1]) & ENDS) && ns_since(now, v->ns) >= KEPT_NS;
}

struct found {
	struct cm_conv *v;
	unsigned side;
	bool whole; /* it has both ids, or the message has one only */
	bool half;  /* there is one that has one of the ids */
};

static void look_at(struct found *found, struct cm_conv *v, const struct packet *p, uint16_t attr,
		    const struct cm_ids *ids)
{
	for (unsigned k = 0; k < 2; k++) {
		uint32_t mine = v->id[k], yours = v->id[!k];
		bool whole = (mine && yours) || attr == CM_REQ || attr == CM_REP || v->sidr;

		if (v->sidr != is_sidr(attr) || !gid_same(v->gid[k], p->frame->sgid) ||
		    !gid_same(v->gid[!k], p->frame->dgid) || is_old(v, p->frame->ns))
			continue;
		found->half |= (mine && ids->local == mine) || (yours && ids->remote == yours);
		if (!fits(v, k, ids, attr))
			continue;
		if (found->v && (found->whole > whole || (found->whole == whole && found->v->no >= v->no)))
			continue;
		*found = (struct found){ v, k, whole, found->half };
	}
}

/* The newest that has both ids; else one that has got no second id yet. */
static struct found conv_of(const struct check *c, const struct packet *p, uint16_t attr, const struct cm_ids *ids)
{
	const struct frame *f = p->frame;
	struct found found = { 0 };

	for (unsigned i = 0; c->cm && i < 4; i++) {
		unsigned side = i / 2;
		uint32_t id = i % 2 ? ids->remote : ids->local;

		for (struct cm_conv *v = *bucket_of(c->cm, side, id, f->sgid, f->dgid); v; v = v->next[side])
			look_at(&found, v, p, attr, ids);
	}
	return found;
}

/* A REQ that has the id of another: is it one of its own, as ids are given again? */
static bool anew(const struct cm_conv *v, const struct cm_msg *m, const uint8_t *mad)
{
	const uint8_t *old = v->mad[0][m->attr - CM_REQ];

	return (m->attr == CM_REQ || m->attr == CM_SIDR_REQ) &&
	       (m->tid != v->tid ||
		(((v->seen[0] | v->seen[1]) & ENDS) && memcmp(old + MAD_HEAD, mad + MAD_HEAD, MAD_LEN - MAD_HEAD)));
}

static void unlink_old(struct cm *cm, unsigned side, uint64_t now)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct cm_conv **at = &cm->bucket[side][i], *v; (v = *at);) {
			if (!is_old(v, now)) {
				at = &v->next[side];
				continue;
			}
			*at = v->next[side];
			if (!side)
				free(v);
		}
}

/* Now and then: it takes as long as there are exchanges. */
static void forget(struct cm *cm, uint64_t now)
{
	if (ns_since(now, cm->looked_ns) < KEPT_NS)
		return;
	cm->looked_ns = now;
	unlink_old(cm, 1, now);
	unlink_old(cm, 0, now);
}

static struct cm_conv *conv_begin(struct check *c, const struct packet *p, const struct cm_msg *m)
{
	struct cm_conv *v = calloc(1, sizeof(*v));

	if (!c->cm)
		c->cm = calloc(1, sizeof(*c->cm));
	if (!v || !c->cm) {
		free(v);
		c->no_memory = true;
		return NULL;
	}
	forget(c->cm, p->frame->ns);
	memcpy(v->gid[0], p->frame->sgid, 16);
	memcpy(v->gid[1], p->frame->dgid, 16);
	v->sidr = is_sidr(m->attr);
	v->tid = m->tid;
	v->no = ++c->cm->convs;
	put(c, v, 0, cm_msg_ids(m).local);
	return v;
}

/* ---- single messages ------------------------------------------------------------------ */

static void caller(struct check *c, const struct packet *p, uint64_t service, const uint8_t *data)
{
	const struct frame *f = p->frame;
	uint64_t space = service >> 16;
	struct cm_ip ip;

	if (space != CM_PS_TCP && space != CM_PS_UDP && space != CM_PS_IPOIB)
		return; /* not of the RDMA IP CM, or with addresses of another family */
	if (!cm_ip_get(&ip, data))
		find_breach(&c->find, &p->at, CHECK_CM_FORMAT, "no RDMA IP CM header in the private data");
	else if (!gid_same(ip.src, f->sgid) || !gid_same(ip.dst, f->dgid))
		find_breach(&c->find, &p->at, CHECK_CM_ADDR, "the addresses of the private data are others");
}

static void req_itself(struct check *c, const struct packet *p, const struct cm_req *r)
{
	if (!r->local_id || r->mtu < 1 || r->mtu > 5 || (!r->qpn && r->transport != CM_XRC) || r->transport == CM_RD)
		find_breach(&c->find, &p->at, CHECK_CM_FORMAT, "REQ with id %#x, MTU code %u, QPN %#x, transport %u",
			    r->local_id, r->mtu, r->qpn, r->transport);
	if (!gid_same(r->path.sgid, p->frame->sgid) || !gid_same(r->path.dgid, p->frame->dgid))
		find_breach(&c->find, &p->at, CHECK_CM_ADDR, "the path of the REQ is between other addresses");
	caller(c, p, r->service_id, r->data);
}

/* ---- in their order ---------------------------------------------------------------------- */

/* The message that one side must have sent before the other (or the same: own) sends attr. */
static const struct order {
	uint16_t attr;
	unsigned peer, own;
} orders[] = {
	{ CM_REP, BIT(CM_REQ), 0 },           { CM_MRA, BIT(CM_REQ) | BIT(CM_REP) | BIT(CM_LAP), 0 },
	{ CM_RTU, BIT(CM_REP), BIT(CM_REQ) }, { CM_DREQ, BIT(CM_REP) | BIT(CM_RTU), BIT(CM_REP) | BIT(CM_RTU) },
	{ CM_DREP, BIT(CM_DREQ), 0 },         { CM_SIDR_REP, BIT(CM_SIDR_REQ), 0 },
};

static void order(struct check *c, const struct packet *p, const struct cm_conv *v, unsigned side, uint16_t attr)
{
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		const struct order *o = &orders[i];
		bool peer = v->seen[!side] & o->peer, own = v->seen[side] & o->own;

		if (o->attr != attr)
			continue;
		if (attr == CM_DREQ ? !peer && !own : !peer || (o->own && !own))
			find_breach(&c->find, &p->at, CHECK_CM_ORDER, "%s, though nothing before it asks for one",
				    cm_attr_name(attr));
	}
	if ((v->seen[side] & BIT(CM_REJ)) && attr != CM_REJ)
		find_breach(&c->find, &p->at, CHECK_CM_ORDER, "%s behind its sender's own REJ", cm_attr_name(attr));
}

static uint8_t svc_of(const struct cm_req *r)
{
	return r->transport == CM_UC ? SVC_UC : r->transport == CM_XRC ? SVC_XRC : SVC_RC;
}

static struct stream *agreed(struct check *c, const uint8_t *from, const uint8_t *to, uint8_t svc, uint32_t qpn,
			     uint32_t psn, uint32_t mtu)
{
	struct frame f = { 0 };
	struct stream *s;

	memcpy(f.sgid, from, 16);
	memcpy(f.dgid, to, 16);
	s = conv_stream(c->conv, &f, svc, qpn);
	if (!s) {
		c->no_memory = true;
		return NULL;
	}
	check_stream_end(c, s);
	stream_reset(s);
	s->agreed = true;
	s->first_psn = psn;
	s->mtu = mtu;
	s->msn_state = MSN_EXACT;
	return s;
}

/* REQ and REP have made a connection. */
static void connection(struct check *c, const struct cm_conv *v)
{
	uint8_t svc = svc_of(&v->req);
	struct stream *there = agreed(c, v->gid[0], v->gid[1], svc, v->rep.qpn ? v->rep.qpn : v->rep.eecn, v->rep.psn,
				      128u << v->req.mtu);
	struct stream *back = agreed(c, v->gid[1], v->gid[0], svc, v->req.qpn, v->req.psn, 128u << v->req.mtu);

	if (there && back && there != back)
		conv_marry(there, back);
}

static void contents(struct check *c, const struct packet *p, struct cm_conv *v, unsigned side, const struct cm_msg *m)
{
	uint32_t qpn;

	switch (m->attr) {
	case CM_REQ:
		v->req = m->req;
		req_itself(c, p, &m->req);
		break;
	case CM_SIDR_REQ: caller(c, p, m->sidr_req.service_id, m->sidr_req.data); break;
	case CM_REP:
		v->rep = m->rep;
		if (m->rep.local_id)
			put(c, v, 1, m->rep.local_id);
		if (!m->rep.local_id || (!m->rep.qpn && !m->rep.eecn))
			find_breach(&c->find, &p->at, CHECK_CM_FORMAT, "REP with id %#x, QPN 0", m->rep.local_id);
		connection(c, v);
		break;
	case CM_REJ:
		if (!m->rej.reason || m->rej.reason > 35)
			find_breach(&c->find, &p->at, CHECK_CM_FORMAT, "REJ with reason %u", m->rej.reason);
		break;
	case CM_DREQ:
		qpn = side == 0 ? v->rep.qpn ? v->rep.qpn : v->rep.eecn : v->req.qpn;
		if (m->dreq.qpn != qpn)
			find_breach(&c->find, &p->at, CHECK_CM_QPN, "DREQ for QP %#x, the receiver's is %#x",
				    m->dreq.qpn, qpn);
		break;
	}
}

static void message(struct check *c, const struct packet *p, const uint8_t *mad)
{
	struct cm_conv *v;
	struct found found;
	struct cm_ids ids;
	struct cm_msg m;
	unsigned side, i;

	if (mad[1] != MAD_CLASS_CM) {
		find_note(&c->find, &p->at, "a MAD of class %#x", mad[1]);
		return;
	}
	if (!cm_msg_get(&m, mad)) {
		find_breach(&c->find, &p->at, CHECK_CM_FORMAT, "class %#x version %u, method %#x, attribute %#x",
			    mad[1], mad[2], mad[3], be16_get(mad + 16));
		return;
	}
	ids = ids_of(&m, mad);
	found = conv_of(c, p, m.attr, &ids);
	v = found.v;
	side = found.side;
	if ((!v || anew(v, &m, mad)) && (m.attr == CM_REQ || m.attr == CM_SIDR_REQ)) {
		v = conv_begin(c, p, &m);
		side = 0;
	}
	if (!v && found.half)
		find_breach(&c->find, &p->at, CHECK_CM_ID, "%s with ids %#x, %#x: no such exchange",
			    cm_attr_name(m.attr), ids.local, ids.remote);
	else if (!v)
		find_note(&c->find, &p->at, "%s of an exchange that began before the capture", cm_attr_name(m.attr));
	if (!v)
		return;
	i = m.attr - CM_REQ;
	v->ns = p->frame->ns;
	if (v->seen[side] & BIT(m.attr)) {
		if (m.attr != CM_MRA && m.attr != CM_LAP && m.attr != CM_APR &&
		    memcmp(v->mad[side][i] + MAD_HEAD, mad + MAD_HEAD, MAD_LEN - MAD_HEAD))
			find_breach(&c->find, &p->at, CHECK_CM_SAME, "not the %s that was sent before",
				    cm_attr_name(m.attr));
		return;
	}
	order(c, p, v, side, m.attr);
	v->seen[side] |= BIT(m.attr);
	memcpy(v->mad[side][i], mad, MAD_LEN);
	contents(c, p, v, side, &m);
}

void check_ud(struct check *c, const struct packet *p, const uint8_t *payload)
{
	if (p->b.payload_len > 4096)
		find_breach(&c->find, &p->at, CHECK_PAYLOAD, "%llu bytes in a datagram",
			    (unsigned long long)p->b.payload_len);
	if (p->b.dqpn != QPN_GSI)
		return;
	if (p->b.qkey != QKEY_GSI || p->b.sqpn != QPN_GSI || p->b.payload_len != MAD_LEN) {
		find_breach(&c->find, &p->at, CHECK_UD, "Q_Key %#x, from QP %#x, %llu bytes", p->b.qkey, p->b.sqpn,
			    (unsigned long long)p->b.payload_len);
		return;
	}
	message(c, p, payload);
}
