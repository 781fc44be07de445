/* SPDX-License-Identifier: MIT */
/* mem_fd.c - pread and pwrite at a program's addresses. */
#include "mem_fd.h"

#include <errno.h>
#include <unistd.h>

ssize_t mem_fd_move(int fd, bool write, const struct iovec *here, unsigned here_n, const struct iovec *there,
		    unsigned there_n)
{
	struct iov_at h = { here, here_n, 0 }, t = { there, there_n, 0 };
	ssize_t done = 0, n;

	while (h.n && t.n) {
		size_t h_len = h.v->iov_len - h.off, t_len = t.v->iov_len - t.off, len = h_len < t_len ? h_len : t_len;
		char *p = (char *)h.v->iov_base + h.off;
		off_t at = (off_t)((uintptr_t)t.v->iov_base + t.off);

		n = write ? pwrite(fd, p, len, at) : pread(fd, p, len, at);
		if (n <= 0) {
			if (n == 0)
				errno = ESRCH;
			else if (errno == EIO)
				errno = EFAULT;
			return -1;
		}
		done += n;
		iov_at_on(&h, (size_t)n);
		iov_at_on(&t, (size_t)n);
	}
	return done;
}

int mem_fd_update(int fd, uint64_t addr, mem_next *next, uint64_t a, uint64_t b, uint64_t *old)
{
	uint64_t now;
	struct iovec here = { old, sizeof(*old) }, there = { (void *)(uintptr_t)addr, sizeof(*old) };

	if (mem_fd_move(fd, false, &here, 1, &there, 1) < 0)
		return errno;
	now = next(*old, a, b);
	here.iov_base = &now;
	return mem_fd_move(fd, true, &here, 1, &there, 1) < 0 ? errno : 0;
}
