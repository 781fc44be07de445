# SPDX-License-Identifier: MIT
# Preloaded by rdmad-run --sysfs where there is no mount namespace.
pkglib_LTLIBRARIES += lib/treepreload/librdmad-tree.la
lib_treepreload_librdmad_tree_la_SOURCES = \
	lib/treepreload/file.c \
	lib/treepreload/ftw.c \
	lib/treepreload/list.c \
	lib/treepreload/place.c \
	lib/treepreload/real.c \
	lib/treepreload/stat.c
lib_treepreload_librdmad_tree_la_CFLAGS = $(PRELOAD_CFLAGS)
lib_treepreload_librdmad_tree_la_LDFLAGS = $(PRELOAD_LDFLAGS)
lib_treepreload_librdmad_tree_la_LIBADD = -ldl
noinst_HEADERS += lib/treepreload/names.def lib/treepreload/pre.h
