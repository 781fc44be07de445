/* SPDX-License-Identifier: MIT */
/*
 * slab.h - the memory of a context's queues: pieces of few memfds, as a process can have only so many mappings.
 *
 *	slab of unit 2048	| piece | piece |  free | piece |  ...
 *
 * Its pieces are equally long; the next slab for that length has as many as all before it together, so the number of
 * slabs grows with the logarithm until they are long.  The client can write to all of it at any time, so all of it is
 * charged; pages are there as pieces use them, and of programs that may make us wait are given back with them, but for a few that
 * the next pieces use.
 * The client gets the descriptor with the first piece that it gets of a slab, and maps all of it then; it is told when
 * the slab has ended.  Control thread.
 */
#ifndef DAEMON_SLAB_H
#define DAEMON_SLAB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shmem.h"

struct slab;

/* All zero: none. */
struct slabs {
	struct slab *first, *retired; /* those that get no new pieces */
	size_t empty;                 /* bytes of those without pieces, which are kept */
	size_t warm;                  /* of free pieces whose pages are kept */
};

/* Where a piece is, for its client (struct msg_mem). */
struct slab_place {
	uint64_t slab; /* its number, which no other slab has after it; 0: the memory is no piece */
	uint64_t off, all;
};

/*
 * A piece of len bytes, charged to the user as far as it needs a new slab; what is in it is whatever its last use left.
 * 0 or errno.
 */
int slab_take(struct slabs *, uid_t, size_t len, struct shmem *);
/* Of a piece, or of memory made by shmem_make(). */
struct slab_place slab_place(const struct shmem *);
/* The descriptor that goes to the client with this piece, or that of the memory itself: the caller's from now on.  -1: none. */
int slab_fd(struct shmem *);
/* The client has lost the descriptor of the slab: nothing new comes to lie in it, and it ends with its last piece. */
void slab_lost(const struct shmem *);
/* The piece is free, or the memory of its own.  The number of the slab that has ended with it, or 0. */
uint64_t slab_give(struct shmem *);
/* At the end of the context, when all pieces are free. */
void slabs_end(struct slabs *);

#endif
