# SPDX-License-Identifier: MIT
# -version-info 15:44:14 makes libibverbs.so.1.14.44: SONAME libibverbs.so.1, as the one that it stands in for.
# nodelete: memory that is mapped by the daemon needs the fork handlers as long as the process lives.
pkglib_LTLIBRARIES += lib/verbs/libibverbs.la
lib_verbs_libibverbs_la_SOURCES = \
	lib/verbs/abi_check.c \
	lib/verbs/ah.c \
	lib/verbs/alone.c \
	lib/verbs/bye.c \
	lib/verbs/cntr.c \
	lib/verbs/conn.c \
	lib/verbs/context.c \
	lib/verbs/cq.c \
	lib/verbs/crowd.c \
	lib/verbs/ctx.c \
	lib/verbs/device.c \
	lib/verbs/dm.c \
	lib/verbs/dmah.c \
	lib/verbs/doze.c \
	lib/verbs/ece.c \
	lib/verbs/enum_str.c \
	lib/verbs/event.c \
	lib/verbs/fork.c \
	lib/verbs/hash.c \
	lib/verbs/hold.c \
	lib/verbs/import.c \
	lib/verbs/later.c \
	lib/verbs/mem_conv.c \
	lib/verbs/mem_fork.c \
	lib/verbs/mem_least.c \
	lib/verbs/mem_map.c \
	lib/verbs/mem_pages.c \
	lib/verbs/mem_shared.c \
	lib/verbs/mem_stack.c \
	lib/verbs/mem_tell.c \
	lib/verbs/mr.c \
	lib/verbs/mr_ex.c \
	lib/verbs/mw.c \
	lib/verbs/mr_kinds.c \
	lib/verbs/nap.c \
	lib/verbs/ops.c \
	lib/verbs/pd.c \
	lib/verbs/poll.c \
	lib/verbs/post.c \
	lib/verbs/private.c \
	lib/verbs/qp.c \
	lib/verbs/query.c \
	lib/verbs/rate.c \
	lib/verbs/raw.c \
	lib/verbs/refuse.c \
	lib/verbs/slab.c \
	lib/verbs/steer.c \
	lib/verbs/srq.c \
	lib/verbs/unacked.c \
	lib/verbs/stub.c \
	lib/verbs/sysfs.c \
	lib/verbs/vma.c \
	lib/verbs/vma_attr.c \
	lib/verbs/vma_policy.c \
	lib/verbs/way.c \
	lib/verbs/wq.c \
	lib/verbs/wr_build.c \
	lib/verbs/wr_ex.c \
	lib/verbs/xrc.c
lib_verbs_libibverbs_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
lib_verbs_libibverbs_la_LDFLAGS = $(AM_LDFLAGS) -version-info 15:44:14 -pthread -Wl,-z,now -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/lib/verbs/libibverbs.map
EXTRA_lib_verbs_libibverbs_la_DEPENDENCIES = lib/verbs/libibverbs.map
EXTRA_DIST += lib/verbs/libibverbs.map
noinst_HEADERS += \
	lib/verbs/ah.h \
	lib/verbs/alone.h \
	lib/verbs/attr.h \
	lib/verbs/base.h \
	lib/verbs/cntr.h \
	lib/verbs/conn.h \
	lib/verbs/cq.h \
	lib/verbs/crowd.h \
	lib/verbs/ctx.h \
	lib/verbs/device.h \
	lib/verbs/direct.h \
	lib/verbs/dm.h \
	lib/verbs/dmah.h \
	lib/verbs/flow.h \
	lib/verbs/hash.h \
	lib/verbs/hold.h \
	lib/verbs/mem_map.h \
	lib/verbs/mem_map_in.h \
	lib/verbs/mr.h \
	lib/verbs/mw.h \
	lib/verbs/nap.h \
	lib/verbs/newer.h \
	lib/verbs/pd.h \
	lib/verbs/private.def \
	lib/verbs/qp.h \
	lib/verbs/query.h \
	lib/verbs/srq.h \
	lib/verbs/unacked.h \
	lib/verbs/slab.h \
	lib/verbs/slots.h \
	lib/verbs/symbol.h \
	lib/verbs/sysfs.h \
	lib/verbs/verbs.def \
	lib/verbs/vma.h \
	lib/verbs/way.h \
	lib/verbs/wr_build.h \
	lib/verbs/xrc.h
