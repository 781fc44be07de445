# SPDX-License-Identifier: MIT
check_PROGRAMS += t/run/fake
t_run_fake_SOURCES = t/run/fake.c
dist_check_SCRIPTS += t/run/run.test
TESTS += t/run/run.test
