/* SPDX-License-Identifier: MIT */
/* suite.h - the main() of a Check program: TEST_MAIN("name", test, test...). */
#ifndef T_SUITE_H
#define T_SUITE_H

#include <check.h>
#include <stdlib.h>

#define TEST_MAIN(suite_name, ...)						\
int main(void)									\
{										\
	const TTest *const tests[] = { __VA_ARGS__ };				\
	Suite *suite = suite_create(suite_name);					\
	SRunner *runner;							\
	int failed;								\
										\
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {		\
		TCase *tc = tcase_create(tests[i]->name);			\
										\
		tcase_set_timeout(tc, 60);					\
		tcase_add_test(tc, tests[i]);					\
		suite_add_tcase(suite, tc);					\
	}									\
	runner = srunner_create(suite);						\
	srunner_run_all(runner, CK_NORMAL);					\
	failed = srunner_ntests_failed(runner) || !srunner_ntests_run(runner);	\
	srunner_free(runner);							\
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;				\
}

#endif
