# SPDX-License-Identifier: MIT
# One file a command, and a row in command.def.
bin_PROGRAMS += rdmactl
noinst_HEADERS += \
	ctl/beside.h \
	ctl/capfile.h \
	ctl/captures.h \
	ctl/clocks.h \
	ctl/check.def \
	ctl/check_in.h \
	ctl/command.def \
	ctl/command.h \
	ctl/conv.h \
	ctl/daemon.h \
	ctl/doctor.h \
	ctl/find.h \
	ctl/frame.h \
	ctl/ladder.h \
	ctl/ladder_fold.h \
	ctl/ladder_live.h \
	ctl/ladder_text.h \
	ctl/metrics.h \
	ctl/show.h \
	ctl/source.h \
	ctl/term.h \
	ctl/top.h
rdmactl_SOURCES = \
	ctl/beside.c \
	ctl/capfile.c \
	ctl/capture.c \
	ctl/captures.c \
	ctl/cdi.c \
	ctl/clocks.c \
	ctl/check.c \
	ctl/check_cm.c \
	ctl/check_req.c \
	ctl/check_resp.c \
	ctl/conv.c \
	ctl/daemon.c \
	ctl/devices.c \
	ctl/doctor.c \
	ctl/doctor_cm.c \
	ctl/doctor_net.c \
	ctl/fault.c \
	ctl/find.c \
	ctl/frame.c \
	ctl/ladder.c \
	ctl/ladder_cm.c \
	ctl/ladder_conn.c \
	ctl/ladder_fate.c \
	ctl/ladder_fold.c \
	ctl/ladder_json.c \
	ctl/ladder_live.c \
	ctl/ladder_map.c \
	ctl/ladder_page.c \
	ctl/ladder_read.c \
	ctl/ladder_svg.c \
	ctl/metrics.c \
	ctl/qps.c \
	ctl/rdmactl.c \
	ctl/replay.c \
	ctl/show.c \
	ctl/source.c \
	ctl/stats.c \
	ctl/term.c \
	ctl/top.c \
	ctl/top_take.c \
	ctl/top_text.c \
	ctl/trace.c \
	ctl/usage.c \
	ctl/users.c \
	ctl/why.c
rdmactl_CPPFLAGS = $(AM_CPPFLAGS) -DCTL_PKGLIBDIR='"$(pkglibdir)"'
rdmactl_LDADD = liblab.a libproto.a $(YAML_LIBS) $(ISAL_LIBS) $(JANSSON_LIBS) -lm

# The page of ladder is made of these.
PAGE_PARTS = \
	ctl/page/picture.css \
	ctl/page/page.css \
	ctl/page/page.html \
	ctl/page/model.js \
	ctl/page/svg.js \
	ctl/page/draw.js \
	ctl/page/ui.js
EXTRA_DIST += $(PAGE_PARTS) ctl/page/text.sh
BUILT_SOURCES += ctl/page_text.h
CLEANFILES += ctl/page_text.h
ctl/page_text.h: $(PAGE_PARTS) ctl/page/text.sh
	$(AM_V_GEN)$(MKDIR_P) ctl && parts=; for p in $(PAGE_PARTS); do parts="$$parts $(srcdir)/$$p"; done; \
		sh $(srcdir)/ctl/page/text.sh $$parts >$@.tmp && mv $@.tmp $@
ctl/ladder_page.$(OBJEXT): ctl/page_text.h
