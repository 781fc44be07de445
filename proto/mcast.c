/* SPDX-License-Identifier: MIT */
/* mcast.c - multicast: a datagram to a group goes to each QP that is attached to it. */
#include "mcast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid.h>

#include "hca_in.h"
#include "resp.h"

static struct mcast *find(const struct mcasts *m, const uint8_t *mgid)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (gid_same(m->v[i].mgid, mgid))
			return &m->v[i];
	return NULL;
}

static struct mcast *make(struct mcasts *m, const uint8_t *mgid)
{
	if (m->n == m->max) {
		uint32_t max = m->max ? 2 * m->max : 8;
		void *v = realloc(m->v, max * sizeof(*m->v));

		if (!v)
			return NULL;
		m->v = v;
		m->max = max;
	}
	m->v[m->n] = (struct mcast){ 0 };
	memcpy(m->v[m->n].mgid, mgid, 16);
	return &m->v[m->n++];
}

static void leave(struct mcasts *m, struct mcast *g, uint32_t i)
{
	g->qp[i] = g->qp[--g->n];
	if (g->n)
		return;
	free(g->qp);
	*g = m->v[--m->n];
}

static uint32_t member(const struct mcast *g, const struct qp *qp)
{
	uint32_t i = 0;

	while (i < g->n && g->qp[i] != qp)
		i++;
	return i;
}

int hca_mcast_attach(struct hca *h, uint32_t qpn, const uint8_t *mgid)
{
	struct qp *qp = qp_get(h, qpn);
	struct mcast *g = find(&h->mcast, mgid);
	struct qp **v;

	if (!qp || qp->type != QPT_UD || !gid_is_group(mgid))
		return EINVAL;
	if (g && member(g, qp) < g->n)
		return 0;
	if (!g)
		g = make(&h->mcast, mgid);
	if (!g)
		return ENOMEM;
	if (g->n == g->max) {
		uint32_t max = g->max ? 2 * g->max : 4;

		v = realloc(g->qp, max * sizeof(*v));
		if (!v) {
			if (!g->n)
				h->mcast.n--;
			return ENOMEM;
		}
		g->qp = v;
		g->max = max;
	}
	g->qp[g->n++] = qp;
	return 0;
}

int hca_mcast_detach(struct hca *h, uint32_t qpn, const uint8_t *mgid)
{
	struct qp *qp = qp_get(h, qpn);
	struct mcast *g = find(&h->mcast, mgid);

	if (!qp || !g || member(g, qp) == g->n)
		return EINVAL;
	leave(&h->mcast, g, member(g, qp));
	return 0;
}

bool hca_mcast_has(const struct hca *h, const uint8_t *mgid) { return find(&h->mcast, mgid); }

void mcast_leave(struct hca *h, const struct qp *qp)
{
	for (uint32_t i = h->mcast.n; i-- > 0;) {
		struct mcast *g = &h->mcast.v[i];

		if (member(g, qp) < g->n)
			leave(&h->mcast, g, member(g, qp));
	}
}

/* Sent by this very QP? Other devices have QPs of that number, too. */
static bool is_own(const struct hca *h, const struct qp *qp, const struct burst *b)
{
	if (b->sqpn != qp->qpn)
		return false;
	for (unsigned i = 0; i < HCA_GIDS; i++)
		if (h->gid_set >> i & 1 && gid_same(h->gid[i], b->route.sgid))
			return true;
	return false;
}

void mcast_rx(struct hca *h, const struct burst *b)
{
	struct mcast *g = find(&h->mcast, b->route.dgid);
	bool foreign = false, taken = false;

	if (SVC_OF(b->op_first) != SVC_UD || !g) {
		count(h, HCA_STAT_BAD_QPN, b->n);
		return;
	}
	for (uint32_t i = 0; i < g->n; i++) {
		struct qp *qp = g->qp[i];

		if (qp->state < QPS_RTR || qp->state == QPS_ERR) {
			count(h, HCA_STAT_BAD_STATE, b->n);
			continue;
		}
		if (!pkey_match(b->pkey, qp_pkey(h, qp))) {
			foreign = true;
			continue;
		}
		taken = true;
		if (qp->not_own && is_own(h, qp, b))
			continue;
		qp->rx_pkts += b->n;
		qp->rx_bytes += b->payload_len;
		ud_rx(h, qp, b);
	}
	/* Groups have no partition: it is out of place here only if nobody takes it. */
	if (foreign && !taken)
		count(h, HCA_STAT_BAD_PKEY, b->n);
}

void mcast_fini(struct hca *h) { free(h->mcast.v); }
