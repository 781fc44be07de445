# SPDX-License-Identifier: MIT
noinst_HEADERS += \
	ctl/check.h \
	ctl/check_in.h \
	ctl/conv.h \
	ctl/daemon.h \
	ctl/doctor.h \
	ctl/find.h \
	ctl/frame.h \
	ctl/rule.def
rdmactl_SOURCES += \
	ctl/check.c \
	ctl/check_cm.c \
	ctl/check_req.c \
	ctl/check_resp.c \
	ctl/conv.c \
	ctl/doctor.c \
	ctl/doctor_cm.c \
	ctl/doctor_net.c \
	ctl/find.c \
	ctl/frame.c
rdmactl_LDADD += libproto.a $(ISAL_LIBS) $(PCAP_LIBS)
