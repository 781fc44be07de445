/* SPDX-License-Identifier: MIT */
/* core_rnr.c - receivers that are not ready. */
#include "rig.h"

/* As from b, which is not asked. */
static void answer(struct rig *r, uint32_t psn, uint8_t syndrome)
{
	struct burst b = pkt_from(r, &r->b, OP_ACKNOWLEDGE, psn);

	b.syndrome = syndrome;
	pkt_give(r, &r->a, &b, NULL, 0);
}

/* RNR: nothing is executed; the sender waits its time, whatever sequence NAKs come meanwhile, and burns no retry. */
START_TEST(rnr_waits_its_time) /* conf: rule 4.5 */
{
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	c.retry = 0;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	fill(r.a.buf, 8, 1);
	for (unsigned i = 1; i <= 3; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_SEND, .len = 8);
	rig_run(&r);
	ck_assert_uint_eq(fault_n(&r.b, "RESP_RNR"), 1);
	ck_assert_uint_eq(fault_n(&r.b, "RESP_GAP"), 0);
	for (unsigned i = 0; i < 3; i++) { /* as rxe does for the packets behind it */
		answer(&r, c.psn, 0x60);
		ck_assert(!take(&r, &r.a, &b));
	}
	ck_assert_uint_eq(r.a.wc_n, 0);
	for (unsigned i = 1; i <= 3; i++)
		rig_recv(&r, &r.b, 50 + i, 4096, 8);
	r.now.ns = rnr_timer_ns(c.min_rnr); /* started at 1 ns: not yet over */
	hca_tick(r.a.h, r.now);
	ck_assert(!take(&r, &r.a, &b));
	r.now.ns++;
	hca_tick(r.a.h, r.now);
	rig_run(&r);
	for (unsigned i = 1; i <= 3; i++) {
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
		ck_assert_uint_eq(wc_status(&r.b, 50 + i), WC_SUCCESS);
	}
	rig_fini(&r);
}
END_TEST

START_TEST(rnr_exhausted) /* conf: rule 4.12 */
{
	struct link_conf c = conf_rc;
	struct qp_attr other = { .access = c.access, .rnr_retry = 6, .retry_cnt = 1, .rate_limit = 5 };
	struct rig r;

	c.rnr_retry = 2;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 4);
	rig_run(&r);
	/* An attribute that is not in the mask is none. */
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &other, QPA_ACCESS_FLAGS, r.now), 0);
	rig_settle(&r, 20);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_RNR_RETRY_EXC_ERR);
	ck_assert_uint_eq(fault_n(&r.a, "REQ_RNR_EXC"), 1);
	ck_assert_uint_eq(fault_n(&r.b, "RESP_RNR"), 3);
	ck_assert_uint_eq(rig_state(&r.b), QPS_RTS);
	rig_fini(&r);
}
END_TEST

/* Another ACK timeout, in SQD, is for what waits for an ACK: the time that the peer asked for stays. */
START_TEST(rnr_wait_in_sqd) /* conf: rule 4.5, rule 4.13 */
{
	struct qp_attr a = { .state = QPS_SQD, .timeout = 8, .en_sqd_async_notify = true };
	struct link_conf c = conf_rc;
	struct rig r;

	c.min_rnr = 0;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 4);
	rig_run(&r);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_STATE, r.now), 0);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_TIMEOUT, r.now), 0);
	rig_recv(&r, &r.b, 50, 0, 64);
	rig_run(&r);
	ck_assert_uint_eq(r.a.wc_n, 0);
	while (wc_status(&r.a, 1) == 255)
		ck_assert(rig_tick(&r));
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(r.now.ns, 1 + rnr_timer_ns(0));
	ck_assert(!has_event(&r.a, EV_SQ_DRAINED)); /* which was not asked for by the mask */
	rig_fini(&r);
}
END_TEST

/* A packet that crossed the NAK is refused, too: the time of the second one holds. */
START_TEST(rnr_waits_for_the_last) /* conf: rule 4.5 */
{
	const uint64_t ns = rnr_timer_ns(12);
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	c.rnr_retry = 1;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	fill(r.a.buf, 8, 1);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 8);
	ck_assert(take(&r, &r.a, &b));
	answer(&r, c.psn, 0x20 | 12);
	r.now = mono_add(r.now, ns / 2);
	answer(&r, c.psn, 0x20 | 12);
	answer(&r, c.psn, 0x20 | 1); /* shorter: over before */
	r.now = mono_add(r.now, ns - 1);
	hca_tick(r.a.h, r.now);
	ck_assert(!take(&r, &r.a, &b));
	r.now = mono_add(r.now, 1);
	hca_tick(r.a.h, r.now);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(r.a.wc_n, 0);
	rig_fini(&r);
}
END_TEST

static bool drops_all_of_a(struct rig *r, struct host *from, const struct burst *) { return from == &r->a; }

/* Sequence NAKs that come behind the timer, as rxe may send them, cost a retry each; but the peer is there. */
START_TEST(rnr_gives_retries_back) /* conf: rule 4.5 */
{
	struct link_conf c = conf_rc;
	struct rig r;

	c.rnr_retry = 7;
	c.retry = 2;
	rig_init(&r, LINK_WIRE);
	r.hook = drops_all_of_a;
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 8);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_SEND, .len = 8);
	rig_run(&r);
	for (unsigned i = 0; i < 20; i++) {
		answer(&r, c.psn, 0x21);
		rig_run(&r);
		r.now = mono_add(r.now, rnr_timer_ns(1) + 1);
		hca_tick(r.a.h, r.now);
		rig_run(&r);
		answer(&r, c.psn, 0x60);
		rig_run(&r);
		ck_assert_uint_eq(r.a.wc_n, 0);
	}
	for (unsigned i = 0; i <= c.retry; i++)
		answer(&r, c.psn, 0x60);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_RETRY_EXC_ERR);
	rig_fini(&r);
}
END_TEST

/* An RNR NAK acknowledges what was before it.  Taken back before it was sent, it leaves that ACK owed. */
START_TEST(ack_behind_a_withdrawn_one) /* conf: rule 4.2 */
{
	struct burst b, out;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 3; i++) { /* the first, the second, the second again */
		if (i != 1)
			rig_recv(&r, &r.b, 50 + i, 0, 100);
		b = pkt_from(&r, &r.a, OP_SEND_ONLY, conf_rc.psn + (i > 0));
		b.ackreq = !i;
		pkt_give(&r, &r.b, &b, "12345678", 8);
	}
	ck_assert(take(&r, &r.b, &out));
	ck_assert_uint_eq(out.op_first, OP_ACKNOWLEDGE);
	ck_assert_uint_eq(out.psn.v, conf_rc.psn + 1);
	ck_assert(!(out.syndrome & 0x60));
	ck_assert(!take(&r, &r.b, &out));
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_rnr", rnr_wait_in_sqd, rnr_waits_its_time, rnr_waits_for_the_last, rnr_exhausted,
	  rnr_gives_retries_back, ack_behind_a_withdrawn_one)
