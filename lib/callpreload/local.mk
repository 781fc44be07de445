# SPDX-License-Identifier: MIT
# Preloaded by rdmad-run --check and --trace.
pkglib_LTLIBRARIES += lib/callpreload/librdmad-calls.la
lib_callpreload_librdmad_calls_la_SOURCES = \
	lib/callpreload/content.c \
	lib/callpreload/ex.c \
	lib/callpreload/finding.c \
	lib/callpreload/made.c \
	lib/callpreload/object.c \
	lib/callpreload/place.c \
	lib/callpreload/poll.c \
	lib/callpreload/post.c \
	lib/callpreload/region.c \
	lib/callpreload/slot.c \
	lib/callpreload/stack.c \
	lib/callpreload/text.c \
	lib/callpreload/trace.c \
	lib/callpreload/work.c \
	lib/callpreload/wrap.c
lib_callpreload_librdmad_calls_la_CFLAGS = $(PRELOAD_CFLAGS)
lib_callpreload_librdmad_calls_la_LDFLAGS = $(PRELOAD_LDFLAGS)
lib_callpreload_librdmad_calls_la_LIBADD = lib/rdmacm/librdmacm.la lib/verbs/libibverbs.la -ldl
noinst_HEADERS += \
	lib/callpreload/calls.def \
	lib/callpreload/content.h \
	lib/callpreload/ex.def \
	lib/callpreload/finding.def \
	lib/callpreload/finding.h \
	lib/callpreload/hooks.h \
	lib/callpreload/object.h \
	lib/callpreload/place.h \
	lib/callpreload/pre.h \
	lib/callpreload/region.h \
	lib/callpreload/slots.def \
	lib/callpreload/stack.h \
	lib/callpreload/text.h \
	lib/callpreload/trace.h \
	lib/callpreload/work.h
