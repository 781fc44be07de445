/* SPDX-License-Identifier: MIT */
/* rights.c - a daemon of root reaches into its clients with their rights, not with its own. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/peer.h"
#include "daemon/base/region.h"
#include "t/suite.h"

#define SKIPPED 77

/*
 * A daemon of root and a client of nobody: what the client may reach is reached, by its own rights; and once another
 * program runs in its place (which might be set-user-ID) nothing is, though the pid is the same.
 */
START_TEST(rights_of_the_client)
{
	enum { NOBODY = 65534, WORDS = 4 };
	uint64_t word[WORDS] = { 1, 2, 3, 4 }, old;
	int ready[2], go[2], over[2];
	struct region *r = NULL;
	struct peer p;
	struct span there, here = { .addr = (uintptr_t)word, .len = sizeof(word) };
	uint8_t *mem;
	pid_t pid;
	char c;

	mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_int_eq(pipe(ready) | pipe2(go, O_CLOEXEC) | pipe2(over, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setgid(NOBODY) || setuid(NOBODY) || prctl(PR_SET_DUMPABLE, 1) || write(ready[1], "", 1) != 1 ||
		    read(go[0], &c, 1) != 1)
			_exit(1);
		execlp("sleep", "sleep", "60", NULL);
		_exit(1);
	}
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	ck_assert_int_eq(peer_open(&p, pid, NOBODY, NOBODY), 0);
	ck_assert_int_ge(p.mem_fd, 0);
	ck_assert_int_eq(region_new(&r, &p, (uintptr_t)mem, 4096, -1, 0, 0, 0), 0);
	there = (struct span){ .region = r, .addr = (uintptr_t)mem + 8, .len = sizeof(word) };
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	memset(word, 0, sizeof(word));
	ck_assert_int_eq(region_mem_ops.copy(NULL, &here, 1, &there, 1, 0), 0);
	ck_assert_uint_eq(word[3], 4);
	there.len = 8;
	ck_assert_int_eq(region_mem_ops.fetch_add(NULL, &there, 5, &old), 0);
	ck_assert_uint_eq(old, 1);
	/* The write end of over is closed by the exec. */
	close(over[1]);
	ck_assert_int_eq(write(go[1], "", 1), 1);
	ck_assert_int_eq(read(over[0], &c, 1), 0);
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), ESRCH);
	ck_assert_int_ne(region_mem_ops.copy(NULL, &here, 1, &there, 1, 0), 0);
	region_free(r);
	peer_close(&p);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* Somebody else's process is out of reach for that user, also by a daemon of root. */
	ck_assert_int_eq(peer_open(&p, getpid(), NOBODY, NOBODY), EPERM);
	munmap(mem, 4096);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rights");

	if (geteuid() != 0) {
		puts("rights: SKIP: not root, and an ordinary user's daemon has no more rights than its clients");
		return SKIPPED;
	}
	SUITE_ADD(suite, rights_of_the_client);
	return suite_run(suite);
}
