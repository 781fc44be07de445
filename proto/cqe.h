/* SPDX-License-Identifier: MIT */
/* cqe.h - work requests of a QP become completions; completions wait, and are handed out. */
#ifndef PROTO_CQE_H
#define PROTO_CQE_H

#include <stdint.h>

#include <rdmad/abi.h>

#include "fault.h"
#include "qp.h"

struct hca;

void sq_complete(struct hca *, struct qp *, uint8_t status, enum fault); /* the WR at sq.head; advances it */
struct cqe recv_cqe(const struct qp *, const struct rwqe *);
/* The receive WR that is used or would be; NULL: none.  take makes it the one in use. */
struct rwqe *recv_peek(struct qp *);
struct rwqe *recv_take(struct hca *, struct qp *);
void recv_complete(struct hca *, struct qp *, struct cqe *); /* the one in use */
void recv_return(struct qp *);                               /* the one in use, back to the SRQ if it is from one */
/* EV_SRQ_LIMIT, if fewer are queued than the limit says.  It fires once, and has to be armed again. */
void srq_level(struct hca *, struct srq *);
void recv_drop(struct qp *);                     /* it, without a completion */
struct cqe *comp_take(struct hca *);             /* the oldest one, in place: its WR's slot is free; NULL: none */
void comp_drop(struct hca *, struct qp *);       /* what waits of this QP */
void comp_drop_srq(struct hca *, uint32_t srqn); /* or of this SRQ */

#endif
