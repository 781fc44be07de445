/* SPDX-License-Identifier: MIT */
/*
 * tree.h - the devices' files in a directory, for programs that can have no mount namespace: rdmad-run writes them, and
 * librdmad-tree.so shows them where the kernel has its own.
 *
 *	$RDMAD_TREE/sys/class/infiniband/rdmad0		is seen as /sys/class/infiniband/rdmad0
 *
 * The directory itself is the table of what is ours.  A directory in it that has the sticky bit is only a way: there the
 * system's own is seen, with our entries among its.  All else is ours, and covers what the system has of that name.  A
 * plain file below dev/ is seen as a character device; its text is the number, "231:192".
 */
#ifndef RDMAD_TREE_H
#define RDMAD_TREE_H

#include <sys/stat.h>

#define TREE_ENV "RDMAD_TREE" /* the directory: absolute, without symbolic links */
#define TREE_WAY S_ISVTX

#endif
