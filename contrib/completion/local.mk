# SPDX-License-Identifier: MIT
# Completion of shells, made from the tables of options.
COMPLETION_FROM = \
	$(srcdir)/ctl/command.def \
	$(srcdir)/daemon/main.c \
	$(srcdir)/run/options.c \
	$(srcdir)/sim/main.c \
	$(srcdir)/ctl/rdmactl.c \
	$(srcdir)/ctl/show.c \
	$(srcdir)/ctl/stats.c \
	$(srcdir)/ctl/top.c \
	$(srcdir)/ctl/capture.c \
	$(srcdir)/ctl/why.c \
	$(srcdir)/ctl/trace.c \
	$(srcdir)/ctl/check.c \
	$(srcdir)/ctl/doctor.c \
	$(srcdir)/ctl/ladder.c \
	$(srcdir)/ctl/cdi.c \
	$(srcdir)/ctl/fault.c \
	$(srcdir)/ctl/replay.c
COMPLETION_AWK = $(srcdir)/contrib/completion/make.awk
EXTRA_DIST += contrib/completion/make.awk

bashcompletiondir = $(datadir)/bash-completion/completions
nodist_bashcompletion_DATA = contrib/completion/rdmad contrib/completion/rdmad-run contrib/completion/rdmad-sim contrib/completion/rdmactl
zshcompletiondir = $(datadir)/zsh/site-functions
nodist_zshcompletion_DATA = contrib/completion/_rdmad
CLEANFILES += $(nodist_bashcompletion_DATA) $(nodist_zshcompletion_DATA)
$(nodist_bashcompletion_DATA): $(COMPLETION_AWK) $(COMPLETION_FROM)
	$(AM_V_GEN)$(MKDIR_P) contrib/completion && \
		$(AWK) -f $(COMPLETION_AWK) -v shell=bash -v program=$(@F) $(COMPLETION_FROM) >$@.tmp && mv $@.tmp $@
contrib/completion/_rdmad: $(COMPLETION_AWK) $(COMPLETION_FROM)
	$(AM_V_GEN)$(MKDIR_P) contrib/completion && \
		$(AWK) -f $(COMPLETION_AWK) -v shell=zsh $(COMPLETION_FROM) >$@.tmp && mv $@.tmp $@
