/* SPDX-License-Identifier: MIT */
/*
 * mem_conv.c - private pages become pages of a memfd, and back.
 *
 *	for each piece of CHUNK bytes:  write it into the file, map the file over it
 *
 * Between these two steps nothing may write to the piece: this is the only thread, signals are blocked, and no RDMA or
 * asynchronous I/O of the kernel reaches the pages.
 */
#include "mem_map_in.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vma.h"

#define CHUNK ((size_t)4 << 20)
/* The file is much longer than what is mapped of it, so that mremap() can make the mapping longer as it could
 * before. */
#define FILE_LEN ((off_t)1 << 40)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* ---- may we? ---------------------------------------------------------------------- */

/* One thread, and no page locked into memory (the lock would be lost). */
bool conv_alone(void)
{
	char buf[4096], *p;
	ssize_t n;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = 0;
	p = strstr(buf, "\nThreads:");
	if (!p || strtoul(p + 9, NULL, 10) != 1)
		return false;
	p = strstr(buf, "\nVmLck:");
	return p && strtoul(p + 7, NULL, 10) == 0;
}

/* Requests of these may be writing to our pages: the kernel holds on to the old ones. */
static bool writes_behind(const char *name)
{
	return strstr(name, "[aio]") || strstr(name, "io_uring") || !strncmp(name, "/dev/", 5);
}

bool conv_suits(uintptr_t start, uintptr_t end)
{
	struct vma_reader r;
	uintptr_t at = start;
	struct vma v;
	bool ok = true;

	if (!vma_open(&r))
		return false;
	while (ok && vma_next(&r, &v)) {
		if (writes_behind(v.name))
			ok = false;
		if (v.end <= at || v.start >= end)
			continue;
		/* The stack has neighbours that must not be torn; "[anon:...]" is a name given by prctl(). */
		if (v.start > at || strcmp(v.perm, "rw-p") || v.ino ||
		    (*v.name && strncmp(v.name, "[anon:", 6) && strcmp(v.name, "[heap]")))
			ok = false;
		at = v.end;
	}
	vma_close(&r);
	return ok && at >= end;
}

bool conv_intact(const struct conv *c, uintptr_t start, uintptr_t end)
{
	struct vma_reader r;
	uintptr_t at = start;
	struct vma v;
	struct stat st;

	/* A program may close descriptors that it does not know. */
	if (fstat(c->fd, &st) || st.st_ino != c->ino || !vma_open(&r))
		return false;
	while (at < end && vma_next(&r, &v)) {
		if (v.end <= at)
			continue;
		if (v.start > at || v.ino != c->ino || strcmp(v.name, CONV_VMA) || v.perm[3] != 's' ||
		    v.start - v.off != c->start)
			break;
		at = v.end;
	}
	vma_close(&r);
	return at >= end;
}

/* ---- there ------------------------------------------------------------------------- */

static bool write_all(int fd, uintptr_t addr, size_t len, off_t off)
{
	while (len) {
		ssize_t n = pwrite(fd, (const void *)addr, len, off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		addr += (size_t)n;
		off += n;
		len -= (size_t)n;
	}
	return true;
}

/* Pages that were never touched stay holes of the file, if the kernel tells which they are. */
static bool pages_write(int fd, int pagemap, uintptr_t addr, size_t len, off_t off)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = len / page;
	const uint64_t there = 3ull << 62; /* present, or swapped out */
	uint64_t map[512];

	for (size_t i = 0, got = 0, first; i < n; i = got) {
		size_t ask = n - i < 512 ? n - i : 512;
		ssize_t r = pagemap < 0 ? -1 : pread(pagemap, map, ask * 8, (off_t)((addr / page + i) * 8));

		if (r != (ssize_t)(ask * 8))
			memset(map, 0xff, sizeof(map));
		got = i + ask;
		for (size_t k = 0; k < ask; k = first) {
			for (first = k; first < ask && !(map[first] & there); first++)
				;
			for (k = first; first < ask && map[first] & there; first++)
				;
			if (first > k &&
			    !write_all(fd, addr + (i + k) * page, (first - k) * page, off + (off_t)((i + k) * page)))
				return false;
		}
	}
	return true;
}

/* The kernel may have taken the old mapping away before it failed: the bytes are in the file. */
static void piece_rescue(int fd, uintptr_t addr, size_t len, off_t off)
{
	void *p = mmap((void *)addr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	for (size_t done = 0; p != MAP_FAILED && done < len;) {
		ssize_t n = pread(fd, (void *)(addr + done), len - done, off + (off_t)done);

		if (n <= 0 && errno != EINTR)
			break;
		done += n > 0 ? (size_t)n : 0;
		if (done == len)
			return;
	}
	fprintf(stderr, "libibverbs (rdmad): out of memory while registering memory; its contents are lost\n");
	abort();
}

static int file_make(uint64_t *ino)
{
	struct rlimit rl;
	struct stat st;
	int fd;

	/* Beyond the limit ftruncate() sends a signal. */
	if (getrlimit(RLIMIT_FSIZE, &rl) || rl.rlim_cur != RLIM_INFINITY)
		return -1;
	fd = memfd_create(CONV_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0)
		fd = memfd_create(CONV_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (ftruncate(fd, FILE_LEN) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) || fstat(fd, &st)) {
		close(fd);
		return -1;
	}
	*ino = st.st_ino;
	return fd;
}

/* How far it got. */
static uintptr_t pages_share(int fd, uintptr_t start, uintptr_t end)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uintptr_t at = start;

	while (at < end) {
		size_t len = end - at < CHUNK ? end - at : CHUNK;
		off_t off = (off_t)(at - start);

		if (!pages_write(fd, pagemap, at, len, off))
			break;
		if (mmap((void *)at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, off) == MAP_FAILED) {
			piece_rescue(fd, at, len, off);
			break;
		}
		at += len;
	}
	if (pagemap >= 0)
		close(pagemap);
	return at;
}

struct conv *conv_make(uintptr_t start, uintptr_t end)
{
	struct conv *c = calloc(1, sizeof(*c));
	sigset_t all, old;

	if (!c)
		return NULL;
	c->start = start;
	c->fd = file_make(&c->ino);
	if (c->fd < 0) {
		free(c);
		return NULL;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	c->end = pages_share(c->fd, start, end);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (c->end > start)
		return c;
	conv_free(c);
	return NULL;
}

void conv_free(struct conv *c)
{
	struct stat st;

	if (!fstat(c->fd, &st) && st.st_ino == c->ino)
		close(c->fd);
	free(c);
}

/* ---- and back -------------------------------------------------------------------- */

bool pages_private(uintptr_t start, uintptr_t end)
{
	sigset_t all, old;
	uintptr_t at = start;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (at < end) {
		size_t len = end - at < CHUNK ? end - at : CHUNK;
		void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			break;
		memcpy(p, (const void *)at, len);
		if (mremap(p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at) == MAP_FAILED) {
			munmap(p, len);
			break;
		}
		at += len;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return at >= end;
}
