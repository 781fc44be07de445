/* SPDX-License-Identifier: MIT */
/*
 * copier.h - another user's memory, reached in a thread of its own and with a deadline.
 *
 * Behind an address of a program may lie a file whose server does not answer (FUSE, NFS), and the program may hold its own
 * address space locked for long.  Whoever reaches for it then waits, and no signal ends that.  What lies there can be
 * changed at any moment, so a look at it beforehand would prove nothing.  The thread has a buffer of its own to copy from and
 * to: whoever asked can go on when the time is over, and that client's memory is out of reach from then on.
 *
 * The price is two switches of threads for a copy.  Memory that is mapped here does not pay it, nor does that of root and of
 * the user that the daemon runs as, who can stop it anyway.
 */
#ifndef DAEMON_COPIER_H
#define DAEMON_COPIER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "mem_fd.h"

struct copier;

/* Bytes of one. */
size_t copier_len(void);

/* For the memory behind mem_fd, which is the copier's if 0 is returned.  EAGAIN: that user has too many. */
int copier_new(struct copier **, uid_t, int mem_fd);
/* It may still be waiting for its memory: then it ends when that is over, and closes the descriptor. */
void copier_end(struct copier *);

/* As mem_fd_move() (mem_vm.c), of lists of the same length; from any thread.  EFAULT also when the time was over, now or before. */
ssize_t copier_move(struct copier *, bool write, const struct iovec *here, unsigned here_n, const struct iovec *there,
		    unsigned there_n);

/* The 8 bytes at addr become next(old, a, b); atomic among all copiers of a user.  0 or errno. */
int copier_atomic(struct copier *, uint64_t addr, mem_next *next, uint64_t a, uint64_t b, uint64_t *old);

#endif
