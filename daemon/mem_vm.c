/* SPDX-License-Identifier: MIT */
/*
 * mem_vm.c - one system call for many pieces.
 *
 *	dst_pid  src_pid
 *	   0        p	process_vm_readv: scattered there, scattered here
 *	   p        0	process_vm_writev
 *	   p        q	readv to the bounce buffer, writev from it
 *
 * Neighbouring pieces that touch become one iovec, each side by itself: what came in
 * as 15 packets lies in one run of the program's memory.
 */
#include "mem_vm.h"

#include "region.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#define BOUNCE_LEN	(128u * 1024)
#define BATCH_LEN	(1u << 30)	/* a call moves less than 2 GiB */

static pthread_mutex_t atomic_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local uint8_t bounce[BOUNCE_LEN] __attribute__((aligned(4096)));

static bool iov_extends(const struct iovec *v, unsigned n, const void *p)
{
	return n && (const uint8_t *)v[n - 1].iov_base + v[n - 1].iov_len == p;
}

static void iov_put(struct iovec *v, unsigned *n, uint64_t addr, size_t len)
{
	void *p = (void *)(uintptr_t)addr;

	if (iov_extends(v, *n, p))
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

static int vm_read(pid_t pid, const struct iovec *to, unsigned to_n, const struct iovec *from, unsigned from_n,
		   size_t len)
{
	return vm_err(process_vm_readv(pid, to, to_n, from, from_n, 0), len);
}

static int vm_write(pid_t pid, const struct iovec *to, unsigned to_n, const struct iovec *from, unsigned from_n,
		    size_t len)
{
	return vm_err(process_vm_writev(pid, from, from_n, to, to_n, 0), len);
}

/* Who could not be read is told apart from who could not be written (mem.h). */
static int src_err(int err)
{
	if (!err || err == ESRCH)
		return err;
	region_src_failed = true;
	return EIO;
}

int vm_batch_flush(struct vm_batch *b)
{
	struct iovec mid = { bounce, b->len };
	int err = 0;

	if (!b->len)
		return 0;
	if (!b->dst_pid) {
		err = src_err(vm_read(b->src_pid, b->dst, b->dst_n, b->src, b->src_n, b->len));
	} else if (!b->src_pid) {
		err = vm_write(b->dst_pid, b->dst, b->dst_n, b->src, b->src_n, b->len);
	} else {
		err = src_err(vm_read(b->src_pid, &mid, 1, b->src, b->src_n, b->len));
		if (!err)
			err = vm_write(b->dst_pid, b->dst, b->dst_n, &mid, 1, b->len);
	}
	b->len = b->dst_n = b->src_n = 0;
	return err;
}

int vm_batch_add(struct vm_batch *b, pid_t dst_pid, uint64_t dst, pid_t src_pid, uint64_t src, size_t len)
{
	size_t room = dst_pid && src_pid ? BOUNCE_LEN : BATCH_LEN, part;
	int err;

	while (len) {
		if (b->len && (b->dst_pid != dst_pid || b->src_pid != src_pid || b->dst_n == VM_IOVS ||
			       b->src_n == VM_IOVS || b->len >= room)) {
			err = vm_batch_flush(b);
			if (err)
				return err;
		}
		part = len < room - b->len ? len : room - b->len;
		b->dst_pid = dst_pid;
		b->src_pid = src_pid;
		iov_put(b->dst, &b->dst_n, dst, part);
		iov_put(b->src, &b->src_n, src, part);
		b->len += part;
		dst += part;
		src += part;
		len -= part;
	}
	return 0;
}

int vm_probe(pid_t pid, uint64_t addr)
{
	uint8_t byte;
	struct iovec to = { &byte, 1 }, from = { (void *)(uintptr_t)addr, 1 };

	return vm_read(pid, &to, 1, &from, 1, 1);
}

int vm_atomic(pid_t pid, uint64_t addr, uint64_t (*next)(uint64_t old, uint64_t a, uint64_t b), uint64_t a, uint64_t b,
	      uint64_t *old)
{
	uint64_t now;
	struct iovec here = { old, sizeof(*old) }, there = { (void *)(uintptr_t)addr, sizeof(*old) };
	int err;

	pthread_mutex_lock(&atomic_lock);
	err = vm_read(pid, &here, 1, &there, 1, sizeof(*old));
	if (!err) {
		now = next(*old, a, b);
		here.iov_base = &now;
		err = vm_write(pid, &there, 1, &here, 1, sizeof(now));
	}
	pthread_mutex_unlock(&atomic_lock);
	return err;
}
