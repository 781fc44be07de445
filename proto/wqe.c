/* SPDX-License-Identifier: MIT */
/* wqe.c - send and receive queues: memory of a fixed size made at creation, and copies in it. */
#include "wqe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/ring.h>

size_t sq_mem(uint32_t depth, uint32_t sge_max, uint32_t inline_max)
{
	return depth ? (size_t)pow2_at_least(depth) * (sizeof(struct swqe) + send_tail_len(sge_max, inline_max)) : 0;
}

size_t rq_mem(uint32_t depth, uint32_t sge_max)
{
	return depth ? (size_t)pow2_at_least(depth) * (sizeof(struct rwqe) + sge_max * sizeof(struct sge)) : 0;
}

int sq_init(struct sq *q, uint32_t depth, uint32_t sge_max, uint32_t inline_max)
{
	*q = (struct sq){ .depth = depth,
			  .mask = pow2_at_least(depth) - 1,
			  .room = send_tail_len(sge_max, inline_max) };
	q->stride = (uint32_t)(sizeof(struct swqe) + q->room);
	if (!depth)
		return 0;
	q->mem = calloc(q->mask + 1, q->stride);
	return q->mem ? 0 : ENOMEM;
}

int rq_init(struct rq *q, uint32_t depth, uint32_t sge_max)
{
	*q = (struct rq){ .depth = depth, .mask = pow2_at_least(depth) - 1, .sge_max = sge_max };
	q->stride = (uint32_t)(sizeof(struct rwqe) + sge_max * sizeof(struct sge));
	if (!depth)
		return 0;
	q->mem = calloc(q->mask + 1, q->stride);
	return q->mem ? 0 : ENOMEM;
}

void sq_fini(struct sq *q)
{
	free(q->mem);
	q->mem = NULL;
}

void rq_fini(struct rq *q)
{
	free(q->mem);
	q->mem = NULL;
}

int rq_put(struct rq *q, const struct recv_wr *wr)
{
	const struct sge *sge = (const struct sge *)(wr + 1);
	struct recv_wr head;
	struct rwqe *w;

	if (q->used >= q->depth)
		return ENOMEM;
	head = *wr;
	COPIED();
	if (head.sge_n > q->sge_max)
		return E2BIG;
	w = rq_at(q, q->tail++);
	q->used++;
	w->wr_id = head.wr_id;
	w->sge_n = head.sge_n;
	w->len = 0;
	for (uint32_t i = 0; i < head.sge_n; i++) {
		w->sge[i] = sge[i];
		COPIED();
		w->len += w->sge[i].len;
	}
	return 0;
}
