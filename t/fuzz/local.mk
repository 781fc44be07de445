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

if FUZZ
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

if FUZZ
noinst_PROGRAMS += t/fuzz/ctl_fuzz
t_fuzz_ctl_fuzz_SOURCES = t/fuzz/ctl.c t/fuzz/ctl_rest.c
t_fuzz_ctl_fuzz_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_CFLAGS)
t_fuzz_ctl_fuzz_LDADD = $(CTL_FUZZ_LIBS)
endif
