/* SPDX-License-Identifier: MIT */
/*
 * mem_pages.c - pages change places with those of a file, piece by piece.
 *
 *	there	what is in the piece is written into the file; the file is mapped over it
 *	back	private memory is mapped over it; what the file has is read into it
 *
 * What was never touched is a hole of the file, and stays one: a piece is long where nothing is, and has CHUNK bytes that must
 * be copied at most.  All happens in place: so the kernel joins the pieces to one mapping, which mremap() can move as before.
 */
#include "mem_map_in.h"

#include "direct.h"
#include "hold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vma.h"

#define CHUNK   ((size_t)2 << 20) /* a millisecond */
#define EMPTY   ((size_t)1 << 30) /* to see that nothing is there takes as long */
#define BLOCK   512u              /* pages that are asked for at once */
#define PRESENT (3ull << 62)      /* in pagemap: in memory, or swapped out */
#define RW      (PROT_READ | PROT_WRITE)

/* On the way from start to end; the file has at off what is at start. */
struct pages {
	uintptr_t start, at, end;
	off_t off;
	int fd, pagemap;
	unsigned advice;         /* for what is mapped anew */
	bool advised;            /* that is known */
	bool locks;              /* some memory of the program is locked, and what it maps may be so at once */
	size_t room;             /* for what must be copied */
	bool lost;               /* some of it is in the file only, which cannot be mapped */
	struct vma_reader *maps; /* but in a child */
	unsigned turn;           /* of hold.h, in which they were looked at */
	/* On the way back: */
	const struct conv *conv;
	bool mine;         /* this process made it, whose threads may change what is mapped */
	bool tell;         /* each piece to the parent */
	uintptr_t vma_end; /* of the mapping that at is in, ... */
	int prot;          /* ... and what may be done there */
};

static struct vma_reader reader; /* of one function at a time, under the lock: too large for small stacks */

static size_t page_len(void) { return (size_t)sysconf(_SC_PAGESIZE); }
static off_t off_of(const struct pages *w, uintptr_t addr) { return w->off + (off_t)(addr - w->start); }

static bool map_fixed(uintptr_t addr, size_t len, int prot, int flags, int fd, off_t off)
{
	return syscall(SYS_mmap, addr, len, prot, flags | MAP_FIXED, fd, off) == (long)addr;
}

static bool protect(uintptr_t addr, size_t len, int prot)
{
	return prot == RW || !syscall(SYS_mprotect, addr, len, prot);
}

static bool map_at(const struct pages *w, size_t len, int prot, int flags, int fd, off_t off)
{
	struct vma_policy policy;
	const bool bound = vma_policy(w->at, &policy);

	if (!map_fixed(w->at, len, prot, flags, fd, off))
		return false;
	vma_advise(w->at, len, w->advice);
	if (bound)
		vma_policy_set(w->at, len, &policy);
	return true;
}

/*
 * A long range is not counted as memory that may be needed: fork() fails in a program that has more of that in one mapping than
 * the machine has, and most of an arena is never touched.
 */
static int private_flags(const struct pages *w)
{
	return MAP_PRIVATE | MAP_ANONYMOUS | (w->end - w->start > MAP_BLIND ? MAP_NORESERVE : 0);
}

/* Until now other threads may have mapped other memory, or what writes behind. */
static bool is_new_turn(struct pages *w)
{
	unsigned now = hold_turn();
	bool is = w->turn != now;

	w->turn = now;
	return is;
}

static void check_lost(const struct pages *w, const char *when)
{
	if (!w->lost)
		return;
	fprintf(stderr, "libibverbs (rdmad): out of memory while %s memory; its contents are lost\n", when);
	abort();
}

/* ---- what the file has -------------------------------------------------------------- */

/*
 * The next bytes of [*from, end) that are no hole; 0: there are none.  Page by page: the way to the next hole may be long.  Where
 * nothing is known of holes (gVisor) all may be data.
 */
static size_t data_next(int fd, off_t *from, off_t end)
{
	const off_t page = (off_t)page_len();
	off_t to = syscall(SYS_lseek, fd, *from, SEEK_DATA);

	if (to < 0 && errno != ENXIO && *from < end)
		return end - *from < (off_t)CHUNK ? (size_t)(end - *from) : CHUNK;
	if (to < 0 || to >= end)
		return 0;
	*from = to;
	do
		to += page;
	while (to < end && to - *from < (off_t)CHUNK && syscall(SYS_lseek, fd, to, SEEK_DATA) == to);
	return (size_t)(to - *from);
}

/* Into memory that is all zero. */
static bool file_read(int fd, uintptr_t addr, size_t len, off_t off)
{
	const off_t end = off + (off_t)len;
	off_t from = off;
	size_t part;

	for (; (part = data_next(fd, &from, end)); from += (off_t)part)
		for (size_t done = 0; done < part;) {
			long n = syscall(SYS_pread64, fd, addr + (size_t)(from - off) + done, part - done,
					 from + (off_t)done);

			if (n <= 0 && errno != EINTR)
				return false;
			done += n > 0 ? (size_t)n : 0;
		}
	return true;
}

/* ---- there -------------------------------------------------------------------------- */

struct block {
	uint64_t map[BLOCK];
	size_t page_n, len; /* len: of what is there */
};

/* Where the kernel does not tell all is taken to be there. */
static void block_look(struct block *b, const struct pages *w, uintptr_t addr)
{
	const size_t page = page_len(), most = CHUNK / page < BLOCK ? CHUNK / page : BLOCK,
		     left = (w->end - addr) / page;
	long n;

	b->page_n = left < most ? left : most;
	b->len = 0;
	n = w->pagemap < 0 ? -1 : syscall(SYS_pread64, w->pagemap, b->map, b->page_n * 8, addr / page * 8);
	if (n != (long)(b->page_n * 8))
		memset(b->map, 0xff, sizeof(b->map));
	for (size_t i = 0; i < b->page_n; i++)
		b->len += b->map[i] & PRESENT ? page : 0;
}

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

static bool block_write(const struct block *b, const struct pages *w, uintptr_t addr)
{
	const size_t page = page_len();

	for (size_t i = 0, first; i < b->page_n;) {
		for (; i < b->page_n && !(b->map[i] & PRESENT); i++)
			;
		for (first = i; i < b->page_n && b->map[i] & PRESENT; i++)
			;
		if (i > first &&
		    !write_all(w->fd, addr + first * page, (i - first) * page, off_of(w, addr + first * page)))
			return false;
	}
	return true;
}

static bool share_piece(void *arg)
{
	struct pages *w = arg;
	uintptr_t to = w->at;
	static struct block b; /* as reader */
	size_t copied = 0, len;

	if (to == w->start && !w->advised)
		w->advised = !w->locks && vma_try(w->maps, to, w->end, &w->advice);
	if (!w->advised || (to == w->start && !vma_policy_to_file(to, w->end - to, w->fd)))
		return false;
	while (to < w->end && to - w->at < EMPTY) {
		block_look(&b, w, to);
		if (copied + b.len > CHUNK || copied + b.len > w->room)
			break;
		if (!block_write(&b, w, to))
			return false;
		copied += b.len;
		to += b.page_n * page_len();
	}
	len = to - w->at;
	if (!len || (is_new_turn(w) && !conv_plain(w->maps, w->at, w->end)))
		return false;
	if (!map_at(w, len, RW, MAP_SHARED, w->fd, off_of(w, w->at))) {
		/* The kernel may have taken the old mapping away before it failed: the bytes are in the file. */
		w->lost = !conv_plain(w->maps, w->at, to) && (!map_at(w, len, RW, private_flags(w), -1, 0) ||
							      !file_read(w->fd, w->at, len, off_of(w, w->at)));
		return false;
	}
	w->room -= copied;
	w->at = to;
	return w->at < w->end;
}

uintptr_t pages_share(struct conv *c, uintptr_t end, size_t most)
{
	struct pages w = { .start = c->start,
			   .at = c->start,
			   .end = end,
			   .fd = c->fd,
			   .advice = c->advice,
			   .advised = c->advised,
			   .locks = hold_status("\nVmLck:", 1),
			   .room = most,
			   .maps = &reader,
			   .turn = hold_turn() - 1 };

	if (!vma_open(&reader))
		return c->start;
	w.pagemap = direct_open("/proc/self/pagemap", O_RDONLY);
	if (w.pagemap >= 0 || end - c->start <= MAP_BLIND)
		hold_run(share_piece, &w);
	if (w.pagemap >= 0)
		direct_close(w.pagemap);
	vma_close(&reader);
	c->advice = w.advice;
	c->advised = w.advised;
	check_lost(&w, "registering");
	return w.at;
}

/* ---- and back ----------------------------------------------------------------------- */

/* The mapping that is next; false: it is not one of ours. */
static bool back_look(struct pages *w)
{
	struct vma v;

	if (!w->mine)
		return true;
	if ((is_new_turn(w) && !conv_quiet(w->maps)) || !conv_at(w->maps, w->conv, w->at, &v))
		return false;
	w->vma_end = v.end < w->end ? v.end : w->end;
	w->prot = vma_prot(&v);
	return true;
}

static uintptr_t back_end(const struct pages *w)
{
	const uintptr_t most = w->vma_end - w->at < EMPTY ? w->vma_end : w->at + EMPTY;
	const off_t end = off_of(w, most);
	off_t from = off_of(w, w->at);
	size_t copied = 0, part;

	for (; (part = data_next(w->fd, &from, end)); from += (off_t)part) {
		if (copied + part > CHUNK) /* not the first: that is no longer */
			return w->start + (uintptr_t)(from - w->off);
		copied += part;
	}
	return most;
}

static bool back_piece(void *arg)
{
	struct pages *w = arg;
	uintptr_t to;
	size_t len;
	off_t off;

	if (!conv_has_file(w->conv) || !back_look(w))
		return false;
	to = back_end(w);
	len = to - w->at;
	off = off_of(w, w->at);
	if (!map_at(w, len, RW, private_flags(w), -1, 0) || !file_read(w->fd, w->at, len, off) ||
	    !protect(w->at, len, w->prot)) {
		w->lost = !(w->mine && conv_there(w->maps, w->conv, w->at, to)) &&
			  !map_at(w, len, w->prot, MAP_SHARED, w->fd, off);
		return false;
	}
	if (w->mine && !maps.late && !map_forking()) /* nobody else has it: so memory is not taken twice */
		syscall(SYS_fallocate, w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, (off_t)len);
	if (w->tell)
		tell_piece();
	w->at = to;
	return w->at < w->end;
}

bool pages_back(const struct conv *c)
{
	struct pages w = { .start = c->start,
			   .at = c->start,
			   .end = c->end,
			   .fd = c->fd,
			   .advice = c->advice,
			   .conv = c,
			   .mine = true,
			   .maps = &reader,
			   .turn = hold_turn() - 1 };

	if (!vma_open(&reader))
		return false;
	hold_run(back_piece, &w);
	vma_close(&reader);
	check_lost(&w, "deregistering");
	return w.at >= w.end;
}

/* Without the file: all of it is copied. */
static bool copy_piece(void *arg)
{
	struct pages *w = arg;
	size_t len = w->end - w->at < CHUNK ? w->end - w->at : CHUNK;
	long p = syscall(SYS_mmap, NULL, len, RW, private_flags(w), -1, 0L);

	if (p == -1)
		return false;
	vma_policy_copy(w->at, (uintptr_t)p, len);
	if (w->prot & PROT_READ || protect(w->at, len, PROT_READ))
		memcpy((void *)p, (const void *)w->at, len);
	else
		w->lost = true;
	if (w->lost || !protect((uintptr_t)p, len, w->prot) ||
	    syscall(SYS_mremap, p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, w->at) == -1) {
		syscall(SYS_munmap, p, len);
		return false;
	}
	vma_advise(w->at, len, w->advice);
	if (w->tell)
		tell_piece();
	w->at += len;
	return w->at < w->end;
}

bool pages_private(const struct vma *v, int fd)
{
	const struct conv c = {
		.start = v->start - v->off, .ino = v->ino, .fd = fd, .major = v->major, .minor = v->minor
	};
	struct pages w = { .start = v->start,
			   .at = v->start,
			   .end = v->end,
			   .off = (off_t)v->off,
			   .fd = fd,
			   .advice = conv_advice(v->ino, v->start, v->end),
			   .conv = &c,
			   .tell = true,
			   .vma_end = v->end,
			   .prot = vma_prot(v) };

	hold_alone(back_piece, &w);
	check_lost(&w, "forking");
	if (w.at < w.end)
		hold_alone(copy_piece, &w);
	return w.at >= w.end;
}
