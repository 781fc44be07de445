# SPDX-License-Identifier: MIT
noinst_LIBRARIES += libproto.a
libproto_a_SOURCES = \
	proto/burst.c \
	proto/opcode.c
noinst_HEADERS += \
	proto/burst.h \
	proto/bytes.h \
	proto/hca.h \
	proto/hdr.h \
	proto/mem.h \
	proto/mono.h \
	proto/opcode.def \
	proto/opcode.h \
	proto/seq.h \
	proto/stats.def
