/* SPDX-License-Identifier: MIT */
/* calls_spawn.c - connections of children that are made otherwise than by fork(). */
#include "calls.h"

#include <fcntl.h>
#include <spawn.h>

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

void calls_spawn(Suite *s)
{
#if defined(__x86_64__) || defined(__aarch64__)
	SUITE_ADD(s, vfork_and_exec);
#endif
	SUITE_ADD(s, spawned);
}
