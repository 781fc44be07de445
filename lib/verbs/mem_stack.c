/* SPDX-License-Identifier: MIT */
/*
 * mem_stack.c - the stack of the thread that forks has converted pages: it lies in a region (fibers, pthread_attr_setstack()), or has
 * something that was registered, and is kept.
 *
 *	prepare	the part that fork() and its handlers write to becomes private: its file is mapped so, and each page written
 *	parent	what has changed since is written into the file, which is mapped as before
 *	child	has its copy
 *
 * Else both would return from fork() on the same pages.  Mapped privately the file has the same bytes, so the stack may be in use
 * meanwhile; on the way back another one is, and other threads are held.  Between the two RDMA sees nothing of what is written to
 * that part, and the program nothing of what RDMA writes there; no byte of either is lost.
 */
#include "mem_map_in.h"

#include "hold.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "vma.h"

#define BELOW     ((uintptr_t)64 << 10) /* handlers, also of signals */
#define ABOVE     ((uintptr_t)16 << 10) /* fork() itself */
#define STACK_LEN ((size_t)64 << 10)
#define PARTS     40u /* each has a page */

/* It reads what a sanitizer has put between variables. */
#define PLAIN __attribute__((no_sanitize("address", "thread", "undefined")))

struct range {
	uintptr_t start, end;
};

struct part {
	uintptr_t start, end;
	uint64_t off;
	int fd;
	unsigned advice;
	unsigned char *file, *old; /* the same of the file, and as it was */
};

/* All under the lock. */
static struct part parts[PARTS];
static struct vma_reader reader; /* too large for small stacks */
static unsigned part_n;
static unsigned char *stack;
static ucontext_t here, there;

static void *map(uintptr_t at, size_t len, int flags, int fd, uint64_t off)
{
	long p = syscall(SYS_mmap, at, len, PROT_READ | PROT_WRITE, flags | (at ? MAP_FIXED : 0), fd, off);

	return p == -1 ? NULL : (void *)p;
}

static void unmap(unsigned char **p, size_t len)
{
	if (*p)
		syscall(SYS_munmap, *p, len);
	*p = NULL;
}

static void all_end(void)
{
	for (struct part *p = parts; p < parts + part_n; p++) {
		unmap(&p->file, p->end - p->start);
		unmap(&p->old, p->end - p->start);
	}
	part_n = 0;
	unmap(&stack, STACK_LEN);
}

/* ---- before fork() ------------------------------------------------------------------- */

static bool meets(const struct range *r, uintptr_t start, uintptr_t end) { return r->start < end && start < r->end; }

static struct range around(const void *p)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p & ~(page - 1);

	return (struct range){ at > BELOW ? at - BELOW : 0, at + ABOVE };
}

/* One of those that have something there, with its file; ino 0: any. */
static const struct conv *conv_of(const struct range *r, uint64_t ino)
{
	struct conv *const lists[] = { maps.convs, maps.lost };

	for (unsigned i = 0; i < 2; i++)
		for (const struct conv *c = lists[i]; c; c = c->next)
			if (meets(r, c->start, c->end) && (!ino || ino == c->ino) && conv_has_file(c))
				return c;
	return NULL;
}

static void part_add(const struct range *r, const struct vma *v)
{
	const struct conv *c = conv_of(r, v->ino);
	struct part *p = &parts[part_n];

	if (!c || part_n == PARTS)
		return;
	*p = (struct part){ .start = v->start > r->start ? v->start : r->start,
			    .end = v->end < r->end ? v->end : r->end,
			    .fd = c->fd };
	p->off = v->off + (p->start - v->start);
	if (vma_advice(p->start, p->end, &p->advice) != VMA_LIKE)
		p->advice = c->advice;
	part_n++;
}

static void parts_find(const struct range *r)
{
	struct vma v;

	if (!conv_of(r, 0) || !vma_open(&reader))
		return;
	while (vma_next(&reader, &v) && v.start < r->end)
		if (meets(r, v.start, v.end) && !strcmp(v.name, CONV_VMA) && !strcmp(v.perm, "rw-s"))
			part_add(r, &v);
	vma_close(&reader);
}

static bool part_ready(struct part *p)
{
	size_t len = p->end - p->start;

	p->file = map(0, len, MAP_SHARED, p->fd, p->off);
	p->old = map(0, len, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->file && p->old)
		memcpy(p->old, p->file, len);
	return p->file && p->old;
}

static bool all_ready(void)
{
	bool ready = true;

	stack = map(0, STACK_LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (struct part *p = parts; p < parts + part_n; p++)
		ready = ready && part_ready(p);
	return ready && stack;
}

/* Another thread may write there at the same time.  (To add 0 some compilers make a read.) */
PLAIN static void touch(volatile unsigned char *p)
{
	unsigned char was = *p;

	__atomic_compare_exchange_n(p, &was, was, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

PLAIN static void part_private(const struct part *p)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (!map(p->start, p->end - p->start, MAP_PRIVATE, p->fd, p->off))
		return;
	vma_advise(p->start, p->end - p->start, p->advice);
	for (uintptr_t at = p->start; at < p->end; at += page)
		touch((volatile unsigned char *)at);
}

void stack_apart(void)
{
	struct range frames = around(__builtin_frame_address(0)), own = around(&errno);

	if (meets(&frames, own.start, own.end)) {
		frames.start = frames.start < own.start ? frames.start : own.start;
		frames.end = frames.end > own.end ? frames.end : own.end;
		own = (struct range){ 0 };
	}
	parts_find(&frames);
	parts_find(&own);
	if (part_n && all_ready())
		for (unsigned i = 0; i < part_n; i++)
			part_private(&parts[i]);
	else
		all_end();
}

/* ---- behind it ------------------------------------------------------------------------- */

void stack_child(void) { all_end(); }

PLAIN static void part_write(const struct part *p)
{
	const unsigned char *now = (const unsigned char *)p->start;

	for (size_t i = 0; i < p->end - p->start; i++)
		if (now[i] != p->old[i])
			p->file[i] = now[i];
}

static bool back(void *)
{
	for (const struct part *p = parts; p < parts + part_n; p++) {
		part_write(p);
		map(p->start, p->end - p->start, MAP_SHARED, p->fd, p->off);
		vma_advise(p->start, p->end - p->start, p->advice);
	}
	return false;
}

/* Where other threads cannot be held, what they write there in this moment may be lost: less than if it stayed as it is. */
static void back_run(void)
{
	if (!hold_run(back, NULL))
		hold_alone(back, NULL);
}

void stack_back(void)
{
	if (!part_n)
		return;
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK_LEN;
	there.uc_link = &here;
	makecontext(&there, back_run, 0);
	swapcontext(&here, &there);
	all_end();
}
