# SPDX-License-Identifier: MIT
PROTO_TESTS = \
	t/proto/aeth \
	t/proto/burst \
	t/proto/cm_end \
	t/proto/cm_golden \
	t/proto/cm_state \
	t/proto/cm_strange \
	t/proto/cm_forged \
	t/proto/secret \
	t/proto/core_ack \
	t/proto/core_cnp \
	t/proto/core_cong \
	t/proto/core_edge \
	t/proto/core_fault \
	t/proto/core_keep \
	t/proto/core_loss \
	t/proto/core_mend \
	t/proto/core_ops \
	t/proto/core_pace \
	t/proto/core_path \
	t/proto/core_cntr \
	t/proto/core_psn \
	t/proto/core_rate \
	t/proto/core_rnr \
	t/proto/core_route \
	t/proto/core_rtt \
	t/proto/core_turns \
	t/proto/crowd \
	t/proto/core_mr \
	t/proto/core_flush \
	t/proto/core_mw \
	t/proto/keys \
	t/proto/pkey \
	t/proto/core_xrc \
	t/proto/core_qp \
	t/proto/ghost \
	t/proto/frame \
	t/proto/golden \
	t/proto/gsi \
	t/proto/icrc \
	t/proto/qp_state \
	t/proto/seq \
	t/proto/why \
	t/proto/wr
check_PROGRAMS += $(PROTO_TESTS)
TESTS += $(PROTO_TESTS)

noinst_HEADERS += t/cm_net.h t/maps.h t/nap.h t/pcap.h t/suite.h t/turn.h t/xorshift.h t/proto/cm_duo.h t/proto/rig.h
PROTO_TEST_LIBS = libproto.a $(CHECK_LIBS) $(ISAL_LIBS)

t_proto_aeth_SOURCES = t/proto/aeth.c
t_proto_aeth_LDADD = $(PROTO_TEST_LIBS) -lm
t_proto_burst_SOURCES = t/proto/burst.c
t_proto_burst_LDADD = $(PROTO_TEST_LIBS)
t_proto_cm_end_SOURCES = t/proto/cm_end.c t/cm_net.c
t_proto_cm_end_LDADD = $(PROTO_TEST_LIBS)
t_proto_cm_golden_SOURCES = t/proto/cm_golden.c t/pcap.c
t_proto_cm_golden_LDADD = $(PROTO_TEST_LIBS)
t_proto_cm_state_SOURCES = t/proto/cm_state.c t/proto/cm_duo.c t/cm_net.c
t_proto_cm_state_LDADD = $(PROTO_TEST_LIBS)
t_proto_cm_forged_SOURCES = t/proto/cm_forged.c t/proto/cm_duo.c t/cm_net.c
t_proto_cm_forged_LDADD = $(PROTO_TEST_LIBS)
t_proto_secret_SOURCES = t/proto/secret.c
t_proto_secret_LDADD = $(PROTO_TEST_LIBS)
t_proto_cm_strange_SOURCES = t/proto/cm_strange.c t/proto/cm_duo.c t/cm_net.c
t_proto_cm_strange_LDADD = $(PROTO_TEST_LIBS)
t_proto_pkey_SOURCES = t/proto/pkey.c t/proto/rig.c
t_proto_pkey_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_cong_SOURCES = t/proto/core_cong.c
t_proto_core_cong_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_cnp_SOURCES = t/proto/core_cnp.c t/proto/rig.c
t_proto_core_cnp_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_fault_SOURCES = t/proto/core_fault.c t/proto/rig.c
t_proto_core_fault_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_keep_SOURCES = t/proto/core_keep.c t/proto/rig.c
t_proto_core_keep_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_loss_SOURCES = t/proto/core_loss.c t/proto/rig.c
t_proto_core_loss_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_mr_SOURCES = t/proto/core_mr.c t/proto/rig.c
t_proto_core_mr_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_mw_SOURCES = t/proto/core_mw.c t/proto/rig.c
t_proto_core_mw_LDADD = $(PROTO_TEST_LIBS)
t_proto_ghost_SOURCES = t/proto/ghost.c t/proto/rig.c
t_proto_ghost_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_edge_SOURCES = t/proto/core_edge.c t/proto/rig.c
t_proto_core_edge_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_xrc_SOURCES = t/proto/core_xrc.c t/proto/rig.c
t_proto_core_xrc_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_flush_SOURCES = t/proto/core_flush.c t/proto/rig.c
t_proto_core_flush_LDADD = $(PROTO_TEST_LIBS)
t_proto_keys_SOURCES = t/proto/keys.c t/proto/rig.c
t_proto_keys_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_qp_SOURCES = t/proto/core_qp.c t/proto/rig.c
t_proto_core_qp_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_pace_SOURCES = t/proto/core_pace.c t/proto/rig.c
t_proto_core_pace_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_ack_SOURCES = t/proto/core_ack.c t/proto/rig.c
t_proto_core_ack_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_mend_SOURCES = t/proto/core_mend.c t/proto/rig.c
t_proto_core_mend_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_psn_SOURCES = t/proto/core_psn.c t/proto/rig.c
t_proto_core_psn_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_path_SOURCES = t/proto/core_path.c t/proto/rig.c
t_proto_core_path_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_turns_SOURCES = t/proto/core_turns.c t/proto/rig.c
t_proto_core_turns_LDADD = $(PROTO_TEST_LIBS)
t_proto_crowd_SOURCES = t/proto/crowd.c t/proto/rig.c
t_proto_crowd_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_rnr_SOURCES = t/proto/core_rnr.c t/proto/rig.c
t_proto_core_rnr_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_route_SOURCES = t/proto/core_route.c t/proto/rig.c
t_proto_core_route_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_rtt_SOURCES = t/proto/core_rtt.c t/proto/rig.c
t_proto_core_rtt_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_cntr_SOURCES = t/proto/core_cntr.c t/proto/rig.c
t_proto_core_cntr_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_rate_SOURCES = t/proto/core_rate.c t/proto/rig.c
t_proto_core_rate_LDADD = $(PROTO_TEST_LIBS)
t_proto_core_ops_SOURCES = t/proto/core_ops.c t/proto/rig.c
t_proto_core_ops_LDADD = $(PROTO_TEST_LIBS)
t_proto_frame_SOURCES = t/proto/frame.c
t_proto_frame_LDADD = $(PROTO_TEST_LIBS)
t_proto_golden_SOURCES = t/proto/golden.c t/pcap.c
t_proto_golden_LDADD = $(PROTO_TEST_LIBS)
t_proto_gsi_SOURCES = t/proto/gsi.c t/proto/rig.c
t_proto_gsi_LDADD = $(PROTO_TEST_LIBS)
t_proto_icrc_SOURCES = t/proto/icrc.c
t_proto_icrc_LDADD = $(PROTO_TEST_LIBS)
t_proto_qp_state_SOURCES = t/proto/qp_state.c
t_proto_qp_state_LDADD = $(PROTO_TEST_LIBS)
t_proto_seq_SOURCES = t/proto/seq.c
t_proto_seq_LDADD = $(PROTO_TEST_LIBS)

EXTRA_DIST += \
	t/data/cm-reject.pcap \
	t/data/cm-ud.pcap \
	t/data/ipv6-rc.pcap \
	t/data/rc-atomic-cs.pcap \
	t/data/rc-atomic-fa.pcap \
	t/data/rc-pingpong.pcap \
	t/data/rc-read.pcap \
	t/data/rc-rping.pcap \
	t/data/rc-write.pcap \
	t/data/rsocket.pcap \
	t/data/uc-pingpong.pcap \
	t/data/ud-pingpong.pcap \
	t/data/vectors.txt
t_proto_wr_SOURCES = t/proto/wr.c t/proto/rig.c
t_proto_wr_LDADD = $(PROTO_TEST_LIBS)
t_proto_why_SOURCES = t/proto/why.c t/proto/rig.c
t_proto_why_LDADD = $(PROTO_TEST_LIBS)
