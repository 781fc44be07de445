/* SPDX-License-Identifier: MIT */
/*
 * crowd.h - a program whose own threads keep each other from their cores.
 *
 * Programs with more threads than there are cores often poll with a lock of their own held, and spin where another thread has it.
 * There a thread that gives its core away is back when all others have had a time slice each, and so is the lock: many milliseconds
 * for each message.  The sign of it are yields that come back late, in which no other thread of the program polled, though others
 * did shortly before.  Where that happens again and again none of them gives its core away for a while: it polls for
 * CROWD_SPIN_NS, and then naps (nap.h); nor does it leave the daemon's core (way.h).  The daemon is woken by what is posted, in
 * the middle of a slice of theirs.
 *
 * The state is that of all threads of the program.  Times are CLOCK_MONOTONIC's, ns.
 */
#ifndef VERBS_CROWD_H
#define VERBS_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define CROWD_SPIN_NS 50000u

extern uint64_t crowd_until; /* 0: there never was one */

/* The calling thread polls in vain, and may give its core away next. */
void crowd_waits(void);
/* Several threads did so by turns, not long ago. */
bool crowd_mixed(uint64_t now);
/* It did, and had it back in time; */
void crowd_in_time(void);
/* or late, now.  true: from now on none of them does. */
bool crowd_late(uint64_t now);

static inline bool crowd_was(void) { return __atomic_load_n(&crowd_until, __ATOMIC_RELAXED); }
static inline bool crowd_is_on(uint64_t now) { return now < __atomic_load_n(&crowd_until, __ATOMIC_RELAXED); }

#endif
