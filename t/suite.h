/* SPDX-License-Identifier: MIT */
/*
 * suite.h - Check, and the main() of a program of tests: TEST_MAIN("name", test, test...).  One of several files adds its tests
 * by SUITE_ADD(), and main() returns suite_run().
 */
#ifndef T_SUITE_H
#define T_SUITE_H

#include <check.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

/*
 * Check writes down at each assertion where the test is, to tell it if the test crashes: "(after this point)".  That is a system
 * call, and some tests assert something of every byte, so here a line is written down when a thread comes to it for the first time.
 */
#define _mark_point(file, line)                        \
	({                                             \
		static _Thread_local bool marked_;     \
                                                       \
		if (!marked_) {                        \
			marked_ = true;                \
			(_mark_point)((file), (line)); \
		}                                      \
	})

#define PATIENCE_MS 50000 /* after which one gives up: less than a test may take */

#define SUITE_ADD(suite, ...)                                                      \
	do {                                                                       \
		const TTest *const tests_[] = { __VA_ARGS__ };                     \
                                                                                   \
		for (size_t i_ = 0; i_ < sizeof(tests_) / sizeof(*tests_); i_++) { \
			TCase *tc_ = tcase_create(tests_[i_]->name);               \
                                                                                   \
			tcase_set_timeout(tc_, 60);                                \
			tcase_add_test(tc_, tests_[i_]);                           \
			suite_add_tcase(suite, tc_);                               \
		}                                                                  \
	} while (0)

/*
 * Freed memory is kept: a heap that shrinks and grows again with each of thousands of runs has its pages cleared each time.  To set
 * one of these stops malloc() from raising the first by itself, above which each block is a mapping of its own.
 */
static inline void suite_heap(void)
{
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	mallopt(M_TOP_PAD, 16 << 20);
}

static inline int suite_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_heap();
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner) || !srunner_ntests_run(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define TEST_MAIN(suite_name, ...)                       \
	int main(void)                                   \
	{                                                \
		Suite *suite = suite_create(suite_name); \
                                                         \
		SUITE_ADD(suite, __VA_ARGS__);           \
		return suite_run(suite);                 \
	}

#endif
