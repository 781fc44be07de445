/* SPDX-License-Identifier: MIT */
/* said_key.c - said.c for keys that do not open memory: each way in which one can be wrong, in words. */
#include "said.h"

/* clang-format off */
/* ---- keys, and windows ---------------------------------------------------------------------- */

#define ALL (ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC)

/* b has a window, not bound yet; its key. */
static uint32_t window(struct rig *r, unsigned type)
{
	uint32_t key;

	open_rig(r, QPT_RC);
	ck_assert_int_eq(hca_mw_alloc(r->b.h, r->b.pdn, type, &key), 0);
	return key;
}

static void bind(struct rig *r, uint32_t key, uint64_t off, uint32_t len)
{
	ck_assert_int_eq(SEND_WR(r, &r->b, .id = 2, .op = WR_BIND_MW, .off = off, .len = len, .rkey = key, .access = ALL), 0);
	rig_run(r);
}

static void use(struct rig *r, uint32_t key, uint64_t roff)
{
	SEND_WR(r, &r->a, .id = 2, .op = WR_WRITE, .len = 8, .rkey = key, .roff = roff);
	rig_run(r);
}

static uint32_t region(struct host *x, uint32_t pdn, uint32_t access)
{
	struct mr_attr a = { .pdn = pdn, .access = access, .addr = (uintptr_t)x->buf, .len = BUF_LEN, .iova = (uintptr_t)x->buf,
			     .region = &x->region };
	uint32_t key;

	ck_assert_int_eq(hca_mr_reg(x->h, &a, &key), 0);
	return key;
}

START_TEST(keys)
{
	uint32_t pdn, key;
	struct rig r;

	open_rig(&r, QPT_RC);
	use(&r, 0x7abcde00, 0);
	KEYED(&r.b, RESP_RKEY, KEY_NONE, ERR "rkey 0x7abcde00 was never that of an MR" OF);
	rig_fini(&r);
	open_rig(&r, QPT_RC);
	use(&r, r.b.key ^ 1, 0);
	KEYED(&r.b, RESP_RKEY, KEY_NONE, ERR "rkey 0x[0-9a-f]+ was never that of an MR" OF);
	rig_fini(&r);
	open_rig(&r, QPT_RC);
	ck_assert_int_eq(hca_pd_alloc(r.b.h, &pdn), 0);
	use(&r, region(&r.b, pdn, 0x1f), 0);
	KEYED(&r.b, RESP_RKEY, KEY_PD, ERR "rkey 0x[0-9a-f]+ is of another protection domain \\([0-9]+, the QP's is [0-9]+\\)" OF);
	rig_fini(&r);
	open_rig(&r, QPT_RC);
	use(&r, region(&r.b, r.b.pdn, ACC_LOCAL_WRITE | ACC_REMOTE_READ), 0);
	KEYED(&r.b, RESP_RKEY, KEY_RIGHT, ERR "rkey 0x[0-9a-f]+ does not have REMOTE_WRITE \\(it has LOCAL_WRITE\\|REMOTE_READ\\)" OF);
	rig_fini(&r);
	open_rig(&r, QPT_RC);
	use(&r, r.b.key, BUF_LEN - 5);
	KEYED(&r.b, RESP_RKEY, KEY_BOUNDS, ERR "0x[0-9a-f]+ \\+ 8 is out of bounds by 3 bytes: the MR of 0x[0-9a-f]+ is 0x[0-9a-f]+ \\+ 1048576" OF);
	rig_fini(&r);
	key = window(&r, 2);
	use(&r, key, 0);
	KEYED(&r.b, RESP_RKEY, KEY_UNBOUND, ERR "rkey 0x[0-9a-f]+: the window is not bound" OF);
	rig_fini(&r);
	key = window(&r, 2);
	bind(&r, key, 4096, 64);
	use(&r, key, 4096 + 60);
	KEYED(&r.b, RESP_RKEY, KEY_BOUNDS, ERR "0x[0-9a-f]+ \\+ 8 is out of bounds by 4 bytes: the window of 0x[0-9a-f]+ is 0x[0-9a-f]+ \\+ 64" OF);
	rig_fini(&r);
}
END_TEST

/* Keys that were right once: what ended them, and when. */
START_TEST(gone_keys)
{
	uint32_t key;
	struct rig r;

	open_rig(&r, QPT_RC);
	key = region(&r.b, r.b.pdn, 0x1f);
	r.now.ns += 5000000;
	hca_time(r.b.h, r.now);
	ck_assert_int_eq(hca_mr_dereg(r.b.h, key), 0);
	r.now.ns += 12000000;
	use(&r, key, 0);
	KEYED(&r.b, RESP_RKEY, KEY_GONE, ERR "rkey 0x[0-9a-f]+ was deregistered 12 ms before \\(ibv_dereg_mr\\): the MR was 0x[0-9a-f]+ \\+ 1048576" OF);
	rig_fini(&r);
	/* So many later that it is forgotten. */
	open_rig(&r, QPT_RC);
	key = region(&r.b, r.b.pdn, 0x1f);
	ck_assert_int_eq(hca_mr_dereg(r.b.h, key), 0);
	for (unsigned i = 0; i < 256; i++)
		ck_assert_int_eq(hca_mr_dereg(r.b.h, region(&r.b, r.b.pdn, 0x1f)), 0);
	use(&r, key, 0);
	KEYED(&r.b, RESP_RKEY, KEY_NONE, ERR "rkey 0x[0-9a-f]+ is that of no MR" OF);
	rig_fini(&r);
	key = window(&r, 1) ^ 1;
	bind(&r, key, 4096, 64);
	bind(&r, key ^ 2, 4096, 64);
	use(&r, key, 4096);
	KEYED(&r.b, RESP_RKEY, KEY_OLD, ERR "rkey 0x[0-9a-f]+ is not the key of its window any more: it was bound anew on QP 0x[0-9a-f]+ [0-9]+ [nu]s before" OF);
	rig_fini(&r);
	key = window(&r, 2);
	bind(&r, key, 4096, 64);
	SEND_WR(&r, &r.b, .id = 3, .op = WR_LOCAL_INV, .imm = key);
	rig_run(&r);
	use(&r, key, 4096);
	KEYED(&r.b, RESP_RKEY, KEY_UNBOUND, ERR "rkey 0x[0-9a-f]+: the window is not bound, it was invalidated on QP 0x[0-9a-f]+ [0-9]+ [nu]s before" OF);
	rig_fini(&r);
	key = window(&r, 2);
	bind(&r, key, 4096, 64);
	ck_assert_int_eq(hca_mw_dealloc(r.b.h, key), 0);
	use(&r, key, 4096);
	KEYED(&r.b, RESP_RKEY, KEY_GONE, ERR "rkey 0x[0-9a-f]+ was deallocated \\(ibv_dealloc_mw\\) [0-9]+ [nu]s before" OF);
	rig_fini(&r);
	/* Not bound any more when it was deallocated, or never. */
	for (unsigned i = 0; i < 2; i++) {
		key = window(&r, 2);
		if (i) {
			bind(&r, key, 4096, 64);
			SEND_WR(&r, &r.b, .id = 3, .op = WR_LOCAL_INV, .imm = key);
			rig_run(&r);
		}
		ck_assert_int_eq(hca_mw_dealloc(r.b.h, key), 0);
		use(&r, key, 4096);
		KEYED(&r.b, RESP_RKEY, KEY_GONE, ERR "rkey 0x[0-9a-f]+ was deallocated \\(ibv_dealloc_mw\\) [0-9]+ [nu]s before" OF);
		rig_fini(&r);
	}
	key = window(&r, 2);
	bind(&r, key, 4096, 64);
	ck_assert_int_eq(hca_qp_destroy(r.b.h, r.b.qpn), 0);
	ck_assert_int_eq(hca_mw_dealloc(r.b.h, key), 0);
	rig_connect(&r, &conf_rc);
	use(&r, key, 4096);
	KEYED(&r.b, RESP_RKEY, KEY_GONE, ERR "rkey 0x[0-9a-f]+ was deallocated \\(ibv_dealloc_mw\\) [0-9]+ [nu]s before" OF);
	rig_fini(&r);
	key = window(&r, 2);
	ck_assert_int_eq(hca_mw_dealloc(r.b.h, key), 0);
	bind(&r, key, 4096, 64);
	KEYED(&r.b, SQ_BIND, KEY_GONE, ERR "MW_BIND_ERR: rkey 0x[0-9a-f]+ was deallocated \\(ibv_dealloc_mw\\) [0-9]+ [nu]s before; BIND_MW wr_id 0x2$");
	rig_fini(&r);
}
END_TEST

/* Of keys of another user nothing is told, and he makes nobody's forgotten. */
START_TEST(other_users)
{
	uint32_t pdn, key, theirs;
	struct rig r;

	for (unsigned i = 0; i < 2; i++) {
		open_rig(&r, QPT_RC);
		ck_assert_int_eq(hca_pd_alloc(r.b.h, &pdn), 0);
		hca_pd_owner(r.b.h, pdn, 1001, 1);
		key = region(&r.b, r.b.pdn, 0x1f);
		ck_assert_int_eq(hca_mr_dereg(r.b.h, key), 0);
		theirs = region(&r.b, pdn, 0x1f);
		ck_assert_int_eq(hca_mr_dereg(r.b.h, theirs), 0);
		for (unsigned j = 0; i && j < 2000; j++)
			ck_assert_int_eq(hca_mr_dereg(r.b.h, region(&r.b, pdn, 0x1f)), 0);
		use(&r, i ? key : theirs, 0);
		if (i)
			KEYED(&r.b, RESP_RKEY, KEY_GONE, ERR "rkey 0x[0-9a-f]+ was deregistered ");
		else
			KEYED(&r.b, RESP_RKEY, KEY_NONE, ERR "rkey 0x[0-9a-f]+ is that of no MR" OF);
		rig_fini(&r);
	}
	/* That of another program of the same user. */
	open_rig(&r, QPT_RC);
	ck_assert_int_eq(hca_pd_alloc(r.b.h, &pdn), 0);
	for (uint32_t i = 0; i < 2; i++) {
		hca_pd_owner(r.b.h, pdn, 0, i);
		key = region(&r.b, pdn, 0x1f);
		ck_assert_int_eq(hca_mr_dereg(r.b.h, key), 0);
		rig_connect(&r, &conf_rc);
		use(&r, key, 0);
		if (i)
			KEYED(&r.b, RESP_RKEY, KEY_GONE, ERR "rkey 0x[0-9a-f]+ was deregistered [0-9]+ [num]?s before \\(ibv_dereg_mr of another program, or its end\\): ");
		else
			KEYED(&r.b, RESP_RKEY, KEY_GONE, ERR "rkey 0x[0-9a-f]+ was deregistered [0-9]+ [num]?s before \\(ibv_dereg_mr, of another protection domain\\): ");
	}
	rig_fini(&r);
	/* More users than are remembered. */
	open_rig(&r, QPT_RC);
	for (uint32_t u = 0; u <= 8; u++) {
		ck_assert_int_eq(hca_pd_alloc(r.b.h, &pdn), 0);
		hca_pd_owner(r.b.h, pdn, u, 1);
		r.now.ns += 1000;
		hca_time(r.b.h, r.now);
		ck_assert_int_eq(hca_mr_dereg(r.b.h, region(&r.b, pdn, 0x1f)), 0);
	}
	use(&r, 0x7abcde00, 0);
	KEYED(&r.b, RESP_RKEY, KEY_NONE, ERR "rkey 0x7abcde00 is that of no MR" OF);
	rig_fini(&r);
}
END_TEST

START_TEST(windows)
{
	uint32_t key;
	struct rig r;

	/* bound on one QP of b, used by another */
	key = window(&r, 2);
	bind(&r, key, 4096, 64);
	rig_connect(&r, &conf_rc);
	use(&r, key, 4096);
	KEYED(&r.b, RESP_RKEY, KEY_QP, ERR "rkey 0x[0-9a-f]+: the window is bound to QP 0x[0-9a-f]+" OF);
	rig_fini(&r);
	key = window(&r, 1) ^ 1;
	bind(&r, key, 4096, 64);
	SEND_WR(&r, &r.b, .id = 3, .op = WR_LOCAL_INV, .imm = key);
	rig_run(&r);
	KEYED(&r.b, SQ_INV, KEY_TYPE, ERR "MW_BIND_ERR: key 0x[0-9a-f]+ is of a window of type 1; LOCAL_INV wr_id 0x3$");
	rig_fini(&r);
	key = window(&r, 2);
	bind(&r, key, 4096, 64);
	bind(&r, key ^ 1, 4096, 64);
	KEYED(&r.b, SQ_BIND, KEY_BOUND, ERR "MW_BIND_ERR: key 0x[0-9a-f]+: the window of type 2 is still bound; BIND_MW wr_id 0x2$");
	rig_fini(&r);
	key = window(&r, 1) ^ 1;
	bind(&r, key, 4096, 64);
	bind(&r, key, 8192, 64);
	KEYED(&r.b, SQ_BIND, KEY_SAME, ERR "MW_BIND_ERR: key 0x[0-9a-f]+ is the one that the window of type 1 has; BIND_MW wr_id 0x2$");
	rig_fini(&r);
	key = window(&r, 2);
	SEND_WR(&r, &r.b, .id = 2, .op = WR_BIND_MW, .len = 64, .rkey = key, .access = ALL, .lkey = region(&r.b, r.b.pdn, ACC_REMOTE_READ));
	rig_run(&r);
	KEYED(&r.b, SQ_BIND, KEY_MR, ERR "MW_BIND_ERR: lkey 0x[0-9a-f]+ of the region has REMOTE_READ, "
	      "a window like this needs LOCAL_WRITE\\|MW_BIND; BIND_MW wr_id 0x2$");
	rig_fini(&r);
	key = window(&r, 2);
	bind(&r, key, BUF_LEN - 8, 9);
	SAID(&r.b, SQ_BIND, ERR "MW_BIND_ERR: .*0x[0-9a-f]+ \\+ 9 is out of bounds by 1 byte: the MR of .*; BIND_MW wr_id 0x2$");
	rig_fini(&r);
}
END_TEST

TEST_MAIN("said_key", keys, gone_keys, other_users, windows)
