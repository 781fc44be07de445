/* SPDX-License-Identifier: MIT */
/*
 * spin.h - how a shard with nothing to do spends the next moment: spinning or asleep.
 *
 * Spinning answers in a microsecond but takes a core.  So it lasts SPIN_NS after traffic, gives the core
 * away at each turn, and stops at once where that harms a neighbour (spin.c).  One thread.
 */
#ifndef DAEMON_SPIN_H
#define DAEMON_SPIN_H

#include <stdbool.h>

#include "../proto/mono.h"

#define SPIN_NS	50000u

struct spin {
	mono_t busy_at;		/* the last turn that did something */
	mono_t sleep_until;	/* no spinning before this */
	uint64_t penalty_ns;
	mono_t look_at;		/* when to look at the neighbours next */
	unsigned yields;	/* since the last look */
	long switches;		/* of this thread, at the last look */
	int load_fd;
	long cores;
};

void spin_init(struct spin *);	/* in the thread concerned */
void spin_end(struct spin *);
static inline void spin_busy(struct spin *s, mono_t now) { s->busy_at = now; }

/* false: sleep. */
static inline bool spin_may(const struct spin *s, mono_t now)
{
	return mono_before(now, mono_add(s->busy_at, SPIN_NS)) && mono_reached(now, s->sleep_until);
}

/* One turn of spinning. */
void spin_turn(struct spin *, mono_t now);

#endif
