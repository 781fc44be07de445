# SPDX-License-Identifier: MIT
noinst_LIBRARIES += liblab.a
liblab_a_SOURCES = \
	lab/dress.c \
	lab/pcapng.c \
	lab/pcapng_read.c \
	lab/remark.c \
	lab/spool.c \
	lab/tap.c
noinst_HEADERS += \
	lab/dress.h \
	lab/pcapng.h \
	lab/pcapng_fmt.h \
	lab/remark.h \
	lab/spool.h \
	lab/tap.h
