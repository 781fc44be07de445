/* SPDX-License-Identifier: MIT */
/*
 * api_stack.c - fork() by a thread whose stack is among what is registered.
 */
#include "fixture.h"
#include "spy.h"

#include <pthread.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define LEN   ((size_t)1 << 20)
#define FORKS 20u
#define PAGE  4096u

static struct {
	struct fix f;
	struct ibv_mr *m;
	struct ibv_qp *a, *b;
	unsigned char *arena;
} on;

static _Thread_local volatile unsigned char far[40000]; /* between errno and what libc has of the thread */

/* Both go on with what they have, also below the frame of fork(). */
static unsigned deep(unsigned n)
{
	volatile unsigned char some[1024];

	memset((void *)(uintptr_t)some, (int)n, sizeof(some));
	return n ? deep(n - 1) + some[n] - (n & 255) : some[1000];
}

static void forks(void)
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

static void thread_on(void *lowest, size_t len, void *(*run)(void *))
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

static void thread_in(void *lowest, void *(*run)(void *)) { thread_on(lowest, LEN, run); }

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
	thread_in(on.arena + LEN, cancelled);
	fix_ended_well(kid);
	m = fix_reg(&on.f, fix_pages(LEN, 2), LEN);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	arena_close();
}
END_TEST

/* ---- with others about -------------------------------------------------------------- */

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
		forks();
	__atomic_store_n(&user.end, true, __ATOMIC_RELEASE);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_uint_eq(user.wrong, 0);
	return NULL;
}

/* Another thread writes to it meanwhile. */
START_TEST(stack_used)
{
	arena_open();
	thread_in(on.arena + LEN, forks_used);
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
	thread_on(on.arena + LEN, SMALL, forks_among);
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
	fiber_in(on.arena + LEN, fiber_among);
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
	forks();
	ck_assert_uint_ge(spy.made, made + 2 * FORKS); /* not without holding them */
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	return NULL;
}

/* They could not be held a moment ago. */
START_TEST(stack_late)
{
	arena_open();
	thread_in(on.arena + LEN, forks_late);
	arena_close();
}
END_TEST

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
START_TEST(stack_beside)
{
	arena_open();
	thread_in(on.arena + LEN, forks_beside);
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
	thread_in(on.arena + LEN, arena_thread);
	arena_close();
}
END_TEST

START_TEST(stack_executable)
{
	arena_open();
	ck_assert_int_eq(mprotect(on.arena + LEN, LEN, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	thread_in(on.arena + LEN, arena_thread);
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
	forks();
	spy.before = NULL;
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (high[fd] >= 0)
			dup2(high[fd], fd);
	ck_assert_uint_eq(taken, 0);
	return NULL;
}

/* Without standard streams: what another thread writes to their numbers meanwhile is for nobody. */
START_TEST(stack_low)
{
	arena_open();
	thread_in(on.arena + LEN, forks_low);
	arena_close();
}
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
		thread_in(on.arena + LEN, forks_full);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "the status is %#x", (unsigned)status);
}
END_TEST

void api_stack(Suite *s)
{
	SUITE_ADD(s, stack_of_thread, stack_of_fiber, stack_left, stack_kept, stack_cancelled, stack_used, stack_among,
		  fiber_among_others, stack_late, stack_beside, stack_low, stack_closed, stack_executable, stack_full);
}
