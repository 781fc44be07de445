/* SPDX-License-Identifier: MIT */
/*
 * raw.c - RAW_PACKET QPs: frames as they are, without a transport.  Sending is req.c's, as for UD; here is what is
 * different.  The host decides which frames a QP gets, and makes segments of a large one.
 */
#include "raw.h"

#include "cqe.h"
#include "frame.h"
#include "hca_in.h"

enum fault raw_wr_fault(struct swqe *w)
{
	uint32_t hdr = w->wr.inline_len;

	if (w->wr.op != WR_TSO)
		return w->len < RAW_LEAST || w->len > RAW_MTU ? FAULT_SQ_LEN : FAULT_NONE;
	if (w->len - hdr > RD_MAX_TSO)
		return FAULT_SQ_LEN;
	return frame_tso_ok(swqe_inline(w), hdr, w->wr.tso.mss) ? FAULT_NONE : FAULT_SQ_OP;
}

bool raw_tso_payload(struct hca *h, struct qp *qp, struct swqe *w, struct burst *b)
{
	uint32_t hdr = w->wr.inline_len;
	int k = 0;

	b->payload_len = w->len;
	h->tx_span[0] = (struct span){ NULL, (uint64_t)(uintptr_t)swqe_inline(w), hdr };
	if (w->len > hdr)
		k = sge_spans(&h->keys, swqe_sge(w), w->wr.sge_n, qp->pd, 0, 0, w->len - hdr, h->tx_span + 1);
	b->span_n = k < 0 ? 0 : 1 + (unsigned)k;
	return k >= 0;
}

void raw_cut(const struct swqe *w, struct burst *b)
{
	b->raw = true;
	b->raw_sum = w->wr.flags & WR_IP_CSUM;
	if (w->wr.op == WR_TSO) {
		b->raw_hdr = w->wr.inline_len;
		b->raw_mss = w->wr.tso.mss;
	}
}

static enum fault store(struct hca *h, struct qp *qp, const struct rwqe *w, const struct span *frame, bool *lost)
{
	int n, err;

	if (frame->len > w->len)
		return FAULT_UD_RECV_LEN;
	n = sge_spans(&h->keys, w->sge, w->sge_n, recv_pd(qp), ACC_LOCAL_WRITE, 0, frame->len, h->dst);
	if (n < 0)
		return FAULT_UD_RECV_PROT;
	err = h->cfg.mem->copy(h->cfg.mem_host, h->dst, (unsigned)n, frame, 1, 0);
	*lost = mem_lost(err);
	return err && !*lost ? FAULT_UD_RECV_MEM : FAULT_NONE;
}

void hca_rx_raw(struct hca *h, uint32_t qpn, const uint8_t *frame, size_t len, bool sum_ok, mono_t now)
{
	struct span span = { NULL, (uint64_t)(uintptr_t)frame, (uint32_t)len };
	struct qp *qp = qp_get(h, qpn);
	enum fault f = FAULT_NONE;
	bool lost = false;
	struct rwqe *w;
	struct cqe c;

	hca_clock(h, now);
	if (!qp || qp->type != QPT_RAW || qp->state < QPS_RTR || qp->state == QPS_ERR || len < RAW_LEAST ||
	    len > RAW_MTU)
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
	c = recv_cqe(qp, w);
	c.byte_len = (uint32_t)len;
	if (sum_ok)
		c.flags |= WC_IP_CSUM_OK;
	recv_complete(h, qp, &c);
	count(h, HCA_STAT_RDMA_RECVS, 1);
}
