/* SPDX-License-Identifier: MIT */
/*
 * mem_stack.c - the stack of the thread that forks has converted pages: it lies in a region (fibers, pthread_attr_setstack()), or has
 * something that was registered, and is kept.
 *
 *	prepare	the part that fork() and its handlers write to becomes private: a copy takes its place
 *	parent	what has changed since is written into the file, whose pages take their place again
 *	child	has its copy
 *
 * Else both would return from fork() on the same pages.  Those of the threads that libc's list has beside it are treated alike, as the
 * child writes there (ring_add).  Both times another stack is in use, and other threads are held.  Between the two RDMA sees nothing
 * of what is written to a part, and the program nothing of what RDMA writes there; no byte of either is lost.
 *
 * The pages of the file are mapped beside by mremap(), which needs no descriptor, and leaves them all that madvise() and mprotect()
 * have said of them.
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

#define BELOW ((uintptr_t)64 << 10) /* handlers */
#define ABOVE ((uintptr_t)16 << 10) /* fork() itself */
/* Where nobody knows the ends of a stack, as of a fiber: others may have what is there. */
#define FEW_BELOW ((uintptr_t)16 << 10)
#define FEW_ABOVE ((uintptr_t)8 << 10)
#define TCB_LEN   ((uintptr_t)4096) /* what libc has of a thread, at most */
#define TCB_LINKS ((size_t)1024)    /* of that, where it has it in lists */
#define NEAR      16u
#define STACK_LEN ((size_t)64 << 10)
#define PARTS     40u /* each has a page */

/* It reads what a sanitizer has put between variables. */
#define PLAIN __attribute__((no_sanitize("address", "thread", "undefined")))

struct part {
	uintptr_t start, end;
	int prot;
	unsigned char *file; /* the pages of the file, until they are back */
	unsigned char *own;  /* private ones, until they are there */
	unsigned char *old;  /* as it was */
};

/* All under the lock. */
static struct part parts[PARTS];
static struct vma_reader reader; /* too large for small stacks */
static unsigned part_n;
static bool moved; /* all that was to be */
static unsigned char *stack;
static ucontext_t here, there;

static size_t part_len(const struct part *p) { return p->end - p->start; }

static unsigned char *map_new(size_t len)
{
	long p = syscall(SYS_mmap, NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);

	return p == -1 ? NULL : (unsigned char *)p;
}

/* Shared pages are mapped once more. */
static unsigned char *map_again(uintptr_t at, size_t len)
{
	long p = syscall(SYS_mremap, at, 0L, len, MREMAP_MAYMOVE);

	return p == -1 ? NULL : (unsigned char *)p;
}

static bool move(unsigned char **from, uintptr_t to, size_t len)
{
	if (syscall(SYS_mremap, *from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == -1)
		return false;
	*from = NULL;
	return true;
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
		unmap(&p->file, part_len(p));
		unmap(&p->own, part_len(p));
		unmap(&p->old, part_len(p));
	}
	part_n = 0;
	unmap(&stack, STACK_LEN);
}

/* The step on another stack.  Where other threads cannot be held, what they write there in this moment may be lost. */
static hold_step *step;

static void elsewhere(void)
{
	if (!hold_insist(step, NULL))
		hold_alone(step, NULL);
}

static bool all_move(hold_step *how)
{
	moved = false;
	step = how;
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK_LEN;
	there.uc_link = &here;
	makecontext(&there, elsewhere, 0);
	swapcontext(&here, &there);
	return moved;
}

/* ---- before fork() ------------------------------------------------------------------- */

static bool meets(const struct range *r, uintptr_t start, uintptr_t end) { return r->start < end && start < r->end; }

/* Pages around [first, last], on a stack whose ends may be known. */
static struct range around(uintptr_t first, uintptr_t last, const struct range *ends)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const bool known = ends->start <= first && first < ends->end;
	uintptr_t start = first - (known ? BELOW : FEW_BELOW), end = (last & ~(page - 1)) + (known ? ABOVE : FEW_ABOVE);

	if (known && start < ends->start)
		start = ends->start;
	if (known && end > ends->end)
		end = ends->end;
	return (struct range){ start & ~(page - 1), (end + page - 1) & ~(page - 1) };
}

static struct range around_frame(const struct range *ends)
{
	uintptr_t at = (uintptr_t)__builtin_frame_address(0);

	return around(at, at, ends);
}

/* From libc's variables to what it has of the thread, which are in that order, or the other. */
static struct range around_tls(const struct range *ends)
{
	uintptr_t one = (uintptr_t)&errno, self = (uintptr_t)pthread_self();

	return one < self ? around(one, self + TCB_LEN, ends) : around(self, one, ends);
}

static bool has_convs(const struct range *r)
{
	const struct conv *c = NULL;

	while ((c = conv_next(c)) && !meets(r, c->start, c->end))
		;
	return c;
}

/* Without memory for it fields are NULL. */
static void part_fill(struct part *p, uint64_t ino)
{
	p->file = map_again(p->start, part_len(p));
	p->own = map_new(part_len(p));
	p->old = map_new(part_len(p));
	if (!p->own)
		return;
	vma_advise((uintptr_t)p->own, part_len(p), conv_advice(ino, p->start, p->end));
	vma_policy_copy(p->start, (uintptr_t)p->own, part_len(p));
}

static bool part_add(const struct range *r, const struct vma *v)
{
	struct part *p = &parts[part_n];

	if (part_n == PARTS)
		return false;
	part_n++;
	*p = (struct part){ .start = r->start, .end = r->end, .prot = vma_prot(v) };
	part_fill(p, v->ino);
	return p->file && p->own && p->old;
}

/* Of one mapping, and none has a page of another one. */
struct near {
	struct range r[NEAR];
	unsigned n;
};

static void near_add(struct near *near, const struct vma *v, struct range r)
{
	if (r.start < v->start)
		r.start = v->start;
	if (r.end > v->end)
		r.end = v->end;
	for (unsigned i = 0; i < near->n;)
		if (meets(&r, near->r[i].start, near->r[i].end)) {
			r.start = r.start < near->r[i].start ? r.start : near->r[i].start;
			r.end = r.end > near->r[i].end ? r.end : near->r[i].end;
			near->r[i] = near->r[--near->n];
			i = 0;
		} else {
			i++;
		}
	if (r.start < r.end && near->n < NEAR)
		near->r[near->n++] = r;
}

PLAIN static void link_add(struct near *near, const struct vma *v, uintptr_t at, const uintptr_t *to)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = at & ~(page - 1);

	if (at % sizeof(at) == 0 && v->start <= at && at < v->end && *(const uintptr_t *)at == (uintptr_t)to)
		near_add(near, v, (struct range){ from, from + page });
}

/*
 * libc has its threads in a ring (next, previous), and the child takes the one that forked out of it.  For that it writes to those
 * beside, whose stacks may be registered, too.  (One that comes there in this very moment is not seen.)
 */
PLAIN static void ring_add(struct near *near, const struct vma *v)
{
	const uintptr_t *w = (const uintptr_t *)pthread_self();

	for (size_t i = 0; i + 1 < TCB_LINKS / sizeof(*w); i++) {
		link_add(near, v, w[i] + sizeof(*w), &w[i]);
		link_add(near, v, w[i + 1], &w[i]);
	}
}

/* Read-only pages stay as they are. */
static bool parts_of(const struct vma *v, const struct range *frames, const struct range *own)
{
	struct near near = { .n = 0 };
	bool added = true;

	if (strcmp(v->name, CONV_VMA) || strncmp(v->perm, "rw", 2) || v->perm[3] != 's')
		return true;
	near_add(&near, v, *frames);
	near_add(&near, v, *own);
	ring_add(&near, v);
	for (unsigned i = 0; added && i < near.n; i++)
		added = part_add(&near.r[i], v);
	return added;
}

static bool parts_find(const struct range *frames, const struct range *own)
{
	bool found = true;
	struct vma v;

	if (!vma_open(&reader))
		return !has_convs(frames) && !has_convs(own);
	while (found && vma_next(&reader, &v))
		found = parts_of(&v, frames, own);
	vma_close(&reader);
	return found;
}

PLAIN static void copy(unsigned char *to, const unsigned char *from, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((volatile unsigned char *)to)[i] = from[i];
}

static bool part_apart(struct part *p)
{
	copy(p->old, (const unsigned char *)p->start, part_len(p));
	copy(p->own, p->old, part_len(p)); /* RDMA goes on */
	return !syscall(SYS_mprotect, p->own, part_len(p), p->prot) && move(&p->own, p->start, part_len(p));
}

static bool apart(void *)
{
	moved = true;
	for (struct part *p = parts; p < parts + part_n; p++)
		moved = moved && (!p->own || part_apart(p));
	return false;
}

struct range stack_ends(void)
{
	struct range r = { 0, 0 };
	pthread_attr_t attr;
	void *lowest;
	size_t len;

	if (syscall(SYS_gettid) == getpid() || pthread_getattr_np(pthread_self(), &attr))
		return r;
	if (!pthread_attr_getstack(&attr, &lowest, &len))
		r = (struct range){ (uintptr_t)lowest, (uintptr_t)lowest + len };
	pthread_attr_destroy(&attr);
	return r;
}

bool stack_apart(const struct range *ends)
{
	struct range frames = around_frame(ends), own = around_tls(ends);

	if (!parts_find(&frames, &own))
		return false;
	if (!part_n)
		return true;
	stack = map_new(STACK_LEN);
	return stack && all_move(apart);
}

/* ---- behind it ------------------------------------------------------------------------- */

void stack_child(void) { all_end(); }

PLAIN static bool part_back(struct part *p)
{
	const unsigned char *now = (const unsigned char *)p->start;

	for (size_t i = 0; i < part_len(p); i++)
		if (now[i] != p->old[i])
			p->file[i] = now[i];
	return move(&p->file, p->start, part_len(p));
}

static bool back(void *)
{
	moved = true;
	for (struct part *p = parts; p < parts + part_n; p++)
		moved = (!p->file || part_back(p)) && moved;
	return false;
}

bool stack_back(void)
{
	bool all = !part_n || all_move(back);

	all_end();
	return all;
}
