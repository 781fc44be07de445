/* SPDX-License-Identifier: MIT */
/* mcast.c - multicast: a datagram to a group goes to each QP that is attached to it. */
#include "mcast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid.h>

#include "hca_in.h"
#include "resp.h"

/* The pointer to it, or to NULL.  Programs choose MGIDs. */
static struct mcast **find(struct hca *h, const uint8_t *mgid)
{
	struct mcast **g = &h->mcast.head[secret_hash_gid(h->secret.key, mgid) & (MCAST_HASH - 1)];

	while (*g && !gid_same((*g)->mgid, mgid))
		g = &(*g)->next;
	return g;
}

static struct mcast_member *member(const struct mcast *g, const struct qp *qp)
{
	for (struct link *l = g ? g->members.next : NULL; g && l != &g->members; l = l->next)
		if (LINK_OF(l, struct mcast_member, in_group)->qp == qp)
			return LINK_OF(l, struct mcast_member, in_group);
	return NULL;
}

/* Has the QP's owner as many in there as he may? */
static bool full(const struct mcast *g, const struct qp *qp)
{
	unsigned n = 0;

	for (struct link *l = g->members.next; l != &g->members; l = l->next)
		n += LINK_OF(l, struct mcast_member, in_group)->qp->ready_lane == qp->ready_lane;
	return n >= MCAST_QPS;
}

static struct mcast *make(struct mcast **at, const uint8_t *mgid)
{
	struct mcast *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	memcpy(g->mgid, mgid, 16);
	link_init(&g->members);
	*at = g;
	return g;
}

/* The last one takes the group along. */
static void leave(struct hca *h, struct mcast_member *m)
{
	struct mcast **at, *g = m->group;

	link_del(&m->in_group);
	link_del(&m->of_qp);
	free(m);
	if (!link_empty(&g->members))
		return;
	at = find(h, g->mgid);
	*at = g->next;
	free(g);
}

int hca_mcast_attach(struct hca *h, uint32_t qpn, const uint8_t *mgid)
{
	struct qp *qp = qp_get(h, qpn);
	struct mcast **at = find(h, mgid), *g = *at;
	struct mcast_member *m;

	if (!qp || qp->type != QPT_UD || !gid_is_group(mgid))
		return EINVAL;
	if (member(g, qp))
		return 0;
	if (g && full(g, qp))
		return ENOMEM;
	m = calloc(1, sizeof(*m));
	if (m && !g)
		g = make(at, mgid);
	if (!m || !g) {
		free(m);
		return ENOMEM;
	}
	m->group = g;
	m->qp = qp;
	link_add_tail(&g->members, &m->in_group);
	link_add_tail(&qp->groups, &m->of_qp);
	return 0;
}

int hca_mcast_detach(struct hca *h, uint32_t qpn, const uint8_t *mgid)
{
	struct qp *qp = qp_get(h, qpn);
	struct mcast_member *m = qp ? member(*find(h, mgid), qp) : NULL;

	if (!m)
		return EINVAL;
	leave(h, m);
	return 0;
}

bool hca_mcast_has(struct hca *h, const uint8_t *mgid) { return *find(h, mgid); }

void mcast_leave(struct hca *h, struct qp *qp)
{
	while (!link_empty(&qp->groups))
		leave(h, LINK_OF(qp->groups.next, struct mcast_member, of_qp));
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
	struct mcast *g = *find(h, b->route.dgid);
	bool foreign = false, taken = false;

	if (SVC_OF(b->op_first) != SVC_UD || !g) {
		count(h, HCA_STAT_BAD_QPN, b->n);
		return;
	}
	for (struct link *l = g->members.next; l != &g->members; l = l->next) {
		struct qp *qp = LINK_OF(l, struct mcast_member, in_group)->qp;

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
