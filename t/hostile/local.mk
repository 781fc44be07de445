# SPDX-License-Identifier: MIT
# Users who do not trust each other, on a daemon of root: each test is one way to harm the others.  Needs root.
HOSTILE_TESTS = t/hostile/cmflood t/hostile/doors t/hostile/dump t/hostile/fds t/hostile/guess t/hostile/huge t/hostile/inject t/hostile/kick t/hostile/memory t/hostile/names t/hostile/quota t/hostile/seen t/hostile/slow t/hostile/turns
check_PROGRAMS += $(HOSTILE_TESTS)
TESTS += $(HOSTILE_TESTS)
noinst_HEADERS += t/hostile/forge.h t/hostile/fuse.h t/hostile/stage.h

# In the sandbox alone, without a daemon: needs nothing.
check_PROGRAMS += t/hostile/sandbox
TESTS += t/hostile/sandbox t/hostile/unit.test t/hostile/systemd.test
dist_check_SCRIPTS += t/hostile/unit.test t/hostile/systemd.test
t_hostile_sandbox_SOURCES = t/hostile/sandbox.c
t_hostile_sandbox_LDADD = libdaemon.a $(SECCOMP_LIBS) $(CHECK_LIBS) -lpthread

check_PROGRAMS += t/hostile/dead_flood
TESTS += t/hostile/dead.test
dist_check_SCRIPTS += t/hostile/dead.test
t_hostile_dead_flood_SOURCES = t/hostile/dead_flood.c
t_hostile_dead_flood_LDADD = -libverbs

HOSTILE_STAGE = t/hostile/stage.c t/daemon/client.c

t_hostile_doors_SOURCES = t/hostile/doors.c $(HOSTILE_STAGE)
t_hostile_doors_LDADD = $(DAEMON_TEST_LIBS)
t_hostile_kick_SOURCES = t/hostile/kick.c $(HOSTILE_STAGE)
t_hostile_kick_LDADD = $(DAEMON_TEST_LIBS) -lpthread
t_hostile_fds_SOURCES = t/hostile/fds.c t/hostile/fuse.c $(HOSTILE_STAGE)
t_hostile_fds_LDADD = $(DAEMON_TEST_LIBS) -lpthread
t_hostile_huge_SOURCES = t/hostile/huge.c $(HOSTILE_STAGE)
t_hostile_huge_LDADD = $(DAEMON_TEST_LIBS)
t_hostile_seen_SOURCES = t/hostile/seen.c $(HOSTILE_STAGE)
t_hostile_seen_LDADD = $(DAEMON_TEST_LIBS)
t_hostile_names_SOURCES = t/hostile/names.c $(HOSTILE_STAGE)
t_hostile_names_LDADD = $(DAEMON_TEST_LIBS)
t_hostile_inject_SOURCES = t/hostile/inject.c t/hostile/forge.c $(HOSTILE_STAGE)
t_hostile_inject_LDADD = libproto.a $(DAEMON_TEST_LIBS) $(ISAL_LIBS)
t_hostile_quota_SOURCES = t/hostile/quota.c $(HOSTILE_STAGE)
t_hostile_quota_LDADD = $(DAEMON_TEST_LIBS)
t_hostile_dump_SOURCES = t/hostile/dump.c $(HOSTILE_STAGE)
t_hostile_dump_LDADD = $(DAEMON_TEST_LIBS)
t_hostile_slow_SOURCES = t/hostile/slow.c $(HOSTILE_STAGE)
t_hostile_slow_LDADD = $(DAEMON_TEST_LIBS)
t_hostile_turns_SOURCES = t/hostile/turns.c $(HOSTILE_STAGE)
t_hostile_turns_LDADD = $(DAEMON_TEST_LIBS)
t_hostile_cmflood_SOURCES = t/hostile/cmflood.c t/hostile/forge.c $(HOSTILE_STAGE)
t_hostile_cmflood_LDADD = libproto.a $(DAEMON_TEST_LIBS) $(ISAL_LIBS)
t_hostile_guess_SOURCES = t/hostile/guess.c t/hostile/forge.c $(HOSTILE_STAGE)
t_hostile_guess_LDADD = libproto.a $(DAEMON_TEST_LIBS) $(ISAL_LIBS)
t_hostile_memory_SOURCES = t/hostile/memory.c t/hostile/fuse.c $(HOSTILE_STAGE)
t_hostile_memory_LDADD = $(DAEMON_TEST_LIBS) -lpthread
