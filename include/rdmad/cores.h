/* SPDX-License-Identifier: MIT */
/*
 * cores.h - which cores a thread may run on.
 *
 * Two programs that wait for each other by way of the daemon are three threads that never sleep.  Where there are fewer cores
 * than that, it matters which of them share one: two programs give the core to each other at the right moment, a program and
 * the daemon it waits for have to change places twice for each message.  So the daemon says where it is (struct bell), and
 * programs go elsewhere.  Beside neighbours that compute, on all cores, it is the other way around: there threads that wake each other
 * are best off on one.
 */
#ifndef RDMAD_CORES_H
#define RDMAD_CORES_H

#include <sched.h>
#include <stdbool.h>

#define CORES_ENOUGH 4 /* two programs and the daemon, each on its own */

static inline bool cores_few(void)
{
	cpu_set_t may;

	return !sched_getaffinity(0, sizeof(may), &may) && CPU_COUNT(&may) < CORES_ENOUGH;
}

/* The calling thread goes to a core, and stays there.  0; -1: it is not one of those it may run on. */
static inline int cores_go(const cpu_set_t *may, int to)
{
	cpu_set_t one;

	if (to < 0 || to >= CPU_SETSIZE || !CPU_ISSET((unsigned)to, may))
		return -1;
	CPU_ZERO(&one);
	CPU_SET((unsigned)to, &one);
	return sched_setaffinity(0, sizeof(one), &one);
}

/* The same, to another core than that one.  -1: there is none. */
static inline int cores_leave(const cpu_set_t *may, int core)
{
	int to = core;

	if (core < 0 || core >= CPU_SETSIZE || !CPU_COUNT(may))
		return -1;
	do
		to = (to + 1) % CPU_SETSIZE;
	while (!CPU_ISSET((unsigned)to, may));
	return to == core ? -1 : cores_go(may, to);
}

#endif
