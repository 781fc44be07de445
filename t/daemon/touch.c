/* SPDX-License-Identifier: MIT */
/* touch.c - pages that are there come many at a time when one is written to, and no page comes to be there but that one. */
#include "daemon/base/touch.h"
#include "t/suite.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEPS 4u
#define LEN   ((size_t)STEPS * TOUCH_STEP)

static size_t page, len;
static int fd, pagemap;
static uint8_t *map;
static struct touch *t;

/* A file of some steps and a few pages, and a mapping of it. */
static void begin(size_t pages)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	len = LEN + pages * page;
	fd = memfd_create("touch", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(pagemap, 0);
	t = touch_new(map, len);
	ck_assert_ptr_nonnull(t);
}

static void end(void)
{
	free(t);
	munmap(map, len);
	close(fd);
	close(pagemap);
}

/* As its program does it. */
static void fill(size_t at, size_t n)
{
	for (; n; at += page, n -= page)
		ck_assert_int_eq(pwrite(fd, "x", 1, (off_t)at), 1);
}

/* How many pages of that are mapped here. */
static unsigned mapped(size_t at, size_t n)
{
	uint64_t entry;
	unsigned count = 0;

	for (; n; at += page, n -= page) {
		ck_assert_int_eq(pread(pagemap, &entry, 8, (off_t)(((uintptr_t)map + at) / page * 8)), 8);
		count += entry >> 63 != 0;
	}
	return count;
}

static size_t there(void)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return (size_t)st.st_blocks * 512 / page;
}

static void write_at(size_t at, size_t n)
{
	touch(t, map + at, n);
	map[at] = 1;
	map[at + n - 1] = 1;
}

START_TEST(what_is_there_comes_together)
{
	begin(0);
	fill(0, LEN);
	write_at(TOUCH_STEP + page, 8);
	if (TOUCH_STEP > page)
		ck_assert_uint_gt(mapped(0, LEN), 1);
	ck_assert_uint_lt(mapped(0, LEN), LEN / page);
	write_at(page, LEN - page); /* over all of them */
	if (TOUCH_STEP > page)
		for (size_t i = 0; i < STEPS; i++)
			ck_assert_uint_gt(mapped(i * TOUCH_STEP, TOUCH_STEP), 1);
	end();
}
END_TEST

START_TEST(what_is_not_there_is_spared)
{
	begin(0);
	write_at(TOUCH_STEP + 1, 1);
	write_at(LEN - 1, 1);
	ck_assert_uint_eq(there(), 2);
	ck_assert_uint_eq(mapped(0, LEN), 2);
	end();
}
END_TEST

START_TEST(a_step_is_read_once)
{
	begin(0);
	fill(0, LEN);
	write_at(0, 1);
	ck_assert_int_eq(madvise(map, LEN, MADV_DONTNEED), 0); /* no longer mapped */
	touch(t, map, TOUCH_STEP);
	ck_assert_uint_eq(mapped(0, LEN), 0);
	touch(t, map, TOUCH_STEP + 1); /* the next one, too */
	ck_assert_uint_gt(mapped(TOUCH_STEP, TOUCH_STEP), 0);
	end();
}
END_TEST

START_TEST(end_of_mapping)
{
	begin(1);
	for (size_t i = 0; i < len; i += page / 2)
		write_at(i, page / 2);
	ck_assert_uint_eq(mapped(0, len), len / page);
	end();
}
END_TEST

TEST_MAIN("touch", what_is_there_comes_together, what_is_not_there_is_spared, a_step_is_read_once, end_of_mapping)
