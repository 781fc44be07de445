/* SPDX-License-Identifier: MIT */
/* core_ack.c - what a requester asks ACKs for, and answers that it does not wait for. */
#include "proto/hca_in.h"
#include "proto/req_flight.h"
#include "rig.h"

#define MTU 512u

static void answer(struct rig *r, uint8_t op, uint32_t psn, uint8_t syndrome)
{
	struct burst b = pkt_from(r, &r->b, op, psn);

	b.syndrome = syndrome;
	pkt_give(r, &r->a, &b, NULL, 0);
}

static unsigned sends(struct rig *r)
{
	struct burst b;
	unsigned n = 0;

	while (take(r, &r->a, &b))
		n += b.n;
	return n;
}

/* Of small messages those ask that are a quarter of the queue apart, and the last one: each ACK costs both ends a packet. */
START_TEST(few_acks) /* conf: rule 4.3 */
{
	const struct link_conf c = conf_rc;
	uint64_t asked = 0;
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	for (unsigned i = 0; i < c.sq_depth; i++)
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 8), 0);
	for (unsigned i = 0; take(&r, &r.a, &b); i++)
		asked |= (uint64_t)b.ackreq << i;
	ck_assert_uint_eq(asked, 1ull << 16 | 1ull << 32 | 1ull << 48 | 1ull << 63);
	rig_fini(&r);
}
END_TEST

/* In a long one, bytes count: a quarter of the window apart, and where the window closes. */
START_TEST(acks_of_a_long_one) /* conf: rule 4.3 */
{
	const uint64_t quarter = (1u << 20) / 4;
	uint64_t unasked = 0, most = 0, least = UINT64_MAX, room = 1u << 20;
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = BUF_LEN), 0);
	while (take(&r, &r.a, &b)) {
		uint64_t cost = b.payload_len + (uint64_t)b.n * PKT_COST;

		unasked += cost;
		room -= cost;
		if (!b.ackreq)
			continue;
		most = unasked > most ? unasked : most;
		if (room > 61440 && unasked < least)
			least = unasked;
		unasked = 0;
	}
	ck_assert_uint_eq(unasked, 0); /* nothing more goes, so somebody has to say that it can */
	ck_assert_uint_ge(least, quarter);
	ck_assert_uint_lt(most, quarter + 61440 / MTU * (MTU + PKT_COST));
	rig_fini(&r);
}
END_TEST

/* The peer has taken what it refused: it was sent twice, and a receive WR came between. What is behind need not wait any more. */
START_TEST(taken_after_all) /* conf: rule 4.5 */
{
	struct link_conf c = conf_rc;
	struct rig r;

	c.retry = 0;
	c.rnr_retry = 1;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	for (unsigned i = 1; i <= 3; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_SEND, .len = 8);
	ck_assert_uint_eq(sends(&r), 3);
	answer(&r, OP_ACKNOWLEDGE, c.psn, 0x20); /* the longest */
	ck_assert_uint_eq(sends(&r), 0);
	answer(&r, OP_ACKNOWLEDGE, c.psn, aeth_ack());
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(sends(&r), 2);
	ck_assert_uint_le(hca_deadline(r.a.h).ns, r.now.ns + 300 * MS); /* of the ACK timeout */
	answer(&r, OP_ACKNOWLEDGE, c.psn + 2, aeth_ack());
	ck_assert_uint_eq(wc_status(&r.a, 3), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/*
 * A peer whose pages are away refuses a READ with RNR, and answers what is behind it: that is no loss, and costs no retry.  Or
 * answers the READ, which was sent twice.
 */
static void read_waits(bool twice)
{
	struct burst b;
	struct link_conf c = conf_rc;
	struct rig r;

	c.retry = 0;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 8);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_READ, .len = 0);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_WRITE, .len = 8);
	ck_assert_uint_eq(sends(&r), 3);
	answer(&r, OP_ACKNOWLEDGE, c.psn, 0x20 | 12);
	answer(&r, OP_READ_RESP_ONLY, c.psn + 1, aeth_ack());
	answer(&r, OP_ACKNOWLEDGE, c.psn + 2, aeth_ack());
	ck_assert_uint_eq(sends(&r), 0);
	ck_assert_uint_eq(r.a.wc_n, 0);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_IMPLIED_NAK), 0);
	if (twice) {
		b = pkt_from(&r, &r.b, OP_READ_RESP_ONLY, c.psn);
		pkt_give(&r, &r.a, &b, "abcdefgh", 8);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
		ck_assert_mem_eq(r.a.buf, "abcdefgh", 8);
		ck_assert_uint_eq(sends(&r), 2);
	} else {
		rig_tick(&r);
		for (unsigned i = 1; i <= 3; i++)
			ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	}
	rig_fini(&r);
}

START_TEST(read_that_waits) /* conf: rule 4.5 */
{
	read_waits(false);
	read_waits(true);
}
END_TEST

/* Without payload a READ response is the answer of a READ of nothing, and of what has no data; not of the others. */
START_TEST(answer_of_another) /* conf: rule 4.12 */
{
	static const struct {
		enum wr_op op;
		uint8_t answer;
	} t[] = { { WR_SEND, OP_READ_RESP_ONLY },
		  { WR_WRITE, OP_READ_RESP_ONLY },
		  { WR_FETCH_ADD, OP_READ_RESP_ONLY },
		  { WR_SEND, OP_ATOMIC_ACK },
		  { WR_READ, OP_ATOMIC_ACK } };

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		SEND_WR(&r, &r.a, .id = 1, .op = t[i].op, .len = 8);
		ck_assert_uint_eq(sends(&r), 1);
		answer(&r, t[i].answer, conf_rc.psn, aeth_ack());
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_BAD_RESP_ERR);
		ck_assert_uint_eq(fault_n(&r.a, "REQ_BAD_RESP"), 1);
		rig_fini(&r);
	}
}
END_TEST

/* One ACK for several, whose completions find no room in the CQ: those that found some are there, each once, and the QP is in error. */
START_TEST(no_room_for_all) /* conf: rule 4.9 */
{
	struct cqe c[4];
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 1; i <= 5; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 8);
	while (hca_tx(r.a.h, &r.last, r.now))
		;
	r.last = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + 2);
	hca_rx_burst(r.a.h, &r.last, r.now);
	ck_assert_uint_eq(hca_completions(r.a.h, c, 2), 2);
	hca_cq_overrun(r.a.h, r.a.cqn, r.now);
	hca_verify(r.a.h);
	ck_assert_uint_eq(rig_state(&r.a), QPS_ERR);
	ck_assert_uint_eq(hca_completions(r.a.h, c + 2, 2), 1); /* that had its place before */
	for (unsigned i = 0; i < 3; i++)
		ck_assert(c[i].wr_id == i + 1 && c[i].status == WC_SUCCESS);
	rig_run(&r);
	ck_assert_uint_eq(r.a.wc_n, 0);
	ck_assert(has_event(&r.a, EV_CQ_ERR) && has_event(&r.a, EV_QP_FATAL));
	rig_fini(&r);
}
END_TEST

/* NAKs of the same losses halve the window once; a timeout does each time. */
START_TEST(window_of_losses)
{
	uint64_t window;
	struct qp *qp;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	qp = qp_get(r.a.h, r.a.qpn);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 100 * MTU);
	window = qp->path->window;
	for (unsigned i = 1; i <= 2; i++) {
		sends(&r);
		answer(&r, OP_ACKNOWLEDGE, conf_rc.psn + i, aeth_nak(NAK_PSN_SEQ));
		ck_assert_uint_ge(qp->path->window, window / 2);
		ck_assert_uint_lt(qp->path->window, window / 2 + 61440);
	}
	for (unsigned i = 0; i < 2; i++) {
		sends(&r);
		window = qp->path->window;
		r.now = hca_deadline(r.a.h);
		hca_tick(r.a.h, r.now);
		ck_assert_uint_eq(qp->path->window, window / 2);
	}
	rig_fini(&r);
}
END_TEST

/* Responses of a READ that are more than it has, in one burst: refused before any is stored. */
START_TEST(more_than_asked) /* conf: rule 4.6 */
{
	static uint8_t data[3 * MTU] = { 1 };
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_LOCAL);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 2 * MTU);
	ck_assert_uint_eq(sends(&r), 1);
	b = pkt_from(&r, &r.b, OP_READ_RESP_FIRST, conf_rc.psn);
	b.op_last = OP_READ_RESP_MIDDLE;
	b.n = 3;
	pkt_give(&r, &r.a, &b, data, 3 * MTU);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_BAD_RESP_ERR);
	ck_assert_uint_eq(r.a.buf[0], 0);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_ack", few_acks, acks_of_a_long_one, taken_after_all, read_that_waits, answer_of_another,
	  more_than_asked, no_room_for_all, window_of_losses)
