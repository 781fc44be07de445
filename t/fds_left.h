/* SPDX-License-Identifier: MIT */
/* fds_left.h - a process that is almost out of descriptors. */
#ifndef T_FDS_LEFT_H
#define T_FDS_LEFT_H

#include <fcntl.h>
#include <sys/resource.h>

#include "ok.h"

/* n descriptors can be had; the limit of before. */
static inline struct rlimit fds_left(int n)
{
	struct rlimit old, few;
	int fd = -1;

	do
		n -= fcntl(++fd, F_GETFD) < 0;
	while (n >= 0);
	ok(getrlimit(RLIMIT_NOFILE, &old));
	few = old;
	few.rlim_cur = (rlim_t)fd;
	ok(setrlimit(RLIMIT_NOFILE, &few));
	return old;
}

#endif
