/* SPDX-License-Identifier: MIT */
/* calls_spawn.c - connections of children that are made otherwise than by fork(). */
#include "calls.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "t/late.h"

#if defined(__x86_64__) || defined(__aarch64__)
/* As Python's subprocess and Ruby's spawn. */
START_TEST(vfork_and_exec)
{
	int l = listener(0), c, s;
	pid_t pid;

	pair_open(l, &c, &s);
	pid = vfork();
	if (!pid)
		executes(s, "cat", NULL);
	close(s);
	echoes(c, l, pid);
}
END_TEST
#endif

/* As GLib and Rust. */
START_TEST(spawned)
{
	int l = listener(0), c, s;
	posix_spawn_file_actions_t actions;
	pid_t pid;

	pair_open(l, &c, &s);
	ok(fcntl(c, F_SETFD, FD_CLOEXEC));
	ok(fcntl(s, F_SETFD, FD_CLOEXEC));
	ok(posix_spawn_file_actions_init(&actions));
	ok(posix_spawn_file_actions_adddup2(&actions, s, STDIN_FILENO));
	ok(posix_spawn_file_actions_adddup2(&actions, s, STDOUT_FILENO));
	ok(posix_spawnp(&pid, "cat", &actions, NULL, (char *[]){ "cat", NULL }, environ));
	ok(posix_spawn_file_actions_destroy(&actions));
	close(s);
	echoes(c, l, pid);
}
END_TEST

static void keep_by_fcntl(int fd) { ok(fcntl(fd, F_SETFD, 0)); }
static void keep_by_ioctl(int fd) { ok(ioctl(fd, FIONCLEX)); }

int calls_cat(const char *number)
{
	char buf[64];
	int fd = atoi(number);
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (write(fd, buf, (size_t)n) != n)
			return 1;
	return n != 0;
}

static void cat(int fd)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", fd);
	execl("/proc/self/exe", "calls", CALLS_CAT, number, NULL);
	_exit(1);
}

static void keeps(void (*keep)(int), bool child)
{
	int l = listener(0), c, s;
	pid_t pid;

	pair_open(l, &c, &s);
	ok(fcntl(c, F_SETFD, FD_CLOEXEC));
	ok(fcntl(s, F_SETFD, FD_CLOEXEC));
	if (!child)
		keep(s);
	pid = fork();
	if (!pid) {
		if (child)
			keep(s);
		cat(s);
	}
	close(s);
	echoes(c, l, pid);
}

/* A program that is executed has it by the same number, as with pass_fds of Python's subprocess. */
START_TEST(kept)
{
	keeps(keep_by_fcntl, true);
	keeps(keep_by_ioctl, true);
	keeps(keep_by_fcntl, false);
	keeps(keep_by_ioctl, false);
}
END_TEST

/* Two threads that fork at once: a child of the second one uses what it has, too. */
struct forker {
	int c, s;
	pthread_t t;
	pid_t tid;
};

static struct forker forkers[2];

static void *fork_and_hear(void *arg)
{
	struct forker *f = arg;
	int status;
	pid_t pid;

	__atomic_store_n(&f->tid, gettid(), __ATOMIC_RELEASE);
	pid = fork();
	if (!pid)
		_exit(write(f->s, "child", 5) != 5);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	hear(f->c, "child");
	return NULL;
}

static void second_forks(void)
{
	static atomic_int calls;

	if (calls++)
		return;
	pthread_create(&forkers[1].t, NULL, fork_and_hear, &forkers[1]);
	sleeps_in_either(&forkers[1].tid, SYS_futex, SYS_wait4);
}

START_TEST(forks_at_once)
{
	int l = listener(0);

	for (int i = 0; i < 2; i++)
		pair_open(l, &forkers[i].c, &forkers[i].s);
	ok(pthread_atfork(second_forks, NULL, NULL));
	fork_and_hear(&forkers[0]);
	pthread_join(forkers[1].t, NULL);
	for (int i = 0; i < 2; i++) {
		close(forkers[i].c);
		close(forkers[i].s);
	}
	close(l);
}
END_TEST

void calls_spawn(Suite *s)
{
#if defined(__x86_64__) || defined(__aarch64__)
	SUITE_ADD(s, vfork_and_exec);
#endif
	SUITE_ADD(s, spawned, kept, forks_at_once);
}
