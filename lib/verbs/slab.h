/* SPDX-License-Identifier: MIT */
/*
 * slab.h - memory that queues of a context share: struct msg_mem has the rules.
 */
#ifndef VERBS_SLAB_H
#define VERBS_SLAB_H

#include <stddef.h>

#include <rdmad/msg.h>

struct rd_ctx;
struct slab;

/* The memory of one queue.  All zero: none. */
struct piece {
	struct slab *slab; /* NULL: it is all of a mapping */
	void *mem;
	size_t len;
};

/*
 * A request that makes a queue, and the queue's memory.  0 or an errno: that of conn_call(), EMFILE if the program can have
 * no other descriptor, ENOMEM if it cannot map; the queue is ended then, a resize given up.
 */
int slab_call(struct rd_ctx *, struct msg_req *, struct msg_rep *, int send_fd, struct piece *);
/* Nobody uses the piece any more. */
void slab_done(struct rd_ctx *, struct piece *);
/* The daemon has ended that slab; 0: none. */
void slab_gone(struct rd_ctx *, uint64_t number);
/* At the end of the context: those that nobody uses. */
void slabs_end(struct rd_ctx *);

#endif
