/* SPDX-License-Identifier: MIT */
/*
 * mem_fd.h - memory of another process by a descriptor of its /proc/PID/mem.
 */
#ifndef DAEMON_MEM_FD_H
#define DAEMON_MEM_FD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* A place in a list of pieces. */
struct iov_at {
	const struct iovec *v;
	unsigned n;
	size_t off;
};

static inline void iov_at_on(struct iov_at *a, size_t len)
{
	a->off += len;
	while (a->n && a->off >= a->v->iov_len) {
		a->off -= a->v->iov_len;
		a->v++;
		a->n--;
	}
}

/*
 * The bytes of two lists, piece by piece.  How many, or -1: EFAULT: memory that is not there; ESRCH: that program is over, it ended
 * or another one runs in its place.
 */
ssize_t mem_fd_move(int fd, bool write, const struct iovec *here, unsigned here_n, const struct iovec *there,
		    unsigned there_n);

/* The 8 bytes at addr become next(old, a, b); the caller sees to it that nobody else does the same.  0 or errno. */
typedef uint64_t mem_next(uint64_t old, uint64_t a, uint64_t b);
int mem_fd_update(int fd, uint64_t addr, mem_next *next, uint64_t a, uint64_t b, uint64_t *old);

#endif
