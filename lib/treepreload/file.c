/* SPDX-License-Identifier: MIT */
/* file.c - files: to open them, ask for rights, read links; and the names that come back. */
#include "pre.h"

#include <stdarg.h>

/* ---- open --------------------------------------------------------------------------- */

/* Files are neither made here nor cut off, as in the kernel's /sys.  A device's file opens as one that knows nothing. */
static const char *openable(const struct place *p, const char *at, bool create)
{
	struct stat st;

	if (!p->ours)
		return at;
	if (create && look(AT_FDCWD, at, &st, 0)) {
		if (errno == ENOENT)
			errno = EACCES;
		return NULL;
	}
	return place_is_node(p) ? "/dev/null" : at;
}

/* at is from place(). */
static int open_placed(const struct place *p, int dirfd, const char *at, int flags, mode_t mode)
{
	if (p->ours) {
		at = openable(p, at, flags & O_CREAT);
		if (!at)
			return -1;
		flags &= ~O_TRUNC;
	}
	return real()->openat(dirfd, at, flags, mode);
}

__attribute__((noinline)) static int open_near(int dirfd, const char *path, int flags, mode_t mode)
{
	bool fresh = (flags & O_CREAT) && (flags & O_EXCL);
	struct place p;
	const char *at = place(&p, dirfd, path, !(flags & O_NOFOLLOW) && !fresh);

	return open_placed(&p, dirfd, at, flags, mode);
}

static int open_at(int dirfd, const char *path, int flags, mode_t mode)
{
	return place_is_other(path) ? real()->openat(dirfd, path, flags, mode) : open_near(dirfd, path, flags, mode);
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(ap, int) : 0;
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return open_at(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int dirfd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return open_at(dirfd, path, flags, mode);
}

EXPORT int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }

/* Programs compiled with _FORTIFY_SOURCE call these. */
int __open_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);

EXPORT int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
EXPORT int __openat_2(int dirfd, const char *path, int flags) { return open_at(dirfd, path, flags, 0); }

ALSO(creat64, creat);
ALSO(open64, open);
ALSO(openat64, openat);
ALSO(__open64_2, __open_2);
ALSO(__openat64_2, __openat_2);

/* Of ours the descriptor is opened first: the C library would cut it off. */
static int stream_fd(const struct place *p, const char *at, const char *mode)
{
	int flags = *mode == 'r' ? 0 : *mode == 'a' ? O_CREAT | O_APPEND : O_CREAT;
	size_t n = strcspn(mode, ",");

	flags |= memchr(mode, '+', n) ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
	flags |= memchr(mode, 'e', n) ? O_CLOEXEC : 0;
	flags |= memchr(mode, 'x', n) ? O_EXCL : 0;
	return open_placed(p, AT_FDCWD, at, flags, 0);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	struct place p;
	const char *at = place(&p, AT_FDCWD, path, true);
	FILE *f;
	int fd;

	if (!p.ours)
		return real()->fopen(at, mode);
	fd = stream_fd(&p, at, mode);
	f = fd < 0 ? NULL : fdopen(fd, mode);
	if (fd >= 0 && !f)
		close(fd);
	return f;
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *f)
{
	struct place p;
	const char *at = place(&p, AT_FDCWD, path, true);
	int fd, err;

	if (!p.ours)
		return real()->freopen(at, mode, f);
	fd = stream_fd(&p, at, mode);
	if (fd < 0) {
		err = errno;
		fclose(f);
		errno = err;
		return NULL;
	}
	f = real()->freopen("/dev/null", mode, f);
	if (f)
		dup3(fd, fileno(f), fcntl(fd, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0);
	close(fd);
	return f;
}

ALSO(fopen64, fopen);
ALSO(freopen64, freopen);

/* ---- what takes a path and no more ---------------------------------------------------- */

EXPORT int access(const char *path, int mode)
{
	struct place p;

	return real()->access(place(&p, AT_FDCWD, path, true), mode);
}

EXPORT int faccessat(int dirfd, const char *path, int mode, int flags)
{
	struct place p;

	return real()->faccessat(dirfd, place(&p, dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW)), mode, flags);
}

EXPORT int euidaccess(const char *path, int mode)
{
	struct place p;

	return real()->euidaccess(place(&p, AT_FDCWD, path, true), mode);
}

ALSO(eaccess, euidaccess);

EXPORT int chdir(const char *path)
{
	struct place p;

	return real()->chdir(place(&p, AT_FDCWD, path, true));
}

EXPORT int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	struct place p;

	return real()->inotify_add_watch(fd, place(&p, AT_FDCWD, path, !(mask & IN_DONT_FOLLOW)), mask);
}

/* ls(1) asks for access lists. */
EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	struct place p;

	return real()->getxattr(place(&p, AT_FDCWD, path, true), name, value, size);
}

EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	struct place p;

	return real()->lgetxattr(place(&p, AT_FDCWD, path, false), name, value, size);
}

EXPORT ssize_t listxattr(const char *path, char *list, size_t size)
{
	struct place p;

	return real()->listxattr(place(&p, AT_FDCWD, path, true), list, size);
}

EXPORT ssize_t llistxattr(const char *path, char *list, size_t size)
{
	struct place p;

	return real()->llistxattr(place(&p, AT_FDCWD, path, false), list, size);
}

/* The file system is the one that it would be in. */
static const char *system_of(struct place *p, const char *path)
{
	const char *at = place(p, AT_FDCWD, path, true);
	struct stat st;

	if (p->ours && !look(AT_FDCWD, at, &st, 0))
		return !strncmp(p->seen, "/dev/", 5) ? "/dev" : "/sys";
	return at;
}

EXPORT int statfs(const char *path, struct statfs *st)
{
	struct place p;

	return real()->statfs(system_of(&p, path), st);
}

EXPORT int statvfs(const char *path, struct statvfs *st)
{
	struct place p;

	return real()->statvfs(system_of(&p, path), st);
}

EXPORT long pathconf(const char *path, int name)
{
	struct place p;

	return real()->pathconf(system_of(&p, path), name);
}

EXPORT key_t ftok(const char *path, int id)
{
	struct place p;

	return real()->ftok(place(&p, AT_FDCWD, path, true), id);
}

ALSO(statfs64, statfs);
ALSO(statvfs64, statvfs);

/* ---- names that come back ---------------------------------------------------------------- */

__attribute__((noinline)) static ssize_t readlink_whole(int dirfd, const char *path, char *buf, size_t size)
{
	char text[PATH_MAX + PLACE_LEN], *at = text;
	ssize_t n = real()->readlinkat(dirfd, path, text, sizeof(text) - 1);

	if (n < 0)
		return n;
	text[n] = 0;
	at += place_hidden(text);
	n -= at - text;
	n = (size_t)n < size ? n : (ssize_t)size;
	memcpy(buf, at, (size_t)n);
	return n;
}

static ssize_t readlink_as(int dirfd, const char *path, char *buf, size_t size)
{
	ssize_t n = real()->readlinkat(dirfd, path, buf, size);

	return n < 0 || !place_may_hide(buf, (size_t)n) ? n : readlink_whole(dirfd, path, buf, size);
}

__attribute__((noinline)) static ssize_t readlink_placed(int dirfd, const char *path, char *buf, size_t size)
{
	struct place p;

	return readlink_as(dirfd, place(&p, dirfd, path, false), buf, size);
}

EXPORT ssize_t readlinkat(int dirfd, const char *path, char *buf, size_t size)
{
	return place_is_other(path) ? readlink_as(dirfd, path, buf, size) : readlink_placed(dirfd, path, buf, size);
}

EXPORT ssize_t readlink(const char *path, char *buf, size_t size) { return readlinkat(AT_FDCWD, path, buf, size); }

static char *shown(char *path)
{
	size_t hidden = path ? place_hidden(path) : 0;

	if (hidden)
		memmove(path, path + hidden, strlen(path + hidden) + 1);
	return path;
}

EXPORT char *getcwd(char *buf, size_t size)
{
	char text[PATH_MAX + PLACE_LEN];
	size_t hidden = real()->getcwd(text, sizeof(text)) ? place_hidden(text) : 0, n;

	if (!hidden)
		return real()->getcwd(buf, size);
	n = strlen(text + hidden) + 1;
	if ((buf || size) && size < n) { /* else it gets what it needs */
		errno = size ? ERANGE : EINVAL;
		return NULL;
	}
	if (!buf)
		buf = malloc(size ? size : n);
	return buf ? memcpy(buf, text + hidden, n) : NULL;
}

/* The linker warns of getwd() by that name. */
EXPORT char *old_getwd(char *buf) __asm__("getwd");
EXPORT char *old_getwd(char *buf) { return buf ? getcwd(buf, PATH_MAX) : (errno = EINVAL, NULL); }

EXPORT char *get_current_dir_name(void) { return shown(real()->get_current_dir_name()); }

EXPORT char *realpath(const char *path, char *out)
{
	struct place p;
	const char *at = place(&p, AT_FDCWD, path, true);
	struct stat st;

	if (!p.ours)
		return shown(real()->realpath(at, out));
	if (look(AT_FDCWD, at, &st, 0))
		return NULL;
	return out ? strcpy(out, p.seen) : strdup(p.seen);
}

EXPORT char *canonicalize_file_name(const char *path) { return realpath(path, NULL); }

/* ---- the same, by programs compiled with _FORTIFY_SOURCE ----------------------------------- */

void __chk_fail(void) __attribute__((noreturn));
ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t have);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t size, size_t have);
char *__getcwd_chk(char *buf, size_t size, size_t have);
char *__getwd_chk(char *buf, size_t have);
char *__realpath_chk(const char *path, char *out, size_t have);

EXPORT ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t size, size_t have)
{
	if (size > have)
		__chk_fail();
	return readlinkat(dirfd, path, buf, size);
}

EXPORT ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t have)
{
	return __readlinkat_chk(AT_FDCWD, path, buf, size, have);
}

EXPORT char *__getcwd_chk(char *buf, size_t size, size_t have)
{
	if (size > have)
		__chk_fail();
	return getcwd(buf, size);
}

EXPORT char *__getwd_chk(char *buf, size_t have) { return __getcwd_chk(buf, PATH_MAX < have ? PATH_MAX : have, have); }

EXPORT char *__realpath_chk(const char *path, char *out, size_t have)
{
	if (have < PATH_MAX)
		__chk_fail();
	return realpath(path, out);
}
