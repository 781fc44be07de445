/* SPDX-License-Identifier: MIT */
/* core_cong - the law of a rate by itself: stages, CNPs that count, and what a known line changes. */
#include "proto/cong.h"

#include "t/suite.h"

#define MS 1000000ull

static void between(uint64_t v, uint64_t low, uint64_t high)
{
	ck_assert_uint_ge(v, low);
	ck_assert_uint_le(v, high);
}

/* The stages by themselves: fast recovery, then one counter beyond it, then both. */
START_TEST(increase_stages)
{
	struct cong c = { 0 };
	mono_t now = { 1000 * MS };
	uint32_t target;

	cong_sent(&c, &cong_law, (mono_t){ 998 * MS }, 0);
	cong_sent(&c, &cong_law, (mono_t){ 998 * MS }, 2500000); /* in two milliseconds: 10 Gbit/s */
	cong_markable(&c, now, CONG_PKTS);
	ck_assert_int_eq(cong_cnp(&c, &cong_law, now), CONG_CUT);
	ck_assert_uint_eq(c.start, 10000000);
	ck_assert_uint_eq(c.limit, 5000000);
	ck_assert_int_eq(cong_cnp(&c, &cong_law, mono_add(now, cong_law.cut_ns - 1)), CONG_SAME);
	for (unsigned i = 1; i <= cong_law.fast; i++) {
		now = mono_add(now, cong_law.timer_ns);
		between(cong_recover(&c, &cong_law, now), 10000000 - (5000000u >> i) - 1,
			10000000 - (5000000u >> i) + cong_law.fast);
		ck_assert_uint_eq(c.target, 10000000);
	}
	for (unsigned i = 1; i <= 3; i++) {
		now = mono_add(now, cong_law.timer_ns);
		cong_recover(&c, &cong_law, now);
		ck_assert_uint_eq(c.target, 10000000 + i * cong_law.ai);
	}
	target = c.target;
	for (unsigned i = 1; i <= cong_law.fast; i++) {
		cong_sent(&c, &cong_law, now, cong_law.bytes);
		ck_assert_uint_eq(c.target, target + i * cong_law.ai);
	}
	target = c.target;
	cong_sent(&c, &cong_law, now, cong_law.bytes);
	ck_assert_uint_eq(c.target, target + cong_law.hai);
	cong_sent(&c, &cong_law, now, cong_law.bytes - 1);
	ck_assert_uint_eq(c.target, target + cong_law.hai);
	cong_sent(&c, &cong_law, now, 1);
	ck_assert_uint_eq(c.target, target + 3 * cong_law.hai);
	cong_markable(&c, now, CONG_PKTS);
	ck_assert_int_eq(cong_cnp(&c, &cong_law, now), CONG_CUT);
	ck_assert_uint_eq(c.timer + c.bytes, 0);
}
END_TEST

/*
 * A packet each millisecond, and a CNP for each: all of them count.  Two for each are more than a receiver sends; what they
 * show is not forgotten soon.
 */
START_TEST(slow_is_heard)
{
	struct cong c = { 0 };
	mono_t now = { 1000 * MS };
	unsigned n[4] = { 0 };

	for (unsigned i = 0; i < 2000; i++) {
		now = mono_add(now, 1 * MS);
		cong_sent(&c, &cong_law, now, 574);
		cong_markable(&c, now, 1);
		cong_recover(&c, &cong_law, now);
		n[i / 500] += cong_cnp(&c, &cong_law, mono_add(now, cong_law.cut_ns)) == CONG_CUT;
		if (i / 500 == 1)
			n[1] += cong_cnp(&c, &cong_law, mono_add(now, 2 * cong_law.cut_ns)) == CONG_CUT;
	}
	ck_assert_uint_eq(n[0], 500);
	between(n[1], 500 / CONG_PKTS, 500 / CONG_PKTS + CONG_OPEN);
	between(n[2], 500 / CONG_PKTS, 500 / CONG_PKTS + 1);
	now = mono_add(now, CONG_DOUBT_NS);
	cong_markable(&c, now, 1);
	ck_assert_int_eq(cong_cnp(&c, &cong_law, now), CONG_CUT);
	ck_assert_int_eq(cong_cnp(&c, &cong_law, mono_add(now, cong_law.cut_ns)), CONG_STRANGE);
}
END_TEST

/* A burst was sent and marked, and then nothing could go, as behind PFC: what the receiver says of it counts all the same. */
START_TEST(stopped_is_heard)
{
	struct cong c = { 0 };
	mono_t now = { 1000 * MS };

	cong_sent(&c, &cong_law, (mono_t){ 998 * MS }, 2500000);
	cong_markable(&c, now, 1000);
	for (unsigned i = 0; i < CONG_OPEN; i++) {
		cong_recover(&c, &cong_law, now);
		ck_assert_int_eq(cong_cnp(&c, &cong_law, now), CONG_CUT);
		now = mono_add(now, cong_law.cut_ns);
	}
	ck_assert_uint_le(c.limit, 3 * cong_law.min);
	ck_assert_int_eq(cong_cnp(&c, &cong_law, now), CONG_STRANGE);
}
END_TEST

/* Where the line's rate is known, that is where it starts from, what it comes back to, and what stays. */
START_TEST(line_is_known)
{
	struct cong_law paper = { .timer_ns = 55000,
				  .bytes = 10000000,
				  .fast = 5,
				  .ai = 40000,
				  .hai = 200000,
				  .gain = 256,
				  .min = 10000,
				  .line = 40000000 };
	struct cong c = { 0 };
	mono_t now = { 1000 * MS };

	cong_markable(&c, now, CONG_PKTS);
	ck_assert_int_eq(cong_cnp(&c, &paper, now), CONG_CUT);
	ck_assert_uint_eq(c.limit, 20000000);
	ck_assert_int_eq(cong_cnp(&c, &paper, mono_add(now, 50000)), CONG_CUT); /* each counts */
	ck_assert_uint_eq(c.limit, 10000000);
	now = mono_add(now, 50000 + 6 * 55000); /* five stages, and one of 40 Mbit/s more */
	between(cong_recover(&c, &paper, now), 19840000, 19880000);
	ck_assert_uint_eq(c.target, 20040000);
	for (unsigned i = 0; i < 10; i++)
		cong_sent(&c, &paper, now, paper.bytes); /* and hyper increase */
	ck_assert_uint_gt(c.target, 20040000 + 2 * 200000);
	ck_assert_uint_eq(cong_recover(&c, &paper, mono_add(now, 3600000 * MS)), 40000000);
	ck_assert_uint_eq(c.target, 40000000);
	ck_assert_uint_lt(c.alpha, paper.gain);
	ck_assert_uint_lt(c.timer, 100000); /* no stages that change nothing */
}
END_TEST

/* alpha comes close to both of its ends. */
START_TEST(alpha_goes_all_the_way)
{
	struct cong c = { 0 };
	mono_t now = { 1000 * MS };

	cong_sent(&c, &cong_law, (mono_t){ 998 * MS }, 0);
	cong_sent(&c, &cong_law, (mono_t){ 998 * MS }, 2500000);
	cong_markable(&c, now, CONG_PKTS);
	ck_assert_int_eq(cong_cnp(&c, &cong_law, now), CONG_CUT);
	ck_assert_uint_ne(cong_recover(&c, &cong_law, mono_add(now, 1000ull * cong_law.timer_ns)), 0);
	ck_assert_uint_le(c.alpha, CONG_ONE / 10000);
	for (unsigned i = 0; i < 1000; i++) {
		now = mono_add(now, cong_law.cut_ns);
		cong_markable(&c, now, CONG_PKTS);
		ck_assert_int_eq(cong_cnp(&c, &cong_law, now), CONG_CUT);
	}
	ck_assert_uint_ge(c.alpha, CONG_ONE - CONG_ONE / 10000);
	ck_assert_uint_le(c.alpha, CONG_ONE);
}
END_TEST

/* Twice of what was sent may be more than any rate is: the limit goes all the same. */
START_TEST(fastest)
{
	struct cong c = { 0 };
	mono_t now = { 1000 * MS };

	cong_sent(&c, &cong_law, (mono_t){ 998 * MS }, 0);
	cong_sent(&c, &cong_law, (mono_t){ 998 * MS }, 100000000); /* 400 Gbit/s */
	cong_markable(&c, now, CONG_PKTS);
	ck_assert_int_eq(cong_cnp(&c, &cong_law, now), CONG_CUT);
	ck_assert_uint_eq(c.limit, 200000000);
	ck_assert_uint_eq(cong_recover(&c, &cong_law, mono_add(now, 3600000 * MS)), 0);
	ck_assert_uint_le(mono_since(c.stepped, now), 60000 * MS); /* and no more steps are made up for */
}
END_TEST

TEST_MAIN("core_cong", increase_stages, slow_is_heard, stopped_is_heard, line_is_known, alpha_goes_all_the_way, fastest)
