/* SPDX-License-Identifier: MIT */
/*
 * hooks.h - what --check does before and behind calls: the words of calls.def and slots.def.
 *
 * Those before a call are conditions: false, and the call is not made.  All of them do nothing without --check.
 */
#ifndef CALLPRELOAD_HOOKS_H
#define CALLPRELOAD_HOOKS_H

#include "object.h"
#include "region.h"

#define USE(kind, p)         object_usable(OBJ_##kind, p, call_name(c.id))
#define END(kind, p)         object_ending(OBJ_##kind, p, call_name(c.id))
#define ENDED(kind, p)       object_ended(OBJ_##kind, p, !r)
#define GONE(kind, p)        object_ended(OBJ_##kind, p, true)
#define MADE(kind, p, where) made(OBJ_##kind, p, where)

/* made.c */
void made(enum object_kind, const void *, const struct ibv_context *);
void context_made(struct ibv_context *);
bool context_ending(struct ibv_context *);
void context_ended(struct ibv_context *, bool gone);
void pd_made(struct ibv_pd *, struct ibv_context *, const struct ibv_parent_domain_init_attr *);
bool mr_ending(struct ibv_mr *);
void cq_ex_made(struct ibv_cq_ex *, const struct ibv_cq_init_attr_ex *);
void qp_made(struct ibv_qp *, int sig_all, const struct ibv_qp_cap *);
void qp_modified(struct ibv_qp *, const struct ibv_qp_attr *, int mask);
bool qp_ending(struct ibv_qp *);
void qp_ended(struct ibv_qp *, bool gone);
void srq_made(struct ibv_srq *, uint32_t max_sge, bool xrc);
void srq_ended(struct ibv_srq *, bool gone);

/* librdmacm's, of libibverbs: lib/verbs/qp.h has its contract. */
struct ibv_qp *rdmad_create_qp(struct ibv_context *, struct ibv_qp_init_attr_ex *, const struct ibv_qp_attr *,
			       const int *mask, unsigned n);

/* post.c; bad: the first that was not posted */
bool send_posting(struct ibv_qp *, struct ibv_send_wr *);
void send_posted(struct ibv_qp *, struct ibv_send_wr *bad, int err);
bool recv_posting(enum object_kind, const void *, struct ibv_recv_wr *);
void recv_posted(enum object_kind, const void *, struct ibv_recv_wr *bad);
bool bind_posting(struct ibv_qp *, const struct ibv_mw_bind *);
void bind_posted(struct ibv_qp *, int err);

/* poll.c */
bool cq_polling(struct ibv_cq *);
void cq_polled(struct ibv_cq *, int n, const struct ibv_wc *);
void cq_taken(struct object *cq, const struct ibv_wc *);
/* The real poll; first what cq_drain() has taken. */
int cq_next(struct ibv_cq *, int n, struct ibv_wc *);
/*
 * A look at all that nobody has polled, as its QPs may be about to go; the next poll has it all the same.  Not of a CQ that
 * another thread uses, or that has functions of its own.  Only of that context, if any.  With check_lock.
 */
void cq_drain(struct object *cq, void *context);
/* The same of all CQs: of a context, or (NULL) at the end of the process. */
void cqs_end(const struct ibv_context *);

/* slot.c: puts our functions into the context; and the real one, for cq_drain(). */
void slots_put(struct ibv_context *);
void slots_gone(struct ibv_context *);
int slots_poll(struct ibv_cq *, int n, struct ibv_wc *);
/* ex.c: the same for a CQ and a QP that have functions of their own. */
void cq_ex_put(struct ibv_cq_ex *, bool single);
void qp_ex_put(struct ibv_qp *);
void draft_free(struct object *qp);

#endif
