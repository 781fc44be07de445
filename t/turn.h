/* SPDX-License-Identifier: MIT */
/*
 * turn.h - a thread that waits for another one lets it run, on a machine that has more to do, too.  Beside neighbours that compute each
 * sched_yield() may be over milliseconds later, and costs the thread a slice (doc/limits.md 4): it sleeps for its next turns then.
 */
#ifndef T_TURN_H
#define T_TURN_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

#define TURN_LONG_NS  1000000 /* a yield of a thread with a neighbour that computes */
#define TURN_SLEEP_NS 20000L
#define TURN_SLEEPS   500u

static inline int64_t turn_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void turn_away(void)
{
	static _Thread_local unsigned sleeps;
	int64_t began;

	if (sleeps) {
		sleeps--;
		nanosleep(&(struct timespec){ 0, TURN_SLEEP_NS }, NULL);
		return;
	}
	began = turn_clock();
	sched_yield();
	if (turn_clock() - began > TURN_LONG_NS)
		sleeps = TURN_SLEEPS;
}

#endif
