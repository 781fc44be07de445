/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

struct arena on;

static _Thread_local volatile unsigned char far[ARENA_FAR];

/* Both go on with what they have, also below the frame of fork(). */
static unsigned deep(unsigned n)
{
	volatile unsigned char some[1024];

	memset((void *)(uintptr_t)some, (int)n, sizeof(some));
	return n ? deep(n - 1) + some[n] - (n & 255) : some[1000];
}

void arena_forks(void)
{
	pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	volatile unsigned magic = 0;

	for (unsigned i = 0; i < FORKS; i++) {
		pid_t pid;

		magic = i;
		far[0] = (unsigned char)i;
		pthread_mutex_lock(&mutex);
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (!pid)
			_exit(deep(50) == 0 && magic == i && far[0] == i ? 0 : 1);
		ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0); /* it is the same thread */
		ck_assert_uint_eq(deep(40), 0);
		fix_ended_well(pid);
		ck_assert_uint_eq(magic, i);
	}
}

/* RDMA reaches the stack as before. */
static void received(void)
{
	unsigned char got[4096];

	memset(got, 0, sizeof(got));
	fix_fill(on.f.buf, BUF_LEN, 8);
	ck_assert(fix_is_mapped(got));
	ck_assert_int_eq(fix_write_to(&on.f, on.a, 0, (uintptr_t)got, on.m->rkey, sizeof(got)), 0);
	fix_wait_ok(on.f.cq);
	ck_assert(fix_filled(got, sizeof(got), 8));
}

void *arena_thread(void *)
{
	arena_forks();
	received();
	return NULL;
}

static ucontext_t first, fiber;

void arena_fiber(void *lowest, void (*run)(void))
{
	getcontext(&fiber);
	fiber.uc_stack.ss_sp = lowest;
	fiber.uc_stack.ss_size = LEN;
	fiber.uc_link = &first;
	makecontext(&fiber, run, 0);
	swapcontext(&first, &fiber);
}

void arena_open(void)
{
	fix_open(&on.f);
	fix_pair(&on.f, &on.a, &on.b);
	on.arena = fix_pages(4 * LEN, 1);
	on.m = fix_reg(&on.f, on.arena, 4 * LEN);
	ck_assert(fix_is_mapped(on.arena + LEN));
}

void arena_close(void)
{
	unsigned converted;

	ck_assert_uint_eq(fix_mappings(on.arena, 4 * LEN, &converted), 1);
	ck_assert_uint_eq(converted, 1);
	ck_assert(fix_filled(on.arena, LEN, 1));
	ck_assert_int_eq(ibv_dereg_mr(on.m), 0);
	fix_pair_end(on.a, on.b);
	fix_close(&on.f);
}

void arena_small(void *lowest, size_t len, void *(*run)(void *))
{
	pthread_attr_t attr;
	void *ended;
	pthread_t t;

	pthread_attr_init(&attr);
	ck_assert_int_eq(pthread_attr_setstack(&attr, lowest, len), 0);
	ck_assert_int_eq(pthread_create(&t, &attr, run, NULL), 0);
	ck_assert_int_eq(pthread_join(t, &ended), 0);
	ck_assert(ended == NULL);
	pthread_attr_destroy(&attr);
}

void arena_run(void *lowest, void *(*run)(void *)) { arena_small(lowest, LEN, run); }

void arena_with(void *(*run)(void *))
{
	arena_open();
	arena_run(on.arena + LEN, run);
	arena_close();
}
