/* SPDX-License-Identifier: MIT */
/* way.c - see way.h. */
#include "way.h"

#include <sched.h>

#include <rdmad/abi.h>
#include <rdmad/clock.h>
#include <rdmad/cores.h>
#include <rdmad/ring.h>

static _Thread_local struct {
	uint64_t again_at, join_at;
	uint64_t stay_ns; /* behind a way that was bad; 0: the last one was not */
	bool bad;         /* this one */
} way;

/* -1: it does not say. */
static int daemons_core(const struct bell *b) { return (int)RING_LOAD(&b->core) - 1; }

bool way_is_free(const struct bell *b) { return sched_getcpu() != daemons_core(b); }

/* It may run where it might before. */
static void move(int (*go)(const cpu_set_t *, int), int core)
{
	cpu_set_t may;

	if (!sched_getaffinity(0, sizeof(may), &may) && !go(&may, core))
		sched_setaffinity(0, sizeof(may), &may);
}

void way_make(const struct bell *b)
{
	int core = daemons_core(b);
	uint64_t now;

	if (sched_getcpu() != core || (now = clock_ns(CLOCK_MONOTONIC)) < way.again_at)
		return;
	if (!way.bad)
		way.stay_ns = 0;
	way.bad = false;
	way.again_at = now + WAY_NS;
	move(cores_leave, core);
}

void way_was_bad(const struct bell *b, uint64_t now)
{
	if (way.bad || !way.again_at || !way_is_free(b))
		return;
	way.bad = true;
	way.stay_ns = way.stay_ns ? 2 * way.stay_ns : 2 * WAY_NS;
	if (way.stay_ns > WAY_MAX_NS)
		way.stay_ns = WAY_MAX_NS;
	way.again_at = now + way.stay_ns;
}

void way_join(const struct bell *b)
{
	int core = daemons_core(b);
	uint64_t now;

	if (core < 0 || sched_getcpu() == core || (now = clock_ns(CLOCK_MONOTONIC)) < way.join_at)
		return;
	way.join_at = now + WAY_NS;
	move(cores_go, core);
}
