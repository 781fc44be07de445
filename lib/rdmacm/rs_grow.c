/* SPDX-License-Identifier: MIT */
/*
 * rs_grow.c - buffers that become larger while a stream is held up by them, as TCP's do.
 *
 * Each time a buffer is full the two ends take turns, and beside programs that compute a turn is a time slice.  A small one
 * stays in the caches, and costs no memory: so it starts small.  All that it may become is mapped from the beginning, and is
 * there when it is used.  A size that the program has set stays.
 *
 *	|A......|B......|                                grows when A is read, and B is what the peer writes to:
 *	|.......|B......|C..............|                behind B comes C, and then what is before C
 */
#include "rs.h"

#define MOST ((uint32_t)2 << 20) /* of one buffer */
#define ALL  ((size_t)256 << 20) /* that all of a process may have grown by */

static size_t all; /* atomic */

uint32_t rs_grow_most(uint32_t size, bool set) { return set || size > MOST ? size : MOST; }

/* It doubles; false: it must not. */
static bool grow(struct rs_link *l, struct rs_ring *r)
{
	if (!r->full || r->size > r->most / 2)
		return false;
	if (__atomic_add_fetch(&all, r->size, __ATOMIC_RELAXED) > ALL) {
		__atomic_sub_fetch(&all, r->size, __ATOMIC_RELAXED);
		return false;
	}
	l->grown += r->size;
	r->size *= 2;
	r->full = false;
	return true;
}

void rs_grow_end(struct rsock *rs)
{
	__atomic_sub_fetch(&all, rs->link.grown, __ATOMIC_RELAXED);
	rs->link.grown = 0;
}

void rs_grow_send(struct rsock *rs)
{
	struct rs_ring *r = &rs->link.send;
	uint32_t end = r->tail ? r->tail : r->size; /* of what is in it */

	r->full |= r->used == r->size;
	if (r->used > end || !grow(&rs->link, r))
		return;
	r->tail = end;
	rs->opts.sndbuf = r->size;
}

void rs_grow_recv(struct rsock *rs)
{
	struct rs_link *l = &rs->link;
	struct rs_ring *r = &l->recv;
	uint32_t old = r->size, granted = old - r->used - l->freed;

	/* The peer has filled most of what it was granted before the last of it was read. */
	r->full |= granted <= old / 8;
	if (l->give_at || !grow(l, r))
		return;
	r->tail = r->tail ? r->tail : old; /* B is read, too */
	l->freed += old;
	l->give_at = old;
	rs->opts.rcvbuf = r->size / 2;
}
