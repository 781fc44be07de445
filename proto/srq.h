/* SPDX-License-Identifier: MIT */
/* srq.h - shared receive queues. */
#ifndef PROTO_SRQ_H
#define PROTO_SRQ_H

#include <stdint.h>

#include <rdmad/ring.h>

#include "event.h"
#include "link.h"
#include "wqe.h"

struct pd;
struct cq;

/* An XRC domain: SRQs and the receiving QPs through which peers reach them. */
struct xrcd {
	uint32_t number;
	uint32_t users; /* SRQs and QPs */
};

struct srq {
	uint32_t number;
	uint32_t users; /* QPs; not those of XRC, which come and go with each message */
	uint32_t limit; /* EV_SRQ_LIMIT when fewer are queued; 0: not armed */
	struct pd *pd;
	struct xrcd *xrcd;   /* NULL: not of XRC; else */
	struct cq *cq;       /* where its receives complete */
	struct link targets; /* XRC_RECV: QPs whose requests are for it now */
	struct rq rq;
	uint32_t done_n, *done; /* srq_init */
	struct events ev;
};

/* A WR has completed: its slot is free. */
static inline void srq_free_slot(struct srq *srq)
{
	srq->rq.used--;
	srq->done_n++;
	if (srq->done)
		RING_STORE(srq->done, srq->done_n);
}

#endif
