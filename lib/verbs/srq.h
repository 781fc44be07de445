/* SPDX-License-Identifier: MIT */
/* srq.h - shared receive queues. */
#ifndef VERBS_SRQ_H
#define VERBS_SRQ_H

#include "cq.h"

struct rd_srq {
	struct ibv_srq srq;
	struct rd_pd *mem_pd; /* pd_free */
	struct map_node node;
	pthread_mutex_t lock;
	struct ring ring;
	struct piece mem;
	uint32_t bell;
	uint32_t max_wr, max_sge;
	struct rd_cq *cq; /* of XRC: where its receives complete; else NULL */
};

static inline struct rd_srq *to_srq(struct ibv_srq *s) { return (struct rd_srq *)s; }

int post_srq_recv(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **bad); /* post.c */

#endif
