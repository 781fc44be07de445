/* SPDX-License-Identifier: MIT */
/*
 * high.h - a descriptor that a library keeps inside of a program.
 *
 * A program that has closed its standard input, output or error may go on to use them: what has their numbers gets what it writes there.
 */
#ifndef RDMAD_HIGH_H
#define RDMAD_HIGH_H

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The same file, closed on exec, by a number of 3 or above; the old one is closed.  -1: there is none; errno stays if fd was -1. */
static inline int fd_high(int fd)
{
	int high, err;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	syscall(SYS_close, fd);
	errno = err;
	return high;
}

/*
 * One of many that the program never sees leaves the low numbers to it, which tables and select() end at: it goes to the upper half of
 * the numbers that there are.  (The kernel's table reaches to the highest one, and a fork copies it: therefore not beyond FD_AWAY.)
 * must: -1, EMFILE, where that is full, and the descriptor is closed; else it stays where it was.
 */
enum { FD_AWAY = 16384 };

static inline int fd_away(int fd, int must)
{
	struct rlimit rl = { 0 };
	int high, err;

	if (fd < 0 || getrlimit(RLIMIT_NOFILE, &rl))
		return fd_high(fd);
	high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC,
			    (int)(rl.rlim_cur / 2 < FD_AWAY ? rl.rlim_cur / 2 : FD_AWAY));
	if (high < 0 && !must)
		return fd_high(fd);
	err = errno;
	syscall(SYS_close, fd);
	errno = err;
	return high;
}

#endif
