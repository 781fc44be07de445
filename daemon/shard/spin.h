/* SPDX-License-Identifier: MIT */
/*
 * spin.h - how a thread with nothing to do, a shard's or the control thread, spends the next moment: spinning or asleep.
 *
 * Spinning answers in a microsecond but takes a core.  So it lasts SPIN_NS after traffic, gives the core
 * away at each turn, and stops at once where that harms a neighbour (spin.c).  One thread.
 */
#ifndef DAEMON_SPIN_H
#define DAEMON_SPIN_H

#include <stdbool.h>

#include "../../proto/mono.h"

#define SPIN_NS      50000u
#define SPIN_LOOK_NS 350u
#define SPIN_LONE    32u

struct spin {
	mono_t busy_at;     /* the last turn that did something */
	mono_t sleep_until; /* no spinning before this, */
	mono_t alone_until; /* and not even for who is beside it before this */
	uint64_t penalty_ns;
	unsigned vain;     /* how often in a row spinning kept back what came as soon as it ended */
	unsigned lone;     /* how often in a row the core was given away and nobody took it */
	uint64_t slice_ns; /* of its thread while it spins; 0: it is not ours to choose */
	bool brief;        /* that of one that sleeps */
	bool beside;       /* who woke it waits for this core */
};

void spin_init(struct spin *); /* in the thread concerned */
/* It is about to sleep. */
void spin_rest(struct spin *);
static inline void spin_found(struct spin *s) { s->vain = 0; } /* spinning was worth it */
static inline void spin_busy(struct spin *s, mono_t now) { s->busy_at = now; }

/* It is awake; beside: and was woken from its own core. */
static inline void spin_woken(struct spin *s, bool beside) { s->beside = beside; }

/* false: sleep. */
static inline bool spin_may(const struct spin *s, mono_t now)
{
	if (!mono_before(now, mono_add(s->busy_at, SPIN_NS)))
		return false;
	return mono_reached(now, s->sleep_until) || (s->beside && mono_reached(now, s->alone_until));
}

/* Its programs sleep: it does so, too, for a while. */
void spin_not(struct spin *, mono_t now);

/* One turn of spinning; what time it is then. */
mono_t spin_turn(struct spin *, mono_t now);

/*
 * How long to look before that: where nobody wants the core, about as long as it takes to find that out.  That nobody took it once
 * says little: the scheduler may have found that it is not their turn yet.
 */
static inline uint64_t spin_look_ns(const struct spin *s) { return s->lone >= SPIN_LONE ? SPIN_LOOK_NS : 0; }

/* It slept; rung: and was woken by a program. */
void spin_slept(struct spin *, mono_t from, mono_t to, bool rung);

#endif
