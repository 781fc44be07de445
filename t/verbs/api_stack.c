/* SPDX-License-Identifier: MIT */
/*
 * api_stack.c - fork() by a thread whose stack is among what is registered.
 */
#include "arena.h"
#include "spy.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void fiber_run(void) { arena_thread(NULL); }

/* The stack of a thread, with all that libc has of it, is in a region; then that of a fiber of the only thread. */
START_TEST(stack_of_thread) { arena_with(arena_thread); }
END_TEST

START_TEST(stack_of_fiber)
{
	arena_open();
	arena_fiber(on.arena + LEN, fiber_run);
	arena_close();
}
END_TEST

static void *gives_back(void *)
{
	ck_assert_int_eq(ibv_dereg_mr(on.m), 0);
	arena_forks();
	return NULL;
}

/* It is deregistered on that stack: so it stays what it is. */
START_TEST(stack_left)
{
	fix_open(&on.f);
	on.arena = fix_pages(4 * LEN, 1);
	on.m = fix_reg(&on.f, on.arena, 4 * LEN);
	arena_run(on.arena + LEN, gives_back);
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
	arena_forks();
	local_buffer();
	arena_forks();
}

/* A buffer on the stack that is registered again and again is kept as it is, and the stack is used for other things. */
START_TEST(stack_kept)
{
	fix_open(&on.f);
	arena_fiber(fix_pages(LEN, 1), local_fiber);
	fix_close(&on.f);
}
END_TEST

static pid_t kid;

static void *cancelled(void *)
{
	pthread_cancel(pthread_self());
	kid = fork();
	if (!kid)
		_exit(0);
	return NULL;
}

/* It is to end where the program lets it, and not inside of fork(), with what others wait for. */
START_TEST(stack_cancelled)
{
	struct ibv_mr *m;

	arena_open();
	arena_run(on.arena + LEN, cancelled);
	fix_ended_well(kid);
	m = fix_reg(&on.f, fix_pages(LEN, 2), LEN);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	arena_close();
}
END_TEST

/* ---- where it is not easy ------------------------------------------------------------- */

/* As a program may do that closes all that it does not know. */
static void close_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	char path[64], to[64];
	struct dirent *e;
	ssize_t n;

	ck_assert(d != NULL);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.10s", e->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = 0;
		if (!strncmp(to, "/memfd:rdmad-mr", 15))
			close(atoi(e->d_name));
	}
	closedir(d);
}

START_TEST(stack_closed)
{
	arena_open();
	close_files();
	arena_run(on.arena + LEN, arena_thread);
	arena_close();
}
END_TEST

START_TEST(stack_executable)
{
	arena_open();
	ck_assert_int_eq(mprotect(on.arena + LEN, LEN, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	arena_run(on.arena + LEN, arena_thread);
	ck_assert_int_eq(mprotect(on.arena + LEN, LEN, PROT_READ | PROT_WRITE), 0);
	arena_close();
}
END_TEST

static unsigned taken;

static void look_low(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		taken += fcntl(fd, F_GETFD) >= 0;
}

static void *forks_low(void *)
{
	int high[3];

	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		high[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
		close(fd);
	}
	taken = 0;
	spy.before = look_low;
	arena_forks();
	spy.before = NULL;
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (high[fd] >= 0)
			dup2(high[fd], fd);
	ck_assert_uint_eq(taken, 0);
	return NULL;
}

/* Without standard streams: what another thread writes to their numbers meanwhile is for nobody. */
START_TEST(stack_low) { arena_with(forks_low); }
END_TEST

static void *forks_full(void *)
{
	struct rlimit none = { 0, 0 };
	pid_t pid;

	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_AS, &none);
	pid = fork();
	_exit(pid ? 1 : 2);
}

/* Without memory to be apart it ends, as the child does, before both are on the same stack. */
START_TEST(stack_full)
{
	int status = -1;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		arena_open();
		arena_run(on.arena + LEN, forks_full);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "the status is %#x", (unsigned)status);
}
END_TEST

void api_stack(Suite *s)
{
	SUITE_ADD(s, stack_of_thread, stack_of_fiber, stack_left, stack_kept, stack_cancelled, stack_low, stack_closed,
		  stack_executable);
#ifndef __SANITIZE_ADDRESS__ /* which wants memory of its own at that point */
	SUITE_ADD(s, stack_full);
#else
	(void)stack_full;
#endif
}
