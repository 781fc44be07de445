/* SPDX-License-Identifier: MIT */
/* keep.c - rooms for packets behind a gap; see keep.h. */
#include "keep.h"

#include <errno.h>
#include <stdlib.h>

#include "hca_in.h"
#include "opcode.h"

#define IDLE_NS 1000000000u /* a room that was not used for so long may be taken away */

int keep_init(struct hca *h)
{
	if (!h->cfg.selective)
		return 0;
	h->keep.room = calloc(KEEP_ROOMS, sizeof(*h->keep.room));
	if (!h->keep.room)
		return ENOMEM;
	for (unsigned i = 0; i < KEEP_ROOMS; i++) {
		struct room *m = &h->keep.room[i];

		/* Only what was put there is read. */
		m->kept = malloc(KEEP_SLOTS * sizeof(*m->kept));
		m->payload = malloc(KEEP_LEN);
		if (!m->kept || !m->payload)
			return ENOMEM;
	}
	return 0;
}

void keep_fini(struct hca *h)
{
	for (unsigned i = 0; h->keep.room && i < KEEP_ROOMS; i++) {
		free(h->keep.room[i].kept);
		free(h->keep.room[i].payload);
	}
	free(h->keep.room);
}

void keep_drop(struct qp *qp)
{
	struct room *m = qp->resp.room;

	if (!m)
		return;
	for (uint32_t i = 0; m->n && i <= m->mask; i++) {
		m->n -= m->on[i];
		m->on[i] = false;
	}
	m->qp = NULL;
	qp->resp.room = NULL;
}

/* A free one, or the one that has been idle for longest, if that is long. */
static struct room *room_get(struct hca *h, struct qp *qp)
{
	struct room *m = h->keep.room;

	for (struct room *o = m; o < h->keep.room + KEEP_ROOMS && m->qp; o++)
		if (!o->qp || mono_before(o->used, m->used))
			m = o;
	if (m->qp && mono_since(h->now, m->used) < IDLE_NS)
		return NULL;
	if (m->qp)
		keep_drop(m->qp);
	m->qp = qp;
	m->mask = KEEP_LEN / qp->mtu - 1;
	m->end = qp->resp.epsn;
	qp->resp.room = m;
	return m;
}

/* A READ takes as many as its responses; one that goes beyond the room has nothing behind it here. */
static uint32_t psns_of(const struct room *m, const struct burst *b)
{
	uint32_t mtu = m->qp->mtu, n = (b->dma_len + mtu - 1) / mtu;

	if (opcode_get(b->op_first)->kind != KIND_READ || !n || b->dma_len > KEEP_LEN ||
	    psn_dist(m->qp->resp.epsn, b->psn) + n > m->mask + 1)
		return 1;
	return n;
}

static void put(struct hca *h, struct room *m, const struct burst *b)
{
	uint32_t i = b->psn.v & m->mask;
	struct kept *k = &m->kept[i];
	uint32_t psns = psns_of(m, b);
	struct span dst = { NULL, (uintptr_t)(m->payload + (size_t)i * (KEEP_LEN / (m->mask + 1))),
			    (uint32_t)b->payload_len };

	/* A packet of another PSN there has come again meanwhile, and was taken then. */
	if ((m->on[i] && psn_eq(k->b.psn, b->psn)) || (dst.len && rx_copy(h, &dst, 1, b)))
		return;
	m->n += !m->on[i];
	m->on[i] = true;
	*k = (struct kept){ .b = *b, .span = dst };
	k->b.span_n = dst.len ? 1 : 0;
	if (psn_before(m->end, psn_add(b->psn, psns)))
		m->end = psn_add(b->psn, psns);
	count(h, HCA_STAT_KEPT_REQUEST, 1);
}

void keep_put(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct room *m = qp->resp.room;
	struct burst one;

	if (!h->keep.room || qp->path->local || (b->n > 1 && b->mtu != qp->mtu))
		return;
	if (!m)
		m = room_get(h, qp);
	if (!m)
		return;
	m->used = h->now;
	for (uint32_t i = 0; i < b->n && psn_dist(qp->resp.epsn, b->psn) + i <= m->mask &&
			     psn_diff(psn_add(b->psn, i), m->end) <= (int32_t)KEEP_GAP;
	     i++) {
		burst_slice(b, i, 1, &one, h->slice);
		if (one.payload_len <= qp->mtu)
			put(h, m, &one);
	}
}

bool keep_take(struct hca *h, struct qp *qp, struct burst *b)
{
	struct room *m = qp->resp.room;
	struct kept *k;
	uint32_t n = 0;

	if (!m)
		return false;
	for (psn_t at = qp->resp.epsn; n < KEEP_JOIN; at = psn_add(at, 1), n++) {
		uint32_t i = at.v & m->mask;

		k = &m->kept[i];
		if (!m->on[i] || !psn_eq(k->b.psn, at))
			break;
		k->b.span = &k->span;
		if (!n) {
			*b = k->b;
			h->keep.span[0] = k->span;
			b->span = h->keep.span;
		} else if (!burst_join(b, &k->b, h->keep.span, KEEP_JOIN)) {
			break;
		}
		m->on[i] = false;
		m->n--;
	}
	return n;
}
