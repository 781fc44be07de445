# SPDX-License-Identifier: MIT
# Preloaded by rdmad-run --rsockets.
pkglib_LTLIBRARIES += lib/rspreload/librspreload.la
lib_rspreload_librspreload_la_SOURCES = \
	lib/rspreload/conn.c \
	lib/rspreload/epoll.c \
	lib/rspreload/file.c \
	lib/rspreload/io.c \
	lib/rspreload/opt.c \
	lib/rspreload/poll.c \
	lib/rspreload/real.c \
	lib/rspreload/table.c
lib_rspreload_librspreload_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden -U_FORTIFY_SOURCE
lib_rspreload_librspreload_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -pthread
lib_rspreload_librspreload_la_LIBADD = lib/rdmacm/librdmacm.la -ldl
noinst_HEADERS += lib/rspreload/pre.h
