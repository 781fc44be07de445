/* SPDX-License-Identifier: MIT */
/* shmem.h - memory shared with a client: a memfd that neither side can make larger or smaller. */
#ifndef DAEMON_SHMEM_H
#define DAEMON_SHMEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "held.h"

struct bill;
struct slab;

/* The daemon's mapping, and the descriptor until it is sent. */
struct shmem {
	uint8_t *mem;
	struct held *held;
	size_t len;
	int fd;            /* -1: none */
	struct slab *slab; /* that it is a piece of (slab.h); NULL: it has a memfd of its own */
};

/* A sealed memfd of len bytes, mapped.  0 or errno.  Its end is shmem_free(); that of a piece is slab_give(). */
int shmem_make(struct shmem *, const char *name, size_t len);
void shmem_free(struct shmem *);
/* The same of memory that may be large, away from this thread: foreign_unmap(). */
void shmem_give(struct shmem *, uid_t, struct bill *);

#endif
