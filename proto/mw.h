/* SPDX-License-Identifier: MIT */
/*
 * mw.h - memory windows: a part of a memory region, open to peers under a key of its own.
 *
 *	key = | 1 | random number, 23 bits | key byte, 8 |	regions have 0 in front
 *
 * A window without a region is not bound and opens nothing.  Type 1: to be bound again at any time, for every QP of the
 * PD. Type 2 (2B): bound for one QP, which alone may use it, until it is invalidated.  Protocol rule 6.1.
 */
#ifndef PROTO_MW_H
#define PROTO_MW_H

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"
#include "link.h"
#include "mr.h"

struct qp;
struct secret;
struct send_wr;

#define MW_KEY 0x80000000u

struct mw {
	uint32_t key; /* the one that is valid while it is bound */
	uint8_t type; /* 1 or 2 */
	struct pd *pd;
	struct mr *mr;     /* NULL: not bound */
	struct qp *qp;     /* type 2: for whom */
	struct link of_qp; /* type 2: in qp->mws */
	uint32_t access;
	uint64_t va, len; /* of the region's addresses; with ACC_ZERO_BASED peers count from 0 */
};

/* As hca_mw_alloc() and hca_mw_dealloc() (hca.h). */
int mw_alloc(struct keys *, struct secret *, struct pd *, unsigned type, uint32_t *key);
int mw_dealloc(struct keys *, uint32_t key, mono_t now);

/* A bind request of qp; FAULT_NONE or FAULT_SQ_BIND. */
enum fault mw_bind(struct keys *, struct qp *, const struct send_wr *, mono_t now);

/* May qp have the window of that key invalidated; and do it. */
bool mw_may_inv(const struct keys *, const struct qp *, const struct pd *, uint32_t key);
void mw_inv(struct keys *, const struct qp *, uint32_t key, mono_t now);

void mw_leave(struct keys *, struct qp *, mono_t now); /* the QP goes: its windows are bound no more */

/*
 * The memory that a peer's request on qp names: the span of len (not 0) bytes at va, if key - of a region or a window -
 * pd, every bit of need and the bounds are right; else false.
 */
bool rkey_span(const struct keys *, const struct qp *, uint32_t key, const struct pd *, uint32_t need, uint64_t va,
	       uint64_t len, struct span *);
/* The same without a range: all that the key is of. */
bool rkey_right(const struct keys *, const struct qp *, uint32_t key, const struct pd *, uint32_t need);

#endif
