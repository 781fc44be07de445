/* SPDX-License-Identifier: MIT */
/*
 * api_arena.c - regions with much more room than memory: pages that were never touched stay so.
 *
 * A program reserves an arena, registers all of it, and uses some pages of it; api_map.c is about whole buffers.
 */
#include "fixture.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIB   ((size_t)1 << 30)
#define MIB   ((size_t)1 << 20)
#define ARENA (64 * GIB)
#define SPENT (64 * MIB) /* more than all that is used here, less than a thousandth of the arena */

/* Where something is. */
static const struct {
	size_t at, len;
} used[] = { { 0, 100 }, { 20 * GIB - 4000, 8000 }, { 40 * GIB + 5, 3 * MIB }, { ARENA - 4096, 4096 } };

#define USED (sizeof(used) / sizeof(*used))

/* NULL: this machine has no such room, or does not tell which pages are there; then nothing so long is mapped. */
static unsigned char *reserve(void)
{
	unsigned char *p;

	if (access("/proc/self/pagemap", R_OK))
		return NULL;
	p = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED && errno == ENOMEM)
		return NULL;
	ck_assert(p != MAP_FAILED);
	for (unsigned i = 0; i < USED; i++)
		fix_fill(p + used[i].at, used[i].len, i);
	return p;
}

static void left_out(const char *what) { printf("%s: left out, no room for 64 GiB, or no pagemap\n", what); }

static bool is_intact(const unsigned char *p)
{
	for (unsigned i = 0; i < USED; i++)
		if (!fix_filled(p + used[i].at, used[i].len, i))
			return false;
	return true;
}

/* Bytes of memory that this process has. */
static size_t resident(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	ck_assert(f != NULL);
	while (fgets(line, sizeof(line), f) && sscanf(line, "VmRSS: %lu", &kib) != 1)
		;
	fclose(f);
	ck_assert(kib > 0);
	return (size_t)kib << 10;
}

static struct ibv_mr *reg(struct fix *f, void *p, size_t len)
{
	struct ibv_mr *m = ibv_reg_mr(f->pd, p, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	ck_assert_msg(m != NULL, "%s", strerror(errno));
	return m;
}

/* WRITE of the fixture's buffer. */
static void write_to(struct fix *f, const struct ibv_mr *to, const unsigned char *at, unsigned seed)
{
	struct ibv_qp *a, *b;

	fix_pair(f, &a, &b);
	fix_fill(f->buf, BUF_LEN, seed);
	ck_assert_int_eq(fix_write_to(f, a, 0, (uintptr_t)at, to->rkey, BUF_LEN), 0);
	fix_wait_ok(f->cq);
	ck_assert(fix_filled(at, BUF_LEN, seed));
	fix_pair_end(a, b);
}

/* The child has what was there, for itself, and no more. */
static void forked(unsigned char *p, size_t before)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid) {
		if (!is_intact(p) || fix_is_mapped(p) || fix_is_mapped(p + 40 * GIB))
			_exit(1);
		memset(p + used[2].at, 0xee, used[2].len);
		p[30 * GIB] = 1;
		_exit(resident() < before + SPENT ? 0 : 2);
	}
	ck_assert_int_ge(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(is_intact(p) && p[30 * GIB] == 0);
}

START_TEST(untouched)
{
	unsigned char *p = reserve();
	struct fix f;
	struct ibv_mr *m;
	unsigned shared;
	size_t before;

	if (!p) {
		left_out("untouched");
		return;
	}
	fix_open(&f);
	before = resident();
	m = reg(&f, p, ARENA);
	ck_assert(fix_is_mapped(p) && fix_is_mapped(p + 30 * GIB) && fix_is_mapped(p + ARENA - 1));
	ck_assert_uint_eq(fix_mappings(p, ARENA, &shared), 1);
	ck_assert(is_intact(p));
	write_to(&f, m, p + 50 * GIB + 100, 9);
	forked(p, before);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_mappings(p, ARENA, &shared);
	ck_assert_uint_eq(shared, 0);
	ck_assert(is_intact(p) && p[30 * GIB] == 0 && fix_filled(p + 50 * GIB + 100, BUF_LEN, 9));
	forked(p, before); /* the kernel does not want as much memory as there is room */
	ck_assert_uint_lt(resident(), before + SPENT);
	fix_close(&f);
	munmap(p, ARENA);
}
END_TEST

/* Some of it is unmapped while it is registered: what remains is still copied by what is there. */
START_TEST(torn)
{
	unsigned char *p = reserve();
	struct fix f;
	struct ibv_mr *m;
	size_t before;

	if (!p) {
		left_out("torn");
		return;
	}
	fix_open(&f);
	m = reg(&f, p, ARENA);
	ck_assert_int_eq(munmap(p + 10 * GIB, GIB), 0);
	before = resident();
	forked(p, before);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(is_intact(p));
	forked(p, before);
	fix_close(&f);
	munmap(p, ARENA);
}
END_TEST

static struct {
	unsigned char *arena;
	bool end;
	uint64_t rounds;
} work;

/* In pages that are there and in such as are not yet. */
static void *worker(void *)
{
	while (!__atomic_load_n(&work.end, __ATOMIC_ACQUIRE)) {
		for (size_t at = 1 * GIB; at < ARENA; at += 4 * GIB)
			++*(volatile uint64_t *)(void *)(work.arena + at + work.rounds / 4 * 4096 % MIB);
		work.rounds++;
	}
	return NULL;
}

/* Another thread goes on in it meanwhile. */
START_TEST(at_work)
{
	unsigned char *p = reserve();
	struct fix f;
	struct ibv_mr *m;
	pthread_t t;
	unsigned mapped = 0;

	if (!p) {
		left_out("at_work");
		return;
	}
	fix_open(&f);
	work.arena = p;
	ck_assert_int_eq(pthread_create(&t, NULL, worker, NULL), 0);
	for (unsigned i = 0; i < 4; i++) {
		m = reg(&f, p, ARENA);
		mapped += fix_is_mapped(p);
		write_to(&f, m, p + 50 * GIB + 100, i);
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert(is_intact(p) && fix_filled(p + 50 * GIB + 100, BUF_LEN, i));
	}
	__atomic_store_n(&work.end, true, __ATOMIC_RELEASE);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	for (size_t at = 1 * GIB; at < ARENA; at += 4 * GIB) {
		uint64_t sum = 0;

		for (size_t page = 0; page < MIB; page += 4096)
			sum += *(uint64_t *)(void *)(p + at + page);
		ck_assert_uint_eq(sum, work.rounds);
	}
	printf("at_work: %u of 4 mapped, %lu rounds\n", mapped, (unsigned long)work.rounds);
	ck_assert_uint_gt(mapped, 0);
	fix_close(&f);
	munmap(p, ARENA);
}
END_TEST

/* A region that ends leaves one mapping behind, as there was before: mremap() takes no more than one. */
START_TEST(resized)
{
	const size_t len = 16 * MIB;
	unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;
	struct fix f;

	ck_assert(p != MAP_FAILED);
	fix_open(&f);
	fix_fill(p, len, 6);
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_mr *m = reg(&f, p, len);

		ck_assert(fix_is_mapped(p + len / 2));
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		if (i == 0)
			ck_assert(!fix_is_mapped(p + len / 2));
		q = mremap(p, len, 2 * len, MREMAP_MAYMOVE);
		ck_assert_msg(q != MAP_FAILED, "%s", strerror(errno));
		ck_assert(fix_filled(q, len, 6) && q[len] == 0 && q[2 * len - 1] == 0);
		p = mremap(q, 2 * len, len, 0);
		ck_assert(p == q);
	}
	fix_close(&f);
	ck_assert(fix_filled(p, len, 6));
	munmap(p, len);
}
END_TEST

void api_arena(Suite *s) { SUITE_ADD(s, untouched, torn, at_work, resized); }
