# SPDX-License-Identifier: MIT
# Each target: a program that replays its corpus (in make check, with any compiler), and with --enable-fuzz
# CC=clang the fuzzer itself.  t/fuzz/burst_fuzz corpus-dir to look for more.

check_PROGRAMS += t/fuzz/burst_replay
TESTS += t/fuzz/burst_replay
t_fuzz_burst_replay_SOURCES = t/fuzz/burst.c t/fuzz/replay.c
t_fuzz_burst_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"burst"'
t_fuzz_burst_replay_LDADD = libproto.a $(ISAL_LIBS)
EXTRA_DIST += t/fuzz/corpus/burst

check_PROGRAMS += t/fuzz/hca_replay
TESTS += t/fuzz/hca_replay
t_fuzz_hca_replay_SOURCES = t/fuzz/hca.c t/fuzz/replay.c
t_fuzz_hca_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"hca"'
t_fuzz_hca_replay_LDADD = libproto.a $(ISAL_LIBS)
EXTRA_DIST += t/fuzz/corpus/hca

check_PROGRAMS += t/fuzz/mad_replay
TESTS += t/fuzz/mad_replay
t_fuzz_mad_replay_SOURCES = t/fuzz/mad.c t/fuzz/replay.c
t_fuzz_mad_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"mad"'
t_fuzz_mad_replay_LDADD = libproto.a
EXTRA_DIST += t/fuzz/corpus/mad

check_PROGRAMS += t/fuzz/pcapng_replay
TESTS += t/fuzz/pcapng_replay
t_fuzz_pcapng_replay_SOURCES = t/fuzz/pcapng.c t/fuzz/replay.c
t_fuzz_pcapng_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"pcapng"'
t_fuzz_pcapng_replay_LDADD = liblab.a
EXTRA_DIST += t/fuzz/corpus/pcapng

check_PROGRAMS += t/fuzz/rules_replay
TESTS += t/fuzz/rules_replay
t_fuzz_rules_replay_SOURCES = t/fuzz/rules.c t/fuzz/replay.c t/fuzz/file.h
t_fuzz_rules_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"rules"'
t_fuzz_rules_replay_LDADD = liblab.a libproto.a $(ISAL_LIBS) $(YAML_LIBS)
EXTRA_DIST += t/fuzz/corpus/rules

TOPOLOGY_FUZZ_READER = sim/topology.c sim/topology_check.c sim/topology_file.c
check_PROGRAMS += t/fuzz/topology_replay
TESTS += t/fuzz/topology_replay
t_fuzz_topology_replay_SOURCES = t/fuzz/topology.c t/fuzz/replay.c t/fuzz/file.h $(TOPOLOGY_FUZZ_READER)
t_fuzz_topology_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"topology"'
t_fuzz_topology_replay_LDADD = liblab.a libproto.a $(YAML_LIBS)
EXTRA_DIST += t/fuzz/corpus/topology

check_PROGRAMS += t/fuzz/words_replay
TESTS += t/fuzz/words_replay
WORDS_FUZZ_READER = daemon/control/impair_spec.c run/packet.c run/replay.c run/say.c
t_fuzz_words_replay_SOURCES = t/fuzz/words.c t/fuzz/replay.c t/fuzz/file.h $(WORDS_FUZZ_READER)
t_fuzz_words_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"words"'
t_fuzz_words_replay_LDADD = liblab.a libproto.a $(ISAL_LIBS) $(YAML_LIBS) $(JANSSON_LIBS)
EXTRA_DIST += t/fuzz/corpus/words

CAPTURE_FUZZ_READERS = ctl/captures.c ctl/clocks.c ctl/check.c ctl/check_cm.c ctl/check_req.c ctl/check_resp.c ctl/conv.c \
	ctl/daemon.c ctl/find.c ctl/frame.c ctl/ladder.c ctl/ladder_cm.c ctl/ladder_conn.c ctl/ladder_fate.c ctl/ladder_fold.c \
	ctl/ladder_json.c ctl/ladder_map.c ctl/ladder_page.c ctl/ladder_read.c ctl/ladder_svg.c ctl/show.c ctl/source.c ctl/usage.c
CAPTURE_FUZZ_LIBS = liblab.a libproto.a $(ISAL_LIBS) $(JANSSON_LIBS) -lm
check_PROGRAMS += t/fuzz/capture_replay
TESTS += t/fuzz/capture_replay
t_fuzz_capture_replay_SOURCES = t/fuzz/capture.c t/fuzz/replay.c t/fuzz/file.h $(CAPTURE_FUZZ_READERS)
t_fuzz_capture_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"capture"'
t_fuzz_capture_replay_LDADD = $(CAPTURE_FUZZ_LIBS)
EXTRA_DIST += t/fuzz/corpus/capture

if FUZZ
noinst_PROGRAMS += t/fuzz/rules_fuzz
t_fuzz_rules_fuzz_SOURCES = t/fuzz/rules.c
t_fuzz_rules_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_rules_fuzz_LDADD = liblab.a libproto.a $(ISAL_LIBS) $(YAML_LIBS)
noinst_PROGRAMS += t/fuzz/topology_fuzz
t_fuzz_topology_fuzz_SOURCES = t/fuzz/topology.c $(TOPOLOGY_FUZZ_READER)
t_fuzz_topology_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_topology_fuzz_LDADD = liblab.a libproto.a $(YAML_LIBS)
noinst_PROGRAMS += t/fuzz/words_fuzz
t_fuzz_words_fuzz_SOURCES = t/fuzz/words.c $(WORDS_FUZZ_READER)
t_fuzz_words_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_words_fuzz_LDADD = liblab.a libproto.a $(ISAL_LIBS) $(YAML_LIBS) $(JANSSON_LIBS)
noinst_PROGRAMS += t/fuzz/capture_fuzz
t_fuzz_capture_fuzz_SOURCES = t/fuzz/capture.c $(CAPTURE_FUZZ_READERS)
t_fuzz_capture_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_capture_fuzz_LDADD = $(CAPTURE_FUZZ_LIBS)
noinst_PROGRAMS += t/fuzz/burst_fuzz
t_fuzz_burst_fuzz_SOURCES = t/fuzz/burst.c
t_fuzz_burst_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_burst_fuzz_LDADD = libproto.a $(ISAL_LIBS)
noinst_PROGRAMS += t/fuzz/hca_fuzz
t_fuzz_hca_fuzz_SOURCES = t/fuzz/hca.c
t_fuzz_hca_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_hca_fuzz_LDADD = libproto.a $(ISAL_LIBS)
noinst_PROGRAMS += t/fuzz/mad_fuzz
t_fuzz_mad_fuzz_SOURCES = t/fuzz/mad.c
t_fuzz_mad_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_mad_fuzz_LDADD = libproto.a
noinst_PROGRAMS += t/fuzz/pcapng_fuzz
t_fuzz_pcapng_fuzz_SOURCES = t/fuzz/pcapng.c
t_fuzz_pcapng_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_pcapng_fuzz_LDADD = liblab.a
endif

CTL_FUZZ_LIBS = libdaemon.a liblab.a libproto.a $(EV_LIBS) $(CONFUSE_LIBS) $(YAML_LIBS) $(JANSSON_LIBS) $(CRYPTO_LIBS) $(ISAL_LIBS) -lpthread
check_PROGRAMS += t/fuzz/ctl_replay
TESTS += t/fuzz/ctl_replay
t_fuzz_ctl_replay_SOURCES = t/fuzz/ctl.c t/fuzz/ctl_rest.c t/fuzz/replay.c
t_fuzz_ctl_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"ctl"'
t_fuzz_ctl_replay_LDADD = $(CTL_FUZZ_LIBS)
EXTRA_DIST += t/fuzz/corpus/ctl

check_PROGRAMS += t/fuzz/conf_replay
TESTS += t/fuzz/conf_replay
t_fuzz_conf_replay_SOURCES = t/fuzz/conf.c t/fuzz/replay.c t/fuzz/file.h
t_fuzz_conf_replay_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"conf"'
t_fuzz_conf_replay_LDADD = $(CTL_FUZZ_LIBS)
EXTRA_DIST += t/fuzz/corpus/conf

if FUZZ
noinst_PROGRAMS += t/fuzz/conf_fuzz
t_fuzz_conf_fuzz_SOURCES = t/fuzz/conf.c
t_fuzz_conf_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_conf_fuzz_LDADD = $(CTL_FUZZ_LIBS)
noinst_PROGRAMS += t/fuzz/ctl_fuzz
t_fuzz_ctl_fuzz_SOURCES = t/fuzz/ctl.c t/fuzz/ctl_rest.c
t_fuzz_ctl_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_ctl_fuzz_LDADD = $(CTL_FUZZ_LIBS)
endif
