# SPDX-License-Identifier: MIT
# The data half of the daemon, without its control half.
EDGE_TESTS = t/edge/answer t/edge/fault t/edge/place t/edge/region t/edge/rights t/edge/said t/edge/why
TESTS += t/edge/wire.test
dist_check_SCRIPTS += t/edge/wire.test
check_PROGRAMS += $(EDGE_TESTS) t/edge/wire
TESTS += $(EDGE_TESTS)
EDGE_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(CHECK_CFLAGS)

t_edge_answer_SOURCES = t/edge/answer.c
t_edge_answer_CPPFLAGS = $(EDGE_CPPFLAGS)
t_edge_answer_LDADD = libdaemon.a $(CHECK_LIBS)
t_edge_fault_SOURCES = t/edge/fault.c t/interop/dice.c
t_edge_fault_CPPFLAGS = $(EDGE_CPPFLAGS)
t_edge_fault_LDADD = libdaemon.a $(CHECK_LIBS) -lm
t_edge_place_SOURCES = t/edge/place.c
t_edge_place_CPPFLAGS = $(EDGE_CPPFLAGS)
t_edge_place_LDADD = libdaemon.a $(CHECK_LIBS)
t_edge_region_SOURCES = t/edge/region.c
t_edge_region_CPPFLAGS = $(EDGE_CPPFLAGS)
t_edge_region_LDADD = libdaemon.a $(CHECK_LIBS)
t_edge_rights_SOURCES = t/edge/rights.c
t_edge_rights_CPPFLAGS = $(EDGE_CPPFLAGS)
t_edge_rights_LDADD = libdaemon.a $(CHECK_LIBS)
t_edge_said_SOURCES = t/edge/said.c t/proto/rig.c
t_edge_said_CPPFLAGS = $(EDGE_CPPFLAGS)
# What a row leaves out is 0.
t_edge_said_CFLAGS = $(AM_CFLAGS) -Wno-missing-field-initializers
t_edge_said_LDADD = libdaemon.a libproto.a $(CHECK_LIBS) $(ISAL_LIBS)
t_edge_why_SOURCES = t/edge/why.c
t_edge_why_CPPFLAGS = $(EDGE_CPPFLAGS)
t_edge_why_LDADD = libdaemon.a liblab.a libproto.a $(EV_LIBS) $(URING_LIBS) $(CRYPTO_LIBS) $(ISAL_LIBS) $(JANSSON_LIBS) $(CONFUSE_LIBS) $(YAML_LIBS) \
	$(CHECK_LIBS) -lpthread
t_edge_wire_SOURCES = t/edge/wire.c
t_edge_wire_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
t_edge_wire_LDADD = libdaemon.a liblab.a libproto.a $(YAML_LIBS) $(JANSSON_LIBS) $(EV_LIBS) $(URING_LIBS) $(CRYPTO_LIBS) $(ISAL_LIBS) -lpthread
