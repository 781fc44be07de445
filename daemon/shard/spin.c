/* SPDX-License-Identifier: MIT */
/*
 * spin.c - three signs that spinning harms, and the penalty: for 4 ms, doubling up to 128 ms while it recurs, the
 * thread sleeps whenever it has nothing to do.
 *
 * 1. A sched_yield() that comes back after more than a millisecond: a neighbour on this core spins and
 *    never yields, and each turn of ours costs a time slice.
 *
 * 2. Nothing came in all the time that it spun, but as soon as it slept, and that several times in a row: its
 *    neighbour had no core to post from.  The scheduler yields within a group only, and each session
 *    (autogroup) or service (cgroup) is a group of its own: there a yielding spinner is one that never
 *    yields.
 *
 * 3. A program that polls was asleep when its completion came: it has met such a neighbour (lib/verbs/nap.h).  Spinning would use up
 *    the time that the shard may have at once when it is woken.  4 ms each time.
 *
 * A sleeper has a short slice (below), so it takes the core at once from a program there that wakes it, and would have posted more:
 * each message of a stream would cost two changes of threads.  So, having done what it was woken for, it gives the core back once,
 * and finds all that was posted meanwhile.  Where that takes long there is a neighbour, too, and it is not tried again in that penalty.
 *
 * A thread that gives its core away loses as much of it as its slice is long (Linux 6.18), so one with a short slice does so ten or
 * thirty times before a program has it that waits in the same way with a usual one.  But a sleeper must be woken fast.  So the
 * slice is short while it sleeps (rdmad/slice.h), and from its first turn of spinning on half of the usual one: of two programs that
 * talk to each other it serves both, and is asked twice as often as either.
 */
#include "spin.h"

#include <sched.h>

#include <rdmad/slice.h>

#include "../base/clock.h"

#define YIELD_LONG_NS  1000000u
#define YIELD_VAIN_NS  1000u /* less than two changes of threads */
#define SLEEP_SHORT_NS 30000u
#define VAIN_MAX       4u
#define PENALTY_MIN_NS 4000000u
#define PENALTY_MAX_NS 128000000u

void spin_init(struct spin *s)
{
	*s = (struct spin){ .slice_ns = slice_set(SLICE_SHORT_NS) / 2 };
	s->brief = s->slice_ns;
}

void spin_rest(struct spin *s)
{
	if (s->slice_ns && !s->brief)
		s->brief = slice_set(SLICE_SHORT_NS);
}

static void slice_long(struct spin *s)
{
	s->brief = false;
	slice_set(s->slice_ns);
}

static void penalty(struct spin *s, mono_t now)
{
	bool again = s->penalty_ns && mono_before(now, mono_add(s->sleep_until, 4 * s->penalty_ns));

	s->penalty_ns = again ? 2 * s->penalty_ns : PENALTY_MIN_NS;
	if (s->penalty_ns > PENALTY_MAX_NS)
		s->penalty_ns = PENALTY_MAX_NS;
	s->sleep_until = mono_add(now, s->penalty_ns);
	s->vain = 0;
}

mono_t spin_turn(struct spin *s, mono_t now)
{
	bool penal = mono_before(now, s->sleep_until);
	mono_t after;

	if (s->brief)
		slice_long(s);
	sched_yield();
	after = clock_now();
	s->lone = mono_since(after, now) < YIELD_VAIN_NS ? s->lone + 1 : 0;
	s->beside = false;
	if (mono_since(after, now) < YIELD_LONG_NS)
		return after;
	penalty(s, after);
	if (penal)
		s->alone_until = s->sleep_until;
	return after;
}

void spin_slept(struct spin *s, mono_t from, mono_t to, bool rung)
{
	bool spun = mono_reached(from, mono_add(s->busy_at, SPIN_NS));

	if (!spun || !rung || mono_since(to, from) >= SLEEP_SHORT_NS)
		s->vain = 0;
	else if (++s->vain == VAIN_MAX)
		penalty(s, to);
}

void spin_not(struct spin *s, mono_t now) { s->sleep_until = mono_max(s->sleep_until, mono_add(now, PENALTY_MIN_NS)); }
