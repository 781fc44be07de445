/* SPDX-License-Identifier: MIT */
/* hca.c - an HCA is made; its port; what is posted, received, sent: each handed to the QP concerned. */
#include "hca.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/ring.h>

#include "cnp.h"
#include "cong.h"
#include "cqe.h"
#include "hca_in.h"
#include "replay.h"
#include "req.h"
#include "resp.h"
#include "wr_kind.h"

static uint32_t or_default(uint32_t v, uint32_t d) { return v ? v : d; }

struct hca *hca_new(const struct hca_cfg *cfg)
{
	struct hca *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->cfg = *cfg;
	h->cfg.max_qp = or_default(cfg->max_qp, 65536);
	if (!cfg->law)
		h->cfg.law = &cong_law;
	h->pkey[h->pkey_n++] = PKEY_DEFAULT;
	while (h->pkey_n < RD_PKEYS && cfg->pkey[h->pkey_n - 1]) {
		h->pkey[h->pkey_n] = cfg->pkey[h->pkey_n - 1];
		h->pkey_n++;
	}
	h->secret = (struct secret){ .key = { cfg->seed, cfg->seed_hi } };
	slots_init(&h->pd, or_default(cfg->max_pd, 65536));
	slots_init(&h->cq, or_default(cfg->max_cq, 65536));
	slots_init(&h->xrcd, or_default(cfg->max_xrcd, 65536));
	slots_init(&h->srq, or_default(cfg->max_srq, 65536));
	turns_init(&h->ready);
	link_init(&h->events);
	paths_init(&h->paths);
	h->qp.mask = 63;
	h->qp.v = calloc(h->qp.mask + 1, sizeof(*h->qp.v));
	h->slice = calloc(HCA_SPANS, sizeof(*h->slice));
	if (!h->qp.v || !h->slice ||
	    keys_init(&h->keys, or_default(cfg->max_mr, 524287), or_default(cfg->max_mw, 524287)) || gsi_init(h) ||
	    ghosts_init(h) || keep_init(h) || trace_init(&h->trace) || whys_init(h)) {
		hca_free(h);
		return NULL;
	}
	h->qp.last = (uint32_t)secret_next(&h->secret) & ((1u << (24 - cfg->qpn_low_bits)) - 1);
	return h;
}

void hca_free(struct hca *h)
{
	if (!h)
		return;
	qps_fini(h);
	for (uint32_t i = 0; i < h->srq.size; i++)
		if (h->srq.v[i])
			hca_srq_destroy(h, i);
	for (uint32_t i = 0; i < h->cq.size; i++)
		if (h->cq.v[i])
			hca_cq_destroy(h, i);
	for (uint32_t i = 0; i < h->pd.size; i++)
		free(h->pd.v[i]);
	for (uint32_t i = 0; i < h->xrcd.size; i++)
		free(h->xrcd.v[i]);
	slots_fini(&h->xrcd);
	slots_fini(&h->srq);
	slots_fini(&h->cq);
	keys_fini(&h->keys);
	slots_fini(&h->pd);
	gsi_fini(h);
	ghosts_fini(h);
	keep_fini(h);
	trace_fini(&h->trace);
	whys_fini(h);
	paths_fini(h);
	heap_fini(&h->timers);
	free(h->comp.v);
	free(h->slice);
	free(h);
}

int hca_gid_set(struct hca *h, unsigned i, const uint8_t *gid)
{
	if (i >= HCA_GIDS)
		return EINVAL;
	if (gid) {
		memcpy(h->gid[i], gid, 16);
		h->gid_set |= 1ull << i;
	} else {
		memset(h->gid[i], 0, 16);
		h->gid_set &= ~(1ull << i);
	}
	return 0;
}

void hca_mtu_set(struct hca *h, uint8_t mtu) { h->cfg.mtu = mtu; }

/* ---- posting ----------------------------------------------------------- */

/* Does the data come the way that the request has it? */
static bool data_fits(const struct send_wr *wr, const struct wr_row *row)
{
	switch ((enum wr_data)row->data) {
	case WR_DATA_OUT: return true;
	case WR_DATA_IN: return !wr->inline_len && !(wr->flags & WR_INLINE);
	case WR_DATA_NONE: return !wr->inline_len && !(wr->flags & WR_INLINE) && !wr->sge_n;
	case WR_DATA_SPLIT: return wr->inline_len && wr->inline_len <= RD_TSO_HDR && !(wr->flags & WR_INLINE);
	}
	return false;
}

/* Has a QP of this type such a request, and room for what comes with it? */
static int post_check(const struct qp *qp, const struct send_wr *wr, const struct wr_row *row)
{
	if (!row)
		return wr->op < WR_CODES ? EOPNOTSUPP : EINVAL;
	if (!(row->on >> qp->type & 1) || (qp->type != QPT_RAW && wr->flags & WR_IP_CSUM) || !data_fits(wr, row))
		return EINVAL;
	if (wr->sge_n > qp->cap.max_send_sge || wr->sge_n * sizeof(struct sge) + (uint64_t)wr->inline_len > qp->sq.room)
		return E2BIG;
	return 0;
}

/* Its kind and its length. */
static void wr_measure(struct swqe *w, const struct wr_row *row)
{
	const struct wr_kind *kind = &wr_kinds[w->wr.op];
	uint32_t only = row->len;

	w->kind = kind->kind;
	w->rd = kind->asks;
	w->fault = FAULT_NONE;
	w->len = w->wr.inline_len;
	for (unsigned i = 0; i < w->wr.sge_n && (!w->wr.inline_len || row->data == WR_DATA_SPLIT); i++)
		w->len += swqe_sge(w)[i].len;
	if (w->len > RD_MAX_MSG || (only && w->len != only) ||
	    (w->kind == KIND_FLUSH && !w->wr.flush.level && w->wr.flush.len > RD_MAX_MSG))
		w->fault = FAULT_SQ_LEN;
}

static int post_send(struct hca *h, struct qp *qp, const struct send_wr *wr)
{
	const struct wr_row *row;
	struct swqe *w;
	int err;

	if (!qp || qp->state < QPS_RTS || qp->type == QPT_XRC_RECV)
		return EINVAL;
	w = sq_put(&qp->sq, wr);
	if (!w)
		return ENOMEM;
	row = wr_row(w->wr.op);
	err = post_check(qp, &w->wr, row);
	if (err)
		return err;
	sq_put_tail(w, wr);
	wr_measure(w, row);
	if (!sq_len(&qp->sq))
		qp->why.moved = h->now;
	qp->sq.tail++;
	if (qp->state == QPS_ERR || qp->state == QPS_SQE) {
		why_flush_late(h, qp);
		sq_complete(h, qp, WC_WR_FLUSH_ERR, FAULT_NONE);
		qp->sq.next = qp->sq.begun = qp->sq.head;
	} else {
		qp_ready(h, qp);
	}
	return 0;
}

uint32_t hca_post_sends(struct hca *h, uint32_t qpn, const struct ring *r, uint32_t from, uint32_t n, int *err,
			mono_t now)
{
	struct qp *qp = qp_get(h, qpn);
	uint32_t i;

	hca_clock(h, now);
	*err = 0;
	for (i = 0; i < n && !*err; i++)
		*err = post_send(h, qp, ring_slot(r, from + i));
	return i;
}

static int post_recv(struct hca *h, struct qp *qp, const struct recv_wr *wr)
{
	struct cqe c;
	int err;

	if (!qp || qp->srq || qp->state == QPS_RESET || qp->svc == SVC_XRC)
		return EINVAL;
	err = rq_put(&qp->rq, wr);
	if (err || qp->state != QPS_ERR)
		return err;
	why_flush_late(h, qp);
	c = recv_cqe(qp, recv_take(h, qp));
	c.status = WC_WR_FLUSH_ERR;
	recv_complete(h, qp, &c);
	return 0;
}

uint32_t hca_post_recvs(struct hca *h, uint32_t qpn, const struct ring *r, uint32_t from, uint32_t n, int *err,
			mono_t now)
{
	struct qp *qp = qp_get(h, qpn);
	uint32_t i;

	hca_clock(h, now);
	*err = 0;
	for (i = 0; i < n && !*err; i++)
		*err = post_recv(h, qp, ring_slot(r, from + i));
	return i;
}

int hca_post_send(struct hca *h, uint32_t qpn, const struct send_wr *wr, mono_t now)
{
	hca_clock(h, now);
	return post_send(h, qp_get(h, qpn), wr);
}

int hca_post_recv(struct hca *h, uint32_t qpn, const struct recv_wr *wr, mono_t now)
{
	hca_clock(h, now);
	return post_recv(h, qp_get(h, qpn), wr);
}

/* ---- receiving --------------------------------------------------------- */

/* From whom the QP is connected with?  A packet on a wire does not say which QP it is from, one that had no wire does. */
static inline bool of_peer(const struct qp *qp, const struct burst *b)
{
	return route_is_back(&b->route, &qp->head.route) && (!b->sqpn || b->sqpn == qp->attr.dest_qpn);
}

/* Why that QP is not to have the packet: rule 1.5.  HCA_STATS: it may. */
static inline enum hca_stat misfit(const struct hca *h, const struct qp *qp, const struct burst *b)
{
	if (!qp || SVC_OF(b->op_first) != qp->svc)
		return HCA_STAT_BAD_QPN;
	if (qp->state < QPS_RTR || qp->state == QPS_ERR)
		return HCA_STAT_BAD_STATE;
	if (!pkey_match(b->pkey, qp_pkey(h, qp)))
		return HCA_STAT_BAD_PKEY;
	return qp->type == QPT_UD || of_peer(qp, b) ? HCA_STATS : HCA_STAT_BAD_ROUTE;
}

static void keep_from(struct hca *h, struct qp *qp, const struct burst *b, enum hca_stat why)
{
	count(h, why, b->n);
	/* Whoever else sends with another P_Key does not say anything of the peer's. */
	if (why != HCA_STAT_BAD_QPN && (why != HCA_STAT_BAD_PKEY || qp->type == QPT_UD || of_peer(qp, b)))
		why_drop(h, qp,
			 why == HCA_STAT_BAD_ROUTE  ? WHY_RX_ROUTE
			 : why == HCA_STAT_BAD_PKEY ? WHY_RX_PKEY
						    : WHY_RX_STATE,
			 b);
}

/* Notes for the QP's causes. */
static void rx_note(struct hca *h, struct qp *qp, const struct burst *b)
{
	qp->why.rx_last = h->now;
	if (qp->rx_pkts == qp->why.rx_base)
		TRACE_PUT(h, qp, FIRST_RX, .psn = b->psn.v, .op = b->op_first, .n = b->n);
	if (h->trace.bursts)
		TRACE_PUT(h, qp, RX, .psn = b->psn.v, .op = b->op_first, .n = b->n, .a = (uint32_t)b->payload_len,
			  .b = b->syndrome);
}

static inline void burst_take(struct hca *h, const struct burst *b)
{
	const struct opcode *op = opcode_get(b->op_first);
	enum hca_stat why;
	struct qp *qp;
	bool resp;

	count(h, HCA_STAT_RCVD_PKTS, b->n);
	count(h, HCA_STAT_RCVD_BYTES, b->payload_len);
	count(h, HCA_STAT_RCVD_TRAINS, 1);
	if ((b->route.tclass & ECN_BITS) == ECN_CE)
		count(h, HCA_STAT_NP_ECN_MARKED_ROCE_PACKETS, b->n);
	if (!op->name || (b->op_last != b->op_first && !opcode_get(b->op_last)->name) || b->span_n > HCA_SPANS) {
		count(h, HCA_STAT_MALFORMED, b->n);
		return;
	}
	if (op->kind == KIND_CNP) {
		cnp_rx(h, b);
		return;
	}
	if (b->dqpn == QPN_MCAST) {
		mcast_rx(h, b);
		return;
	}
	if (b->dqpn == QPN_GSI) {
		gsi_rx(h, b);
		return;
	}
	qp = qp_get(h, b->dqpn);
	why = misfit(h, qp, b);
	if (why != HCA_STATS) {
		if (qp || !ghost_rx(h, b))
			keep_from(h, qp, b, why);
		return;
	}
	resp = op_answers(op);
	if (qp->type == (resp ? QPT_XRC_RECV : QPT_XRC_SEND)) {
		count(h, HCA_STAT_BAD_QPN, b->n); /* one end asks, the other one answers */
		return;
	}
	rx_note(h, qp, b);
	qp->rx_pkts += b->n;
	qp->rx_bytes += b->payload_len;
	cnp_note(h, qp, b);
	if (qp->type == QPT_UD)
		ud_rx(h, qp, b);
	else if (qp->type == QPT_UC)
		uc_rx(h, qp, b);
	else if (resp)
		ack_rx(h, qp, b);
	else
		resp_rx(h, qp, b);
}

int hca_rx_burst(struct hca *h, const struct burst *b, mono_t now)
{
	hca_clock(h, now);
	h->rx = b;
	h->rx_lost = false;
	burst_take(h, b);
	h->rx = NULL;
	return h->rx_lost ? EIO : 0;
}

/* Errors of a request of the connection that it is for are told to its sender (rule 4.5); others are dropped. */
static void bad_take(struct hca *h, struct burst *b, enum fault f)
{
	struct qp *qp = qp_get(h, b->dqpn);
	enum hca_stat why;

	if (!qp || (qp->type != QPT_RC && qp->type != QPT_XRC_RECV) || op_answers(opcode_get(b->op_first)))
		return;
	b->n = 1;
	why = misfit(h, qp, b);
	if (why != HCA_STATS) {
		keep_from(h, qp, b, why);
		return;
	}
	h->rx = b;
	resp_rx_bad(h, qp, b, f);
	h->rx = NULL;
}

void hca_rx(struct hca *h, const struct route *route, const uint8_t *data, size_t len, mono_t now)
{
	struct burst b = { .route = *route };
	struct span span;

	enum parse_err err = burst_parse(&b, &span, data, len);

	if (err == PARSE_OK) {
		hca_rx_burst(h, &b, now);
		return;
	}
	hca_clock(h, now);
	count(h, HCA_STAT_MALFORMED, 1);
	count(h, HCA_STAT_RCVD_PKTS, 1);
	if (err == PARSE_OPCODE || err == PARSE_PAYLOAD)
		bad_take(h, &b, err == PARSE_OPCODE ? FAULT_RESP_OP_UNSUP : FAULT_RESP_LEN);
}

void hca_count(struct hca *h, unsigned stat, uint64_t n)
{
	if (stat < HCA_STATS)
		count(h, stat, n);
}

void hca_damaged(struct hca *h, const struct burst *b)
{
	struct qp *qp = b && b->dqpn > QPN_GSI ? qp_get(h, b->dqpn) : NULL;

	count(h, HCA_STAT_ICRC_ERR, 1);
	if (qp)
		why_drop(h, qp, WHY_RX_ICRC, b);
}

void hca_unsent(struct hca *h, uint32_t qpn, const struct route *way, unsigned n, int err)
{
	struct qp *qp = qpn > QPN_GSI ? qp_get(h, qpn) : NULL;

	count(h, HCA_STAT_SEND_ERR, n);
	if (qp)
		why_unsent(h, qp, way, err);
}

void hca_refused(struct hca *h, uint32_t qpn, const struct route *way, uint32_t dqpn, mono_t now)
{
	struct qp *qp = qpn > QPN_GSI ? qp_get(h, qpn) : NULL;

	hca_clock(h, now);
	if (qp && qp->type == QPT_UD)
		why_ud_refused(h, qp, way, dqpn);
}

/* ---- sending ----------------------------------------------------------- */

/* A CNP and ACKs first; read responses and requests in turn, so that neither side starves the other. */
static bool qp_tx(struct hca *h, struct qp *qp, struct burst *b)
{
	bool sent = false;

	if (qp->cnp && cnp_tx(h, qp, b))
		return true;
	if (!qp->yield || !req_tx(h, qp, b)) {
		sent = resp_wants(&qp->resp) && resp_tx(h, qp, b);
		if (sent)
			qp->yield = opcode_get(b->op_first)->kind == KIND_RESP;
		else
			sent = !qp->yield && req_tx(h, qp, b);
	} else {
		sent = true;
		qp->yield = false;
	}
	if (qp->path && link_empty(&qp->waiter))
		path_wake(h, qp->path);
	return sent;
}

/* Its bursts are counted: it has a rate, or its way may be congested. */
static bool is_paced(const struct qp *qp) { return rate_kbps(&qp->rate) || (qp->path && !qp->path->local); }

static inline void count_tx(struct hca *h, const struct burst *b)
{
	count(h, HCA_STAT_SENT_PKTS, b->n);
	count(h, HCA_STAT_SENT_BYTES, b->payload_len);
	count(h, HCA_STAT_SENT_TRAINS, 1);
}

static void tx_note(struct hca *h, struct qp *qp, const struct burst *b)
{
	if (qp->tx_pkts == qp->why.tx_base)
		TRACE_PUT(h, qp, FIRST_TX, .psn = b->psn.v, .op = b->op_first, .n = b->n);
	if (h->trace.bursts)
		TRACE_PUT(h, qp, TX, .psn = b->psn.v, .op = b->op_first, .n = b->n, .a = (uint32_t)b->payload_len,
			  .b = b->syndrome);
}

bool hca_tx_own(struct hca *h, struct burst *b, mono_t now)
{
	hca_begin(h, now);
	if (h->stalled || (!gsi_waits(&h->gsi) && !ghosts_wait(&h->ghosts)))
		return false;
	if (gsi_waits(&h->gsi))
		gsi_tx(h, b);
	else
		ghost_tx(h, b);
	count_tx(h, b);
	return true;
}

bool hca_tx(struct hca *h, struct burst *b, mono_t now)
{
	if (hca_tx_own(h, b, now))
		return true;
	if (h->stalled)
		return false;
	for (struct link *next; (next = turns_take(&h->ready));) {
		struct qp *qp = LINK_OF(next, struct qp, ready);

		if (qp->held || !qp_tx(h, qp, b)) {
			turns_unused(&h->ready, qp->ready_lane);
			continue;
		}
		if (qp_has_more(qp))
			qp_ready(h, qp);
		tx_note(h, qp, b);
		qp->tx_pkts += b->n;
		qp->tx_bytes += b->payload_len;
		if (is_paced(qp))
			rate_sent(h, qp, b->n, b->payload_len);
		count_tx(h, b);
		return true;
	}
	return false;
}

bool hca_wants(struct hca *h)
{
	return (!h->stalled && (gsi_waits(&h->gsi) || ghosts_wait(&h->ghosts) || !turns_empty(&h->ready))) ||
	       hca_completions_n(h) || !link_empty(&h->events) || h->whys.n;
}

void hca_sent(struct hca *h, mono_t now)
{
	hca_clock(h, now);
	paths_pace_sent(h);
}

void hca_stall(struct hca *h, bool stalled) { h->stalled = stalled; }

void hca_qp_hold(struct hca *h, uint32_t qpn, bool held)
{
	struct qp *qp = qp_get(h, qpn);

	if (!qp)
		return;
	qp->held = held;
	if (!held)
		qp_ready(h, qp);
}

void hca_tx_fault(struct hca *h, const struct burst *b, uint32_t gone, mono_t now)
{
	struct taken t = h->taken;

	hca_clock(h, now);
	if (!t.qp || !psn_eq(t.psn, b->psn))
		return;
	h->taken.qp = NULL;
	if (!t.resp) {
		req_tx_fault(h, t.qp, t.index);
	} else if (t.qp->state != QPS_ERR || t.qp->resp.nak) { /* ERR: for a request behind it */
		resp_clear(t.qp);
		fault_act(h, t.qp, FAULT_RESP_READ_MEM);
		t.qp->resp.nak_psn = psn_add(t.psn, gone);
	}
}

/* ---- time -------------------------------------------------------------- */

void hca_tick(struct hca *h, mono_t now)
{
	struct timer *t;

	hca_begin(h, now);
	while ((t = heap_due(&h->timers, now))) {
		if (t->of == TIMER_PATH)
			path_timer(h, LINK_OF(t, struct path, timer));
		else if (t->of == TIMER_PACE)
			path_pace_timer(h, LINK_OF(t, struct path, pace.timer));
		else if (t->of == TIMER_RATE)
			rate_timer(h, LINK_OF(t, struct qp, rate.timer));
		else
			req_timer(h, LINK_OF(t, struct qp, timer));
	}
}

mono_t hca_deadline(const struct hca *h) { return h->stalled ? MONO_NEVER : heap_next(&h->timers); }
