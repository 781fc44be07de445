# SPDX-License-Identifier: MIT
check_PROGRAMS += t/rspreload/calls
t_rspreload_calls_SOURCES = \
	t/interrupt.h \
	t/late.c \
	t/late.h \
	t/fds_left.h \
	t/ok.h \
	t/rspreload/calls.c \
	t/rspreload/calls.h \
	t/rspreload/calls_cancel.c \
	t/rspreload/calls_close.c \
	t/rspreload/calls_connect.c \
	t/rspreload/calls_data.c \
	t/rspreload/calls_epoll.c \
	t/rspreload/calls_file.c \
	t/rspreload/calls_fork.c \
	t/rspreload/calls_idle.c \
	t/rspreload/calls_listen.c \
	t/rspreload/calls_reset.c \
	t/rspreload/calls_signal.c \
	t/rspreload/calls_spawn.c
t_rspreload_calls_CPPFLAGS = -D_GNU_SOURCE -I$(srcdir) $(CHECK_CFLAGS)
t_rspreload_calls_LDADD = $(CHECK_LIBS) -ldl -lpthread

RSPRELOAD_TESTS = t/rspreload/calls.test t/rspreload/programs.test
TESTS += $(RSPRELOAD_TESTS)
dist_check_SCRIPTS += $(RSPRELOAD_TESTS)
