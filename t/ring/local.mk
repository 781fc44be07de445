# SPDX-License-Identifier: MIT
check_PROGRAMS += t/ring/litmus t/ring/mail t/ring/ring
TESTS += t/ring/litmus t/ring/mail t/ring/ring
t_ring_litmus_SOURCES = t/ring/litmus.c
t_ring_litmus_LDADD = $(CHECK_LIBS) -lpthread
t_ring_ring_SOURCES = t/ring/ring.c
t_ring_ring_LDADD = $(CHECK_LIBS) -lpthread
t_ring_mail_SOURCES = t/ring/mail.c
t_ring_mail_LDADD = $(CHECK_LIBS) -lpthread
