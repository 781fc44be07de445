/* SPDX-License-Identifier: MIT */
/*
 * api_caller.c - memory is registered by who has a small stack, no standard streams, no environment, is about to be cancelled, and
 * while a handler forks.
 */
#include "arena.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fix f;
static unsigned rights;
static bool came_back;

static void *registers(void *p)
{
	struct ibv_mr *m = ibv_reg_mr(f.pd, p, LEN, rights);

	came_back = m && !ibv_dereg_mr(m);
	return NULL;
}

static void *registers_cancelled(void *p)
{
	pthread_cancel(pthread_self());
	return registers(p);
}

static void thread_run(void *(*run)(void *), size_t stack)
{
	pthread_attr_t attr;
	pthread_t t;

	came_back = false;
	ck_assert_int_eq(pthread_attr_init(&attr), 0);
	ck_assert(!stack || !pthread_attr_setstacksize(&attr, stack));
	ck_assert_int_eq(pthread_create(&t, &attr, run, fix_pages(LEN, 1)), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert(came_back);
}

START_TEST(small_stack)
{
	fix_open(&f);
	rights = IBV_ACCESS_LOCAL_WRITE;
	thread_run(registers, (size_t)sysconf(_SC_THREAD_STACK_MIN) + ARENA_FAR);
	fix_close(&f);
}
END_TEST

/* Servers such as nginx clear their environment once they have read it: the daemon is that of the program's start. */
START_TEST(no_environment)
{
	ck_assert_int_eq(clearenv(), 0);
	fix_open(&f);
	rights = IBV_ACCESS_LOCAL_WRITE;
	thread_run(registers, 0);
	fix_close(&f);
}
END_TEST

/* A program without standard streams: the library keeps nothing at their numbers, where the program may write or open something. */
START_TEST(low_numbers)
{
	unsigned char *p = fix_pages(LEN, 1);
	char path[32], what[64];
	struct ibv_mr *m;
	ssize_t n;

	for (int fd = 0; fd <= 2; fd++)
		close(fd);
	fix_open(&f);
	m = ibv_reg_mr(f.pd, p, LEN, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(m != NULL);
	ck_assert(fix_is_mapped(p));
	for (int fd = 0; fd <= 2; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, what, sizeof(what) - 1);
		what[n > 0 ? n : 0] = 0;
		ck_assert_msg(fd == f.ctx->cmd_fd || fd == f.ctx->async_fd || !*what, "%d is %s", fd, what);
	}
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(fix_filled(p, LEN, 1));
	fix_close(&f);
}
END_TEST

static volatile sig_atomic_t forks;

static void fork_now(int sig)
{
	int status = -1;
	pid_t pid = fork();

	(void)sig;
	if (!pid)
		_exit(0);
	if (waitpid(pid, &status, 0) == pid && !status)
		forks++;
}

/* 8 KiB behind what the kernel puts there; below it is nothing. */
START_TEST(small_stack_forks)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), want = (size_t)sysconf(_SC_MINSIGSTKSZ) + 8192,
		     len = (want + page - 1) & ~(page - 1);
	unsigned char *stack = fix_pages(page + len, 1);
	const stack_t s = { .ss_sp = stack + page, .ss_size = want };
	const struct sigaction sa = { .sa_handler = fork_now, .sa_flags = SA_ONSTACK };
	struct ibv_mr *m;

	fix_open(&f);
	m = ibv_reg_mr(f.pd, fix_pages(LEN, 1), LEN, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(m != NULL);
	ck_assert_int_eq(mprotect(stack, page, PROT_NONE), 0);
	ck_assert_int_eq(sigaltstack(&s, NULL), 0);
	ck_assert_int_eq(sigaction(SIGALRM, &sa, NULL), 0);
	raise(SIGALRM);
	ck_assert_int_eq(forks, 1);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
}
END_TEST

START_TEST(cancelled)
{
	fix_open(&f);
	rights = 0;
	thread_run(registers_cancelled, 0);
	rights = IBV_ACCESS_LOCAL_WRITE;
	thread_run(registers_cancelled, 0);
	fix_close(&f);
}
END_TEST

/* fork() is safe in a handler, wherever the registering is that it interrupts. */
START_TEST(handler_forks)
{
	const struct sigaction sa = { .sa_handler = fork_now, .sa_flags = SA_RESTART };
	struct ibv_mr *m;
	void *p = fix_pages(LEN, 1);

	fix_open(&f);
	m = ibv_reg_mr(f.pd, fix_pages(LEN, 1), LEN, IBV_ACCESS_LOCAL_WRITE); /* which a child copies */
	ck_assert(m != NULL);
	ck_assert_int_eq(sigaction(SIGALRM, &sa, NULL), 0);
	rights = IBV_ACCESS_LOCAL_WRITE;
	for (unsigned i = 1; forks < 300; i++) {
		/* Once each time: where a fork() takes longer than that nothing else would ever go on. */
		const struct itimerval once = { { 0, 0 }, { 0, 1 + (int)(i * 37 % 1700) } };

		ck_assert_int_eq(setitimer(ITIMER_REAL, &once, NULL), 0);
		registers(p);
	}
	ck_assert_int_eq(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
}
END_TEST

/* The library's handlers of fork() are younger than these. */
enum { NOWHERE, IN_PREPARE, IN_PARENT, IN_CHILD };
static int ring;

static void ring_in(int where)
{
	if (ring != where)
		return;
	ring = NOWHERE;
	raise(SIGALRM);
}

static void ring_prepare(void) { ring_in(IN_PREPARE); }
static void ring_parent(void) { ring_in(IN_PARENT); }
static void ring_child(void) { ring_in(IN_CHILD); }
static void ring_begin(void) { pthread_atfork(ring_prepare, ring_parent, ring_child); }

/* Before the constructors of libraries. */
__attribute__((section(".preinit_array"), used)) static void (*const ring_first)(void) = ring_begin;

static bool none_blocked(void)
{
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&now, sig) == 1)
			return false;
	return true;
}

/* A signal that comes in the midst of fork() is handled behind it, by a handler that forks. */
START_TEST(fork_in_fork)
{
	const struct sigaction sa = { .sa_handler = fork_now, .sa_flags = SA_RESTART };
	struct ibv_mr *m;
	int status;
	pid_t pid;

	fix_open(&f);
	m = ibv_reg_mr(f.pd, fix_pages(LEN, 1), LEN, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(m != NULL);
	ck_assert_int_eq(sigaction(SIGALRM, &sa, NULL), 0);
	for (int where = IN_PREPARE; where <= IN_CHILD; where++) {
		forks = 0;
		ring = where;
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (!pid)
			_exit(forks != (where == IN_CHILD) || !none_blocked());
		ck_assert(none_blocked());
		ck_assert_int_eq(forks, where != IN_CHILD);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
}
END_TEST

void api_caller(Suite *s)
{
	SUITE_ADD(s, small_stack, small_stack_forks, low_numbers, no_environment, cancelled, handler_forks,
		  fork_in_fork);
}
