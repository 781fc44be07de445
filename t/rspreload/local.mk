# SPDX-License-Identifier: MIT
check_PROGRAMS += t/rspreload/calls
t_rspreload_calls_SOURCES = t/rspreload/calls.c
t_rspreload_calls_CPPFLAGS = -D_GNU_SOURCE $(CHECK_CFLAGS)
t_rspreload_calls_LDADD = $(CHECK_LIBS) -lpthread

RSPRELOAD_TESTS = t/rspreload/calls.test t/rspreload/programs.test
TESTS += $(RSPRELOAD_TESTS)
dist_check_SCRIPTS += $(RSPRELOAD_TESTS)
