# SPDX-License-Identifier: MIT
# -version-info 4:44:3 makes librdmacm.so.1.3.44: SONAME librdmacm.so.1, as the one that it stands in for.
pkglib_LTLIBRARIES += lib/rdmacm/librdmacm.la
lib_rdmacm_librdmacm_la_SOURCES = \
	lib/rdmacm/addrinfo.c \
	lib/rdmacm/bind.c \
	lib/rdmacm/chan.c \
	lib/rdmacm/connect.c \
	lib/rdmacm/devices.c \
	lib/rdmacm/enum_str.c \
	lib/rdmacm/ep.c \
	lib/rdmacm/event.c \
	lib/rdmacm/id.c \
	lib/rdmacm/mcast.c \
	lib/rdmacm/option.c \
	lib/rdmacm/qp.c \
	lib/rdmacm/resolve.c \
	lib/rdmacm/rs_accept.c \
	lib/rdmacm/rs_conn.c \
	lib/rdmacm/rs_ds.c \
	lib/rdmacm/rs_ds_dest.c \
	lib/rdmacm/rs_ds_qp.c \
	lib/rdmacm/rs_ds_wire.c \
	lib/rdmacm/rs_epoll.c \
	lib/rdmacm/rs_event.c \
	lib/rdmacm/rs_exit.c \
	lib/rdmacm/rs_grow.c \
	lib/rdmacm/rs_io.c \
	lib/rdmacm/rs_iomap.c \
	lib/rdmacm/rs_link.c \
	lib/rdmacm/rs_local.c \
	lib/rdmacm/rs_opt.c \
	lib/rdmacm/rs_poll.c \
	lib/rdmacm/rs_signal.c \
	lib/rdmacm/rs_spin.c \
	lib/rdmacm/rs_svc.c \
	lib/rdmacm/rs_table.c \
	lib/rdmacm/rs_wait.c \
	lib/rdmacm/rs_wake.c \
	lib/rdmacm/rs_wire.c \
	lib/rdmacm/sync.c \
	lib/verbs/conn.c \
	lib/verbs/unacked.c
lib_rdmacm_librdmacm_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
lib_rdmacm_librdmacm_la_LDFLAGS = $(AM_LDFLAGS) -version-info 4:44:3 -pthread -Wl,-z,now \
	-Wl,--version-script=$(srcdir)/lib/rdmacm/librdmacm.map
lib_rdmacm_librdmacm_la_LIBADD = lib/verbs/libibverbs.la
EXTRA_lib_rdmacm_librdmacm_la_DEPENDENCIES = lib/rdmacm/librdmacm.map
EXTRA_DIST += lib/rdmacm/librdmacm.map
noinst_HEADERS += lib/rdmacm/cma.h lib/rdmacm/rs.h lib/rdmacm/rs_ds.h lib/rdmacm/rs_ds_wire.h lib/rdmacm/rs_epoll.h lib/rdmacm/rs_wire.h
