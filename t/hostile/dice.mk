# SPDX-License-Identifier: MIT
# Attacks by dice: t/hostile/clients SEED OPERATIONS.
check_PROGRAMS += t/hostile/clients
TESTS += t/hostile/clients
noinst_HEADERS += t/hostile/foe.h t/hostile/fuse.h
t_hostile_clients_SOURCES = t/hostile/clients.c t/hostile/foe.c t/hostile/foe_fd.c t/hostile/foe_mem.c t/hostile/foe_msg.c t/hostile/fuse.c $(HOSTILE_STAGE)
t_hostile_clients_CPPFLAGS = $(DAEMON_TEST_CPPFLAGS)
t_hostile_clients_LDADD = $(DAEMON_TEST_LIBS)
