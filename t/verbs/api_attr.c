/* SPDX-License-Identifier: MIT */
/*
 * api_attr.c - what a mapping has besides its bytes, before it is registered, while it is, and afterwards.
 *
 * It is read from /proc/self/maps and smaps.  Each test runs in a process of its own with one thread.
 */
#include "fixture.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN  ((size_t)1 << 20)
#define PAGE ((size_t)4096)

static unsigned char *pages(size_t len, unsigned seed)
{
	unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert(p != MAP_FAILED);
	fix_fill(p, len, seed);
	return p;
}

static struct ibv_mr *reg(struct fix *f, void *p, size_t len)
{
	struct ibv_mr *m = ibv_reg_mr(f->pd, p, len,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

	ck_assert_msg(m != NULL, "%s", strerror(errno));
	return m;
}

/* ---- protection ---------------------------------------------------------------------- */

/* Whether the mapping at p has these rights: "rw-". */
static bool is_perm(const unsigned char *p, const char *perm)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512], has[5];
	bool is = false;

	if (!f)
		return false;
	while (!is && fgets(line, sizeof(line), f))
		is = sscanf(line, "%lx-%lx %4s", &start, &end, has) == 3 && (unsigned long)p >= start &&
		     (unsigned long)p < end && !strncmp(has, perm, 3);
	fclose(f);
	return is;
}

static const struct {
	size_t page;
	int prot;
	const char *perm;
} guard[] = { { 0, PROT_NONE, "---" },
	      { 4, PROT_READ, "r--" },
	      { 5, PROT_NONE, "---" },
	      { 90, PROT_READ | PROT_EXEC, "r-x" },
	      { 255, PROT_READ, "r--" } };
#define GUARDS (sizeof(guard) / sizeof(*guard))

/* 0: as it was made; else the number of the first that is not, plus 1. */
static int guards_differ(const unsigned char *p)
{
	for (unsigned i = 0; i < GUARDS; i++)
		if (!is_perm(p + guard[i].page * PAGE, guard[i].perm))
			return (int)i + 1;
	return is_perm(p + PAGE, "rw-") && is_perm(p + 254 * PAGE, "rw-") ? 0 : GUARDS + 1;
}

/* full: no descriptor is left in it, so that it copies without the file. */
static int child_of(const unsigned char *p, bool full)
{
	struct rlimit was, none;
	int status, next = dup(0);
	pid_t pid;

	close(next);
	getrlimit(RLIMIT_NOFILE, &was);
	none = was;
	none.rlim_cur = (rlim_t)next;
	ck_assert(!full || !setrlimit(RLIMIT_NOFILE, &none));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	setrlimit(RLIMIT_NOFILE, &was);
	if (!pid)
		_exit(fix_is_mapped(p + PAGE) ? 99 : guards_differ(p));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

/* Pages that the program protects while they are registered stay so, in a child, and when they are turned back; so do their bytes. */
START_TEST(protection)
{
	unsigned char *p = pages(LEN, 1);
	struct ibv_mr *m;
	unsigned n;
	struct fix f;

	fix_open(&f);
	m = reg(&f, p, LEN);
	ck_assert(fix_is_mapped(p));
	for (unsigned i = 0; i < GUARDS; i++)
		ck_assert_int_eq(mprotect(p + guard[i].page * PAGE, PAGE, guard[i].prot), 0);
	ck_assert_int_eq(guards_differ(p), 0);
	ck_assert_int_eq(child_of(p, false), 0);
	ck_assert_int_eq(child_of(p, true), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_mappings(p, LEN, &n);
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(guards_differ(p), 0);
	ck_assert_int_eq(mprotect(p, LEN, PROT_READ), 0);
	ck_assert(fix_filled(p, LEN, 1));
	fix_close(&f);
}
END_TEST

void api_attr(Suite *s) { SUITE_ADD(s, protection); }
