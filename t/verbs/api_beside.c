/* SPDX-License-Identifier: MIT */
/*
 * api_beside.c - fork() on a registered stack, and what others do at the same time, there and beside it.
 */
#include "arena.h"
#include "spy.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	volatile unsigned char *word;
	bool end;
	unsigned long wrong;
} user;

/* Soon it has again what it had. */
static void *uses(void *)
{
	while (!__atomic_load_n(&user.end, __ATOMIC_ACQUIRE))
		for (unsigned char i = 0; i < 2; i++) {
			*user.word = i;
			user.wrong += *user.word != i;
		}
	return NULL;
}

static void *forks_used(void *)
{
	volatile unsigned char word = 0;
	pthread_t t;

	user.word = &word;
	user.end = false;
	ck_assert_int_eq(pthread_create(&t, NULL, uses, NULL), 0);
	for (unsigned i = 0; i < 10; i++)
		arena_forks();
	__atomic_store_n(&user.end, true, __ATOMIC_RELEASE);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_uint_eq(user.wrong, 0);
	return NULL;
}

/* Another thread writes to it meanwhile. */
START_TEST(stack_used) { arena_with(forks_used); }
END_TEST

static struct {
	pthread_t t;
	int go[2], done[2]; /* pipes: it is to fork, or to end; it has forked */
} ring[3];

static void *ring_run(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	pid_t pid;
	char what;

	while (read(ring[i].go[0], &what, 1) == 1 && what == 'f') {
		pid = fork();
		if (!pid)
			_exit(0);
		fix_ended_well(pid);
		ck_assert_int_eq(write(ring[i].done[1], "", 1), 1);
	}
	return NULL;
}

static void ring_begin(unsigned i)
{
	pthread_attr_t attr;

	ck_assert_int_eq(pipe(ring[i].go) | pipe(ring[i].done), 0);
	pthread_attr_init(&attr);
	ck_assert_int_eq(pthread_attr_setstack(&attr, on.arena + (i + 1) * LEN, LEN), 0);
	ck_assert_int_eq(pthread_create(&ring[i].t, &attr, ring_run, (void *)(uintptr_t)i), 0);
	pthread_attr_destroy(&attr);
}

static void ring_end(unsigned i)
{
	ck_assert_int_eq(write(ring[i].go[1], "e", 1), 1);
	ck_assert_int_eq(pthread_join(ring[i].t, NULL), 0);
}

/* libc's list of threads is a ring through their stacks, and the child's is not the parent's: who is gone is not written to. */
START_TEST(stack_ring)
{
	unsigned char *gone;
	char byte;

	arena_open();
	gone = on.arena + LEN;
	for (unsigned i = 0; i < 3; i++)
		ring_begin(i);
	ck_assert_int_eq(write(ring[1].go[1], "f", 1), 1);
	ck_assert_int_eq(read(ring[1].done[0], &byte, 1), 1);
	ring_end(0);
	memset(gone, 0, LEN);
	ring_end(1);
	for (size_t i = 0; i < LEN; i++)
		ck_assert_uint_eq(gone[i], 0);
	ring_end(2);
	arena_close();
}
END_TEST

#define SMALL (16 * PAGE)

static struct {
	unsigned char *below, *above; /* of others */
	unsigned held, seen;
} beside;

/* The second time it is behind fork(). */
static void look_beside(void)
{
	if (++beside.held == 2)
		beside.seen = fix_is_mapped(beside.below) + 2u * fix_is_mapped(beside.above);
}

static void *forks_among(void *)
{
	pid_t pid;

	beside.held = beside.seen = 0;
	spy.before = look_beside;
	pid = fork();
	if (!pid)
		_exit(0);
	spy.before = NULL;
	ck_assert_uint_eq(beside.held, 2);
	ck_assert_uint_eq(beside.seen, 3);
	fix_ended_well(pid);
	return NULL;
}

/* RDMA reaches what is beside the stack also while fork() lasts. */
START_TEST(stack_among)
{
	arena_open();
	beside.below = on.arena + LEN - 1;
	beside.above = on.arena + LEN + SMALL;
	arena_small(on.arena + LEN, SMALL, forks_among);
	arena_close();
}
END_TEST

static void fiber_among(void)
{
	unsigned char *frame = __builtin_frame_address(0);

	beside.below = frame - 10 * (size_t)PAGE;
	beside.above = frame + 3 * (size_t)PAGE;
	forks_among(NULL);
}

static void *waits(void *fd)
{
	char byte;

	return read(*(int *)fd, &byte, 1) == 1 ? NULL : fd;
}

/* Where it ends is not known. */
START_TEST(fiber_among_others)
{
	void *failed;
	pthread_t t;
	int fds[2];

	arena_open();
	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, waits, &fds[0]), 0);
	arena_fiber(on.arena + LEN, fiber_among);
	ck_assert_int_eq(write(fds[1], "", 1), 1);
	ck_assert_int_eq(pthread_join(t, &failed), 0);
	ck_assert(failed == NULL);
	arena_close();
}
END_TEST

static int there[2], gate[2]; /* pipes: it has begun; it is to end */

/* Until the child of vfork() ends its thread cannot be held. */
static void *vforks(void *)
{
	char byte;

	if (!vfork()) {
		(void)!write(there[1], "", 1);
		_exit((int)read(gate[0], &byte, 1));
	}
	return NULL;
}

static void *forks_late(void *)
{
	unsigned char *p = fix_pages(LEN, 2);
	struct ibv_mr *m;
	pthread_t t;
	unsigned made;
	char byte;

	ck_assert_int_eq(pipe(there) | pipe(gate), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, vforks, NULL), 0);
	ck_assert_int_eq(read(there[0], &byte, 1), 1);
	m = fix_reg(&on.f, p, LEN);
	ck_assert(!fix_is_mapped(p));
	ck_assert_int_eq(write(gate[1], "", 1), 1);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	made = spy.made;
	arena_forks();
	ck_assert_uint_ge(spy.made, made + 2 * FORKS); /* not without holding them */
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	return NULL;
}

/* They could not be held a moment ago. */
START_TEST(stack_late) { arena_with(forks_late); }
END_TEST

static pid_t kid;

static void other_child(void)
{
	sigset_t none;

	if (kid)
		return;
	kid = (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
	if (kid)
		return;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGALRM, SIG_DFL);
	alarm(8); /* before the library gives up */
	for (;;)
		pause();
}

static void *forks_beside(void *)
{
	siginfo_t info = { 0 };
	pid_t pid;

	kid = 0;
	spy.before = other_child;
	pid = fork();
	if (!pid)
		_exit(0);
	spy.before = NULL;
	ck_assert_int_gt(kid, 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)kid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	ck_assert_int_eq(info.si_pid, 0);
	fix_ended_well(pid);
	kill(kid, SIGKILL);
	waitpid(kid, NULL, 0);
	return NULL;
}

/* A child that another thread makes at the same time has copies of all descriptors, and goes on: fork() does not wait for its end. */
START_TEST(stack_beside) { arena_with(forks_beside); }
END_TEST

void api_beside(Suite *s)
{
	SUITE_ADD(s, stack_used, stack_ring, stack_among, fiber_among_others, stack_late, stack_beside);
}
