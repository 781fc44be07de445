/* SPDX-License-Identifier: MIT */
/* core_mr.c - memory regions: keys, protection domains, rights and bounds, as a peer meets them. */
#include <errno.h>

#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

START_TEST(mr_rights) /* conf: rule 6.1 */
{
	struct mr_attr a = { .len = 16 };
	struct rig r;
	uint32_t key, again;

	rig_init(&r, LINK_WIRE);
	ck_assert_int_eq(hca_mr_reg(r.a.h, &a, &key), EINVAL); /* no PD */
	a.pdn = r.a.pdn;
	a.access = ACC_REMOTE_WRITE; /* without LOCAL_WRITE */
	ck_assert_int_eq(hca_mr_reg(r.a.h, &a, &key), EINVAL);
	a.access = ACC_REMOTE_ATOMIC;
	ck_assert_int_eq(hca_mr_reg(r.a.h, &a, &key), EINVAL);
	a.access = 1 << 30;
	ck_assert_int_eq(hca_mr_reg(r.a.h, &a, &key), EINVAL);
	a.access = ACC_REMOTE_READ | ACC_RELAXED_ORDERING;
	ck_assert_int_eq(hca_mr_reg(r.a.h, &a, &key), 0);
	a.addr = UINT64_MAX - 3;
	ck_assert_int_eq(hca_mr_reg(r.a.h, &a, &again), EINVAL); /* wraps */
	a.addr = 0;
	ck_assert_int_eq(hca_mr_dereg(r.a.h, key ^ 1), EINVAL);
	ck_assert_int_eq(hca_mr_dereg(r.a.h, key), 0);
	/* An index does not come again at once. */
	for (unsigned i = 0; i < 32; i++) {
		ck_assert_int_eq(hca_mr_reg(r.a.h, &a, &again), 0);
		ck_assert_uint_ne(again >> 8, key >> 8);
		ck_assert_int_eq(hca_mr_dereg(r.a.h, again), 0);
	}
	rig_fini(&r);
}
END_TEST

/* A key of another PD is no key. */
START_TEST(pd_is_a_wall) /* conf: rule 6.1 */
{
	struct rig r;
	struct mr_attr a;
	uint32_t pdn, key;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	ck_assert_int_eq(hca_pd_alloc(r.b.h, &pdn), 0);
	a = (struct mr_attr){ .pdn = pdn,
			      .access = 0xf,
			      .addr = (uintptr_t)r.b.buf,
			      .iova = (uintptr_t)r.b.buf,
			      .len = 4096,
			      .region = &r.b.region };
	ck_assert_int_eq(hca_mr_reg(r.b.h, &a, &key), 0);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4, .rkey = key);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_REM_ACCESS_ERR);
	rig_fini(&r);
}
END_TEST

/* The rights of an MR, each on its own. */
START_TEST(mr_access_bits)
{
	static const struct {
		enum wr_op op;
		uint32_t need;
	} ops[] = { { WR_WRITE, ACC_REMOTE_WRITE }, { WR_READ, ACC_REMOTE_READ }, { WR_FETCH_ADD, ACC_REMOTE_ATOMIC } };

	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < 3; k++) {
			struct mr_attr a;
			struct rig r;
			uint32_t key;

			rig_init(&r, LINK_WIRE);
			rig_connect(&r, &conf_rc);
			a = (struct mr_attr){ .pdn = r.b.pdn,
					      .access = ops[k].need | ACC_LOCAL_WRITE,
					      .len = 4096,
					      .addr = (uintptr_t)r.b.buf,
					      .iova = (uintptr_t)r.b.buf,
					      .region = &r.b.region };
			ck_assert_int_eq(hca_mr_reg(r.b.h, &a, &key), 0);
			SEND_WR(&r, &r.a, .id = 1, .op = ops[i].op, .len = 8, .rkey = key);
			rig_run(&r);
			ck_assert_uint_eq(wc_status(&r.a, 1), i == k ? WC_SUCCESS : WC_REM_ACCESS_ERR);
			rig_fini(&r);
		}
	}
}
END_TEST

/* iova: what peers and work requests say; addr: where it is. */
START_TEST(mr_iova)
{
	struct mr_attr a;
	struct burst b;
	struct rig r;
	uint32_t key;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	a = (struct mr_attr){ .pdn = r.b.pdn,
			      .access = ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_ATOMIC,
			      .addr = (uintptr_t)r.b.buf + 100,
			      .iova = 0x1000,
			      .len = 64,
			      .region = &r.b.region };
	ck_assert_int_eq(hca_mr_reg(r.b.h, &a, &key), 0);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	b.va = 0x1000 + 60;
	b.rkey = key;
	b.dma_len = 4;
	pkt_give(&r, &r.b, &b, "abcd", 4);
	ck_assert_mem_eq(r.b.buf + 160, "abcd", 4);
	rig_fini(&r);

	/* An address that is aligned there need not be so in memory, and an atomic could be seen half done. */
	for (unsigned i = 0; i < 2; i++) {
		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		a.pdn = r.b.pdn;
		a.addr = (uintptr_t)r.b.buf + 100;
		a.region = &r.b.region;
		ck_assert_int_eq(hca_mr_reg(r.b.h, &a, &key), 0);
		b = pkt_from(&r, &r.a, i ? OP_ATOMIC_WRITE : OP_FETCH_ADD, conf_rc.psn);
		b.va = 0x1000;
		b.rkey = key;
		b.swap_add = 1;
		b.dma_len = 8;
		pkt_give(&r, &r.b, &b, "abcdefgh", i ? 8 : 0);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(b.syndrome, aeth_nak(NAK_INV_REQ));
		ck_assert_uint_eq(r.b.buf[100], 0);
		rig_fini(&r);
	}
}
END_TEST

/*
 * A READ can be read in part: what could be has gone, and the NAK is of the next packet, so that the peer takes it.  Also where
 * the QP ends already, for a request behind the READ.
 */
START_TEST(half_a_read) /* conf: rule 4.9 */
{
	for (unsigned ends = 0; ends < 2; ends++) {
		struct span spans[RD_MAX_SGE];
		struct burst b, two;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 5000);
		if (ends)
			SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 4, .rkey = 0x123400);
		while (take(&r, &r.a, &b))
			hca_rx_burst(r.b.h, &b, r.now);
		ck_assert(hca_tx(r.b.h, &b, r.now));
		ck_assert_uint_eq(b.n, 10);
		burst_slice(&b, 0, 2, &two, spans);
		hca_rx_burst(r.a.h, &two, r.now);
		hca_tx_fault(r.b.h, &b, 2, r.now);
		hca_verify(r.b.h);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_REM_OP_ERR);
		ck_assert(has_event(&r.b, EV_QP_FATAL));
		rig_fini(&r);
	}
}
END_TEST

/* A READ comes once more while it is answered, and its key is gone: only what was answered to its end may be met by silence. */
START_TEST(key_gone_between) /* conf: rule 4.2, rule 4.9 */
{
	for (unsigned whole = 0; whole < 2; whole++) {
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		for (unsigned i = 0; i < 2; i++) {
			b = pkt_from(&r, &r.a, OP_READ_REQUEST, conf_rc.psn);
			b.dma_len = 10 * 61440;
			pkt_give(&r, &r.b, &b, NULL, 0);
			for (unsigned k = 0; k < (i ? 1 : whole ? 10 : 2); k++)
				ck_assert(take(&r, &r.b, &b));
		}
		ck_assert_int_eq(hca_mr_dereg(r.b.h, r.b.key), 0);
		ck_assert_uint_eq(take(&r, &r.b, &b), !whole);
		if (whole) {
			ck_assert(!has_event(&r.b, EV_QP_ACCESS_ERR));
		} else {
			ck_assert_uint_eq(b.syndrome, aeth_nak(NAK_REM_ACCESS));
			ck_assert_uint_eq(b.psn.v, psn(conf_rc.psn + 61440 / 512).v);
			ck_assert(has_event(&r.b, EV_QP_ACCESS_ERR));
		}
		rig_fini(&r);
	}
}
END_TEST

/* Registered anew: the same key, other memory and rights, at once. */
START_TEST(mr_rereg)
{
	struct mr_attr a;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	a = (struct mr_attr){ .pdn = r.b.pdn,
			      .access = 3,
			      .addr = (uintptr_t)r.b.buf + 4096,
			      .len = 4096,
			      .iova = (uintptr_t)r.b.buf,
			      .region = &r.b.region };
	ck_assert_int_eq(hca_mr_rereg(r.b.h, r.b.key ^ 1, &a), EINVAL);
	a.access = ACC_REMOTE_WRITE;
	ck_assert_int_eq(hca_mr_rereg(r.b.h, r.b.key, &a), EINVAL);
	a.access |= ACC_LOCAL_WRITE;
	ck_assert_int_eq(hca_mr_rereg(r.b.h, r.b.key, &a), 0);
	memset(r.a.buf, 9, 8);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_mem_eq(r.b.buf + 4096, r.a.buf, 8);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_READ, .len = 8);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 2), WC_REM_ACCESS_ERR);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_mr", key_gone_between, half_a_read, mr_rights, pd_is_a_wall, mr_access_bits, mr_iova, mr_rereg)
