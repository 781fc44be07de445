/* SPDX-License-Identifier: MIT */
/*
 * api_fork.c - fork() where it is not easy to have copies of what is registered: its own stack is among that, handlers write to it,
 * there is no /proc.
 */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#define LEN   ((size_t)1 << 20)
#define FORKS 20u

/* ---- on registered pages ------------------------------------------------------------ */

static struct {
	struct fix f;
	struct ibv_mr *m;
	struct ibv_qp *a, *b;
	unsigned char *arena;
} on;

/* Both go on with what they have, also below the frame of fork(). */
static unsigned deep(unsigned n)
{
	volatile unsigned char some[1024];

	memset((void *)(uintptr_t)some, (int)n, sizeof(some));
	return n ? deep(n - 1) + some[n] - (n & 255) : some[1000];
}

static void forks(void)
{
	volatile unsigned magic = 0;

	for (unsigned i = 0; i < FORKS; i++) {
		pid_t pid;

		magic = i;
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (!pid)
			_exit(deep(50) == 0 && magic == i ? 0 : 1);
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

static void *arena_thread(void *)
{
	forks();
	received();
	return NULL;
}

static ucontext_t first, fiber;

static void fiber_in(void *lowest, void (*run)(void))
{
	getcontext(&fiber);
	fiber.uc_stack.ss_sp = lowest;
	fiber.uc_stack.ss_size = LEN;
	fiber.uc_link = &first;
	makecontext(&fiber, run, 0);
	swapcontext(&first, &fiber);
}

static void arena_fiber(void) { arena_thread(NULL); }

static void arena_open(void)
{
	fix_open(&on.f);
	fix_pair(&on.f, &on.a, &on.b);
	on.arena = fix_pages(4 * LEN, 1);
	on.m = fix_reg(&on.f, on.arena, 4 * LEN);
	ck_assert(fix_is_mapped(on.arena + LEN));
}

static void arena_close(void)
{
	unsigned converted;

	ck_assert_uint_eq(fix_mappings(on.arena, 4 * LEN, &converted), 1);
	ck_assert_uint_eq(converted, 1);
	ck_assert(fix_filled(on.arena, LEN, 1));
	ck_assert_int_eq(ibv_dereg_mr(on.m), 0);
	fix_pair_end(on.a, on.b);
	fix_close(&on.f);
}

static void thread_in(void *lowest, void *(*run)(void *))
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	ck_assert_int_eq(pthread_attr_setstack(&attr, lowest, LEN), 0);
	ck_assert_int_eq(pthread_create(&t, &attr, run, NULL), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	pthread_attr_destroy(&attr);
}

/* The stack of a thread, with all that libc has of it, is in a region; then that of a fiber of the only thread. */
START_TEST(stack_of_thread)
{
	arena_open();
	thread_in(on.arena + LEN, arena_thread);
	arena_close();
}
END_TEST

START_TEST(stack_of_fiber)
{
	arena_open();
	fiber_in(on.arena + LEN, arena_fiber);
	arena_close();
}
END_TEST

static void *gives_back(void *)
{
	ck_assert_int_eq(ibv_dereg_mr(on.m), 0);
	forks();
	return NULL;
}

/* It is deregistered on that stack: so it stays what it is. */
START_TEST(stack_left)
{
	fix_open(&on.f);
	on.arena = fix_pages(4 * LEN, 1);
	on.m = fix_reg(&on.f, on.arena, 4 * LEN);
	thread_in(on.arena + LEN, gives_back);
	ck_assert(fix_filled(on.arena, LEN, 1));
	fix_close(&on.f);
}
END_TEST

static void local_buffer(void)
{
	unsigned char some[1 << 17];

	fix_fill(some, sizeof(some), 5);
	on.m = fix_reg(&on.f, some, sizeof(some));
	ck_assert(fix_is_mapped(some + sizeof(some) / 2));
	ck_assert_int_eq(ibv_dereg_mr(on.m), 0);
	ck_assert(fix_filled(some, sizeof(some), 5));
}

static void local_fiber(void)
{
	for (unsigned i = 0; i < 3; i++)
		local_buffer();
	forks();
	local_buffer();
	forks();
}

/* A buffer on the stack that is registered again and again is kept as it is, and the stack is used for other things. */
START_TEST(stack_kept)
{
	fix_open(&on.f);
	fiber_in(fix_pages(LEN, 1), local_fiber);
	fix_close(&on.f);
}
END_TEST

/* ---- without /proc, without descriptors ----------------------------------------------- */

static unsigned char *moved(struct fix *f, struct ibv_mr **m)
{
	unsigned char *p = fix_pages(LEN, 2), *to;

	*m = fix_reg(f, p, LEN);
	to = mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, fix_pages(2 * LEN, 0));
	ck_assert(to != MAP_FAILED && fix_is_mapped(to));
	return to;
}

/* Each has its own; the program has moved a part. */
static void apart(struct fix *f, bool (*hide)(void), void (*show)(void))
{
	unsigned char *p = fix_pages(LEN, 1), *to;
	struct ibv_mr *m, *n;
	pid_t pid;

	m = fix_reg(f, p, LEN);
	to = moved(f, &n);
	ck_assert(fix_is_mapped(p));
	if (hide()) {
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (!pid) {
			if (!fix_filled(p, LEN, 1) || !fix_filled(to, LEN, 2))
				_exit(1);
			memset(p, 0xee, LEN);
			memset(to, 0xee, LEN);
			_exit(0);
		}
		fix_fill(p, LEN, 3);
		fix_fill(to, LEN, 4);
		fix_ended_well(pid);
		ck_assert(fix_filled(p, LEN, 3) && fix_filled(to, LEN, 4));
		show();
	}
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(n), 0);
}

static int root, here;

static bool hide_proc(void)
{
	char dir[] = "/tmp/t-fork-XXXXXX";
	bool hidden;

	root = open("/", O_PATH | O_CLOEXEC);
	here = open(".", O_PATH | O_CLOEXEC);
	ck_assert(root >= 0 && here >= 0 && mkdtemp(dir));
	hidden = !chroot(dir);
	if (!hidden)
		fprintf(stderr, "# skipped: no chroot()\n");
	unlinkat(root, dir + 1, AT_REMOVEDIR);
	return hidden;
}

static void show_proc(void) { ck_assert(!fchdir(root) && !chroot(".") && !fchdir(here)); }

START_TEST(without_proc)
{
	struct fix f;

	fix_open(&f);
	apart(&f, hide_proc, show_proc);
	fix_close(&f);
}
END_TEST

static struct rlimit files;

static bool hide_files(void)
{
	struct rlimit none;

	getrlimit(RLIMIT_NOFILE, &files);
	none = files;
	none.rlim_cur = 0;
	return !setrlimit(RLIMIT_NOFILE, &none);
}

static void show_files(void) { setrlimit(RLIMIT_NOFILE, &files); }

START_TEST(without_files)
{
	struct fix f;

	fix_open(&f);
	apart(&f, hide_files, show_files);
	fix_close(&f);
}
END_TEST

/* ---- handlers -------------------------------------------------------------------------- */

static volatile unsigned char *marks; /* in registered memory; by whose handler */

static void mark_before(void) { marks[0]++; }
static void mark_parent(void) { marks[1]++; }
static void mark_child(void) { marks[2]++; }

/* Writes of the program's handlers are of the process that they run in: with a lock there, the child would unlock its parent's. */
START_TEST(handlers_write)
{
	unsigned char *p;
	struct ibv_mr *m;
	struct fix f;
	pid_t pid;

	ck_assert_int_eq(pthread_atfork(mark_before, mark_parent, mark_child), 0); /* before there is a region */
	fix_open(&f);
	p = fix_pages(LEN, 1);
	marks = p + LEN / 2;
	memset(p + LEN / 2, 0, 3);
	m = fix_reg(&f, p, LEN);
	ck_assert(fix_is_mapped(p));
	for (unsigned i = 1; i <= FORKS; i++) {
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (!pid)
			_exit(marks[0] == i && marks[1] == i - 1 && marks[2] == 1 ? 0 : 1);
		fix_ended_well(pid);
		ck_assert(marks[0] == i && marks[1] == i && marks[2] == 0);
	}
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
}
END_TEST

void api_fork(Suite *s)
{
	SUITE_ADD(s, stack_of_thread, stack_of_fiber, stack_left, stack_kept, without_proc, without_files,
		  handlers_write);
}
