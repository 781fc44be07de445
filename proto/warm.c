/* SPDX-License-Identifier: MIT */
/* warm.c - see warm.h. */
#include "warm.h"

#include "hca_in.h"

/* That of a number, unless it is another one's: nothing of it is looked at. */
static const struct qp *qp_at(const struct hca *h, uint32_t qpn)
{
	return qpn ? h->qp.v[qpn >> h->cfg.qpn_low_bits & h->qp.mask] : h->taken.qp;
}

static const struct place *place_at(const struct hca *h, uint32_t key)
{
	return &h->keys.mr.v[key >> 8 & h->keys.mr.mask];
}

static void tables(const struct hca *h, uint32_t qpn, uint32_t key)
{
	if (qpn)
		warm(&h->qp.v[qpn >> h->cfg.qpn_low_bits & h->qp.mask], sizeof(*h->qp.v));
	if (h->timers.n)
		warm(h->timers.v, sizeof(*h->timers.v));
	warm(place_at(h, key), sizeof(struct place));
}

static void objects(const struct hca *h, uint32_t qpn, uint32_t key)
{
	const struct qp *qp = qp_at(h, qpn);
	const struct mr *mr = place_at(h, key)->obj;

	if (qp)
		warm(qp, offsetof(struct qp, log));
	if (mr)
		warm(mr, sizeof(*mr));
}

static void queues(const struct hca *h, uint32_t qpn)
{
	const struct qp *qp = qp_at(h, qpn);

	if (!qp || qpn)
		return;
	if (qp->path)
		warm(qp->path, offsetof(struct path, waiters));
	if (qp->sq.mem)
		warm(sq_at(&qp->sq, qp->sq.next), sizeof(struct swqe) + sizeof(struct sge));
	warm(qp->ready_lane, sizeof(*qp->ready_lane));
}

void hca_warm(const struct hca *h, uint32_t qpn, uint32_t key, unsigned step)
{
	switch (step) {
	case 0:
		warm(h, offsetof(struct hca, gsi) + offsetof(struct gsi_qp, out));
		warm(h->pkey, sizeof(h->pkey[0]));
		warm(h->stat, HCA_STAT_LOCAL_TRAINS * sizeof(h->stat[0]));
		warm(qpn ? &h->dst[0] : &h->tx_span[0], sizeof(struct span));
		break;
	case 1: tables(h, qpn, key); break;
	case 2: objects(h, qpn, key); break;
	case 3: queues(h, qpn); break;
	}
}
