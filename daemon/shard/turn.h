/* SPDX-License-Identifier: MIT */
/*
 * turn.h - what a shard's thread does over and over.
 *
 * A turn:  calls of other threads, what programs posted (drain.h), UDP in, timers, CM, bursts out until nothing is left (to
 * the wire or to a local HCA), completions and events to the programs (publish.h).  With nothing done it spins a little
 * (spin.h), then waits in io_uring or epoll (io.h) for a descriptor or the next deadline.  Meanwhile the control thread may
 * take its turns, as a guest.
 */
#ifndef DAEMON_TURN_H
#define DAEMON_TURN_H

#include "cpu.h"
#include "shard.h"
#include "spin.h"

struct turn {
	struct spin spin;
	struct cpu cpu;
	mono_t look_at; /* when files are looked at next */
};

/* All in the shard's thread. */
void turn_init(struct turn *);
bool turn(struct shard *, struct turn *); /* false: the thread is to end */
void turn_end(struct turn *);

/*
 * While the shard sleeps, by who has what is the shard's (inbox.h): does what there is to be done.  false: the shard must be woken
 * for the rest, or sooner than it would wake up.
 */
bool turn_guest(struct shard *);

#endif
