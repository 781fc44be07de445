# SPDX-License-Identifier: MIT
check_LTLIBRARIES += t/scarce/inject.la
t_scarce_inject_la_SOURCES = t/scarce/inject.c t/scarce/inject.h
t_scarce_inject_la_CFLAGS = $(AM_CFLAGS) -fno-builtin
t_scarce_inject_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /none
t_scarce_inject_la_LIBADD = -ldl

check_PROGRAMS += t/scarce/scarce
t_scarce_scarce_SOURCES = \
	t/daemon/client.c \
	t/scarce/inject.h \
	t/scarce/scarce.c \
	t/scarce/scarce.h \
	t/scarce/streams.c \
	t/scarce/verbs.c
t_scarce_scarce_LDADD = -lrdmacm -libverbs $(DAEMON_TEST_LIBS) -ldl -lpthread

SCARCE_TESTS = t/scarce/scarce.test
TESTS += $(SCARCE_TESTS)
dist_check_SCRIPTS += $(SCARCE_TESTS)
