/* SPDX-License-Identifier: MIT */
/* core_cntr.c - completion counters: each request once, whatever is lost on the way. */
#include <errno.h>

#include "proto/hca_in.h"
#include "proto/opcode.h"
#include "proto/resp.h"
#include "rig.h"
#include "t/suite.h"

/* One packet in five, by dice that fall the same way each time. */
static bool lossy(struct rig *r, struct host *from, const struct burst *b)
{
	uint32_t *dice = r->hook_arg;

	(void)from, (void)b;
	*dice = *dice * 1664525u + 1013904223u;
	return (*dice >> 16) % 5 == 0;
}

START_TEST(once)
{
	static const enum wr_op ops[] = { WR_SEND, WR_WRITE, WR_READ, WR_WRITE_IMM, WR_FETCH_ADD };
	struct comp_cntr c[2][CNTR_OPS] = { 0 };
	uint32_t dice = 1;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned op = 0; op < CNTR_OPS; op++) { /* (hca_qp_count() is for QPs that are not connected yet.) */
		qp_get(r.a.h, r.a.qpn)->cntr[op] = &c[0][op];
		qp_get(r.b.h, r.b.qpn)->cntr[op] = &c[1][op];
	}
	qp_get(r.a.h, r.a.qpn)->cntr_bytes = 1u << CNTR_READ;
	r.hook = lossy;
	r.hook_arg = &dice;
	for (unsigned i = 0; i < 40; i++) {
		const enum wr_op op = ops[i % 5];

		if (op == WR_SEND || op == WR_WRITE_IMM)
			rig_recv(&r, &r.b, 100 + i, 0, 4000);
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = i, .op = op, .len = op == WR_FETCH_ADD ? 8 : 4000,
					 .roff = 8192, .quiet = i % 2),
				 0);
		rig_settle(&r, 1000);
	}
	ck_assert_uint_eq(c[0][CNTR_SEND].done, 8);
	ck_assert_uint_eq(c[0][CNTR_WRITE].done, 16);
	ck_assert_uint_eq(c[0][CNTR_READ].done, 8 * 4000);
	ck_assert_uint_eq(c[0][CNTR_RECV].done + c[0][CNTR_REMOTE_WRITE].done, 0);
	ck_assert_uint_eq(c[1][CNTR_RECV].done, 16);
	ck_assert_uint_eq(c[1][CNTR_REMOTE_WRITE].done, 16);
	ck_assert_uint_eq(c[1][CNTR_REMOTE_READ].done, 0);
	ck_assert_uint_eq(c[1][CNTR_SEND].done + c[1][CNTR_WRITE].done, 0);
	for (unsigned op = 0; op < CNTR_OPS; op++)
		ck_assert_uint_eq(c[0][op].failed + c[1][op].failed, 0);
	rig_fini(&r);
}
END_TEST

/* An error: the request, and those behind it, one by one. */
START_TEST(failures)
{
	struct comp_cntr c[2][CNTR_OPS] = { 0 };
	struct rig r;

	rig_init(&r, LINK_LOCAL);
	rig_connect(&r, &conf_rc);
	for (unsigned op = 0; op < CNTR_OPS; op++) {
		qp_get(r.a.h, r.a.qpn)->cntr[op] = &c[0][op];
		qp_get(r.b.h, r.b.qpn)->cntr[op] = &c[1][op];
	}
	rig_recv(&r, &r.b, 100, 0, 64);
	rig_recv(&r, &r.b, 101, 0, 64);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 64, .roff = 64, .rkey = r.b.key ^ 0x5500);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_SEND, .len = 64);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_SEND, .len = 64);
	rig_settle(&r, 1000);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(c[0][CNTR_WRITE].failed, 1);
	ck_assert_uint_eq(c[0][CNTR_SEND].failed, 2);
	ck_assert_uint_eq(c[1][CNTR_REMOTE_WRITE].failed, 1);
	ck_assert_uint_eq(c[1][CNTR_RECV].failed, 2);
	for (unsigned op = 0; op < CNTR_OPS; op++)
		ck_assert_uint_eq(c[0][op].done + c[1][op].done, 0);
	rig_fini(&r);
}
END_TEST

/* A WRITE that is found wrong before it is carried out, and one that is not its turn. */
START_TEST(malformed)
{
	struct burst b = { .op_first = OP_WRITE_ONLY, .op_last = OP_WRITE_ONLY, .n = 1 };
	struct comp_cntr c = { 0 };
	struct qp *qp;
	struct rig r;

	rig_init(&r, LINK_LOCAL);
	rig_connect(&r, &conf_rc);
	qp = qp_get(r.b.h, r.b.qpn);
	qp->cntr[CNTR_REMOTE_WRITE] = &c;
	b.psn = psn_add(qp->resp.epsn, 1);
	resp_rx_bad(r.b.h, qp, &b, FAULT_RESP_LEN);
	ck_assert_uint_eq(c.failed, 0);
	b.psn = qp->resp.epsn;
	resp_rx_bad(r.b.h, qp, &b, FAULT_RESP_LEN);
	ck_assert_uint_eq(c.failed, 1);
	ck_assert_uint_eq(c.done, 0);
	rig_fini(&r);
}
END_TEST

/* Before each addition the host makes the copies that it has put off; where nothing is counted it is not asked to. */
static struct comp_cntr tidy[2][CNTR_OPS];
static uint64_t settles;

static uint64_t tidy_sum(void)
{
	uint64_t sum = 0;

	for (unsigned op = 0; op < CNTR_OPS; op++)
		sum += tidy[0][op].done + tidy[0][op].failed + tidy[1][op].done + tidy[1][op].failed;
	return sum;
}

static void settle(void *) { ck_assert_uint_eq(tidy_sum(), settles++); }

START_TEST(settled)
{
	struct mem_ops ops;
	struct rig r;

	rig_init(&r, LINK_LOCAL);
	rig_connect(&r, &conf_rc);
	ops = *r.a.h->cfg.mem;
	ops.settle = settle;
	r.a.h->cfg.mem = r.b.h->cfg.mem = &ops;
	for (unsigned round = 0; round < 2; round++) {
		rig_recv(&r, &r.b, 100, 0, 64);
		rig_recv(&r, &r.b, 101, 0, 64);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 64);
		SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 64, .roff = 8192);
		SEND_WR(&r, &r.a, .id = 3, .op = WR_WRITE_IMM, .len = 64, .roff = 8192);
		SEND_WR(&r, &r.a, .id = 4, .op = WR_READ, .len = 64, .roff = 8192);
		rig_settle(&r, 1000);
		ck_assert_uint_eq(settles, round ? 8 : 0);
		ck_assert_uint_eq(tidy_sum(), settles);
		for (unsigned op = 0; op < CNTR_OPS; op++) {
			qp_get(r.a.h, r.a.qpn)->cntr[op] = &tidy[0][op];
			qp_get(r.b.h, r.b.qpn)->cntr[op] = &tidy[1][op];
		}
	}
	rig_fini(&r);
}
END_TEST

START_TEST(states)
{
	struct qp_attr reset = { .state = QPS_RESET };
	struct comp_cntr c = { 0 };
	struct rig r;

	rig_init(&r, LINK_LOCAL);
	rig_connect(&r, &conf_rc);
	ck_assert_int_eq(hca_qp_count(r.a.h, r.a.qpn, 1, false, &c), EINVAL);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &reset, QPA_STATE, r.now), 0);
	ck_assert_int_eq(hca_qp_count(r.a.h, r.a.qpn, 0, false, &c), EINVAL);
	ck_assert_int_eq(hca_qp_count(r.a.h, r.a.qpn, 1u << CNTR_REMOTE_READ, false, &c), EOPNOTSUPP);
	ck_assert_int_eq(hca_qp_count(r.a.h, r.a.qpn, CNTR_HAS, true, &c), 0);
	ck_assert_int_eq(hca_qp_count(r.a.h, r.a.qpn, 1u << CNTR_WRITE, false, &c), EBUSY);
	ck_assert_int_eq(hca_qp_count(r.a.h, r.a.qpn + 1, 1, false, &c), EINVAL);
	rig_fini(&r);
}
END_TEST

/* A WRITE that the responder refuses counts as failed; not one for which it has no receive WR, and no READ. */
START_TEST(only_writes_fail)
{
	static const struct {
		uint8_t op;
		bool wrong;
		uint64_t failed;
	} t[] = { { OP_WRITE_ONLY_IMM, false, 0 }, { OP_WRITE_ONLY, true, 1 }, { OP_READ_REQUEST, true, 0 } };

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct comp_cntr c = { 0 };
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		qp_get(r.b.h, r.b.qpn)->cntr[CNTR_REMOTE_WRITE] = &c;
		b = pkt_from(&r, &r.a, t[i].op, conf_rc.psn);
		b.dma_len = 8;
		b.rkey ^= t[i].wrong;
		pkt_give(&r, &r.b, &b, "12345678", t[i].op == OP_READ_REQUEST ? 0 : 8);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_ne(aeth_type(b.syndrome), AETH_ACK);
		ck_assert_uint_eq(c.failed, t[i].failed);
		ck_assert_uint_eq(c.done, 0);
		rig_fini(&r);
	}
}
END_TEST

TEST_MAIN("core_cntr", once, failures, malformed, only_writes_fail, settled, states)
