# SPDX-License-Identifier: MIT
check_PROGRAMS += t/e2e/rawsend
t_e2e_rawsend_SOURCES = t/e2e/rawsend.c
t_e2e_rawsend_CPPFLAGS =
t_e2e_rawsend_LDADD = -libverbs
check_PROGRAMS += t/e2e/fate t/e2e/rail t/e2e/vdata t/e2e/puppet
t_e2e_fate_SOURCES = t/e2e/fate.c
t_e2e_fate_CPPFLAGS =
t_e2e_fate_LDADD = -libverbs
t_e2e_rail_SOURCES = t/e2e/rail.c
t_e2e_rail_CPPFLAGS = -D_GNU_SOURCE
t_e2e_rail_LDADD = -lrdmacm -libverbs -lpthread
t_e2e_puppet_SOURCES = t/e2e/puppet.c
t_e2e_puppet_CPPFLAGS =
t_e2e_puppet_LDADD = -libverbs
t_e2e_vdata_SOURCES = \
	t/e2e/vdata.c \
	t/e2e/vdata.h \
	t/e2e/vdata_dgram.c \
	t/e2e/vdata_err.c \
	t/e2e/vdata_err_local.c \
	t/e2e/vdata_move.c \
	t/e2e/vdata_net.c \
	t/e2e/vdata_scene.c \
	t/e2e/vdata_scene.h \
	t/e2e/vdata_window.c
t_e2e_vdata_CPPFLAGS =
t_e2e_vdata_LDADD = -libverbs -lpthread
check_PROGRAMS += t/e2e/store
t_e2e_store_SOURCES = \
	t/e2e/store.c \
	t/e2e/store.h \
	t/e2e/store_initiator.c \
	t/e2e/store_target.c
t_e2e_store_CPPFLAGS =
t_e2e_store_LDADD = -lrdmacm -libverbs -lpthread
# Nothing to be installed: -rpath is what makes libtool build a shared object.
check_LTLIBRARIES = t/e2e/clock.la
t_e2e_clock_la_SOURCES = t/e2e/clock.c
t_e2e_clock_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /none

E2E_TESTS = \
	t/e2e/alone.test \
	t/e2e/capture.test \
	t/e2e/cnp.test \
	t/e2e/fault-conf.test \
	t/e2e/fault.test \
	t/e2e/icrc.test \
	t/e2e/ipv6.test \
	t/e2e/kill.test \
	t/e2e/loss.test \
	t/e2e/mark.test \
	t/e2e/one.test \
	t/e2e/pace.test \
	t/e2e/peer.test \
	t/e2e/pkey.test \
	t/e2e/ports.test \
	t/e2e/why.test \
	t/e2e/raw.test \
	t/e2e/refused.test \
	t/e2e/run.test \
	t/e2e/store.test \
	t/e2e/tunnel.test \
	t/e2e/two.test \
	t/e2e/wire-1500.test \
	t/e2e/wire-9000.test
TESTS += $(E2E_TESTS)
dist_check_SCRIPTS += $(E2E_TESTS)
EXTRA_DIST += \
	t/e2e/cases.py \
	t/e2e/icrc.py \
	t/e2e/jail.py \
	t/e2e/lab.py \
	t/e2e/places.py \
	t/e2e/puppet.py \
	t/e2e/roce.py \
	t/e2e/sandbox.py \
	t/e2e/sniff.py
