# SPDX-License-Identifier: MIT
# Each starts ./rdmad for itself, at an abstract socket of its own.
CTL_TESTS = t/ctl/hostile_msg t/ctl/hostile_ring t/ctl/killed t/ctl/cm t/ctl/cm_id
check_PROGRAMS += $(CTL_TESTS)
TESTS += $(CTL_TESTS) t/ctl/cli.test
dist_check_SCRIPTS += t/ctl/cli.test
noinst_HEADERS += t/ctl/client.h t/ctl/cm_client.h

CTL_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(CHECK_CFLAGS)
CTL_TEST_LIBS = $(CHECK_LIBS) $(JANSSON_LIBS)

t_ctl_hostile_msg_SOURCES = t/ctl/hostile_msg.c t/ctl/client.c
t_ctl_hostile_msg_CPPFLAGS = $(CTL_TEST_CPPFLAGS)
t_ctl_hostile_msg_LDADD = $(CTL_TEST_LIBS)
t_ctl_hostile_ring_SOURCES = t/ctl/hostile_ring.c t/ctl/client.c
t_ctl_hostile_ring_CPPFLAGS = $(CTL_TEST_CPPFLAGS)
t_ctl_hostile_ring_LDADD = $(CTL_TEST_LIBS)
t_ctl_killed_SOURCES = t/ctl/killed.c t/ctl/client.c
t_ctl_killed_CPPFLAGS = $(CTL_TEST_CPPFLAGS)
t_ctl_killed_LDADD = $(CTL_TEST_LIBS)
t_ctl_cm_SOURCES = t/ctl/cm.c t/ctl/cm_client.c
t_ctl_cm_CPPFLAGS = $(CTL_TEST_CPPFLAGS)
t_ctl_cm_LDADD = $(CTL_TEST_LIBS)
t_ctl_cm_id_SOURCES = t/ctl/cm_id.c t/ctl/cm_client.c
t_ctl_cm_id_CPPFLAGS = $(CTL_TEST_CPPFLAGS)
t_ctl_cm_id_LDADD = $(CTL_TEST_LIBS)
check_PROGRAMS += t/ctl/cm_mcast
TESTS += t/ctl/cm_mcast.test
dist_check_SCRIPTS += t/ctl/cm_mcast.test
t_ctl_cm_mcast_SOURCES = t/ctl/cm_mcast.c t/ctl/cm_client.c
t_ctl_cm_mcast_CPPFLAGS = $(CTL_TEST_CPPFLAGS)
t_ctl_cm_mcast_LDADD = -libverbs $(CTL_TEST_LIBS)
