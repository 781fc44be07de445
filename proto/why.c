/* SPDX-License-Identifier: MIT */
/* why.c - the numbers of a cause, collected where it happens; and the FIFO in which causes wait for the host. */
#include "why.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid.h>

#include "aeth.h"
#include "cqe.h"
#include "hca_in.h"
#include "qp_state.h"
#include "req_flight.h"
#include "wr_kind.h"

#define LOST_NS 10000000000u
#define FAR     65536 /* PSNs; no more are in flight before the first is acknowledged */

static const uint8_t cause_of[FAULT_END] = {
#define WHY(name, grade, what, hint)
#define WHY_KEY(name, what, hint)
#define WHY_FAULT(name, grade, what, hint) [FAULT_##name] = WHY_##name,
#include "why.def"
#undef WHY
#undef WHY_FAULT
#undef WHY_KEY
};

int whys_init(struct hca *h)
{
	h->whys.v = calloc(WHYS, sizeof(*h->whys.v));
	return h->whys.v ? 0 : ENOMEM;
}

void whys_fini(struct hca *h)
{
	free(h->whys.v);
	h->whys.v = NULL;
}

bool hca_why(struct hca *h, struct why *w)
{
	struct whys *f = &h->whys;

	if (!f->n)
		return false;
	*w = f->v[f->head];
	f->head = (f->head + 1) % WHYS;
	f->n--;
	return true;
}

uint64_t hca_why_lost(const struct hca *h) { return h->whys.lost; }

void why_fill(const struct hca *h, const struct qp *qp, struct why *w, enum why_cause cause)
{
	const struct qp_why *q = &qp->why;

	*w = (struct why){
		.at = h->now,
		.cause = (uint8_t)cause,
		.type = qp->type,
		.from = qp->state,
		.to = qp->state,
		.qpn = qp->qpn,
		.dqpn = qp->attr.dest_qpn,
		.psn = qp->req.una.v,
		.key = { .sge = -1 },
		.timeouts = q->timeouts,
		.naks = q->naks,
		.rnrs = q->rnrs,
		.timeout_ns = req_patience_ns(h, qp),
		.retry_cnt = qp->attr.retry_cnt,
		.last_op = q->last_op,
		.rx_pkts = qp->rx_pkts - q->rx_base,
		.rx_pkts_since = qp->rx_pkts - q->rx_pkts,
		.rx_last = q->rx_last,
		.since = q->since,
		.far_psn = q->far_psn,
		.sq_psn = qp->attr.sq_psn,
		.rq_psn = qp->attr.rq_psn,
		.lost_at = q->lost_at,
		.err_cause = q->err_cause,
		.err_at = q->err_at,
	};
	if (qp->path) {
		memcpy(w->sgid, qp->head.route.sgid, 16);
		memcpy(w->dgid, qp->head.route.dgid, 16);
	}
	w->log_n = (uint8_t)trace_log(&qp->log, w->log);
}

/* A slot of the FIFO; NULL: it is full. */
static struct why *begin(struct hca *h, struct qp *qp, enum why_cause cause)
{
	struct whys *f = &h->whys;
	struct why *w;

	if (f->n == WHYS) {
		f->lost++;
		return NULL;
	}
	w = &f->v[(f->head + f->n++) % WHYS];
	why_fill(h, qp, w, cause);
	return w;
}

/* ---- faults ---------------------------------------------------------------- */

void why_of_wr(struct why *w, const struct swqe *s)
{
	w->is_wr = true;
	w->op = s->wr.op;
	w->wr_id = s->wr.wr_id;
	w->len = s->len;
}

static void of_packet(struct hca *h, struct why *w, struct qp *qp)
{
	const struct burst *b = h->rx;

	if (!b)
		return;
	w->op = b->op_first;
	w->psn = b->psn.v;
	w->len = b->payload_len;
	if (qp->type == QPT_UD) {
		w->dqpn = b->sqpn;
		memcpy(w->sgid, b->route.dgid, 16);
		memcpy(w->dgid, b->route.sgid, 16);
	}
}

/* A receive that was too small or whose sge were wrong. */
static void of_recv(struct hca *h, struct why *w, struct qp *qp)
{
	const struct rwqe *r = recv_peek(qp);
	uint64_t off = qp->type == QPT_UD ? GRH_LEN : qp->resp.kind == KIND_SEND ? qp->resp.off : 0;

	if (!r)
		return;
	w->is_wr = w->is_recv = true;
	w->wr_id = r->wr_id;
	w->room = r->len;
	if (!h->rx)
		return;
	w->len = off + h->rx->payload_len;
	if (w->len > w->room)
		return;
	why_sges(&h->keys, &w->key, r->sge, r->sge_n, recv_pd(qp), ACC_LOCAL_WRITE, off, h->rx->payload_len);
	if (!w->key.why && qp->type == QPT_UD)
		why_sges(&h->keys, &w->key, r->sge, r->sge_n, recv_pd(qp), ACC_LOCAL_WRITE, 0, GRH_LEN);
}

/* The rkey of a request, as the responder had it. */
static void of_rkey(struct hca *h, struct why *w, struct qp *qp)
{
	const struct burst *b = h->rx;
	const struct resp *r = &qp->resp;
	const struct opcode *op = b ? opcode_get(b->op_first) : NULL;
	uint64_t va, len;
	uint32_t key;

	if (!b)
		return;
	if (op->kind == KIND_WRITE && !(op->place & PLACE_FIRST)) {
		key = r->rkey;
		va = r->va + r->off;
		len = b->payload_len;
	} else {
		key = b->rkey;
		va = b->va;
		len = kind_len(op->kind) ? kind_len(op->kind) : b->dma_len;
	}
	why_rkey(&h->keys, qp, &w->key, key, qp->pd, request_right(b), va, len);
}

/* A READ that was taken and could not be answered; which one is not known any more, if the key tells nothing. */
static void of_stored(struct hca *h, struct why *w, struct qp *qp)
{
	const struct resp *r = &qp->resp;

	for (uint32_t i = r->rd_tail - r->rd_n; i != r->rd_tail; i++) {
		const struct rd *d = rd_at(r, i);

		if (d->kind != KIND_READ)
			continue;
		w->op = qp->svc | OP_READ_REQUEST;
		w->psn = d->psn.v;
		w->len = d->len;
		why_rkey(&h->keys, qp, &w->key, d->rkey, slots_get(&h->pd, d->pdn), ACC_REMOTE_READ, d->va, d->len);
		if (w->key.why)
			return;
	}
}

static void of_send(struct hca *h, struct why *w, struct qp *qp, enum fault f)
{
	struct swqe *s;

	if (!sq_len(&qp->sq))
		return;
	s = sq_at(&qp->sq, qp->sq.head);
	why_of_wr(w, s);
	switch (f) {
	case FAULT_SQ_PROT:
		why_sges(&h->keys, &w->key, swqe_sge(s), s->wr.sge_n, qp->pd,
			 wr_row(s->wr.op)->data == WR_DATA_IN ? ACC_LOCAL_WRITE : 0, 0, UINT64_MAX);
		break;
	case FAULT_REQ_RESP_PROT:
		why_sges(&h->keys, &w->key, swqe_sge(s), s->wr.sge_n, qp->pd, ACC_LOCAL_WRITE, 0, UINT64_MAX);
		break;
	case FAULT_SQ_BIND: why_bind(&h->keys, qp, &w->key, &s->wr); break;
	case FAULT_SQ_INV: why_inv(&h->keys, qp, &w->key, s->wr.imm); break;
	case FAULT_SQ_LEN:
		w->room = qp->type == QPT_UD  ? mtu_bytes(h->cfg.mtu)
			  : kind_len(s->kind) ? kind_len(s->kind)
					      : RD_MAX_MSG;
		break;
	case FAULT_SQ_OP: w->got = s->wr.ud.av.sgid_index; break;
	case FAULT_REQ_RNR_EXC:
		w->syndrome = h->rx ? h->rx->syndrome : 0;
		w->max = qp->attr.rnr_retry;
		break;
	case FAULT_REQ_NAK_INV:
	case FAULT_REQ_NAK_ACCESS:
	case FAULT_REQ_NAK_OP:
	case FAULT_REQ_NAK_OTHER:
		w->syndrome = h->rx ? h->rx->syndrome : 0;
		/* The memory asked for, so that it can be compared with the peer's. */
		w->key.key = s->wr.rkey;
		w->key.va = s->wr.remote_addr;
		w->key.len = s->len;
		break;
	default: break;
	}
}

static void details(struct hca *h, struct why *w, struct qp *qp, enum fault f)
{
	switch (f) {
	case FAULT_RESP_RECV_LEN:
	case FAULT_RESP_RECV_PROT:
	case FAULT_RESP_RECV_MEM:
	case FAULT_UC_RECV_LEN:
	case FAULT_UC_RECV_PROT:
	case FAULT_UC_RECV_MEM:
	case FAULT_UD_RECV_LEN:
	case FAULT_UD_RECV_PROT:
	case FAULT_UD_RECV_MEM:
		of_packet(h, w, qp);
		of_recv(h, w, qp);
		break;
	case FAULT_RESP_RKEY:
	case FAULT_UC_RKEY:
		of_packet(h, w, qp);
		of_rkey(h, w, qp);
		break;
	case FAULT_RESP_INV:
	case FAULT_UC_INV:
		of_packet(h, w, qp);
		if (h->rx)
			why_inv(&h->keys, qp, &w->key, h->rx->inv_rkey);
		break;
	case FAULT_RESP_QP_RIGHT:
		of_packet(h, w, qp);
		w->allowed = qp->attr.access;
		break;
	case FAULT_RESP_RD_MANY:
	case FAULT_RESP_RD_NONE:
		of_packet(h, w, qp);
		w->max = qp->attr.max_dest_rd_atomic;
		break;
	case FAULT_RESP_LEN:
	case FAULT_UC_LEN:
		of_packet(h, w, qp);
		w->room = qp->mtu;
		break;
	case FAULT_RESP_ALIGN:
		of_packet(h, w, qp);
		w->key.va = h->rx ? h->rx->va : 0;
		break;
	case FAULT_UD_QKEY:
		of_packet(h, w, qp);
		w->got = h->rx ? h->rx->qkey : 0;
		w->max = qp->attr.qkey;
		break;
	case FAULT_RESP_READ_RKEY:
	case FAULT_RESP_READ_MEM: of_stored(h, w, qp); break;
	case FAULT_UC_GAP:
	case FAULT_UC_OP_SEQ:
	case FAULT_RESP_OP_SEQ:
		of_packet(h, w, qp);
		w->max = f == FAULT_RESP_OP_SEQ ? qp->resp.epsn.v : 0;
		w->got = f == FAULT_UC_GAP ? qp->why.lost_psn.v : 0;
		break;
	case FAULT_CQ_OVERRUN:
		w->cqn = qp->scq && qp->scq->overrun ? qp->scq->number : qp->rcq ? qp->rcq->number : 0;
		break;
	default:
		if (f >= FAULT_REQ_NAK_INV && f <= FAULT_SQ_MEM)
			of_send(h, w, qp, f);
		else
			of_packet(h, w, qp);
	}
}

/* The way in which the QP ran out of retries. */
static enum why_cause retries_of(const struct qp *qp)
{
	const struct qp_why *q = &qp->why;
	const bool never = qp->rx_pkts == q->rx_base;

	if (q->far >= WHY_FAR && !q->heard)
		return WHY_RETRY_PSN;
	if (never && (!qp->attr.dest_qpn || gid_is_empty(qp->attr.av.dgid)))
		return WHY_RETRY_UNSET;
	if (q->unsent && (q->unsent_err || !never)) /* else RETRY_INSIDE */
		return WHY_RETRY_UNSENT;
	if (never)
		return WHY_RETRY_SILENT;
	return q->naks ? WHY_RETRY_LOSS : WHY_RETRY_DEAF;
}

static uint32_t recvs(const struct qp *qp) { return qp->srq ? !!qp->resp.wqe : rq_len(&qp->rq) + !!qp->resp.wqe; }

/* The QP leaves the states in which it works. */
static void ends(struct hca *h, struct qp *qp, struct why *w, enum why_cause cause, uint8_t to, bool wr_told)
{
	uint32_t sends = sq_len(&qp->sq), rs = to == QPS_ERR ? recvs(qp) : 0;

	if (w) {
		w->to = to;
		if (w->is_wr && wr_told && w->is_recv && rs)
			rs--;
		else if (w->is_wr && wr_told && !w->is_recv && sends)
			sends--;
		w->flush_sq = sends;
		w->flush_rq = rs;
	}
	qp->why.err_cause = (uint8_t)cause;
	qp->why.err_at = h->now;
}

void why_fault(struct hca *h, struct qp *qp, enum fault f, uint8_t to, uint8_t status)
{
	enum why_cause cause = f == FAULT_REQ_RETRY_EXC ? retries_of(qp) : cause_of[f];
	struct why *w;

	if (!cause)
		return;
	TRACE_PUT(h, qp, FAULT, .a = f, .psn = h->rx ? h->rx->psn.v : qp->req.una.v);
	if (to == qp->state && status == WC_SUCCESS) {
		if (qp->why.told >> f & 1)
			return;
		qp->why.told |= 1ull << f;
	}
	w = begin(h, qp, cause);
	if (w) {
		w->fault = (uint8_t)f;
		w->status = status;
		if (cause == WHY_RETRY_UNSENT)
			w->got = (uint64_t)qp->why.unsent_err;
		if (f == FAULT_REQ_RETRY_EXC)
			of_send(h, w, qp, f);
		else
			details(h, w, qp, f);
	}
	if (to != qp->state)
		ends(h, qp, w, cause, to, status != WC_SUCCESS);
}

void why_uc_lost(struct hca *h, struct qp *qp, psn_t expected, psn_t came, bool whole)
{
	if (!psn_before(expected, came))
		return; /* an old one */
	qp->why.lost += psn_dist(expected, came);
	qp->why.lost_psn = expected;
	qp->why.lost_at = h->now;
	if (whole)
		why_fault(h, qp, FAULT_UC_GAP, qp->state, WC_SUCCESS);
}

void why_uc_came(const struct hca *h, struct qp *qp)
{
	if (qp->why.lost && mono_since(h->now, qp->why.lost_at) > LOST_NS)
		qp->why.lost = 0;
}

void why_begin(struct hca *h, struct qp *qp)
{
	qp->why = (struct qp_why){ .since = h->now,
				   .rx_last = h->now,
				   .moved = h->now,
				   .rx_pkts = qp->rx_pkts,
				   .rx_base = qp->rx_pkts,
				   .tx_base = qp->tx_pkts };
}

void why_progress(struct qp *qp)
{
	struct qp_why *q = &qp->why;

	q->timeouts = q->naks = q->rnrs = q->early = 0;
}

/* An ACK is of the last one that was executed, a NAK of the one that is missing, which is asked for once only. */
void why_far_answer(struct qp *qp, const struct burst *b)
{
	struct qp_why *q = &qp->why;
	uint32_t expects = psn_add(b->psn, aeth_type(b->syndrome) == AETH_ACK).v;

	if (q->heard || psn_eq(qp->req.una, qp->req.max) || opcode_get(b->op_first)->kind != KIND_ACK)
		return;
	if (q->far_psn != expects || expects == qp->attr.sq_psn)
		q->far = 0;
	if (expects != qp->attr.sq_psn)
		q->far += b->syndrome == aeth_nak(NAK_PSN_SEQ) ? WHY_FAR : 1;
	q->far_psn = expects;
}

/*
 * What comes first may be lost, and the next ones are ahead by what can be in flight then.  Those from before the start are never
 * right, but a few may be of an earlier connection between the two.
 */
void why_far_request(struct hca *h, struct qp *qp, const struct burst *b)
{
	struct qp_why *q = &qp->why;
	int32_t d = psn_diff(b->psn, qp->resp.epsn);
	struct why *w;

	if (!psn_eq(qp->resp.epsn, psn(qp->attr.rq_psn)) || (d > 0 && d < FAR))
		return;
	q->far_rx_last = h->now;
	if (q->far_rx++)
		return;
	q->far_rx_since = h->now;
	q->far_rx_psn = b->psn.v;
	w = begin(h, qp, WHY_RX_PSN);
	if (!w)
		return;
	w->op = b->op_first;
	w->psn = w->far_psn = b->psn.v;
}

static void of_way(struct why *w, const struct route *way)
{
	memcpy(w->sgid, way->sgid, 16);
	memcpy(w->dgid, way->dgid, 16);
}

void why_unsent(struct hca *h, struct qp *qp, const struct route *way, int err)
{
	bool silent = qp->type == QPT_UD || qp->type == QPT_UC;
	struct why *w;

	qp->why.unsent = true;
	qp->why.unsent_err = err;
	if (qp->why.told_unsent || (!err && !silent)) /* RETRY_INSIDE */
		return;
	qp->why.told_unsent = true;
	w = begin(h, qp, WHY_UNSENT);
	if (!w)
		return;
	w->got = (uint64_t)err;
	of_way(w, way);
}

void why_ud_refused(struct hca *h, struct qp *qp, const struct route *way, uint32_t dqpn)
{
	struct why *w = qp->why.told_refused ? NULL : begin(h, qp, WHY_UD_REFUSED);

	if (!w)
		return;
	qp->why.told_refused = true;
	w->dqpn = dqpn;
	of_way(w, way);
}

void why_refused(struct hca *h, struct qp *qp)
{
	qp->why.refused_last = h->now;
	if (!qp->why.refused++)
		qp->why.refused_since = h->now;
}

/* ---- the rest ---------------------------------------------------------------- */

void why_program(struct hca *h, struct qp *qp)
{
	struct why *w = sq_len(&qp->sq) || recvs(qp) ? begin(h, qp, WHY_PROGRAM_ERR) : NULL;

	ends(h, qp, w, WHY_PROGRAM_ERR, QPS_ERR, false);
}

void why_host(struct hca *h, struct qp *qp, enum why_cause cause)
{
	ends(h, qp, begin(h, qp, cause), cause, QPS_ERR, false);
}

void why_flush_late(struct hca *h, struct qp *qp)
{
	if (qp->why.told_flush_late)
		return;
	qp->why.told_flush_late = true;
	begin(h, qp, WHY_FLUSH_LATE);
}

void why_drop(struct hca *h, struct qp *qp, enum why_cause cause, const struct burst *b)
{
	enum hca_stat stat = HCA_STAT_BAD_STATE;
	bool *told = &qp->why.told_state;
	struct why *w;

	if (cause == WHY_RX_ROUTE) {
		stat = HCA_STAT_BAD_ROUTE;
		told = &qp->why.told_route;
	} else if (cause == WHY_RX_PKEY) {
		stat = HCA_STAT_BAD_PKEY;
		told = &qp->why.told_pkey;
	} else if (cause == WHY_RX_ICRC) {
		stat = HCA_STAT_ICRC_ERR;
		told = &qp->why.told_icrc;
	}
	TRACE_PUT(h, qp, DROP, .psn = b->psn.v, .op = b->op_first, .n = b->n, .a = stat);
	/* Answers to requests that were flushed are no news, be it a QP's NAK to itself. */
	if (*told || (qp->state == QPS_ERR && op_answers(opcode_get(b->op_first))))
		return;
	*told = true;
	w = begin(h, qp, cause);
	if (!w)
		return;
	w->op = b->op_first;
	w->psn = b->psn.v;
	w->got = qp->type == QPT_UD ? 0 : b->sqpn;
	if (cause == WHY_RX_PKEY) {
		w->got = b->pkey;
		w->max = qp_pkey(h, qp);
	}
	memcpy(w->other, b->route.sgid, 16);
}

void why_modify(struct hca *h, struct qp *qp, enum why_cause cause, uint8_t to, uint32_t mask, const struct qp_attr *a)
{
	struct why *w = begin(h, qp, cause);

	if (!w)
		return;
	w->to = to;
	w->mask = mask;
	w->allowed = qp_state_attrs(qp->type, qp->state, to, cause == WHY_MODIFY_LESS);
	if (cause == WHY_MODIFY_EDGE) {
		w->allowed = 0;
		for (uint8_t s = 0; s < QP_STATES; s++)
			w->allowed |= (uint32_t)qp_state_edge(qp->type, qp->state, s) << s;
	}
	w->got = cause == WHY_MODIFY_CUR ? a->cur_state : a->av.sgid_index;
	if (cause != WHY_MODIFY_ROUTE)
		return;
	memcpy(w->sgid, h->gid[a->av.sgid_index], 16);
	memcpy(w->dgid, a->av.dgid, 16);
}

void why_value(struct hca *h, struct qp *qp, uint8_t to, uint32_t bit, uint64_t got, uint64_t max)
{
	struct why *w = begin(h, qp, bit == QPA_PATH_MTU ? WHY_MODIFY_MTU : WHY_MODIFY_VALUE);

	if (!w)
		return;
	w->to = to;
	w->mask = bit;
	w->got = got;
	w->max = max;
}
