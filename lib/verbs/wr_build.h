/* SPDX-License-Identifier: MIT */
/*
 * wr_build.h - the one builder of send queue slots, for ibv_post_send() and ibv_wr_*().
 *
 *	wr_open()	a slot for an operation
 *	wr_remote() wr_atomic() wr_ud() wr_bind()	what the operation needs
 *	wr_sge() or wr_inline()			its data
 *	wr_close()	done with this one; again from the start, or
 *	wr_publish()	all closed ones go to the daemon; or wr_drop(): none does
 *
 * All with qp->sq_lock held.  The slots are written in place, behind those that the daemon may see.
 */
#ifndef VERBS_WR_BUILD_H
#define VERBS_WR_BUILD_H

#include "qp.h"

/*
 * NULL and *err: EINVAL (state of the QP, operation not of its service, flags), EOPNOTSUPP (operation of
 * its service that we do not do), ENOMEM (queue full: completions must be polled first).
 */
struct send_wr *wr_open(struct rd_qp *, unsigned op, uint64_t wr_id, unsigned flags, uint32_t imm, int *err);

static inline void wr_remote(struct send_wr *w, uint32_t rkey, uint64_t addr)
{
	w->rkey = rkey;
	w->remote_addr = addr;
}

static inline void wr_atomic(struct send_wr *w, uint64_t compare_add, uint64_t swap)
{
	w->atomic.compare_add = compare_add;
	w->atomic.swap = swap;
}

/* The device is without such work requests. */
static inline bool op_refused(const struct rd_qp *qp, unsigned op) { return op < 32 && qp->ctx->no_ops >> op & 1; }

/* Its service has these flags. */
bool wr_flags_ok(const struct rd_qp *, unsigned flags);
/* Sge of a request that is not inline. */
uint32_t wr_sge_max(const struct rd_qp *, unsigned op);
/* Headers longer than the QP has been made for, or a segment of no bytes. */
static inline bool wr_tso_wrong(const struct rd_qp *qp, uint16_t len, uint16_t mss)
{
	return !len || len > qp->max_tso_header || !mss;
}
/* 0 or EINVAL.  The headers are copied. */
int wr_tso(struct rd_qp *, struct send_wr *, const void *hdr, uint16_t len, uint16_t mss);
/* 0, or EINVAL: of another type, not a key of this window, no region where one is needed. */
int wr_bind(struct send_wr *, enum ibv_mw_type, const struct ibv_mw *, uint32_t rkey, const struct ibv_mw_bind_info *);
/* QPs of XRC_SEND; after wr_atomic(). */
static inline void wr_xrc(struct send_wr *w, uint32_t srqn) { w->xrc.srqn = srqn; }

static inline void wr_flush(struct send_wr *w, uint64_t len, uint32_t type, uint32_t level)
{
	w->flush.len = len;
	w->flush.type = type;
	w->flush.level = level;
}
void wr_ud(const struct rd_qp *, struct send_wr *, struct ibv_ah *, uint32_t qpn, uint32_t qkey);

/* 0, or EINVAL: more than the QP has been made for. */
int wr_sge(struct rd_qp *, struct send_wr *, const struct ibv_sge *, size_t n);
int wr_inline(struct rd_qp *, struct send_wr *, const struct ibv_data_buf *, size_t n);
/* The same with the bytes that the sge name. */
int wr_inline_sge(struct rd_qp *, struct send_wr *, const struct ibv_sge *, size_t n);

/* Its data goes out, and may be inline. */
bool wr_has_data(const struct send_wr *);
void wr_close(struct rd_qp *, struct send_wr *);
void wr_publish(struct rd_qp *);
void wr_drop(struct rd_qp *);

#endif
