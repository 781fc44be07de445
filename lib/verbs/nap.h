/* SPDX-License-Identifier: MIT */
/*
 * nap.h - how a thread that polls in vain waits beside a neighbour that never gives the core away.
 *
 * sched_yield(2) lets all others of its core go first; since Linux 6.18 it gives up a whole time slice, too.  Among threads that all
 * do so that costs nothing.  Beside one that computes, it costs milliseconds a message.  So a yield that takes LONG_NS is the last
 * one for a while: instead the thread sleeps until the daemon has a completion for its context (struct bell, naps), with short time
 * slices, so that it is woken in the middle of its neighbour's, and goes to the daemon's core (way.h).  Then a yield tries how it is
 * now.  It may be short though the neighbour is there, as when the daemon has had the core: so slices stay short for a moment, and if
 * another one is long soon, the thread naps for twice as long as before.  They do not stay short for long, as of two programs that
 * yield to each other the one with the shorter slices has the core for most of the time.
 *
 * To poll without giving the core away, as programs over TCP do, would be as fast while both ends happen to run; but on one core
 * they would wait for each other, with or without neighbours, and find no end to it.
 */
#ifndef VERBS_NAP_H
#define VERBS_NAP_H

#include <stdbool.h>
#include <stdint.h>

struct rd_cq;

/* How fast the sends of a queue are carried out, and how many were posted behind. */
struct pace {
	uint32_t left, done;
	uint64_t took; /* ns, those that are done */
};

/* How long those that are left will take, ns; 0: not known, or not worth a thought. */
uint64_t pace_backlog(const struct pace *);

/*
 * To read the clock before and after each yield takes a thirtieth of the time of a message where two programs share a core.  So most
 * yields are looked at by the kernel's ticks alone; if one of them falls into a yield, the next ones are measured.
 */
void nap_yield(void);
/* The next yield is to be measured, by nap() before it and nap_yielded() behind it. */
bool nap_near(void);

/* All times are CLOCK_MONOTONIC's, ns; errno is kept. */

/*
 * The calling thread gave its core away until now, for nothing from then on: before, what was posted kept the daemon busy.  from may
 * be later than now.
 */
void nap_yielded(uint64_t from, uint64_t now);
/* It slept for a moment, which says something if it was long. */
void nap_slept(uint64_t from, uint64_t now);
/* It meets a neighbour that never gives the core away: a yield would cost milliseconds. */
bool nap_is_on(uint64_t now);
/* It met one not long ago. */
bool nap_beside(void);
/* It is to sleep instead, and does; false: it is to yield. */
bool nap(struct rd_cq *, uint64_t now);
/* It found something, and may not wait again: the slices are its own again, if their time is over. */
void nap_found(uint64_t now);

/* The thread's own slice, ns, while it has a short one; 0: it has its own, and nap_found() has nothing to do. */
extern _Thread_local uint64_t nap_slice;

#endif
