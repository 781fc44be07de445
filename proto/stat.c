/* SPDX-License-Identifier: MIT */
/* stat.c - looking in: counters, the QPs one by one, how many objects there are. */
#include <stdlib.h>

#include "hca_in.h"
#include "srq.h"

uint64_t hca_stat(const struct hca *h, enum hca_stat s)
{
	return s < HCA_STATS ? __atomic_load_n(&h->stat[s], __ATOMIC_RELAXED) : 0;
}

const char *hca_stat_name(enum hca_stat s)
{
	static const char *const names[HCA_STATS] = {
#define STAT(name, lower, text) [HCA_STAT_##name] = #lower,
#include "stats.def"
#undef STAT
	};

	return s < HCA_STATS ? names[s] : NULL;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

uint32_t hca_qp_list(const struct hca *h, uint32_t *qpn, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i <= h->qp.mask && n < max; i++)
		if (h->qp.v[i])
			qpn[n++] = h->qp.v[i]->qpn;
	qsort(qpn, n, sizeof(*qpn), by_number);
	return n;
}

bool hca_qp_info(const struct hca *h, uint32_t qpn, struct qp_info *info)
{
	const struct qp *qp = qp_get(h, qpn);

	if (!qp)
		return false;
	*info = (struct qp_info){
		.qpn = qp->qpn,
		.pdn = qp->pd ? qp->pd->number : 0,
		.send_cqn = qp->scq ? qp->scq->number : 0,
		.recv_cqn = qp->rcq ? qp->rcq->number : 0,
		.srqn = qp->srq ? qp->srq->number : 0,
		.type = qp->type,
		.state = qp->state,
		.err_at = qp->why.err_at,
		.moved = qp->why.moved,
		.attr = qp->attr,
		.sq_len = sq_len(&qp->sq),
		.rq_len = rq_len(&qp->rq) + (!qp->srq && qp->resp.wqe),
		.sq_psn_next = qp->req.next.v,
		.sq_psn_acked = qp->req.una.v,
		.rq_psn = qp->resp.epsn.v,
		.retry_left = qp->req.retry_left,
		.rnr_left = qp->req.rnr_left,
		.tx_bytes = qp->tx_bytes,
		.rx_bytes = qp->rx_bytes,
		.tx_pkts = qp->tx_pkts,
		.rx_pkts = qp->rx_pkts,
		.retrans = qp->retrans,
		.rnrs = qp->rnrs,
		.window = qp->path && !qp->path->local ? qp->path->window : 0,
		.inflight = qp->path && qp->req.epoch == qp->path->epoch ? qp->req.inflight : 0,
	};
	return true;
}

uint32_t hca_qp_heard(const struct hca *h, uint32_t qpn)
{
	const struct qp *qp = qp_get(h, qpn);

	return qp ? qp->resp.msn : 0;
}

uint32_t hca_trace(const struct hca *h, uint64_t *from, struct trace_rec *v, uint32_t max, uint64_t *lost)
{
	return trace_read(&h->trace, from, v, max, lost);
}

int hca_trace_bursts(struct hca *h, bool on) { return trace_bursts(&h->trace, on); }

void hca_objects(const struct hca *h, struct hca_live *c)
{
	*c = (struct hca_live){ .pd = h->pd.live,
				.mr = h->keys.mr.live,
				.cq = h->cq.live,
				.srq = h->srq.live,
				.qp = h->qp.live,
				.mw = h->keys.mw.live,
				.xrcd = h->xrcd.live };
}
