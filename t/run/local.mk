# SPDX-License-Identifier: MIT
check_PROGRAMS += t/run/fake
t_run_fake_SOURCES = t/run/fake.c
RUN_TESTS = \
	t/run/real.test \
	t/run/run.test \
	t/run/sysfs.test
dist_check_SCRIPTS += $(RUN_TESTS)
TESTS += $(RUN_TESTS)
EXTRA_DIST += t/run/lib.sh
