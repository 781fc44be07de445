/* SPDX-License-Identifier: MIT */
/* ladder_conn.c - when all is read: connections, their ends, which of them are wanted; counts. */
#include <stdlib.h>
#include <string.h>

#include "../proto/gsi.h"
#include "ladder.h"

const char *class_name(enum rung_class c)
{
	static const char *const names[RUNG_CLASSES] = { "send", "write", "read", "atomic", "ack",
							 "nak",  "rnr",   "cm",   "ud",     "other" };

	return names[c];
}

const char *fate_name(enum fate f)
{
	static const char *const names[FATES] = { "ok", "lost", "missing", "unanswered", "discarded", "refused" };

	return names[f];
}

const char *service_name(uint8_t svc)
{
	switch (svc) {
	case SVC_RC: return "RC";
	case SVC_UC: return "UC";
	case SVC_UD: return "UD";
	case SVC_XRC: return "XRC";
	}
	return "?";
}

uint32_t conn_new(struct ladder *l, const uint8_t *gid0, uint32_t qpn0, const uint8_t *gid1, uint32_t qpn1, uint8_t svc)
{
	struct conn *c = realloc(l->conn, (l->conns + 1) * sizeof(*c));

	if (!c) {
		l->no_memory = true;
		return NOWHERE;
	}
	l->conn = c;
	c += l->conns;
	*c = (struct conn){ .svc = svc };
	memcpy(c->side[0].gid, gid0, 16);
	memcpy(c->side[1].gid, gid1, 16);
	c->side[0].qpn = qpn0;
	c->side[1].qpn = qpn1;
	return l->conns++;
}

/* ---- streams to connections ------------------------------------------------------- */

/* UC answers nothing: the mate of a stream is the only one of the other direction, if it is. */
static void marry_uc(struct ladder *l, struct stream *s)
{
	struct stream *found = NULL;

	for (uint32_t i = 0; i < l->rails; i++) {
		struct stream *m = l->rail[i].stream;

		if (!m || m->svc != SVC_UC || m == s)
			continue;
		if (gid_same(m->sgid, s->sgid) && gid_same(m->dgid, s->dgid) && !m->mate)
			return;
		if (!gid_same(m->sgid, s->dgid) || !gid_same(m->dgid, s->sgid) || m->mate)
			continue;
		if (found)
			return;
		found = m;
	}
	if (found)
		conv_marry(s, found);
}

/* The stream of a rung has no connection yet: its sender is side 0. */
static void stream_conn(struct ladder *l, struct stream *s)
{
	struct rail *r = &l->rail[s->id];
	struct stream *m;

	if (s->svc == SVC_UC && !s->mate)
		marry_uc(l, s);
	m = s->mate;
	if (m && !ladder_rail(l, m))
		return;
	r = &l->rail[s->id];
	if (m && l->rail[m->id].conn != NOWHERE) {
		r->conn = l->rail[m->id].conn;
		r->side = !l->rail[m->id].side;
		l->conn[r->conn].side[!r->side].qpn = s->dqpn;
		return;
	}
	r->conn = conn_new(l, s->sgid, m ? m->dqpn : 0, s->dgid, s->dqpn, s->svc);
	r->side = 0;
	if (!m)
		return;
	l->rail[m->id].conn = r->conn;
	l->rail[m->id].side = 1;
}

/* MADs that are of no exchange go from QP 1 to QP 1. */
static void mad_conn(struct ladder *l, struct rung *r)
{
	for (uint32_t c = 0; r->conn == NOWHERE && c < l->conns; c++)
		if (l->conn[c].side[0].qpn == QPN_GSI)
			r->conn = c;
}

static void connect_all(struct ladder *l)
{
	for (uint32_t i = 0; i < l->rails; i++)
		l->rail[i].conn = NOWHERE;
	cm_connections(l);
	for (uint32_t i = 0; i < l->n; i++) {
		struct rung *r = &l->rung[i];

		if (r->conn == NOWHERE && r->stream == NOWHERE)
			mad_conn(l, r);
		if (r->conn != NOWHERE || r->stream == NOWHERE)
			continue;
		if (l->rail[r->stream].conn == NOWHERE)
			stream_conn(l, l->rail[r->stream].stream);
		r->conn = l->rail[r->stream].conn;
		r->from = l->rail[r->stream].side;
	}
}

/* ---- what is wanted -------------------------------------------------------------------- */

static bool wanted(const struct conn *c, const uint32_t *qpn, unsigned qpns)
{
	for (unsigned i = 0; i < qpns; i++)
		if (c->side[0].qpn == qpn[i] || c->side[1].qpn == qpn[i])
			return true;
	return !qpns;
}

static int by_time(const void *va, const void *vb)
{
	const struct rung *a = va, *b = vb;

	if (a->ns != b->ns)
		return a->ns < b->ns ? -1 : 1;
	if ((a->fate == FATE_MISSING) != (b->fate == FATE_MISSING))
		return a->fate == FATE_MISSING ? -1 : 1;
	return a->no < b->no ? -1 : a->no > b->no;
}

static int by_begin(const void *va, const void *vb)
{
	const struct conn *a = *(const struct conn *const *)va, *b = *(const struct conn *const *)vb;

	return a->begin < b->begin ? -1 : a->begin > b->begin ? 1 : a < b ? -1 : a > b;
}

static void count(struct conn *c, const struct rung *r)
{
	if (!(c->packets + c->missing) || r->ns < c->begin)
		c->begin = r->ns;
	if (r->ns > c->end)
		c->end = r->ns;
	if (r->arrived > c->end)
		c->end = r->arrived;
	c->again += r->again > 0;
	c->dup += r->dup;
	c->lost += r->fate == FATE_LOST;
	c->unanswered += r->fate == FATE_UNANSWERED;
	c->discarded += r->fate == FATE_DISCARDED;
	c->nak += r->class == RUNG_NAK;
	c->rnr += r->class == RUNG_RNR;
	if (r->fate == FATE_MISSING) {
		c->missing += r->n;
		return;
	}
	c->packets++;
	c->bytes += r->len;
}

static void drop(struct rung *r)
{
	free(r->note);
	free(r->comment);
	free(r->say);
	free(r->detail);
}

/* Connections without a packet go, the others are put in the order in which they begin. */
static void tidy(struct ladder *l)
{
	uint32_t *to = calloc(l->conns + 1, sizeof(*to)), n = 0;
	struct conn **order = calloc(l->conns + 1, sizeof(*order)), *conn = calloc(l->conns + 1, sizeof(*conn));

	if (!to || !order || !conn) {
		l->no_memory = true;
		free(conn);
	} else {
		for (uint32_t i = 0; i < l->conns; i++)
			if (l->conn[i].packets + l->conn[i].missing)
				order[n++] = &l->conn[i];
		qsort(order, n, sizeof(*order), by_begin);
		for (uint32_t i = 0; i < n; i++) {
			to[order[i] - l->conn] = i;
			conn[i] = *order[i];
		}
		for (uint32_t i = 0; i < l->n; i++)
			l->rung[i].conn = to[l->rung[i].conn];
		free(l->conn);
		l->conn = conn;
		l->conns = n;
	}
	free(to);
	free(order);
}

void ladder_end(struct ladder *l, const uint32_t *qpn, unsigned qpns)
{
	uint32_t n = 0;

	connect_all(l);
	for (uint32_t i = 0; i < l->n; i++) {
		struct rung *r = &l->rung[i];

		if (r->conn == NOWHERE || !wanted(&l->conn[r->conn], qpn, qpns)) {
			drop(r);
			continue;
		}
		l->rung[n++] = *r;
	}
	l->n = n;
	if (n)
		qsort(l->rung, n, sizeof(*l->rung), by_time);
	fate_end(l);
	for (uint32_t i = 0; i < n; i++)
		count(&l->conn[l->rung[i].conn], &l->rung[i]);
	tidy(l);
}
