/* SPDX-License-Identifier: MIT */
/* spin.c - how long a thread that spins looks before it gives its core away, and to whom it does so while it is to sleep. */
#include "daemon/base/clock.h"
#include "daemon/shard/spin.h"
#include "t/suite.h"

#include <sched.h>

#include <rdmad/slice.h>

#define SHORT_NS 500u
#define LONG_NS  2000000u

static mono_t at = { 1000000000 };
static uint64_t away_ns;

mono_t clock_now(void) { return at; }

/* In place of libc's: others have the core for so long. */
int sched_yield(void)
{
	at = mono_add(at, away_ns);
	return 0;
}

static void yield_takes(struct spin *s, uint64_t ns)
{
	away_ns = ns;
	ck_assert_uint_eq(spin_turn(s, at).ns, at.ns);
}

/* Where nobody takes the core it is kept for longer, until somebody does. */
START_TEST(looks_longer_alone)
{
	struct spin s;

	spin_init(&s);
	for (unsigned i = 0; i < SPIN_LONE; i++) {
		ck_assert_uint_eq(spin_look_ns(&s), 0); /* not known yet */
		yield_takes(&s, SHORT_NS);
	}
	ck_assert_uint_eq(spin_look_ns(&s), SPIN_LOOK_NS);
	yield_takes(&s, 10000);
	ck_assert_uint_eq(spin_look_ns(&s), 0);
}
END_TEST

static void is_busy(struct spin *s) { spin_busy(s, at); }

/* While it is to sleep it gives the core back to who woke it from there: once each time, and not where that takes long. */
START_TEST(woken_from_beside)
{
	struct spin s;

	spin_init(&s);
	is_busy(&s);
	ck_assert(spin_may(&s, at));
	yield_takes(&s, LONG_NS);
	is_busy(&s);
	ck_assert(!spin_may(&s, at));
	spin_woken(&s, false);
	ck_assert(!spin_may(&s, at));
	for (unsigned i = 0; i < 3; i++) {
		spin_woken(&s, true);
		is_busy(&s);
		ck_assert(spin_may(&s, at));
		yield_takes(&s, SHORT_NS);
		ck_assert(!spin_may(&s, at));
	}
	spin_woken(&s, true);
	yield_takes(&s, LONG_NS);
	spin_woken(&s, true);
	is_busy(&s);
	ck_assert(!spin_may(&s, at));
	at = s.sleep_until;
	is_busy(&s);
	ck_assert(spin_may(&s, at));
}
END_TEST

/* 0: the kernel has none to tell. */
static uint64_t slice(void)
{
	struct slice_attr a = { .size = sizeof(a) };

	ck_assert_int_eq(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0), 0);
	return a.runtime;
}

/* Short only for who sleeps: of two that yield to each other the one with a short slice has the core for most of the time. */
START_TEST(slice_of_a_spinner)
{
	const uint64_t usual = slice();
	struct spin s;

	spin_init(&s);
	for (unsigned i = 0; i < 3 && usual; i++) {
		ck_assert_uint_eq(slice(), SLICE_SHORT_NS);
		spin_rest(&s);
		ck_assert_uint_eq(slice(), SLICE_SHORT_NS);
		spin_turn(&s, clock_now());
		ck_assert_uint_eq(slice(), usual / 2);
		spin_turn(&s, clock_now());
		spin_rest(&s);
	}
}
END_TEST

TEST_MAIN("spin", looks_longer_alone, woken_from_beside, slice_of_a_spinner)
