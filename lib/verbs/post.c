/* SPDX-License-Identifier: MIT */
/*
 * post.c - ibv_post_send(), ibv_post_recv(), ibv_post_srq_recv().
 *
 * All WRs of a list in front of the first bad one are posted, and *bad is that one.
 */
#include "alone.h"
#include "srq.h"
#include "wr_build.h"

#include <rdmad/feature.h>
#include <rdmad/wr.h>

static int send_one(struct rd_qp *qp, const struct ibv_send_wr *wr)
{
	struct send_wr *w;
	int err;

	if (wr->num_sge < 0 || (unsigned)wr->opcode == WR_FLUSH) /* struct ibv_send_wr cannot say what to flush */
		return EINVAL;
	w = wr_open(qp, (unsigned)wr->opcode, wr->wr_id, wr->send_flags, wr->imm_data, &err);
	if (!w)
		return err;
	if (qp->qp.qp_type == IBV_QPT_UD) {
		if (!wr->wr.ud.ah)
			return EINVAL;
		wr_ud(qp, w, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	} else if (w->op == WR_CMP_SWP || w->op == WR_FETCH_ADD) {
		wr_remote(w, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr);
		wr_atomic(w, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
	} else if (w->op == WR_BIND_MW || w->op == WR_LOCAL_INV) {
		if (w->op == WR_BIND_MW)
			err = wr_bind(w, IBV_MW_TYPE_2, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		if (!err)
			wr_close(qp, w);
		return err;
	} else if (w->op == WR_TSO) {
		err = wr_tso(qp, w, wr->tso.hdr, wr->tso.hdr_sz, wr->tso.mss);
		if (err)
			return err;
	} else if (wr_row(w->op)->right) {
		wr_remote(w, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
	}
	if (qp->qp.qp_type == IBV_QPT_XRC_SEND)
		wr_xrc(w, wr->qp_type.xrc.remote_srqn);
	if (w->flags & WR_INLINE)
		err = wr_inline_sge(qp, w, wr->sg_list, (size_t)wr->num_sge);
	else
		err = wr_sge(qp, w, wr->sg_list, (size_t)wr->num_sge);
	if (!err)
		wr_close(qp, w);
	return err;
}

/* The check of send_one() that said no: in the order of those there, so that what is left at the end is the last one. */
static const char *wrong(const struct rd_qp *qp, const struct ibv_send_wr *wr)
{
	const struct wr_row *row = wr_row((unsigned)wr->opcode);

	if (wr->num_sge < 0)
		return "num_sge is negative";
	if (qp->qp.state < IBV_QPS_RTS)
		return "sends need RTS";
	if (!row || !(row->on >> qp->qp.qp_type & 1) || (unsigned)wr->opcode == WR_FLUSH)
		return "a QP of this type does not have the operation";
	if (!wr_flags_ok(qp, wr->send_flags))
		return "a wrong flag";
	if (wr->send_flags & WR_INLINE && row->data != WR_DATA_OUT)
		return "the operation takes no inline data";
	if (qp->qp.qp_type == IBV_QPT_UD && !wr->wr.ud.ah)
		return "no address handle";
	if ((unsigned)wr->opcode == WR_BIND_MW)
		return "a window of type 1, or no region";
	if ((unsigned)wr->opcode == WR_TSO && wr_tso_wrong(qp, wr->tso.hdr_sz, wr->tso.mss))
		return "a wrong length of the headers, or of a segment";
	if (wr->send_flags & WR_INLINE)
		return "too much inline data";
	return (uint32_t)wr->num_sge > wr_sge_max(qp, (unsigned)wr->opcode) ? "too many sge"
									    : "too long for the device";
}

int post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct rd_qp *qp = to_qp(ibqp);
	bool locked = lock_enter(&qp->sq_lock);
	int err = 0;

	for (; wr; wr = wr->next) {
		err = send_one(qp, wr);
		if (err)
			break;
	}
	wr_publish(qp);
	lock_leave(&qp->sq_lock, locked);
	if (err)
		*bad = wr;
	if (err && op_refused(qp, (unsigned)wr->opcode))
		refuse_feature(qp->ctx, ibqp->qp_num, "ibv_post_send", err,
			       feature_missing(qp->ctx->attr.no, 0, 1u << wr->opcode));
	else if (err && err != ENOMEM) /* a full queue is no mistake */
		refuse(qp->ctx, ibqp->qp_num, "ibv_post_send", err,
		       "%s with %d sge (up to %u), flags 0x%x, inline data up to %u, in state %s: %s",
		       wr_row((unsigned)wr->opcode) ? wr_row((unsigned)wr->opcode)->name : "an unknown opcode",
		       wr->num_sge, wr_sge_max(qp, (unsigned)wr->opcode), wr->send_flags, qp->cap.max_inline,
		       state_str(ibqp->state), wrong(qp, wr));
	return err_set(err);
}

static void recv_fill(struct recv_wr *w, const struct ibv_recv_wr *wr)
{
	*w = (struct recv_wr){ .wr_id = wr->wr_id, .sge_n = (uint32_t)wr->num_sge };
	if (wr->num_sge)
		memcpy(w + 1, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
}

int post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rd_qp *qp = to_qp(ibqp);
	bool locked = lock_enter(&qp->rq_lock);
	uint32_t n = 0;
	int err = 0;

	for (; wr; wr = wr->next, n++) {
		err = EINVAL;
		if (ibqp->srq || ibqp->qp_type == IBV_QPT_XRC_SEND || ibqp->qp_type == IBV_QPT_XRC_RECV ||
		    __atomic_load_n(&ibqp->state, __ATOMIC_ACQUIRE) == IBV_QPS_RESET || wr->num_sge < 0 ||
		    (uint32_t)wr->num_sge > qp->cap.max_recv_sge)
			break;
		err = ENOMEM;
		if (qp->rq.pos + n - __atomic_load_n(&qp->rq_done, __ATOMIC_ACQUIRE) >= qp->cap.max_recv_wr)
			break;
		recv_fill(ring_slot(&qp->rq, qp->rq.pos + n), wr);
		err = 0;
	}
	if (n) {
		ring_publish(&qp->rq, n);
		ctx_note(qp->ctx, qp->bell, &qp->rq);
	}
	lock_leave(&qp->rq_lock, locked);
	if (err)
		*bad = wr;
	if (err && err != ENOMEM)
		refuse(qp->ctx, ibqp->qp_num, "ibv_post_recv", err, "%d sge (up to %u), in state %s%s", wr->num_sge,
		       qp->cap.max_recv_sge, state_str(ibqp->state),
		       ibqp->srq                      ? ": the QP has an SRQ"
		       : ibqp->state == IBV_QPS_RESET ? ": receives need INIT"
						      : "");
	return err_set(err);
}

/*
 * Places that are free.  After a resize the ring may be smaller than the queue, which is the daemon's: when it is full,
 * the daemon is given the time to take what is in it.
 */
static uint32_t srq_room(struct rd_srq *s)
{
	uint32_t undone = ring_undone(&s->ring), room = s->max_wr > undone ? s->max_wr - undone : 0, ring;

	if (s->max_wr <= s->ring.mask + 1)
		return room;
	ring = ring_room(&s->ring);
	if (room && !ring) {
		ctx_ring(to_ctx(s->srq.context), s->bell); /* ctx_note() let it sleep */
		ctx_turn(to_ctx(s->srq.context));
		ring = ring_room(&s->ring);
	}
	return room < ring ? room : ring;
}

static void srq_publish(struct rd_srq *s, uint32_t n)
{
	if (!n)
		return;
	ring_publish(&s->ring, n);
	ctx_note(to_ctx(s->srq.context), s->bell, &s->ring);
}

int post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rd_srq *s = to_srq(ibsrq);
	bool locked = lock_enter(&s->lock);
	uint32_t n = 0, room;
	int err = 0;

	room = srq_room(s);
	for (; wr; wr = wr->next, n++) {
		if (n == room && s->max_wr > s->ring.mask + 1) {
			srq_publish(s, n);
			n = 0;
			room = srq_room(s);
		}
		err = wr->num_sge < 0 || (uint32_t)wr->num_sge > s->max_sge ? EINVAL : n >= room ? ENOMEM : 0;
		if (err)
			break;
		recv_fill(ring_slot(&s->ring, s->ring.pos + n), wr);
	}
	srq_publish(s, n);
	lock_leave(&s->lock, locked);
	if (err)
		*bad = wr;
	return err_set(err);
}
