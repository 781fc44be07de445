/* SPDX-License-Identifier: MIT */
/*
 * cq.h - completion queues, as far as the core has them: a number, and the one FIFO in which
 * the completions of all of them wait for hca_completion().
 *
 * A WR that has to be completed keeps its slot in its queue until its completion was handed out, so
 * that the FIFO can be sized when queues are created and never overflows.
 */
#ifndef PROTO_CQ_H
#define PROTO_CQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmad/abi.h>

#include "event.h"
#include "link.h"
#include "mono.h"

struct cq {
	uint32_t number;
	uint32_t users;           /* queues of QPs */
	bool overrun;             /* dead: takes no completion any more */
	struct link sends, recvs; /* QPs that have it for these */
	struct events ev;
};

struct comp_fifo {
	struct cqe *v;
	uint32_t head, tail; /* v[head..tail) waits */
	uint32_t max;
	uint64_t need; /* sum of the depths of all queues */
};

/* Bytes that n WRs make the FIFO longer by: room for twice as many, in powers of two. */
static inline size_t comp_mem(uint32_t n) { return 4 * (size_t)n * sizeof(struct cqe); }
int comp_reserve(struct comp_fifo *, uint32_t n); /* n more WRs can complete; 0 or ENOMEM */
void comp_release(struct comp_fifo *, uint32_t n);
void comp_compact(struct comp_fifo *); /* what waits goes to the front */
static inline void comp_put(struct comp_fifo *f, const struct cq *cq, mono_t now, const struct cqe *c)
{
	struct cqe *e;

	if (f->tail == f->max)
		comp_compact(f);
	e = &f->v[f->tail++];
	*e = *c;
	e->cqn = cq->number;
	e->time_ns = now.ns;
}

#endif
