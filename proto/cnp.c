/* SPDX-License-Identifier: MIT */
/* cnp.c - see cnp.h. */
#include "cnp.h"

#include "hca_in.h"

void cnp_note(struct hca *h, struct qp *qp, const struct burst *b)
{
	/* UD has no peer who could be slowed; and fewer ACKs help nobody. */
	if ((b->route.tclass & ECN_BITS) != ECN_CE || !qp->path || !b->payload_len || mono_before(h->now, qp->cnp_next))
		return;
	qp->cnp_next = mono_add(h->now, CNP_GAP_NS);
	qp->cnp = true;
	qp_ready(h, qp);
}

bool cnp_tx(struct hca *h, struct qp *qp, struct burst *b)
{
	qp->cnp = false;
	if (qp->state == QPS_ERR)
		return false;
	*b = (struct burst){ .route = qp->head.route,
			     .op_first = OPCODE_CNP,
			     .op_last = OPCODE_CNP,
			     .pkey = qp_pkey(h, qp),
			     .dqpn = qp->attr.dest_qpn,
			     .sqpn = qp->qpn,
			     .n = 1,
			     .span = h->tx_span };
	b->route.tclass = CNP_TCLASS;
	count(h, HCA_STAT_NP_CNP_SENT, 1);
	return true;
}

/* Of the queue pair's partition, or of the default one, which an adapter may put into all of them. */
static bool of_partition(struct hca *h, const struct qp *qp, const struct burst *b)
{
	if (pkey_match(b->pkey, qp_pkey(h, qp)) || pkey_match(b->pkey, PKEY_DEFAULT))
		return true;
	count(h, HCA_STAT_BAD_PKEY, b->n);
	return false;
}

void cnp_rx(struct hca *h, const struct burst *b)
{
	struct qp *qp = qp_get(h, b->dqpn);

	/* Only the peer may slow the QP down, and only for what was sent to it. */
	if (!qp || !qp->path || qp->path->local || qp->state < QPS_RTR || qp->state == QPS_ERR ||
	    !route_is_back(&b->route, &qp->head.route) || !of_partition(h, qp, b) || !rate_cnp(h, qp)) {
		count(h, HCA_STAT_RP_CNP_IGNORED, b->n);
		return;
	}
	count(h, HCA_STAT_RP_CNP_HANDLED, b->n);
}
