/* SPDX-License-Identifier: MIT */
/* region_side.c - copies with another process: whose memory is at fault if it is not there; and what a null region shows of others. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/held.h"
#include "daemon/base/peer.h"
#include "daemon/base/region.h"
#include "t/suite.h"

#define LEN  65536u
#define PART 100u

static uint8_t *mem; /* of both processes */
static struct peer peer;
static struct region *cut, *there;
static int file;

static void set_up(void)
{
	static pid_t child;

	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(mem, MAP_FAILED);
	memset(mem, 1, LEN);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	peer = (struct peer){ .pid = child, .mem_fd = -1 };
	file = memfd_create("cut", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(file, LEN), 0);
	held_begin();
	ck_assert_int_eq(
		region_new(&cut, &peer, (uintptr_t)mem, LEN, file, &(struct map_part){ (uintptr_t)mem, LEN, 0 }), 0);
	ck_assert_int_eq(region_new(&there, &peer, (uintptr_t)mem, LEN, -1, NULL), 0);
}

static void tear_down(void)
{
	region_free(cut);
	region_free(there);
	close(file);
	kill(peer.pid, SIGKILL);
	waitpid(peer.pid, NULL, 0);
	munmap(mem, LEN);
}

static int copy(struct region *to, struct region *from)
{
	struct span dst = { to, (uintptr_t)mem, PART }, src = { from, (uintptr_t)mem, PART };

	return region_mem_ops.copy(NULL, &dst, 1, &src, 1, 0);
}

/* EFAULT: the destination, EIO: the source. */
START_TEST(destination)
{
	set_up();
	ck_assert_int_eq(copy(cut, there), 0);
	ck_assert_int_eq(ftruncate(file, 0), 0);
	ck_assert_int_eq(copy(cut, there), EFAULT);
	ck_assert_int_eq(copy(there, there), 0);
	tear_down();
}
END_TEST

START_TEST(source)
{
	set_up();
	ck_assert_int_eq(copy(there, cut), 0);
	ck_assert_int_eq(ftruncate(file, 0), 0);
	ck_assert_int_eq(copy(there, cut), EIO);
	ck_assert_int_eq(copy(there, there), 0);
	tear_down();
}
END_TEST

/* The other process's own. */
START_TEST(other_side)
{
	set_up();
	kill(peer.pid, SIGKILL);
	ck_assert_int_ne(waitpid(peer.pid, NULL, 0), -1);
	ck_assert_int_ne(copy(cut, there), EFAULT);
	tear_down();
}
END_TEST

/* Atomics find zeros there, whatever others have written to theirs. */
START_TEST(null_regions)
{
	uint64_t word = 0x0123456789abcdef, old = 1;
	struct span here = { NULL, (uintptr_t)&word, sizeof(word) }, a = { .len = 8 }, b = { .len = 8 };
	struct region *r[2];

	ck_assert_int_eq(region_new_null(&r[0]), 0);
	ck_assert_int_eq(region_new_null(&r[1]), 0);
	a.region = r[0];
	b.region = r[1];
	ck_assert_int_eq(region_mem_ops.copy(NULL, &a, 1, &here, 1, 0), 0);
	ck_assert_int_eq(region_mem_ops.fetch_add(NULL, &b, 1, &old), 0);
	ck_assert_uint_eq(old, 0);
	old = 1;
	ck_assert_int_eq(region_mem_ops.cmp_swap(NULL, &b, 5, 6, &old), 0);
	ck_assert_uint_eq(old, 0);
	ck_assert_int_eq(region_mem_ops.store(NULL, &a, word), 0);
	ck_assert_int_eq(region_mem_ops.fetch_add(NULL, &b, 1, &old), 0);
	ck_assert_uint_eq(old, 0);
	region_free(r[0]);
	region_free(r[1]);
}
END_TEST

/* It registers a file without pages, and makes them then: a copy to one has others mapped here, too. */
START_TEST(filled_later)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct span all = { .len = LEN };
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;
	const uint8_t *p;

	set_up();
	ck_assert_int_eq(pwrite(file, mem, LEN, 0), LEN);
	ck_assert_int_eq(copy(cut, there), 0);
	all.region = cut;
	all.addr = (uintptr_t)mem;
	p = region_look(&all, 1, page < LEN ? page : 0, 1);
	ck_assert_ptr_nonnull(p);
	ck_assert_int_eq(pread(pagemap, &entry, 8, (off_t)((uintptr_t)p / page * 8)), 8);
	ck_assert(entry >> 63);
	close(pagemap);
	tear_down();
}
END_TEST

TEST_MAIN("region_side", null_regions, destination, source, other_side, filled_later)
