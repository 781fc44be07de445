/* SPDX-License-Identifier: MIT */
/*
 * region_step.c - copies, instruction by instruction: between any two of them the program that is written to may look, and take away
 * what it sees.  A child copies, and is stepped; what it has stored is taken away at once.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/region.h"
#include "t/suite.h"

#define MOST  320u
#define STEPS 100000u

static uint8_t *to; /* shared with the child */
static uint8_t from[MOST];
static unsigned stored[MOST];

static void child_run(unsigned at, unsigned len)
{
	struct span dst = { NULL, (uintptr_t)to + at, len }, src = { NULL, (uintptr_t)from, len };

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(errno == ENOSYS || errno == EPERM ? 2 : 1);
	raise(SIGSTOP);
	_exit(region_mem_ops.copy(NULL, &dst, 1, &src, 1, 0) != 0);
}

/* The bytes that are there, which are gone then: whether the last one of the copy is among them. */
static bool take(unsigned at, unsigned len)
{
	bool last = to[at + len - 1];

	for (unsigned i = 0; i < len; i++) {
		stored[i] += to[at + i];
		to[at + i] = 0;
	}
	return last;
}

/* false: children cannot be traced here. */
static bool copy_stepped(unsigned at, unsigned len, bool *behind)
{
	unsigned n = 0;
	int status;
	pid_t pid;

	memset(stored, 0, sizeof(stored));
	*behind = true;
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		child_run(at, len);
	for (;;) {
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		if (!WIFSTOPPED(status))
			break;
		if (take(at, len))
			for (unsigned i = 0; i < len; i++)
				*behind &= stored[i] > 0;
		ck_assert_uint_lt(n++, STEPS);
		ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
	}
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) != 1);
	return !WEXITSTATUS(status);
}

/* A flag that the program has taken does not come back, and the last byte is behind all others. */
START_TEST(once)
{
	const unsigned lens[] = { 1,  2,  3,  4,  5,  6,  7,  8,   9,   12,  15,  16,  17,  24,
				  31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 200, 255, 256, 300 },
		       ats[] = { 0, 1, 4, 6 };

	to = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(to, MAP_FAILED);
	memset(from, 1, sizeof(from));
	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++)
		for (unsigned j = 0; j < sizeof(ats) / sizeof(*ats); j++) {
			unsigned len = lens[i], first = len <= 64 ? 0 : len - 1;
			bool behind;

			if (!copy_stepped(ats[j], len, &behind))
				return;
			ck_assert_msg(behind, "%u bytes at %u: the last one was early", len, ats[j]);
			for (unsigned b = first; b < len; b++)
				ck_assert_msg(stored[b] == 1, "%u bytes at %u: byte %u was stored %u times", len,
					      ats[j], b, stored[b]);
		}
	munmap(to, 4096);
}
END_TEST

TEST_MAIN("region_step", once)
