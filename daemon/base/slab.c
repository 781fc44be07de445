/* SPDX-License-Identifier: MIT */
/* slab.c - the slabs of a context in a list, the free pieces of each on a stack. */
#include "slab.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "quota.h"
#include "rights.h"

#define FIRST_LEN  ((size_t)64 << 10) /* of the first slab for pieces of some length, or one piece */
#define LEN_MAX    ((size_t)64 << 20) /* of those that follow, or one piece */
#define EMPTY_KEPT (4 * FIRST_LEN)    /* of a context, for the next pieces of those lengths */
#define WARM_KEPT  (8 * FIRST_LEN)    /* of free pieces: to give pages back takes longer than to use them again */

#define WARM 0x80000000u /* in slab.free */

struct slab {
	struct slab *next, **link; /* of its list, and what points to it there */
	struct slabs *of;
	uid_t uid;
	struct shmem shm; /* with its descriptor until the client has it */
	uint64_t number;
	bool retired;
	size_t unit;
	uint32_t n, used;
	uint32_t top;    /* pieces from here on were never used */
	uint32_t free_n; /* of those before */
	size_t warm;     /* as in struct slabs */
	struct bill bill;
	uint32_t free[];
};

static size_t align(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }

/* In steps of an eighth: pieces that are about as long share a slab. */
static size_t unit_of(size_t len)
{
	size_t step = 64;

	while (len > 16 * step)
		step *= 2;
	return align(len, step);
}

static void link_in(struct slab **list, struct slab *s)
{
	s->link = list;
	s->next = *list;
	if (s->next)
		s->next->link = &s->next;
	*list = s;
}

static void link_out(struct slab *s)
{
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
}

/* Nothing new comes to lie in it, and nobody looks at it again. */
static void retire(struct slab *s)
{
	if (s->retired)
		return;
	s->retired = true;
	link_out(s);
	link_in(&s->of->retired, s);
}

static struct slab *slab_find(struct slabs *all, size_t unit, uint32_t *n)
{
	for (struct slab *s = all->first, *next; s; s = next) {
		next = s->next;
		if (s->unit != unit)
			continue;
		if (held_is_torn(s->shm.held, s->shm.mem, s->shm.len)) {
			retire(s);
			continue;
		}
		if (s->used < s->n)
			return s;
		*n += s->n;
	}
	return NULL;
}

static int slab_make(struct slabs *all, uid_t uid, size_t unit, uint32_t n, struct slab **out)
{
	static uint64_t last; /* of all contexts: a forked child may have old ones of another */
	struct cost cost = { { [QUOTA_MAPS] = HELD_MAPS } };
	size_t len = sizeof(struct slab) + n * sizeof(uint32_t),
	       shared = align(n * unit, (size_t)sysconf(_SC_PAGESIZE));
	struct slab *s = calloc(1, len);
	int err;

	if (!s)
		return ENOMEM;
	cost.n[QUOTA_HEAP] = len + sizeof(struct held);
	cost.n[QUOTA_QUEUE_LEN] = shared;
	err = bill_open(&s->bill, uid, &cost);
	if (!err)
		err = shmem_make(&s->shm, "rdmad-queues", shared);
	if (err) {
		bill_close(&s->bill);
		free(s);
		return err;
	}
	s->number = ++last;
	s->uid = uid;
	s->of = all;
	s->unit = unit;
	s->n = n;
	link_in(&all->first, s);
	all->empty += s->shm.len;
	*out = s;
	return 0;
}

static void slab_free(struct slab *s)
{
	link_out(s);
	s->of->warm -= s->warm;
	shmem_give(&s->shm, s->uid, &s->bill);
	bill_close(&s->bill);
	free(s);
}

/* As many pieces as there are, or one at least. */
static uint32_t how_many(size_t unit, uint32_t have)
{
	size_t n = have ? have : FIRST_LEN / unit;

	if (n > LEN_MAX / unit)
		n = LEN_MAX / unit;
	return n ? (uint32_t)n : 1;
}

static void warm_add(struct slab *s, size_t bytes)
{
	s->warm += bytes;
	s->of->warm += bytes;
}

static uint32_t piece_take(struct slab *s)
{
	uint32_t i;

	if (!s->free_n)
		return s->top++;
	i = s->free[--s->free_n];
	if (i & WARM)
		warm_add(s, -s->unit);
	return i & ~WARM;
}

int slab_take(struct slabs *all, uid_t uid, size_t len, struct shmem *m)
{
	size_t unit = unit_of(len);
	uint32_t have = 0, i;
	struct slab *s = slab_find(all, unit, &have);
	int err = s ? 0 : slab_make(all, uid, unit, how_many(unit, have), &s);

	*m = (struct shmem){ .fd = -1 };
	if (err)
		return err;
	i = piece_take(s);
	if (!s->used++)
		all->empty -= s->shm.len;
	*m = (struct shmem){ .mem = s->shm.mem + i * unit, .len = len, .fd = -1, .slab = s };
	return 0;
}

struct slab_place slab_place(const struct shmem *m)
{
	const struct slab *s = m->slab;

	return s ? (struct slab_place){ s->number, (uint64_t)(m->mem - s->shm.mem), s->shm.len }
		 : (struct slab_place){ 0, 0, m->len };
}

int slab_fd(struct shmem *m)
{
	int *fd = m->slab ? &m->slab->shm.fd : &m->fd, was = *fd;

	*fd = -1;
	return was;
}

/* The pages of [mem, mem + len) that nobody else has a part of. */
static void pages_give(uint8_t *mem, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = align((uintptr_t)mem, page), to = ((uintptr_t)mem + len) & ~(page - 1);

	if (from < to)
		madvise((void *)from, to - from, MADV_REMOVE);
}

void slab_lost(const struct shmem *m)
{
	if (m->slab)
		retire(m->slab);
}

/* One that the client does not know is not the client's to forget. */
static bool slab_stays(const struct slab *s)
{
	return s->of->empty + s->shm.len <= EMPTY_KEPT && s->shm.fd < 0 && !s->retired &&
	       !held_is_torn(s->shm.held, s->shm.mem, s->shm.len);
}

/*
 * To give pages back waits for who writes into the file, maybe from memory that does not answer: those of whom we do not wait for stay
 * until the slab ends, all of which is on his bill.
 */
static void piece_give(struct slab *s, uint8_t *mem)
{
	bool warm = s->of->warm + s->unit <= WARM_KEPT || !rights_trusted(s->uid);
	uint32_t i = (uint32_t)((size_t)(mem - s->shm.mem) / s->unit);

	s->free[s->free_n++] = warm ? i | WARM : i;
	if (warm)
		warm_add(s, s->unit);
	else
		pages_give(mem, s->unit);
}

uint64_t slab_give(struct shmem *m)
{
	struct slab *s = m->slab;
	uint64_t number;

	if (!s) {
		shmem_free(m);
		return 0;
	}
	piece_give(s, m->mem);
	*m = (struct shmem){ .fd = -1 };
	if (--s->used)
		return 0;
	if (slab_stays(s)) {
		s->of->empty += s->shm.len;
		return 0;
	}
	number = s->number;
	slab_free(s);
	return number;
}

void slabs_end(struct slabs *all)
{
	while (all->first)
		slab_free(all->first);
	while (all->retired)
		slab_free(all->retired);
}
