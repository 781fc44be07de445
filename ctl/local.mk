# SPDX-License-Identifier: MIT
# One file a command, and a row in command.def.
bin_PROGRAMS += rdmactl
noinst_HEADERS += \
	ctl/check_in.h \
	ctl/command.def \
	ctl/command.h \
	ctl/conv.h \
	ctl/daemon.h \
	ctl/doctor.h \
	ctl/find.h \
	ctl/frame.h \
	ctl/rule.def \
	ctl/show.h
rdmactl_SOURCES = \
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
	ctl/find.c \
	ctl/frame.c \
	ctl/qps.c \
	ctl/rdmactl.c \
	ctl/show.c \
	ctl/stats.c
rdmactl_LDADD = libproto.a $(ISAL_LIBS) $(PCAP_LIBS) $(JANSSON_LIBS)
