# SPDX-License-Identifier: MIT
EXTRA_DIST += \
	.ci/run \
	contrib/check \
	contrib/installed \
	contrib/quickstart \
	contrib/setup \
	contrib/systemd/rdmad.service \
	contrib/tally
noinst_PROGRAMS += contrib/bench-ref
contrib_bench_ref_SOURCES = contrib/bench-ref.c
contrib_bench_ref_CPPFLAGS = -D_GNU_SOURCE
EXTRA_DIST += contrib/bench
