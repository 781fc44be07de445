/* SPDX-License-Identifier: MIT */
/* crowd.c - see crowd.h. */
#include "crowd.h"

#include "cq.h"

#include <rdmad/clock.h>

#define MIXED_NS 256000000u /* ten threads that have a slice of 4 ms each by turns wait no longer for one core */
#define LATE     8u         /* one yield in so many that is late is too many, */
#define LATE_MAX 24u        /* once there were three */
#define LAST_MIN 64000000u
#define LAST_MAX 2048000000u

/* Two threads may write these at a time; then one of them is not heard, and says it again. */
uint64_t crowd_until;
static uint64_t last_ns;             /* how long the last one was meant to be */
static uintptr_t who;                /* waited last */
static uint64_t turned_at, mixed_at; /* when that was another thread than before, last, and the time before; 0: never */
static unsigned late;                /* LATE more for each yield that was, one less for each that was not */

#define GET(x)      __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define PUT(x, val) __atomic_store_n(&(x), (val), __ATOMIC_RELAXED)

void crowd_waits(void)
{
	if (GET(who) == thread_me())
		return;
	PUT(who, thread_me());
	PUT(mixed_at, GET(turned_at));
	PUT(turned_at, clock_ns(CLOCK_MONOTONIC_COARSE));
}

bool crowd_mixed(uint64_t now)
{
	uint64_t at = GET(mixed_at);

	return at && now - at < MIXED_NS;
}

bool crowd_late(uint64_t now)
{
	uint64_t until = GET(crowd_until), last = GET(last_ns);
	unsigned n = GET(late) + LATE;

	if (!crowd_mixed(now) || GET(who) != thread_me())
		return false;
	PUT(late, n < LATE_MAX ? n : LATE_MAX - LATE);
	if (n < LATE_MAX)
		return false;
	last = until && now < until + LAST_MAX ? 2 * last : LAST_MIN;
	last = last < LAST_MAX ? last : LAST_MAX;
	PUT(last_ns, last);
	PUT(crowd_until, now + last);
	return true;
}

void crowd_in_time(void)
{
	unsigned n = GET(late);

	if (n)
		PUT(late, n - 1);
}
