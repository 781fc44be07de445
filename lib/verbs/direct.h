/* SPDX-License-Identifier: MIT */
/*
 * direct.h - system calls that no other library takes a lock for.
 *
 * librdmad-rsockets.so and others take locks of theirs in close(), open() and their like.  Under the lock of mappings, which fork()
 * takes behind all of theirs (mem_fork.c), these are called instead.  (syscall() has librdmad-rsockets.so in front of it, too, for a
 * program that closes its sockets so; for numbers that are no sockets of the program's it takes no lock: lib/rspreload/table.c.  So
 * does sigaction(), which takes none: lib/rspreload/signals.c.)
 */
#ifndef VERBS_DIRECT_H
#define VERBS_DIRECT_H

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int direct_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
}

static inline void direct_close(int fd) { syscall(SYS_close, fd); }
static inline long direct_read(int fd, void *buf, size_t len) { return syscall(SYS_read, fd, buf, len); }
static inline int direct_fcntl(int fd, int cmd, long arg) { return (int)syscall(SYS_fcntl, fd, cmd, arg); }

#endif
