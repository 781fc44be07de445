# SPDX-License-Identifier: MIT
sim_sources = \
	t/sim/arena.c t/sim/arena.h \
	t/sim/capture.c \
	t/sim/cases.c t/sim/cases.h \
	t/sim/cases_impair.c \
	t/sim/cases_mw.c \
	t/sim/cases_rc.c \
	t/sim/cases_replay.c \
	t/sim/cases_state.c \
	t/sim/cases_ud.c \
	t/sim/cases_wire.c \
	t/sim/cases_xrc.c \
	t/sim/cover.c \
	t/sim/impair.c \
	t/sim/link.c \
	t/sim/masks.c \
	t/sim/model.c t/sim/model.h \
	t/sim/model_check.c \
	t/sim/model_post.c \
	t/sim/runs.h \
	t/sim/sim.c t/sim/sim.h \
	t/sim/swarm.c \
	t/sim/trace.c

noinst_PROGRAMS += t/sim/replay
t_sim_replay_SOURCES = t/sim/replay.c $(sim_sources)
t_sim_replay_LDADD = liblab.a libproto.a $(ISAL_LIBS) $(YAML_LIBS)

check_PROGRAMS += t/sim/check_sim
TESTS += t/sim/check_sim
t_sim_check_sim_SOURCES = t/sim/check_sim.c $(sim_sources)
t_sim_check_sim_LDADD = liblab.a libproto.a $(ISAL_LIBS) $(YAML_LIBS) $(CHECK_LIBS)

check_PROGRAMS += t/sim/check_cm
TESTS += t/sim/check_cm
t_sim_check_cm_SOURCES = t/sim/check_cm.c t/sim/cm_prog.c t/sim/cm_prog.h t/cm_net.c
t_sim_check_cm_LDADD = libproto.a $(CHECK_LIBS)

check_PROGRAMS += t/sim/check_agenda
TESTS += t/sim/check_agenda
t_sim_check_agenda_SOURCES = t/sim/check_agenda.c sim/agenda.c sim/say.c sim/pages.c
t_sim_check_agenda_LDADD = $(CHECK_LIBS)

dist_check_SCRIPTS += t/sim/fabric.test
TESTS += t/sim/fabric.test
