# SPDX-License-Identifier: MIT
bin_PROGRAMS += rdmad-run
rdmad_run_SOURCES = \
	run/capture.c \
	run/capture.h \
	run/check.c \
	run/explain.c \
	run/field.h \
	run/impair.c \
	run/hold.c \
	run/junit.c \
	run/hosts.c \
	run/leaks.c \
	run/lesson.c \
	run/install.c \
	run/mounts.c \
	run/options.c \
	run/own.c \
	run/packet.c \
	run/packet.h \
	run/prog.c \
	run/replay.c \
	run/report.c \
	run/report.h \
	run/rules.c \
	run/run.c \
	run/run.h \
	run/say.c \
	run/say.h \
	run/space.c \
	run/space.h \
	run/sweep.c \
	run/sweep.h \
	run/sweep_case.c \
	run/sweep_plan.c \
	run/sweep_report.c \
	run/sysfs.c \
	run/sysfs.h \
	run/tape.c \
	run/tape.h \
	run/tree.c \
	run/watch.c \
	run/watch.h \
	run/xml.h
rdmad_run_LDADD = $(JANSSON_LIBS)
rdmad_run_CPPFLAGS = $(AM_CPPFLAGS) \
	-DRUN_BINDIR='"$(bindir)"' \
	-DRUN_SBINDIR='"$(sbindir)"' \
	-DRUN_PKGLIBDIR='"$(pkglibdir)"' \
	-DRUN_PKGDATADIR='"$(pkgdatadir)"'

# rdmad-run finds it beside itself, or installed.
tooldir = $(pkglibdir)
tool_SCRIPTS = run/rdma
EXTRA_DIST += run/rdma.sh
CLEANFILES += run/rdma
run/rdma: run/rdma.sh
	$(AM_V_GEN)$(MKDIR_P) run && cp $(srcdir)/run/rdma.sh $@.tmp && chmod +x $@.tmp && mv $@.tmp $@
