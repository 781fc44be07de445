# SPDX-License-Identifier: MIT
# Each starts ./rdmad for itself, at an abstract socket of its own.
DAEMON_TESTS = t/daemon/hostile_msg t/daemon/hostile_qp t/daemon/hostile_ring t/daemon/hostile_seg t/daemon/guest t/daemon/held t/daemon/touch t/daemon/idlers t/daemon/killed t/daemon/log_full t/daemon/cm t/daemon/cm_id t/daemon/cm_qp t/daemon/mail
check_PROGRAMS += $(DAEMON_TESTS)
TESTS += $(DAEMON_TESTS) t/daemon/cli.test
dist_check_SCRIPTS += t/daemon/cli.test
noinst_HEADERS += t/daemon/client.h t/daemon/cm_client.h t/daemon/program.h

DAEMON_TEST_LIBS = $(CHECK_LIBS) $(JANSSON_LIBS)

t_daemon_hostile_msg_SOURCES = t/daemon/hostile_msg.c t/daemon/client.c
t_daemon_hostile_msg_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_hostile_qp_SOURCES = t/daemon/hostile_qp.c t/daemon/client.c
t_daemon_hostile_qp_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_hostile_ring_SOURCES = t/daemon/hostile_ring.c t/daemon/client.c
t_daemon_hostile_ring_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_hostile_seg_SOURCES = t/daemon/hostile_seg.c t/daemon/client.c
t_daemon_hostile_seg_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_guest_SOURCES = t/daemon/guest.c t/daemon/client.c
t_daemon_guest_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_idlers_SOURCES = t/daemon/idlers.c t/daemon/client.c
t_daemon_idlers_LDADD = $(DAEMON_TEST_LIBS) -lpthread
t_daemon_log_full_SOURCES = t/daemon/log_full.c t/daemon/client.c
t_daemon_log_full_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_mail_SOURCES = t/daemon/mail.c t/daemon/client.c
t_daemon_mail_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_killed_SOURCES = t/daemon/killed.c t/daemon/client.c
t_daemon_killed_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_cm_SOURCES = t/daemon/cm.c t/daemon/cm_client.c
t_daemon_cm_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_cm_id_SOURCES = t/daemon/cm_id.c t/daemon/cm_client.c
t_daemon_cm_id_LDADD = $(DAEMON_TEST_LIBS)
t_daemon_cm_qp_SOURCES = t/daemon/cm_qp.c t/daemon/cm_client.c
t_daemon_cm_qp_LDADD = $(DAEMON_TEST_LIBS)
check_PROGRAMS += t/daemon/cm_mcast
TESTS += t/daemon/cm_mcast.test
dist_check_SCRIPTS += t/daemon/cm_mcast.test
t_daemon_cm_mcast_SOURCES = t/daemon/cm_mcast.c t/daemon/cm_client.c
t_daemon_cm_mcast_LDADD = -libverbs $(DAEMON_TEST_LIBS)

check_PROGRAMS += t/daemon/no_fd
TESTS += t/daemon/no_fd.test
dist_check_SCRIPTS += t/daemon/no_fd.test
t_daemon_no_fd_SOURCES = t/daemon/no_fd.c t/daemon/client.c
t_daemon_no_fd_LDADD = -libverbs $(DAEMON_TEST_LIBS)

# The data half of the daemon, without its control half.
SHARD_TESTS = t/daemon/answer t/daemon/cma_ask t/daemon/cma_turn t/daemon/copier t/daemon/cpu t/daemon/drain t/daemon/foreign t/daemon/idle t/daemon/impair t/daemon/linger t/daemon/net_row t/daemon/net_rx t/daemon/net_send t/daemon/outlet t/daemon/overdue t/daemon/quota t/daemon/raw t/daemon/region t/daemon/region_side t/daemon/region_step t/daemon/rights t/daemon/ring_ops t/daemon/said t/daemon/said_key t/daemon/segment t/daemon/spin t/daemon/stop t/daemon/waits t/daemon/why t/daemon/why_own
TESTS += t/daemon/notify.test t/daemon/reload.test t/daemon/shards.test t/daemon/wire.test
dist_check_SCRIPTS += t/daemon/notify.test t/daemon/reload.test t/daemon/shards.test t/daemon/wire.test
check_PROGRAMS += $(SHARD_TESTS) t/daemon/wire
TESTS += $(SHARD_TESTS)

t_daemon_answer_SOURCES = t/daemon/answer.c
t_daemon_answer_LDADD = libdaemon.a $(CHECK_LIBS)
t_daemon_outlet_SOURCES = t/daemon/outlet.c
t_daemon_outlet_LDADD = $(t_daemon_why_LDADD)
t_daemon_held_SOURCES = t/daemon/held.c
t_daemon_held_LDADD = $(t_daemon_why_LDADD)
t_daemon_touch_SOURCES = t/daemon/touch.c
t_daemon_touch_LDADD = $(t_daemon_why_LDADD)
t_daemon_linger_SOURCES = t/daemon/linger.c
t_daemon_linger_LDADD = $(t_daemon_why_LDADD)
t_daemon_spin_SOURCES = t/daemon/spin.c
t_daemon_spin_LDADD = $(t_daemon_why_LDADD)
# The program has the agents itself.
t_daemon_cma_ask_SOURCES = t/daemon/cma_ask.c
t_daemon_cma_ask_LDADD = $(t_daemon_why_LDADD)
t_daemon_cma_turn_SOURCES = t/daemon/cma_turn.c
t_daemon_cma_turn_LDADD = $(t_daemon_why_LDADD)
t_daemon_drain_SOURCES = t/daemon/drain.c t/daemon/program.c
t_daemon_drain_LDADD = $(t_daemon_why_LDADD)
t_daemon_foreign_SOURCES = t/daemon/foreign.c
t_daemon_foreign_LDADD = libdaemon.a $(CHECK_LIBS) -lpthread
t_daemon_idle_SOURCES = t/daemon/idle.c t/daemon/program.c
t_daemon_idle_LDADD = $(t_daemon_why_LDADD)
t_daemon_impair_SOURCES = t/daemon/impair.c t/interop/dice.c
t_daemon_impair_LDADD = libdaemon.a $(CHECK_LIBS) -lm
t_daemon_overdue_SOURCES = t/daemon/overdue.c t/daemon/program.c
t_daemon_overdue_LDADD = $(t_daemon_why_LDADD)
t_daemon_cpu_SOURCES = t/daemon/cpu.c
t_daemon_cpu_LDADD = libdaemon.a $(CHECK_LIBS)
t_daemon_net_rx_SOURCES = t/daemon/net_rx.c t/daemon/program.c
t_daemon_net_rx_LDADD = $(t_daemon_why_LDADD)
t_daemon_net_send_SOURCES = t/daemon/net_send.c t/daemon/program.c t/daemon/client.c
t_daemon_net_send_LDADD = $(t_daemon_why_LDADD)
t_daemon_raw_SOURCES = t/daemon/raw.c t/daemon/program.c t/daemon/client.c
t_daemon_raw_LDADD = $(t_daemon_why_LDADD)
t_daemon_net_row_SOURCES = t/daemon/net_row.c t/daemon/program.c
t_daemon_net_row_LDADD = $(t_daemon_why_LDADD)
t_daemon_stop_SOURCES = t/daemon/stop.c
t_daemon_stop_LDADD = $(t_daemon_why_LDADD)
t_daemon_copier_SOURCES = t/daemon/copier.c
t_daemon_copier_LDADD = libdaemon.a $(CHECK_LIBS) -lpthread
t_daemon_quota_SOURCES = t/daemon/quota.c
t_daemon_quota_LDADD = libdaemon.a $(CHECK_LIBS)
t_daemon_region_SOURCES = t/daemon/region.c
t_daemon_region_LDADD = libdaemon.a $(CHECK_LIBS)
t_daemon_region_step_SOURCES = t/daemon/region_step.c
t_daemon_region_step_LDADD = libdaemon.a $(CHECK_LIBS)
t_daemon_region_side_SOURCES = t/daemon/region_side.c
t_daemon_region_side_LDADD = libdaemon.a $(CHECK_LIBS)
t_daemon_rights_SOURCES = t/daemon/rights.c
t_daemon_rights_LDADD = libdaemon.a $(CHECK_LIBS)
t_daemon_ring_ops_SOURCES = t/daemon/ring_ops.c
t_daemon_ring_ops_LDADD = libdaemon.a $(URING_LIBS) $(CHECK_LIBS)
t_daemon_said_SOURCES = t/daemon/said.c t/daemon/said.h t/proto/rig.c
# Fields that a row leaves out are 0.
t_daemon_said_CFLAGS = $(AM_CFLAGS) -Wno-missing-field-initializers
t_daemon_said_LDADD = libdaemon.a libproto.a $(CHECK_LIBS) $(ISAL_LIBS)
t_daemon_said_key_SOURCES = t/daemon/said_key.c t/daemon/said.h t/proto/rig.c
# Fields that a row leaves out are 0.
t_daemon_said_key_CFLAGS = $(AM_CFLAGS) -Wno-missing-field-initializers
t_daemon_said_key_LDADD = libdaemon.a libproto.a $(CHECK_LIBS) $(ISAL_LIBS)
t_daemon_segment_SOURCES = t/daemon/segment.c
t_daemon_segment_LDADD = libdaemon.a $(CHECK_LIBS)
t_daemon_waits_SOURCES = t/daemon/waits.c
t_daemon_waits_LDADD = $(t_daemon_why_LDADD)
t_daemon_why_SOURCES = t/daemon/why.c
t_daemon_why_LDADD = libdaemon.a liblab.a libproto.a $(EV_LIBS) $(URING_LIBS) $(CRYPTO_LIBS) $(ISAL_LIBS) $(JANSSON_LIBS) $(CONFUSE_LIBS) $(YAML_LIBS) \
	$(CHECK_LIBS) -lpthread
t_daemon_why_own_SOURCES = t/daemon/why_own.c
t_daemon_why_own_LDADD = $(t_daemon_why_LDADD)
t_daemon_wire_SOURCES = t/daemon/wire.c
t_daemon_wire_LDADD = libdaemon.a liblab.a libproto.a $(YAML_LIBS) $(JANSSON_LIBS) $(EV_LIBS) $(URING_LIBS) $(CRYPTO_LIBS) $(ISAL_LIBS) -lpthread
