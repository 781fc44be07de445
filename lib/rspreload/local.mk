# SPDX-License-Identifier: MIT
# Preloaded by rdmad-run --rsockets.
pkglib_LTLIBRARIES += lib/rspreload/librspreload.la
lib_rspreload_librspreload_la_SOURCES = \
	lib/rspreload/accept.c \
	lib/rspreload/bridge.c \
	lib/rspreload/conn.c \
	lib/rspreload/epoll.c \
	lib/rspreload/epoll_idle.c \
	lib/rspreload/epoll_reg.c \
	lib/rspreload/epoll_wait.c \
	lib/rspreload/file.c \
	lib/rspreload/heir.c \
	lib/rspreload/held.c \
	lib/rspreload/io.c \
	lib/rspreload/names.c \
	lib/rspreload/opt.c \
	lib/rspreload/peers.c \
	lib/rspreload/poll.c \
	lib/rspreload/real.c \
	lib/rspreload/signals.c \
	lib/rspreload/spawn.c \
	lib/rspreload/table.c \
	lib/rspreload/will.c
lib_rspreload_librspreload_la_CFLAGS = $(PRELOAD_CFLAGS)
lib_rspreload_librspreload_la_LDFLAGS = $(PRELOAD_LDFLAGS)
lib_rspreload_librspreload_la_LIBADD = lib/rdmacm/librdmacm.la -ldl
noinst_HEADERS += lib/rspreload/epoll.h lib/rspreload/pre.h
