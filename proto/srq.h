/* SPDX-License-Identifier: MIT */
/* srq.h - shared receive queues. */
#ifndef PROTO_SRQ_H
#define PROTO_SRQ_H

#include <stdint.h>

#include "event.h"
#include "wqe.h"

struct pd;
struct hca;

struct srq {
	uint32_t number;
	uint32_t users;		/* QPs */
	uint32_t limit;		/* EV_SRQ_LIMIT when fewer are queued; 0: not armed */
	struct pd *pd;
	struct rq rq;
	struct events ev;
};

void srq_took(struct hca *, struct srq *);	/* one fewer is queued: the limit */

#endif
