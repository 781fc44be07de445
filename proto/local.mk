# SPDX-License-Identifier: MIT
noinst_LIBRARIES += libproto.a
libproto_a_SOURCES = \
	proto/aeth.c \
	proto/burst.c \
	proto/icrc.c \
	proto/opcode.c \
	proto/qp_state.c
noinst_HEADERS += \
	proto/aeth.h \
	proto/burst.h \
	proto/bytes.h \
	proto/hca.h \
	proto/hdr.h \
	proto/icrc.h \
	proto/mem.h \
	proto/mono.h \
	proto/opcode.def \
	proto/opcode.h \
	proto/qp_state.h \
	proto/seq.h \
	proto/stats.def
