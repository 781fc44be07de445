/* SPDX-License-Identifier: MIT */
/*
 * api_fork.c - fork() where it is not easy to have copies of what is registered: handlers write to it, there is no /proc.
 */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEN   ((size_t)1 << 20)
#define FORKS 20u

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

void api_fork(Suite *s) { SUITE_ADD(s, without_proc, without_files, handlers_write); }
