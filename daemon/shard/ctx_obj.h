/* SPDX-License-Identifier: MIT */
/*
 * ctx_obj.h - objects of contexts are made and destroyed: in the HCA and in the table, or neither.
 *
 * Shard thread; 0 or errno.  A destroyed object is handed back for the control thread to release.
 */
#ifndef DAEMON_CTX_OBJ_H
#define DAEMON_CTX_OBJ_H

#include "ctx.h"

int pd_make(struct ctx *, struct ctx_pd *);
int mr_make(struct ctx *, struct ctx_mr *, const struct msg_req *);
int mr_change(struct ctx *, const struct msg_req *, struct ctx_mr *); /* the memory of the latter becomes the old one */
int dm_make(struct ctx *, struct dm *);
int mw_make(struct ctx *, struct ctx_mw *, const struct msg_req *, uint32_t *key);
int channel_make(struct ctx *, struct channel *);
int cq_make(struct ctx *, struct ctx_cq *, const struct msg_req *, uint32_t slots);
void cq_swap(struct ctx_cq *, struct shmem *old); /* to cq->next; *old: what it does not need any more, if anything */
/* One more, or with -1 one less, of what needs a handle of that domain. */
void xrcd_use(const struct ctx *, uint32_t number, int n);
int srq_make(struct ctx *, struct ctx_srq *, const struct msg_req *, uint32_t slots, uint32_t stride);

struct qp_rings {
	uint32_t sq_slots, sq_stride, rq_slots, rq_stride;
	uint64_t rq_off;
};
/* The library may use all of a slot: the core's copies must have as much room for inline data. */
static inline uint32_t slot_inline(const struct qp_rings *r) { return r->sq_stride - (uint32_t)sizeof(struct send_wr); }
int qp_make(struct ctx *, struct ctx_qp *, const struct msg_req *, const struct qp_rings *);
int qp_count(struct ctx *, const struct msg_req *);
int qp_change(struct ctx *, struct ctx_qp *, const struct qp_attr *, uint32_t mask);

int obj_destroy(struct obj *); /* in the HCA and from all lists; EBUSY and the like leave it as it was */
void obj_drop(struct obj *);   /* control thread: the struct and its bill, of one that was not made after all */
/* Control thread: memory, descriptors, the struct itself.  The number of the slab that has ended with it, or 0. */
uint64_t obj_release(struct obj *);
/* The client has not got the descriptor of the slab in which it lies. */
void obj_lost(const struct obj *);

#endif
