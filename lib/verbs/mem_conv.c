/* SPDX-License-Identifier: MIT */
/*
 * mem_conv.c - private pages become pages of a memfd, and back.
 *
 *	for each piece of CHUNK bytes:  write it into the file, map the file over it
 *
 * Between these two steps nothing may write to the piece: other threads are held (hold.h), signals are blocked, and no
 * RDMA or asynchronous I/O of the kernel reaches the pages.  What cannot be seen is another process that writes here by
 * process_vm_writev() at that very moment.
 */
#include "mem_map_in.h"

#include "hold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vma.h"

#define CHUNK ((size_t)2 << 20) /* a millisecond */
/* The file is much longer than what is mapped of it, so that mremap() can make the mapping longer as it could
 * before. */
#define FILE_LEN ((off_t)1 << 40)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* ---- may we? ---------------------------------------------------------------------- */

/* No page is locked into memory (the lock would be lost), and what this thread needs to work is elsewhere. */
bool conv_may(uintptr_t start, uintptr_t end)
{
	uintptr_t stack = (uintptr_t)__builtin_frame_address(0), tls = (uintptr_t)&errno;

	return hold_status("\nVmLck:", 1) == 0 && !(stack >= start && stack < end) && !(tls >= start && tls < end);
}

/* Requests of these may be writing to our pages: the kernel holds on to the old ones. */
static bool writes_behind(const char *name)
{
	static const char *const memory[] = { "/dev/shm/", "/dev/zero", "/dev/hugepages/" };

	for (unsigned i = 0; i < sizeof(memory) / sizeof(*memory); i++)
		if (!strncmp(name, memory[i], strlen(memory[i])))
			return false;
	return strstr(name, "[aio]") || strstr(name, "io_uring") || !strncmp(name, "/dev/", 5);
}

bool conv_suits(uintptr_t start, uintptr_t end)
{
	struct vma_reader r;
	uintptr_t at = start;
	struct vma v;
	bool ok = true;

	if (!conv_may(start, end) || !vma_open(&r))
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

static bool still_there(struct vma_reader *r, const struct conv *c, uintptr_t start, uintptr_t end)
{
	uintptr_t at = start;
	struct vma v;

	vma_again(r);
	while (at < end && vma_next(r, &v)) {
		if (v.end <= at)
			continue;
		if (v.start > at || v.ino != c->ino || strcmp(v.name, CONV_VMA) || v.perm[3] != 's' ||
		    v.start - v.off != c->start)
			break;
		at = v.end;
	}
	return at >= end;
}

bool conv_intact(const struct conv *c, uintptr_t start, uintptr_t end)
{
	struct vma_reader r;
	struct stat st;
	bool ok;

	/* A program may close descriptors that it does not know. */
	if (fstat(c->fd, &st) || st.st_ino != c->ino || !vma_open(&r))
		return false;
	ok = still_there(&r, c, start, end);
	vma_close(&r);
	return ok;
}

/* ---- there ------------------------------------------------------------------------- */

static bool write_all(int fd, uintptr_t addr, size_t len, off_t off)
{
	while (len) {
		long n = syscall(SYS_pwrite64, fd, addr, len, off);

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
		long r = pagemap < 0 ? -1 : syscall(SYS_pread64, pagemap, map, ask * 8, (addr / page + i) * 8);

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

/* The kernel may have taken the old mapping away before it failed: the bytes are in the file.  false: and only there. */
static bool piece_rescue(int fd, uintptr_t addr, size_t len, off_t off)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	bool there = syscall(SYS_mmap, addr, len, PROT_READ | PROT_WRITE, flags, -1, 0L) == (long)addr;

	for (size_t done = 0; there && done < len;) {
		long n = syscall(SYS_pread64, fd, addr + done, len - done, off + (off_t)done);

		if (n <= 0 && errno != EINTR)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return there;
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

/* On the way from start to end. */
struct pages {
	int fd, pagemap;
	uintptr_t start, at, end;
	bool lost;
	struct vma_reader *maps; /* on the way back, where other threads may change them */
	const struct conv *conv;
};

static size_t piece_len(const struct pages *w) { return w->end - w->at < CHUNK ? w->end - w->at : CHUNK; }

static bool share_piece(void *arg)
{
	struct pages *w = arg;
	size_t len = piece_len(w);
	off_t off = (off_t)(w->at - w->start);

	if (!pages_write(w->fd, w->pagemap, w->at, len, off))
		return false;
	if (syscall(SYS_mmap, w->at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, w->fd, off) != (long)w->at) {
		w->lost = !piece_rescue(w->fd, w->at, len, off);
		return false;
	}
	w->at += len;
	return w->at < w->end;
}

/* How far it got. */
static uintptr_t pages_share(int fd, uintptr_t start, uintptr_t end)
{
	struct pages w = { .fd = fd, .start = start, .at = start, .end = end };

	w.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	hold_run(share_piece, &w);
	if (w.pagemap >= 0)
		close(w.pagemap);
	if (w.lost) {
		fprintf(stderr, "libibverbs (rdmad): out of memory while registering memory; its contents are lost\n");
		abort();
	}
	return w.at;
}

/* Not of malloc(): it may unmap memory, and programs that look after that (UCX) deregister some then, in this very thread. */
static struct conv pool[MAP_CONVS]; /* end 0: free */

struct conv *conv_make(uintptr_t start, uintptr_t end)
{
	struct conv *c = pool;

	while (c < pool + MAP_CONVS && c->end)
		c++;
	if (c == pool + MAP_CONVS)
		return NULL;
	*c = (struct conv){ 0 };
	c->start = start;
	c->fd = file_make(&c->ino);
	if (c->fd < 0)
		return NULL;
	c->end = pages_share(c->fd, start, end);
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
	c->end = 0;
}

/* ---- and back -------------------------------------------------------------------- */

static bool part_piece(void *arg)
{
	struct pages *w = arg;
	size_t len = piece_len(w);
	long p;

	/* Until now, or since the last piece, other threads may have unmapped it, or mapped other memory there. */
	if (w->maps && !still_there(w->maps, w->conv, w->at, w->at + len))
		return false;
	p = syscall(SYS_mmap, NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
	if (p == -1)
		return false;
	memcpy((void *)p, (const void *)w->at, len);
	if (syscall(SYS_mremap, p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, w->at) == -1) {
		syscall(SYS_munmap, p, len);
		return false;
	}
	w->at += len;
	return w->at < w->end;
}

bool conv_part(const struct conv *c)
{
	struct vma_reader r;
	struct pages w = { .start = c->start, .at = c->start, .end = c->end, .maps = &r, .conv = c };

	if (!vma_open(&r))
		return false;
	hold_run(part_piece, &w);
	vma_close(&r);
	return w.at >= c->end;
}

bool pages_private(uintptr_t start, uintptr_t end)
{
	struct pages w = { .start = start, .at = start, .end = end };

	hold_alone(part_piece, &w);
	return w.at >= end;
}
