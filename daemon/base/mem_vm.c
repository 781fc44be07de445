/* SPDX-License-Identifier: MIT */
/*
 * mem_vm.c - one system call for many pieces.
 *
 *	  dst      src
 *	   0        p	process_vm_readv: scattered there, scattered here; or a pread for each piece (peer.h)
 *	   p        0	process_vm_writev, or pwrite
 *	   p        q	read to the bounce buffer, written from it
 *
 * Neighbouring pieces that touch become one iovec, each side by itself: what came in
 * as 15 packets lies in one run of the program's memory.
 */
#include "mem_vm.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "copier.h"
#include "held.h"
#include "mem_fd.h"

#define BOUNCE_LEN (128u * 1024)
#define PAGE_LEN   4096u      /* the shortest */
#define BATCH_LEN  (1u << 30) /* a call moves less than 2 GiB */

/* Of root's programs and our own user's; other users' are in copier.c.  Held across system calls. */
static pthread_mutex_t atomic_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local uint8_t bounce[BOUNCE_LEN] __attribute__((aligned(4096)));

static bool iov_extends(const struct iovec *v, unsigned n, const void *p)
{
	return n && (const uint8_t *)v[n - 1].iov_base + v[n - 1].iov_len == p;
}

static void iov_put(struct iovec *v, unsigned *n, uint64_t addr, size_t len, bool apart)
{
	void *p = (void *)(uintptr_t)addr;

	if (!apart && iov_extends(v, *n, p))
		v[*n - 1].iov_len += len;
	else
		v[(*n)++] = (struct iovec){ p, len };
}

static int vm_err(ssize_t n, size_t len)
{
	if (n < 0)
		return errno;
	return (size_t)n == len ? 0 : EFAULT;
}

/* Through a descriptor of the foreign side's memory. */
static ssize_t fd_move(const struct peer *peer, bool write, const struct iovec *here, unsigned here_n,
		       const struct iovec *there, unsigned there_n)
{
	return peer->copier ? copier_move(peer->copier, write, here, here_n, there, there_n)
			    : mem_fd_move(peer->mem_fd, write, here, here_n, there, there_n);
}

/*
 * len bytes from there to here; write: from here to there.  EPERM: Yama lets us no more (or not now, while the library names a
 * helper of its own in our place), or the program has become another, whose memory the descriptor is not.
 */
static int vm_move(const struct peer *peer, bool write, const struct iovec *here, unsigned here_n,
		   const struct iovec *there, unsigned there_n, size_t len)
{
	int err;

	if (__atomic_load_n(&peer->gone, __ATOMIC_RELAXED))
		return ESRCH;
	if (peer->pid > 0) {
		err = vm_err((write ? process_vm_writev : process_vm_readv)(peer->pid, here, here_n, there, there_n, 0),
			     len);
		if (err != EPERM)
			return err;
	}
	if (peer->mem_fd < 0)
		return EPERM;
	return vm_err(fd_move(peer, write, here, here_n, there, there_n), len);
}

/* A source that could not be read is told apart from a destination that could not be written (mem.h). */
static int src_err(int err) { return !err || err == ESRCH ? err : EIO; }

/*
 * Is the memory at fault that is mapped here?  In a system call its lack is EFAULT, as that of the other side's; an access finds
 * it torn (held.h).
 */
static bool is_torn_here(const struct iovec *v, unsigned n)
{
	unsigned tears = held_tears;

	for (unsigned i = 0; i < n; i++) {
		const uint8_t *p = v[i].iov_base, *end = p + v[i].iov_len;

		for (; p < end; p = (const uint8_t *)((uintptr_t)p / PAGE_LEN * PAGE_LEN) + PAGE_LEN)
			(void)*(const volatile uint8_t *)p;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* a signal's handler counts */
	return held_tears != tears;
}

int vm_batch_flush(struct vm_batch *b)
{
	struct iovec mid = { bounce, b->len };
	int err = 0;

	if (!b->len)
		return 0;
	if (!b->dst_peer) {
		err = src_err(vm_move(b->src_peer, false, b->dst, b->dst_n, b->src, b->src_n, b->len));
		if (err == EIO && is_torn_here(b->dst, b->dst_n))
			err = EFAULT;
	} else if (!b->src_peer) {
		err = vm_move(b->dst_peer, true, b->src, b->src_n, b->dst, b->dst_n, b->len);
		if (err && err != ESRCH && is_torn_here(b->src, b->src_n))
			err = EIO;
	} else {
		err = src_err(vm_move(b->src_peer, false, &mid, 1, b->src, b->src_n, b->len));
		if (!err)
			err = vm_move(b->dst_peer, true, &mid, 1, b->dst, b->dst_n, b->len);
	}
	b->len = b->dst_n = b->src_n = 0;
	return err;
}

int vm_batch_add(struct vm_batch *b, const struct peer *dst_peer, uint64_t dst, const struct peer *src_peer,
		 uint64_t src, size_t len)
{
	size_t room = dst_peer && src_peer ? BOUNCE_LEN : BATCH_LEN, part;
	int err;

	while (len) {
		if (b->len && (b->dst_peer != dst_peer || b->src_peer != src_peer || b->dst_n == VM_IOVS ||
			       b->src_n == VM_IOVS || b->len >= room)) {
			err = vm_batch_flush(b);
			if (err)
				return err;
		}
		part = len < room - b->len ? len : room - b->len;
		b->dst_peer = dst_peer;
		b->src_peer = src_peer;
		iov_put(b->dst, &b->dst_n, dst, part, b->apart);
		iov_put(b->src, &b->src_n, src, part, false);
		b->apart = false;
		b->len += part;
		dst += part;
		src += part;
		len -= part;
	}
	return 0;
}

int vm_probe(struct peer *peer, uint64_t addr)
{
	uint8_t byte;
	struct iovec to = { &byte, 1 }, from = { (void *)(uintptr_t)addr, 1 };
	int err = peer_ready(peer);

	return err ? err : vm_move(peer, false, &to, 1, &from, 1, 1);
}

/* By pid: our own user's programs. */
static int pid_update(const struct peer *peer, uint64_t addr, mem_next *next, uint64_t a, uint64_t b, uint64_t *old)
{
	uint64_t now;
	struct iovec here = { old, sizeof(*old) }, there = { (void *)(uintptr_t)addr, sizeof(*old) };
	int err = vm_move(peer, false, &here, 1, &there, 1, sizeof(*old));

	if (err)
		return err;
	now = next(*old, a, b);
	here.iov_base = &now;
	return vm_move(peer, true, &here, 1, &there, 1, sizeof(now));
}

int vm_atomic(const struct peer *peer, uint64_t addr, mem_next *next, uint64_t a, uint64_t b, uint64_t *old)
{
	int err;

	if (__atomic_load_n(&peer->gone, __ATOMIC_RELAXED))
		return ESRCH;
	if (peer->copier)
		return copier_atomic(peer->copier, addr, next, a, b, old);
	pthread_mutex_lock(&atomic_lock);
	if (peer->pid > 0)
		err = pid_update(peer, addr, next, a, b, old);
	else
		err = mem_fd_update(peer->mem_fd, addr, next, a, b, old);
	pthread_mutex_unlock(&atomic_lock);
	return err;
}
