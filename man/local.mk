# SPDX-License-Identifier: MIT
dist_man_MANS += \
	man/rdmactl-capture.8 \
	man/rdmactl-ladder.8 \
	man/rdmad-ci.1 \
	man/rdmad-run.1 \
	man/rdmad-sim.1 \
	man/rdmad-cm.7 \
	man/rdmad-fault.5 \
	man/rdmad-interop.7 \
	man/rdmad.7 \
	man/rdmad.8
# These have lists that come from the code.
nodist_man_MANS = \
	man/rdmactl-check.8 \
	man/rdmactl.8 \
	man/rdmad-profiles.7 \
	man/rdmad-verbs.7 \
	man/rdmad-why.7 \
	man/rdmad.conf.5
EXTRA_DIST += \
	man/ladder.svg \
	man/fill.awk \
	man/rdmactl-check.8.in \
	man/rdmactl.8.in \
	man/rdmad-profiles.7.in \
	man/rdmad-verbs.7.in \
	man/rdmad-why.7.in \
	man/rdmad.conf.5.in
CLEANFILES += $(nodist_man_MANS)

man/rdmactl.8: man/rdmactl.8.in man/fill.awk proto/stats.def
	$(AM_V_GEN)$(MKDIR_P) man && $(AWK) -f $(srcdir)/man/fill.awk $(srcdir)/proto/stats.def $(srcdir)/man/rdmactl.8.in >$@.tmp && mv $@.tmp $@
man/rdmad.conf.5: man/rdmad.conf.5.in man/fill.awk daemon/base/quota.def
	$(AM_V_GEN)$(MKDIR_P) man && $(AWK) -f $(srcdir)/man/fill.awk $(srcdir)/daemon/base/quota.def $(srcdir)/man/rdmad.conf.5.in >$@.tmp && mv $@.tmp $@
man/rdmad-why.7: man/rdmad-why.7.in man/fill.awk proto/why.def proto/trace.def
	$(AM_V_GEN)$(MKDIR_P) man && $(AWK) -f $(srcdir)/man/fill.awk $(srcdir)/proto/why.def $(srcdir)/proto/trace.def \
		$(srcdir)/man/rdmad-why.7.in >$@.tmp && mv $@.tmp $@
man/rdmad-profiles.7: man/rdmad-profiles.7.in man/fill.awk include/rdmad/profile.def include/rdmad/feature.def daemon/base/limit.def
	$(AM_V_GEN)$(MKDIR_P) man && $(AWK) -f $(srcdir)/man/fill.awk $(srcdir)/include/rdmad/profile.def $(srcdir)/include/rdmad/feature.def \
		$(srcdir)/daemon/base/limit.def $(srcdir)/man/rdmad-profiles.7.in >$@.tmp && mv $@.tmp $@
man/rdmad-verbs.7: man/rdmad-verbs.7.in man/fill.awk lib/verbs/verbs.def
	$(AM_V_GEN)$(MKDIR_P) man && $(AWK) -f $(srcdir)/man/fill.awk $(srcdir)/lib/verbs/verbs.def $(srcdir)/man/rdmad-verbs.7.in >$@.tmp && mv $@.tmp $@
man/rdmactl-check.8: man/rdmactl-check.8.in man/fill.awk ctl/check.def
	$(AM_V_GEN)$(MKDIR_P) man && $(AWK) -f $(srcdir)/man/fill.awk $(srcdir)/ctl/check.def $(srcdir)/man/rdmactl-check.8.in >$@.tmp && mv $@.tmp $@
