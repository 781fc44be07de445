# SPDX-License-Identifier: MIT
noinst_LIBRARIES += liblab.a
liblab_a_SOURCES = \
	lab/dress.c \
	lab/flow.c \
	lab/hold.c \
	lab/pcapng.c \
	lab/pcapng_read.c \
	lab/remark.c \
	lab/rule.c \
	lab/rule_apply.c \
	lab/rule_blame.c \
	lab/rule_do.c \
	lab/rule_event.c \
	lab/rule_file.c \
	lab/rule_match.c \
	lab/rule_set.c \
	lab/rule_value.c \
	lab/rule_yaml.c \
	lab/rule_yaml_bound.c \
	lab/spool.c \
	lab/tap.c
noinst_HEADERS += \
	lab/act.def \
	lab/dress.h \
	lab/flow.h \
	lab/hold.h \
	lab/ns_text.h \
	lab/pcapng.h \
	lab/pcapng_fmt.h \
	lab/remark.h \
	lab/rule.h \
	lab/rule_yaml.h \
	lab/splitmix.h \
	lab/spool.h \
	lab/tap.h \
	lab/text_cut.h
