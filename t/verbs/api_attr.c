/* SPDX-License-Identifier: MIT */
/*
 * api_attr.c - what a mapping has besides its bytes, before it is registered, while it is, and afterwards.
 *
 * It is read from /proc/self/maps and smaps.  Each test runs in a process of its own with one thread.
 */
#include "fixture.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/userfaultfd.h>

#include "../maps.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define LEN  ((size_t)1 << 20)
#define PAGE ((size_t)4096)

/* ---- protection ---------------------------------------------------------------------- */

/* Whether the mapping at p has these rights: "rw-". */
static bool is_perm(const unsigned char *p, const char *perm)
{
	struct mapping m;

	return maps_at(p, &m) && !strncmp(m.perm, perm, 3);
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
	unsigned char *p = fix_pages(LEN, 1);
	struct ibv_mr *m;
	unsigned n;
	struct fix f;

	fix_open(&f);
	m = fix_reg(&f, p, LEN);
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

/* ---- advice, and the like ------------------------------------------------------------ */

/* Whether the line of smaps with this name has this word, for the mapping at p. */
static bool smaps_has(const unsigned char *p, const char *name, const char *word)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long start, end;
	bool here = false, has = false;
	char line[512];

	ck_assert(f != NULL);
	while (!has && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = (unsigned long)p >= start && (unsigned long)p < end;
		has = here && !strncmp(line, name, strlen(name)) && strstr(line + strlen(name), word);
	}
	fclose(f);
	return has;
}

static bool has_flag(const unsigned char *p, const char *flag)
{
	char word[8];

	snprintf(word, sizeof(word), " %s ", flag);
	return smaps_has(p, "VmFlags:", word);
}

static unsigned converted(const unsigned char *p)
{
	unsigned n;

	fix_mappings(p, LEN, &n);
	return n;
}

/* Given before registration, or only then: there meanwhile, in a child, and afterwards. */
static void advised(struct fix *f, int advice, const char *flag, bool before)
{
	unsigned char *p = fix_pages(LEN, 3);
	struct ibv_mr *m;
	int status;
	pid_t pid;

	ck_assert_msg(!before || !madvise(p, LEN, advice), "%s: %s", flag, strerror(errno));
	m = fix_reg(f, p, LEN);
	ck_assert_msg(converted(p) == 1, "%s: is not converted", flag);
	ck_assert_msg(before || !madvise(p, LEN, advice), "%s: %s", flag, strerror(errno));
	ck_assert_msg(has_flag(p, flag), "%s: is lost at registration", flag);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(has_flag(p, flag) ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0 || advice == MADV_DONTFORK, "%s: is lost in a child", flag);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_msg(!converted(p) && has_flag(p, flag), "%s: is lost at the end", flag);
	ck_assert(fix_filled(p, LEN, 3));
}

static void advised_both(int advice, const char *flag)
{
	struct fix f;

	fix_open(&f);
	advised(&f, advice, flag, true);
	advised(&f, advice, flag, false);
	fix_close(&f);
}

START_TEST(dontdump) { advised_both(MADV_DONTDUMP, "dd"); }
END_TEST
START_TEST(dontfork) { advised_both(MADV_DONTFORK, "dc"); }
END_TEST
START_TEST(hugepage) { advised_both(MADV_HUGEPAGE, "hg"); }
END_TEST
START_TEST(nohugepage) { advised_both(MADV_NOHUGEPAGE, "nh"); }
END_TEST
START_TEST(sequential) { advised_both(MADV_SEQUENTIAL, "sr"); }
END_TEST
START_TEST(in_disorder) { advised_both(MADV_RANDOM, "rr"); }
END_TEST

/* Half of it is not like the other half: left as it is. */
START_TEST(halves)
{
	unsigned char *p = fix_pages(LEN, 1);
	struct fix f;

	fix_open(&f);
	ck_assert_int_eq(madvise(p, LEN / 2, MADV_DONTDUMP), 0);
	ck_assert_int_eq(ibv_dereg_mr(fix_reg(&f, p, LEN)), 0);
	ck_assert(has_flag(p, "dd") && !has_flag(p + LEN / 2, "dd"));
	fix_close(&f);
}
END_TEST

/* So half of it becomes while it is registered: as it is in the child, too, also where the other half is locked. */
START_TEST(halves_late)
{
	unsigned char *p = fix_pages(LEN, 1);
	struct ibv_mr *m;
	struct fix f;
	pid_t pid;

	fix_open(&f);
	m = fix_reg(&f, p, LEN);
	ck_assert_uint_eq(converted(p), 1);
	ck_assert_int_eq(madvise(p, LEN / 2, MADV_DONTDUMP), 0);
	ck_assert_int_eq(mlock(p + LEN / 2, PAGE), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(has_flag(p, "dd") && !has_flag(p + LEN / 2, "dd") && fix_filled(p, LEN, 1) ? 0 : 1);
	fix_ended_well(pid);
	ck_assert_int_eq(munlock(p + LEN / 2, PAGE), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
}
END_TEST

/* (AddressSanitizer's mlock() does nothing.) */
static int lock_page(void *p) { return (int)syscall(SYS_mlock, p, PAGE); }

/* One page of it is locked: left as it is, and other memory is not. */
START_TEST(locked)
{
	unsigned char *p = fix_pages(LEN, 1), *q = fix_pages(LEN, 2);
	struct ibv_mr *m, *n;
	struct fix f;

	fix_open(&f);
	ck_assert_int_eq(lock_page(p + LEN / 2), 0);
	m = fix_reg(&f, p, LEN);
	n = fix_reg(&f, q, LEN);
	ck_assert(!converted(p));
#ifndef __SANITIZE_ADDRESS__ /* whose own mappings are too many to be looked at */
	ck_assert(converted(q));
#endif
	ck_assert_int_eq(lock_page(q), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(n), 0);
	ck_assert(has_flag(p + LEN / 2, "lo") && !has_flag(p, "lo") && has_flag(q, "lo"));
	ck_assert(fix_filled(p, LEN, 1) && fix_filled(q, LEN, 2));
	fix_close(&f);
}
END_TEST

/* The child's are clean: that is nothing for pages of a file. */
START_TEST(wipeonfork)
{
	unsigned char *p = fix_pages(LEN, 1);
	struct ibv_mr *m;
	struct fix f;
	int status;
	pid_t pid;

	fix_open(&f);
	ck_assert_int_eq(madvise(p, LEN, MADV_WIPEONFORK), 0);
	m = fix_reg(&f, p, LEN);
	ck_assert_uint_eq(converted(p), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(p[0] || memcmp(p, p + 1, LEN - 1));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(has_flag(p, "wf") && fix_filled(p, LEN, 1));
	fix_close(&f);
}
END_TEST

/* Pages that come by userfaultfd still do. */
START_TEST(by_userfaultfd)
{
	int u = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API };
	unsigned char *p = fix_pages(LEN, 1), *src = fix_pages(PAGE, 7);
	struct uffdio_register range = { .range = { (uintptr_t)p, LEN }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_copy copy = { .dst = (uintptr_t)p + PAGE, .src = (uintptr_t)src, .len = PAGE };
	struct ibv_mr *m;
	struct fix f;

	if (u < 0 || ioctl(u, UFFDIO_API, &api))
		return; /* this kernel has none */
	fix_open(&f);
	ck_assert_int_eq(ioctl(u, UFFDIO_REGISTER, &range), 0);
	m = fix_reg(&f, p, LEN);
	ck_assert_uint_eq(converted(p), 0);
	ck_assert_int_eq(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
	ck_assert_int_eq(ioctl(u, UFFDIO_COPY, &copy), 0);
	ck_assert(fix_filled(p + PAGE, PAGE, 7));
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(has_flag(p, "um"));
	close(u);
	fix_close(&f);
}
END_TEST

static int policy_of(const void *p)
{
	const unsigned long of_addr = 2;
	int mode = -1;

	ck_assert_int_eq(syscall(SYS_get_mempolicy, &mode, NULL, 0UL, p, of_addr), 0);
	return mode;
}

static void child_has_policy(const unsigned char *p, int mode)
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(mode ? policy_of(p) != mode : 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

/* before: registration; else only then. */
static void policy(struct fix *f, bool before)
{
	const unsigned long node = 1;
	unsigned char *p = fix_pages(LEN, 2);
	const int preferred = 1;
	struct ibv_mr *m;
	int mode = 0;

	if (!before)
		m = fix_reg(f, p, LEN);
	if (syscall(SYS_mbind, p, LEN, preferred, &node, 8 * sizeof(node), 0))
		ck_assert_int_ne(errno, EINVAL); /* of a machine, or a container, without */
	else
		mode = preferred;
	if (before)
		m = fix_reg(f, p, LEN);
	ck_assert_uint_eq(converted(p), 1);
	if (mode)
		ck_assert_int_eq(policy_of(p), mode);
	child_has_policy(p, mode);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_uint_eq(converted(p), 0);
	ck_assert(!mode || (policy_of(p) == mode && policy_of(p + LEN - PAGE) == mode));
	ck_assert(fix_filled(p, LEN, 2));
}

/* Left as it is. */
static void half_policy(struct fix *f)
{
	const unsigned long node = 1;
	unsigned char *p = fix_pages(LEN, 2);

	if (syscall(SYS_mbind, p, LEN / 2, 1 /* preferred */, &node, 8 * sizeof(node), 0))
		return;
	ck_assert_int_eq(ibv_dereg_mr(fix_reg(f, p, LEN)), 0);
	ck_assert(policy_of(p) == 1 && policy_of(p + LEN / 2) == 0);
	ck_assert(fix_filled(p, LEN, 2));
}

START_TEST(numa_policy)
{
	struct fix f;

	fix_open(&f);
	policy(&f, true);
	policy(&f, false);
	half_policy(&f);
	fix_close(&f);
}
END_TEST

/* Protection keys, where the processor has them. */
START_TEST(keys)
{
	unsigned char *p = fix_pages(LEN, 1), *q = fix_pages(LEN, 2);
	int key = pkey_alloc(0, 0);
	struct ibv_mr *m, *n;
	char word[16];
	struct fix f;

	if (key < 0)
		return;
	snprintf(word, sizeof(word), " %d\n", key);
	fix_open(&f);
	ck_assert_int_eq(pkey_mprotect(p, LEN, PROT_READ | PROT_WRITE, key), 0);
	m = fix_reg(&f, p, LEN);
	n = fix_reg(&f, q, LEN);
	ck_assert(!converted(p) && converted(q));
	ck_assert_int_eq(pkey_mprotect(q, LEN, PROT_READ | PROT_WRITE, key), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(n), 0);
	ck_assert(smaps_has(p, "ProtectionKey:", word) && smaps_has(q, "ProtectionKey:", word));
	ck_assert(fix_filled(p, LEN, 1) && fix_filled(q, LEN, 2));
	fix_close(&f);
}
END_TEST

void api_attr(Suite *s)
{
	SUITE_ADD(s, protection, dontdump, dontfork, hugepage, nohugepage, sequential, in_disorder, halves, halves_late,
		  locked, wipeonfork, by_userfaultfd, numa_policy, keys);
}
