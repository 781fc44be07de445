/* SPDX-License-Identifier: MIT */
/* spin.c - how long a thread that spins looks before it gives its core away. */
#include "daemon/base/clock.h"
#include "daemon/shard/spin.h"
#include "t/suite.h"

#include <sched.h>
#include <time.h>

#include <rdmad/slice.h>

#define TRIES 10000000u

static long away_ns;

/* In place of libc's: others have the core for so long. */
int sched_yield(void) { return away_ns ? nanosleep(&(struct timespec){ 0, away_ns }, NULL) : 0; }

/* Where nobody takes the core it is kept for longer, until somebody does. */
START_TEST(looks_longer_alone)
{
	struct spin s;
	unsigned i = 0;

	spin_init(&s);
	ck_assert_uint_eq(spin_look_ns(&s), 0); /* not known yet */
	do {                                    /* the core is taken away now and then, whoever yields */
		ck_assert_uint_lt(++i, TRIES);
		spin_turn(&s, clock_now());
	} while (!spin_look_ns(&s));
	ck_assert_uint_lt(spin_look_ns(&s), SPIN_NS);
	away_ns = 10000;
	spin_turn(&s, clock_now());
	ck_assert_uint_eq(spin_look_ns(&s), 0);
	away_ns = 0;
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

TEST_MAIN("spin", looks_longer_alone, slice_of_a_spinner)
