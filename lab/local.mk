# SPDX-License-Identifier: MIT
noinst_LIBRARIES += liblab.a
liblab_a_SOURCES = \
	lab/pcapng.c \
	lab/pcapng_read.c \
	lab/tap.c
noinst_HEADERS += \
	lab/pcapng.h \
	lab/pcapng_fmt.h \
	lab/tap.h
