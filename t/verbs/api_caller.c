/* SPDX-License-Identifier: MIT */
/* api_caller.c - memory is registered by a program without standard streams. */
#include "fixture.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN ((size_t)1 << 20)

static struct fix f;

static unsigned char *pages(size_t len)
{
	unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert(p != MAP_FAILED);
	fix_fill(p, len, 1);
	return p;
}

/* A program without standard streams: the library keeps nothing at their numbers, where the program may write or open something. */
START_TEST(low_numbers)
{
	unsigned char *p = pages(LEN);
	char path[32], what[64];
	struct ibv_mr *m;
	ssize_t n;

	for (int fd = 0; fd <= 2; fd++)
		close(fd);
	fix_open(&f);
	m = ibv_reg_mr(f.pd, p, LEN, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(m != NULL);
	ck_assert(fix_is_mapped(p));
	for (int fd = 0; fd <= 2; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, what, sizeof(what) - 1);
		what[n > 0 ? n : 0] = 0;
		ck_assert_msg(fd == f.ctx->cmd_fd || fd == f.ctx->async_fd || !*what, "%d is %s", fd, what);
	}
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(fix_filled(p, LEN, 1));
	fix_close(&f);
}
END_TEST

void api_caller(Suite *s) { SUITE_ADD(s, low_numbers); }
