/* SPDX-License-Identifier: MIT */
/*
 * raw.c - RAW_PACKET QPs: frames as they are, without a transport.  Sending is req.c's, as for UD; here they are
 * received.  Which frames a QP gets is the host's business.
 */
#include "hca_in.h"

static enum fault store(struct hca *h, struct qp *qp, const struct rwqe *w, const struct span *frame, bool *lost)
{
	int n, err;

	if (frame->len > w->len)
		return FAULT_UD_RECV_LEN;
	n = sge_spans(h, w->sge, w->sge_n, qp->pd, ACC_LOCAL_WRITE, 0, frame->len, h->dst);
	if (n < 0)
		return FAULT_UD_RECV_PROT;
	err = h->cfg.mem->copy(h->cfg.mem_host, h->dst, (unsigned)n, frame, 1, 0);
	*lost = mem_lost(err);
	return err && !*lost ? FAULT_UD_RECV_MEM : FAULT_NONE;
}

void hca_rx_raw(struct hca *h, uint32_t qpn, const uint8_t *frame, size_t len, mono_t now)
{
	struct span span = { NULL, (uint64_t)(uintptr_t)frame, (uint32_t)len };
	struct qp *qp = qp_get(h, qpn);
	enum fault f = FAULT_NONE;
	bool lost = false;
	struct rwqe *w;
	struct cqe c;

	h->now = now;
	if (!qp || qp->type != QPT_RAW || qp->state < QPS_RTR || qp->state == QPS_ERR || len < RAW_LEAST || len > RAW_MTU)
		return;
	qp->rx_pkts++;
	qp->rx_bytes += len;
	w = recv_take(h, qp);
	f = w ? store(h, qp, w, &span, &lost) : FAULT_UD_NO_RECV;
	if (f) {
		fault_act(h, qp, f);
		return;
	}
	if (lost)
		return;
	c = recv_cqe(h, qp, w);
	c.byte_len = (uint32_t)len;
	recv_complete(h, qp, &c);
	count(h, HCA_STAT_RDMA_RECVS, 1);
}
