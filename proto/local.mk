# SPDX-License-Identifier: MIT
noinst_LIBRARIES += libproto.a
libproto_a_SOURCES = \
	proto/ack.c \
	proto/aeth.c \
	proto/burst.c \
	proto/cq.c \
	proto/cqe.c \
	proto/event.c \
	proto/fault.c \
	proto/hca.c \
	proto/heap.c \
	proto/icrc.c \
	proto/mcast.c \
	proto/mr.c \
	proto/opcode.c \
	proto/path.c \
	proto/qp.c \
	proto/qp_modify.c \
	proto/qp_state.c \
	proto/replay.c \
	proto/req.c \
	proto/resp.c \
	proto/resp_tx.c \
	proto/slots.c \
	proto/srq.c \
	proto/stat.c \
	proto/uc.c \
	proto/ud.c \
	proto/verify.c \
	proto/wqe.c
noinst_HEADERS += \
	proto/aeth.h \
	proto/burst.h \
	proto/bytes.h \
	proto/cm.h \
	proto/cm_msg.h \
	proto/cq.h \
	proto/event.h \
	proto/fault.def \
	proto/fault.h \
	proto/gsi.h \
	proto/hca.h \
	proto/hca_in.h \
	proto/hdr.h \
	proto/heap.h \
	proto/icrc.h \
	proto/link.h \
	proto/mcast.h \
	proto/mem.h \
	proto/mono.h \
	proto/mr.h \
	proto/opcode.def \
	proto/opcode.h \
	proto/path.h \
	proto/qp.h \
	proto/qp_state.h \
	proto/rng.h \
	proto/seq.h \
	proto/slots.h \
	proto/srq.h \
	proto/stats.def \
	proto/wqe.h
