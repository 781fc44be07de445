/* SPDX-License-Identifier: MIT */
/* seq.c - PSNs around their wrap. */
#include "proto/mono.h"
#include "proto/seq.h"
#include "t/suite.h"

START_TEST(add_and_sub_wrap) /* conf: rule 4.1 */
{
	ck_assert_uint_eq(psn(0x1000000).v, 0);
	ck_assert_uint_eq(psn(0xff123456).v, 0x123456);
	ck_assert_uint_eq(psn_add(psn(0xffffff), 1).v, 0);
	ck_assert_uint_eq(psn_add(psn(0xfffffe), 0x1000003).v, 1);
	ck_assert_uint_eq(psn_sub(psn(0), 1).v, 0xffffff);
	ck_assert_uint_eq(psn_sub(psn(5), 6).v, 0xffffff);
	ck_assert(psn_eq(psn_add(psn(0xfffff0), 0x20), psn(0x10)));
	ck_assert(!psn_eq(psn(0), psn(0xffffff)));
}
END_TEST

/* Against plain integers: b is a plus d, for every power of two on both sides of everything. */
START_TEST(diff_is_the_signed_distance) /* conf: rule 4.1 */
{
	static const uint32_t at[] = { 0, 1, 0x7fffff, 0x800000, 0x800001, 0xfffffe, 0xffffff };

	for (size_t k = 0; k < sizeof(at) / sizeof(*at); k++) {
		psn_t a = psn(at[k]);

		ck_assert_int_eq(psn_diff(a, a), 0);
		ck_assert(!psn_before(a, a));
		for (int bit = 0; bit <= 23; bit++) {
			for (int32_t d = (1 << bit) - 2; d <= (1 << bit) + 1; d++) {
				if (d < 1 || d >= PSN_HALF)
					continue;
				ck_assert_int_eq(psn_diff(psn_add(a, (uint32_t)d), a), d);
				ck_assert_int_eq(psn_diff(a, psn_add(a, (uint32_t)d)), -d);
				ck_assert(psn_before(a, psn_add(a, (uint32_t)d)));
				ck_assert(!psn_before(psn_add(a, (uint32_t)d), a));
			}
		}
		ck_assert_int_eq(psn_diff(psn_add(a, PSN_HALF), a), -PSN_HALF);
	}
}
END_TEST

START_TEST(times_are_never_less_than_nothing)
{
	mono_t t = { 1000 }, u = { 1001 };

	ck_assert_uint_eq(mono_since(u, t), 1);
	ck_assert_uint_eq(mono_since(t, t), 0);
	ck_assert_uint_eq(mono_since(t, u), 0);
	ck_assert_uint_eq(ns_since(0, UINT64_MAX), 0);
	ck_assert_uint_eq(ns_since(UINT64_MAX, 0), UINT64_MAX);
}
END_TEST

TEST_MAIN("seq", add_and_sub_wrap, diff_is_the_signed_distance, times_are_never_less_than_nothing)
