/* SPDX-License-Identifier: MIT */
/*
 * mem_vm.h - memory of other processes by system calls.
 *
 * A call costs more than a microsecond whatever its size, so pieces are collected and
 * moved together.  Between two foreign processes they pass through a small buffer that
 * stays in the cache.
 */
#ifndef DAEMON_MEM_VM_H
#define DAEMON_MEM_VM_H

#include <sys/types.h>
#include <sys/uio.h>

#include <stdbool.h>
#include <stdint.h>

#include "mem_fd.h"
#include "peer.h"

#define VM_IOVS 64u

/* Pieces to move from one process to another; NULL is this one.  All zero: empty. */
struct vm_batch {
	const struct peer *dst_peer, *src_peer;
	unsigned dst_n, src_n;
	size_t len;
	bool apart; /* the next piece is written behind all before it, even if it touches them */
	struct iovec dst[VM_IOVS], src[VM_IOVS];
};

/* One more piece; may move those before it.  0 or a positive errno (EFAULT: memory that is not there). */
int vm_batch_add(struct vm_batch *, const struct peer *dst_peer, uint64_t dst, const struct peer *src_peer,
		 uint64_t src, size_t len);
int vm_batch_flush(struct vm_batch *);

/* The first byte at addr is read to see whether memory of a peer can be reached.  Before all else; control thread.  0, EFAULT,
 * EPERM, ESRCH, EAGAIN (peer_ready). */
int vm_probe(struct peer *, uint64_t addr);

/*
 * The 8 bytes at addr become next(old, a, b).  Atomic among all programs of a user, as IBV_ATOMIC_HCA promises, not against
 * the program's own instructions.
 */
int vm_atomic(const struct peer *, uint64_t addr, mem_next *next, uint64_t a, uint64_t b, uint64_t *old);

#endif
