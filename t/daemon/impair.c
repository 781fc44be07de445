/* SPDX-License-Identifier: MIT */
/* impair.c - the text of --fault, and whether the dice of t/interop do what it says. */
#include <math.h>
#include <string.h>

#include "daemon/control/impair_spec.h"
#include "t/interop/dice.h"
#include "t/suite.h"

#define DRAWS 200000

START_TEST(text)
{
	struct impair_spec c;

	ck_assert_ptr_null(
		impair_spec_parse("loss=1%,dup=0.02,reorder=3%,corrupt=0.4%,delay=2ms,jitter=100us,seed=0x7", &c));
	ck_assert_double_eq_tol(c.loss, 0.01, 1e-9);
	ck_assert_double_eq_tol(c.dup, 0.02, 1e-9);
	ck_assert_double_eq_tol(c.reorder, 0.03, 1e-9);
	ck_assert_double_eq_tol(c.corrupt, 0.004, 1e-9);
	ck_assert_uint_eq(c.delay_ns, 2000000);
	ck_assert_uint_eq(c.jitter_ns, 100000);
	ck_assert_uint_eq(c.seed, 7);
}
END_TEST

START_TEST(nonsense)
{
	static const char *const bad[] = {
		"",
		"loss",
		"loss=",
		"loss=x",
		"loss=1%%",
		"loss=101%",
		"loss=-1",
		"loss=2",
		"lost=1%",
		"delay=5",
		"delay=-1ms",
		"delay=ms",
		"seed=",
		"seed=x",
		"loss=1%,",
		"jitter=1h",
		"loss=nan",
		"loss=0x0p1",
		"delay=0x10ms",
		"delay= 5ms",
		"jitter=+5ms",
		"loss=1%,dup=1%,loss=0",
	};
	struct impair_spec c;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(impair_spec_parse(bad[i], &c) != NULL, "\"%s\" was taken", bad[i]);
}
END_TEST

static bool is_about(unsigned n, double share) { return fabs((double)n / DRAWS - share) < 0.003; }

START_TEST(dice)
{
	unsigned lost = 0, twice = 0, delayed = 0, flip = 0;
	struct impair_spec c;
	struct dice f, g, h;
	struct fate fate, same, other;
	bool differs = false;

	ck_assert_ptr_null(impair_spec_parse("loss=1%,dup=2%,reorder=3%,corrupt=4%,seed=11", &c));
	dice_init(&f, c.seed, 0);
	dice_init(&g, c.seed, 0);
	dice_init(&h, c.seed, 1);
	for (unsigned i = 0; i < DRAWS; i++) {
		fate = dice_throw(&f, &c, 100);
		same = dice_throw(&g, &c, 100);
		other = dice_throw(&h, &c, 100);
		ck_assert(fate.lost == same.lost && fate.twice == same.twice && fate.flip == same.flip &&
			  fate.delay_ns == same.delay_ns);
		differs |= fate.lost != other.lost;
		ck_assert_int_lt(fate.flip, 800);
		lost += fate.lost;
		twice += fate.twice;
		delayed += fate.delay_ns != 0;
		flip += fate.flip >= 0;
	}
	ck_assert(differs);
	ck_assert(is_about(lost, 0.01) && is_about(twice, 0.02) && is_about(delayed, 0.03) && is_about(flip, 0.04));
}
END_TEST

TEST_MAIN("impair", text, nonsense, dice)
