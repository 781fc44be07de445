# SPDX-License-Identifier: MIT
bin_PROGRAMS += rdmad-sim
rdmad_sim_SOURCES = \
	sim/agenda.c sim/agenda.h \
	sim/csv.c sim/csv.h \
	sim/fabric.c sim/fabric.h \
	sim/host.c sim/host.h \
	sim/main.c \
	sim/packet.c sim/packet.h \
	sim/pages.c sim/pages.h \
	sim/plot.c sim/plot.h \
	sim/port.c sim/port.h \
	sim/rng.h \
	sim/routes.c sim/routes.h \
	sim/say.c sim/say.h \
	sim/summary.c sim/summary.h \
	sim/switch.c sim/switch.h \
	sim/topology.c sim/topology.h \
	sim/topology_check.c sim/topology_check.h \
	sim/topology_file.c \
	sim/workload.c sim/workload.h
rdmad_sim_LDADD = liblab.a libproto.a $(ISAL_LIBS) $(YAML_LIBS)
