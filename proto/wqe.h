/* SPDX-License-Identifier: MIT */
/*
 * wqe.h - the core's own send and receive queues: copies of what was posted.
 *
 *	send queue    done      sent, waits for ACK   not sent     free
 *	           ----------|--------------------|------------|----------
 *	                    head               begun          tail
 *
 * next is between head and begun: equal to begun, or behind it while packets are sent again.
 * Indices run freely; a slot is index & mask.
 */
#ifndef PROTO_WQE_H
#define PROTO_WQE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmad/abi.h>

#include "seq.h"

struct swqe {
	struct send_wr wr;
	uint64_t len;     /* of the message */
	uint32_t pkt_n;   /* PSNs it takes; these three are valid once begun */
	uint32_t rd_pkts; /* READ: PSNs that one READ_REQUEST covers */
	psn_t psn;        /* of its first packet */
	uint8_t fault;    /* enum fault: it cannot be sent, and fails when all before it are done */
	bool rd;          /* READ or atomic: completed by its response only */
	uint8_t kind;     /* enum op_kind of its request */
			  /* sge[wr.sge_n], then wr.inline_len bytes */
};

struct sq {
	uint8_t *mem;
	uint32_t stride, mask, depth;
	uint32_t room; /* bytes behind a struct swqe */
	uint32_t head, next, begun, tail;
	uint32_t waiting; /* completions in the FIFO */
};

struct rwqe {
	uint64_t wr_id;
	uint64_t len; /* sum of the sge */
	uint32_t sge_n;
	struct sge sge[];
};

struct rq {
	uint8_t *mem;
	uint32_t stride, mask, depth, sge_max;
	uint32_t head, tail;
	uint32_t used; /* slots taken: queued, in use by a QP, or completion in the FIFO */
};

static inline struct swqe *sq_at(const struct sq *q, uint32_t i)
{
	return (struct swqe *)(void *)(q->mem + (uint64_t)(i & q->mask) * q->stride);
}

static inline struct rwqe *rq_at(const struct rq *q, uint32_t i)
{
	return (struct rwqe *)(void *)(q->mem + (uint64_t)(i & q->mask) * q->stride);
}

static inline struct sge *swqe_sge(struct swqe *w) { return (struct sge *)(void *)(w + 1); }
static inline uint8_t *swqe_inline(struct swqe *w) { return (uint8_t *)(swqe_sge(w) + w->wr.sge_n); }
static inline uint32_t sq_len(const struct sq *q) { return q->tail - q->head; }
static inline uint32_t rq_len(const struct rq *q) { return q->tail - q->head; }

/* Bytes that a queue takes besides its struct. */
size_t sq_mem(uint32_t depth, uint32_t sge_max, uint32_t inline_max);
size_t rq_mem(uint32_t depth, uint32_t sge_max);
int sq_init(struct sq *, uint32_t depth, uint32_t sge_max, uint32_t inline_max);
int rq_init(struct rq *, uint32_t depth, uint32_t sge_max);
void sq_fini(struct sq *);
void rq_fini(struct rq *);

/* The compiler must not read the original again. */
#define COPIED() __asm__ volatile("" ::: "memory")

/*
 * What was posted may change while it is copied: nothing of it is read twice, and what is checked is the copy.
 *
 * sq_put: the WR at the tail, not yet counted, of which sq_put_tail() copies sge and inline data once their numbers were
 * checked; NULL: full.
 */
static inline struct swqe *sq_put(struct sq *q, const struct send_wr *wr)
{
	struct swqe *w;

	if (q->tail - q->head + q->waiting >= q->depth)
		return NULL;
	w = sq_at(q, q->tail); /* a queue of depth 0 has no memory */
	w->wr = *wr;
	COPIED();
	return w;
}

static inline void sq_put_tail(struct swqe *w, const struct send_wr *wr)
{
	memcpy(w + 1, wr + 1, w->wr.sge_n * sizeof(struct sge) + w->wr.inline_len);
	COPIED();
}

int rq_put(struct rq *, const struct recv_wr *); /* 0, ENOMEM: full, E2BIG: too many sge */

#endif
