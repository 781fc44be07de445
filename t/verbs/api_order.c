/* SPDX-License-Identifier: MIT */
/*
 * api_order.c - the last byte of a WRITE is the last that its target sees.  No specification says so, but adapters do it, and
 * programs wait for it instead of a completion (dtest -W, perftest's write_lat, MPI libraries).
 */
#include "fixture.h"

#include <sched.h>
#include <time.h>

#define LEN    4096u
#define ROUNDS 200u

static void wait_last(volatile unsigned char *p, unsigned char v)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (unsigned i = 1; *p != v; i++)
		if (i % 256 == 0) {
			sched_yield();
			clock_gettime(CLOCK_MONOTONIC, &now);
			ck_assert_msg(now.tv_sec - from.tv_sec < 20, "the last byte did not come");
		}
}

/* buf_len from 64 KiB on: memory that the daemon maps. */
static void order(size_t buf_len)
{
	unsigned char *to = aligned_alloc(4096, buf_len);
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	struct fix f;

	ck_assert(to != NULL);
	memset(to, 0, buf_len);
	fix_open(&f);
	fix_pair(&f, &a, &b);
	mr = ibv_reg_mr(f.pd, to, buf_len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ck_assert(mr != NULL);
	for (unsigned i = 1; i <= ROUNDS; i++) {
		memset(f.buf, (int)(i & 255), LEN);
		ck_assert_int_eq(fix_write_to(&f, a, 0, (uintptr_t)to, mr->rkey, LEN), 0);
		wait_last(to + LEN - 1, (unsigned char)i);
		for (unsigned k = 0; k < LEN; k++) {
			unsigned char v = ((volatile unsigned char *)to)[k];

			ck_assert_msg(v == (i & 255), "round %u: byte %u came behind the last one: %u, then %u", i, k,
				      v, ((volatile unsigned char *)to)[k]);
		}
		fix_wait_ok(f.cq);
	}
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	fix_pair_end(a, b);
	fix_close(&f);
	free(to);
}

START_TEST(last_byte) { order(8192); }
END_TEST

START_TEST(last_byte_mapped) { order(1 << 17); }
END_TEST

void api_order(Suite *s) { SUITE_ADD(s, last_byte, last_byte_mapped); }
