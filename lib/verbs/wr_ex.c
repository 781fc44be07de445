/* SPDX-License-Identifier: MIT */
/*
 * wr_ex.c - ibv_wr_start(), ibv_wr_<operation>(), ibv_wr_set_<what>(), ibv_wr_complete().
 *
 * The first error since wr_start is kept and returned by wr_complete, which then posts nothing.  Between the
 * two the send queue is locked.
 */
#include "wr_build.h"

#include <rdmad/wr.h>

static void draft_err(struct rd_qp *qp, int err)
{
	if (!qp->draft.err)
		qp->draft.err = err;
}

static void draft_close(struct rd_qp *qp)
{
	if (qp->draft.slot)
		wr_close(qp, qp->draft.slot);
	qp->draft.slot = NULL;
}

/* The slot of the next operation, or NULL after an error. */
static struct send_wr *draft_open(struct ibv_qp_ex *ex, unsigned op, uint32_t imm)
{
	struct rd_qp *qp = ex_to_qp(ex);
	int err = qp->draft.err;

	draft_close(qp);
	if (!err)
		qp->draft.slot = wr_open(qp, op, ex->wr_id, ex->wr_flags, imm, &err);
	if (err)
		draft_err(qp, err);
	return qp->draft.slot;
}

static void ex_start(struct ibv_qp_ex *ex)
{
	struct rd_qp *qp = ex_to_qp(ex);

	pthread_mutex_lock(&qp->sq_lock);
	qp->draft = (struct wr_draft){ 0 };
}

static int ex_complete(struct ibv_qp_ex *ex)
{
	struct rd_qp *qp = ex_to_qp(ex);
	int err;

	draft_close(qp);
	err = qp->draft.err;
	if (err)
		wr_drop(qp);
	else
		wr_publish(qp);
	pthread_mutex_unlock(&qp->sq_lock);
	if (err && err != ENOMEM)
		refuse(qp->ctx, qp->qp.qp_num, "ibv_wr_complete", err,
		       "some request since ibv_wr_start is none of this QP's, or too long; its state is %s",
		       state_str(qp->qp.state));
	return err;
}

static void ex_abort(struct ibv_qp_ex *ex)
{
	struct rd_qp *qp = ex_to_qp(ex);

	qp->draft.slot = NULL;
	wr_drop(qp);
	pthread_mutex_unlock(&qp->sq_lock);
}

/* ---- operations ---------------------------------------------------------------- */

static void remote_op(struct ibv_qp_ex *ex, unsigned op, uint32_t rkey, uint64_t addr, uint32_t imm)
{
	struct send_wr *w = draft_open(ex, op, imm);

	if (w)
		wr_remote(w, rkey, addr);
}

static void ex_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { remote_op(ex, WR_WRITE, rkey, addr, 0); }
static void ex_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { remote_op(ex, WR_READ, rkey, addr, 0); }
static void ex_send(struct ibv_qp_ex *ex) { draft_open(ex, WR_SEND, 0); }
static void ex_send_imm(struct ibv_qp_ex *ex, __be32 imm) { draft_open(ex, WR_SEND_IMM, imm); }
static void ex_send_inv(struct ibv_qp_ex *ex, uint32_t rkey) { draft_open(ex, WR_SEND_INV, rkey); }
static void ex_local_inv(struct ibv_qp_ex *ex, uint32_t rkey) { draft_open(ex, WR_LOCAL_INV, rkey); }

static void ex_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	remote_op(ex, WR_WRITE_IMM, rkey, addr, imm);
}

static void atomic_op(struct ibv_qp_ex *ex, unsigned op, uint32_t rkey, uint64_t addr, uint64_t compare_add,
		      uint64_t swap)
{
	struct send_wr *w = draft_open(ex, op, 0);

	if (!w)
		return;
	wr_remote(w, rkey, addr);
	wr_atomic(w, compare_add, swap);
}

static void ex_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	atomic_op(ex, WR_CMP_SWP, rkey, addr, compare, swap);
}

static void ex_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	atomic_op(ex, WR_FETCH_ADD, rkey, addr, add, 0);
}

static void ex_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct send_wr *w = draft_open(ex, WR_BIND_MW, 0);
	int err = w ? wr_bind(w, IBV_MW_TYPE_2, mw, rkey, info) : 0;

	if (err)
		draft_err(ex_to_qp(ex), err);
}

static void ex_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	struct send_wr *w = draft_open(ex, WR_TSO, 0);
	int err = w ? wr_tso(ex_to_qp(ex), w, hdr, hdr_sz, mss) : 0;

	if (err)
		draft_err(ex_to_qp(ex), err);
}

static void ex_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *value)
{
	struct send_wr *w = draft_open(ex, WR_ATOMIC_WRITE, 0);

	if (!w)
		return;
	wr_remote(w, rkey, addr);
	memcpy(w + 1, value, sizeof(uint64_t));
	w->inline_len = sizeof(uint64_t);
}

/* ibv_qp_ex::wr_flush of later headers; placement type and selectivity level are enums there. */
static void ex_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level)
{
	struct send_wr *w = draft_open(ex, WR_FLUSH, 0);

	if (!w)
		return;
	if (!type || type > 3 || level > 1)
		draft_err(ex_to_qp(ex), EINVAL);
	wr_remote(w, rkey, addr);
	wr_flush(w, len, type, level);
}

/* ---- what belongs to the operation ------------------------------------------------ */

static void ex_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct rd_qp *qp = ex_to_qp(ex);

	if (qp->draft.slot && qp->qp.qp_type == IBV_QPT_UD)
		wr_ud(qp, qp->draft.slot, ah, qpn, qkey);
	else
		draft_err(qp, EINVAL);
}

static void ex_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct rd_qp *qp = ex_to_qp(ex);

	if (qp->draft.slot && qp->qp.qp_type == IBV_QPT_XRC_SEND)
		wr_xrc(qp->draft.slot, srqn);
	else
		draft_err(qp, EINVAL);
}

/* With ibv_wr_set_inline_data() the data is inline whatever wr_flags said; wr_set_sge() likewise the other
 * way. */
static void ex_set_inline_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *bufs)
{
	struct rd_qp *qp = ex_to_qp(ex);
	struct send_wr *w = qp->draft.slot;
	int err = !w || !wr_has_data(w) ? EINVAL : wr_inline(qp, w, bufs, n);

	if (err)
		draft_err(qp, err);
}

static void ex_set_inline(struct ibv_qp_ex *ex, void *addr, size_t len)
{
	const struct ibv_data_buf buf = { .addr = addr, .length = len };

	ex_set_inline_list(ex, 1, &buf);
}

static void ex_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge)
{
	struct rd_qp *qp = ex_to_qp(ex);
	struct send_wr *w = qp->draft.slot;
	int err;

	if (w)
		w->flags &= (uint8_t)~WR_INLINE;
	err = w && wr_row(w->op)->data != WR_DATA_NONE ? wr_sge(qp, w, sge, n) : EINVAL;
	if (err)
		draft_err(qp, err);
}

static void ex_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t len)
{
	const struct ibv_sge sge = { .addr = addr, .length = len, .lkey = lkey };

	ex_set_sge_list(ex, 1, &sge);
}

_Static_assert(offsetof(struct rd_qp, wr_flush) == offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *),
	       "where later headers have wr_flush");

void wr_ex_ops(struct rd_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ex;

	ex->wr_atomic_cmp_swp = ex_cmp_swp;
	ex->wr_atomic_fetch_add = ex_fetch_add;
	ex->wr_bind_mw = ex_bind_mw;
	ex->wr_local_inv = ex_local_inv;
	ex->wr_rdma_read = ex_read;
	ex->wr_rdma_write = ex_write;
	ex->wr_rdma_write_imm = ex_write_imm;
	ex->wr_send = ex_send;
	ex->wr_send_imm = ex_send_imm;
	ex->wr_send_inv = ex_send_inv;
	ex->wr_send_tso = ex_send_tso;
	ex->wr_set_ud_addr = ex_set_ud_addr;
	ex->wr_set_xrc_srqn = ex_set_xrc_srqn;
	ex->wr_set_inline_data = ex_set_inline;
	ex->wr_set_inline_data_list = ex_set_inline_list;
	ex->wr_set_sge = ex_set_sge;
	ex->wr_set_sge_list = ex_set_sge_list;
	ex->wr_start = ex_start;
	ex->wr_complete = ex_complete;
	ex->wr_abort = ex_abort;
	ex->wr_atomic_write = ex_atomic_write;
	qp->wr_flush = ex_flush;
}
