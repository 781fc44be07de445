/* SPDX-License-Identifier: MIT */
/*
 * stat.c - what a file is.  A file that stands for a device is one.
 *
 * Old versions of the C library have stat() in the program, and call __xstat(); so the kernel is asked here, not the library.
 */
#include "pre.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

void node_show(const struct place *p, struct stat *st)
{
	dev_t number = S_ISREG(st->st_mode) && place_is_node(p) ? node_number(p->full) : 0;

	if (!number)
		return;
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = number;
	st->st_size = st->st_blocks = 0;
}

EXPORT int fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
	struct place p;
	int ret = look(dirfd, place(&p, dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW)), st, flags);

	if (!ret)
		node_show(&p, st);
	return ret;
}

EXPORT int stat(const char *path, struct stat *st) { return fstatat(AT_FDCWD, path, st, 0); }
EXPORT int lstat(const char *path, struct stat *st) { return fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW); }

ALSO(fstatat64, fstatat);
ALSO(stat64, stat);
ALSO(lstat64, lstat);

/* Programs that were linked with glibc before 2.33; version is of the structure, of which there is one. */
int __xstat(int version, const char *path, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstatat(int version, int dirfd, const char *path, struct stat *st, int flags);

EXPORT int __xstat(int, const char *path, struct stat *st) { return stat(path, st); }
EXPORT int __lxstat(int, const char *path, struct stat *st) { return lstat(path, st); }
EXPORT int __fxstatat(int, int dirfd, const char *path, struct stat *st, int flags)
{
	return fstatat(dirfd, path, st, flags);
}

ALSO(__xstat64, __xstat);
ALSO(__lxstat64, __lxstat);
ALSO(__fxstatat64, __fxstatat);

EXPORT int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *st)
{
	struct place p;
	const char *at = place(&p, dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW));
	int ret = real()->statx(dirfd, at, flags, mask, st);
	dev_t number = !ret && S_ISREG(st->stx_mode) && place_is_node(&p) ? node_number(p.full) : 0;

	if (number) {
		st->stx_mode = S_IFCHR | 0666;
		st->stx_rdev_major = major(number);
		st->stx_rdev_minor = minor(number);
		st->stx_size = st->stx_blocks = 0;
	}
	return ret;
}

/* libuv, and so Node.js, asks by number.  (To have all arguments at hand it is not variadic.) */
EXPORT long by_number(long nr, long a, long b, long c, long d, long e, long f) __asm__("syscall");

EXPORT long by_number(long nr, long a, long b, long c, long d, long e, long f)
{
	const char *path = (const char *)(intptr_t)b;

	if (nr == SYS_statx && !place_is_other(path))
		return statx((int)a, path, (int)c, (unsigned)d, (struct statx *)(intptr_t)e);
	return real()->syscall(nr, a, b, c, d, e, f);
}
