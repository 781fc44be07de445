/* SPDX-License-Identifier: MIT */
/*
 * vma_attr.c - what /proc/self/maps does not show of a mapping: advice of madvise(), userfaultfd, keys, mlock().
 *
 * A page that is mapped beside becomes part of a mapping that has the same of these: that takes microseconds.
 *
 * Else they are in /proc/self/smaps, for which the kernel walks through the pages of each mapping up to the one behind that is
 * wanted: 7 us a mapping, and 25 ms for each GiB that is there in small pages.  So there is a credit for that.
 */
#include "vma.h"
#include "direct.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdmad/clock.h>

#define CREDIT_US 100000 /* of processor time, at once; in the long run ... */
#define SHARE     20     /* ... this part of all time */

static const struct {
	char flag[3];
	int advice;
} advices[] = {
	{ "dd", MADV_DONTDUMP },   { "dc", MADV_DONTFORK },   { "hg", MADV_HUGEPAGE },
	{ "nh", MADV_NOHUGEPAGE }, { "sr", MADV_SEQUENTIAL }, { "rr", MADV_RANDOM },
};
#define ADVICES (sizeof(advices) / sizeof(*advices))

/* Other pages have the same, or it is of no matter.  Those that are not here, and those yet to come, are not had by others. */
static const char plain_flags[] = "rd wr ex sh mr mw me ms ac nr sd ";

static const char flags_name[] = "VmFlags: ";

/* Under the lock of mem_map.h, as all here. */
static struct {
	int fd;
	unsigned at, n, len;
	char buf[256], line[256];
} in;

static int64_t now_us(clockid_t clock) { return (int64_t)(clock_ns(clock) / 1000); }

static int byte_next(void)
{
	if (in.at == in.n) {
		long n = direct_read(in.fd, in.buf, sizeof(in.buf)); /* less than one mapping has */

		if (n <= 0)
			return -1;
		in.at = 0;
		in.n = (unsigned)n;
	}
	return (unsigned char)in.buf[in.at++];
}

/* A long one, which has a path, without its end. */
static bool line_next(void)
{
	int c;

	for (in.len = 0; (c = byte_next()) >= 0 && c != '\n';)
		if (in.len < sizeof(in.line) - 1)
			in.line[in.len++] = (char)c;
	in.line[in.len] = 0;
	return c == '\n';
}

static bool flag_is(const char *p, const char *flag) { return p[0] == flag[0] && p[1] == flag[1]; }

/* "VmFlags: rd wr mr mw me ac ": of what advice they tell; false: there is something else. */
static bool flags_advice(const char *p, unsigned *advice)
{
	unsigned i;

	*advice = 0;
	for (; p[0] && p[1] && p[2] == ' '; p += 3) {
		for (i = 0; i < ADVICES && !flag_is(p, advices[i].flag); i++)
			;
		if (i < ADVICES) {
			*advice |= 1u << i;
			continue;
		}
		for (i = 0; plain_flags[i] && !flag_is(p, plain_flags + i); i += 3)
			;
		if (!plain_flags[i])
			return false;
	}
	return !*p;
}

/* The mapping that a line is about; false: it is another's. */
static bool line_vma(uintptr_t *start, uintptr_t *end)
{
	char *p;

	*start = strtoul(in.line, &p, 16);
	if (p == in.line || *p != '-')
		return false;
	*end = strtoul(p + 1, &p, 16);
	return *p == ' ';
}

/* Up to the flags of the last mapping of the range. */
static bool range_read(uintptr_t start, uintptr_t end, unsigned *advice)
{
	static const char key[] = "ProtectionKey:";
	uintptr_t from = 0, to = 0, at = start;
	unsigned now;

	while (line_next()) {
		if (line_vma(&from, &to)) {
			if (from > at && to > start)
				return false;
		} else if (to <= start) {
			continue;
		} else if (!strncmp(in.line, key, sizeof(key) - 1)) {
			if (strtoul(in.line + sizeof(key) - 1, NULL, 10))
				return false;
		} else if (!strncmp(in.line, flags_name, sizeof(flags_name) - 1)) {
			if (!flags_advice(in.line + sizeof(flags_name) - 1, &now) ||
			    (at > start && (now != *advice || !vma_policy_same(start, from))))
				return false;
			*advice = now;
			if (to >= end)
				return true;
			at = to;
		}
	}
	return false;
}

static int64_t credit = CREDIT_US, began;

static bool smaps_open(void)
{
	static int64_t last;
	int64_t now = now_us(CLOCK_MONOTONIC);

	if (last)
		credit += (now - last) / SHARE;
	if (credit > CREDIT_US)
		credit = CREDIT_US;
	last = now;
	if (credit < 0)
		return false;
	began = now_us(CLOCK_THREAD_CPUTIME_ID);
	in.fd = direct_open("/proc/self/smaps", O_RDONLY);
	in.at = in.n = 0;
	return in.fd >= 0;
}

static void smaps_close(void)
{
	direct_close(in.fd);
	credit -= now_us(CLOCK_THREAD_CPUTIME_ID) - began;
}

enum vma_like vma_advice(uintptr_t start, uintptr_t end, unsigned *advice)
{
	bool ok;

	if (!smaps_open())
		return VMA_UNKNOWN;
	ok = range_read(start, end, advice);
	smaps_close();
	return ok ? VMA_LIKE : VMA_ODD;
}

/* "start-end perm offset major:minor inode      name" */
static uint64_t line_ino(void)
{
	const char *p = in.line;

	for (unsigned i = 0; p && i < 4; i++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

void vma_advice_each(const char *name, vma_told *told)
{
	uintptr_t start, end;
	uint64_t ino = 0;
	unsigned advice;
	bool ok;

	if (!smaps_open())
		return;
	while (line_next())
		if (line_vma(&start, &end)) {
			ino = strstr(in.line, name) ? line_ino() : 0;
		} else if (ino && !strncmp(in.line, flags_name, sizeof(flags_name) - 1)) {
			ok = flags_advice(in.line + sizeof(flags_name) - 1, &advice);
			told(ino, ok ? &advice : NULL);
		}
	smaps_close();
}

void vma_advise(uintptr_t addr, size_t len, unsigned advice)
{
	for (unsigned i = 0; i < ADVICES; i++)
		if (advice & 1u << i)
			syscall(SYS_madvise, addr, len, advices[i].advice);
}

/* Where a page can be mapped beside the mapping that has the range; 0: nowhere. */
static uintptr_t place_beside(struct vma_reader *r, uintptr_t start, uintptr_t end, size_t page)
{
	uintptr_t before = 0, behind;
	struct vma v;

	vma_again(r);
	for (;; before = v.end) {
		if (!vma_next(r, &v))
			return 0;
		if (v.end > start)
			break;
	}
	if (v.start > start || v.end < end)
		return 0;
	if (v.start - before >= page)
		return v.start - page;
	behind = v.end;
	return !vma_next(r, &v) || v.start - behind >= page ? behind : 0;
}

/* Whether a page of such flags and with one advice, that is mapped there for a moment, is in one mapping with start. */
static bool grows_by(struct vma_reader *r, uintptr_t start, uintptr_t at, int flags, unsigned advice)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	long got = syscall(SYS_mmap, at, page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | flags, -1, 0L);
	bool is = false;
	struct vma v;

	if (got == -1)
		return false;
	vma_advise((uintptr_t)got, page, advice);
	vma_policy_copy(start, (uintptr_t)got, page);
	vma_again(r);
	while (!is && got == (long)at && vma_next(r, &v) && v.start <= start)
		is = v.start <= at && v.end > at && v.end > start;
	syscall(SYS_munmap, got, page);
	return is;
}

bool vma_try(struct vma_reader *r, uintptr_t start, uintptr_t end, unsigned *advice)
{
	const uintptr_t at = place_beside(r, start, end, (size_t)sysconf(_SC_PAGESIZE));

	for (unsigned i = 0; at && i <= ADVICES; i++) {
		*advice = i ? 1u << (i - 1) : 0;
		if (grows_by(r, start, at, 0, *advice) || grows_by(r, start, at, MAP_NORESERVE, *advice))
			return true;
	}
	*advice = 0;
	return false;
}
