/* SPDX-License-Identifier: MIT */
/*
 * pre.h - the devices' files without a mount namespace: a library to be preloaded (rdmad-run --sysfs=preload).
 *
 * Calls of the C library that take a path ask place() where it is: in the directory that rdmad-run has written
 * (rdmad/tree.h), or where the program says.  Calls that give a path take that directory's name off it.  A path that
 * leads to neither /sys nor /dev costs no system call, but getcwd(2) or readlink(2) if it is relative; and one that is absolute
 * not much stack, as handlers of signals may open files.
 *
 *	names.def, real.c	the C library's calls
 *	place.c			from what is seen to what is there
 *	file.c  stat.c  list.c  the calls: files; what they are; directories
 *	ftw.c			walks
 */
#ifndef TREEPRELOAD_PRE_H
#define TREEPRELOAD_PRE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define EXPORT     __attribute__((visibility("default")))
#define ARRAY_N(a) (sizeof(a) / sizeof((a)[0]))

/* Another name of the same call: where a long has 64 bits, so has everything. */
#if __has_attribute(copy)
#define ALIAS(of) alias(#of), copy(of), visibility("default")
#else
#define ALIAS(of) alias(#of), visibility("default")
#endif
#define ALSO(name, of) extern __typeof(of) also_##name __asm__(#name) __attribute__((ALIAS(of)))
_Static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(struct dirent) == sizeof(struct dirent64),
	       "one call serves both");

static inline int fail(int err)
{
	errno = err;
	return -1;
}

/* ---- the C library's */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct real {
#define NAME(name) __typeof(&name) name;
#include "names.def"
#undef NAME
	bool found;
};
#pragma GCC diagnostic pop
extern struct real real_calls;
void real_find(void);
static inline const struct real *real(void)
{
	if (!__atomic_load_n(&real_calls.found, __ATOMIC_ACQUIRE))
		real_find();
	return &real_calls;
}

/* ---- where a path is */
#define PLACE_LEN 1280 /* longer paths are not ours */

struct place {
	bool ours; /* it is, or would be, in the directory */
	bool way;  /* the system's, with our entries in it: full is ours */
	const char *seen;
	char full[PLACE_LEN]; /* the directory and what is seen */
};

/* The path to give to the C library instead: absolute, or the same. */
const char *place(struct place *, int dirfd, const char *path, bool follow);
/* By its text it is neither ours nor a way to ours. */
bool place_is_other(const char *path);
/* Takes the directory's name off what begins with it: the length of that. */
size_t place_hidden(const char *path);
/* Of the first n bytes of a path: may it begin with that name? */
bool place_may_hide(const char *path, size_t n);
/* It stands for a device.  */
bool place_is_node(const struct place *);
/* fstatat(2), by the kernel; at: also a full path. */
int look(int dirfd, const char *path, struct stat *, int flags);

/* The device that a file stands for, or 0. */
dev_t node_number(const char *full);
void node_show(const struct place *, struct stat *);

#endif
