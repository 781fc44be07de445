/* SPDX-License-Identifier: MIT */
/* held.c - pages that a client takes out of its files: of many mappings the right one is torn, whichever are still there. */
#include "daemon/base/held.h"
#include "t/suite.h"

#include <sys/mman.h>
#include <unistd.h>

#define MAPS  500u
#define PAGES 4u

static struct held *map_of(int fd, size_t page)
{
	struct held *h;

	ck_assert_int_eq(held_map(&h, fd, 0, PAGES * page, 0), 0);
	ck_assert_ptr_null(h->torn);
	h->base[0] = 1;
	return h;
}

/* Its second page is touched, and is none any more. */
static void torn_check(const struct held *h, size_t page)
{
	unsigned before = held_tears;

	ck_assert_ptr_null(h->torn);
	h->base[page] = 2;
	ck_assert_uint_eq(held_tears, before + 1);
	ck_assert_ptr_eq(h->torn, h->base + page);
	ck_assert_uint_eq(h->base[0], 1);
	ck_assert(!held_is_torn(h, h->base, page) && held_is_torn(h, h->base, page + 1));
}

START_TEST(right_one_is_torn)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("held", MFD_CLOEXEC);
	struct held *h[MAPS];
	unsigned i;

	held_begin();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)(PAGES * page)), 0);
	for (i = 0; i < MAPS; i++)
		h[i] = map_of(fd, page);
	for (i = 0; i < MAPS; i += 3) {
		held_unmap(h[i]);
		h[i] = NULL;
	}
	ck_assert_int_eq(ftruncate(fd, (off_t)page), 0);
	for (i = 1; i < MAPS; i += 3)
		torn_check(h[i], page);
	for (i = 2; i < MAPS; i += 3)
		ck_assert_ptr_null(h[i]->torn);
	for (i = 2; i < MAPS; i += 3)
		torn_check(h[i], page);
	ck_assert_uint_eq(held_count(), MAPS - (MAPS + 2) / 3);
	for (i = 0; i < MAPS; i++)
		held_unmap(h[i]);
	ck_assert_uint_eq(held_count(), 0);
	close(fd);
}
END_TEST

TEST_MAIN("held", right_one_is_torn)
