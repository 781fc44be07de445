# SPDX-License-Identifier: MIT
# Attacks by dice: t/hostile/clients SEED OPERATIONS, t/hostile/peers SEED PACKETS.
check_PROGRAMS += t/hostile/clients t/hostile/peers
TESTS += t/hostile/clients t/hostile/peers
noinst_HEADERS += t/hostile/foe.h t/hostile/fuse.h t/hostile/pair.h t/hostile/stranger.h
t_hostile_clients_SOURCES = t/hostile/clients.c t/hostile/foe.c t/hostile/foe_fd.c t/hostile/foe_mem.c t/hostile/foe_msg.c t/hostile/fuse.c $(HOSTILE_STAGE)
t_hostile_clients_LDADD = $(DAEMON_TEST_LIBS)
t_hostile_peers_SOURCES = t/hostile/peers.c t/hostile/pair.c t/hostile/stranger.c $(HOSTILE_STAGE)
t_hostile_peers_LDADD = libproto.a $(ISAL_LIBS) $(DAEMON_TEST_LIBS)
