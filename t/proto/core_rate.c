/* SPDX-License-Identifier: MIT */
/* core_rate.c - QPs that are slowed down: by their program, by congestion, in bursts; nothing is lost or repeated by it. */
#include <errno.h>

#include "proto/hca_in.h"
#include "rig.h"
#include "t/suite.h"

#define KBPS    80000u             /* 10 bytes a microsecond */
#define TIME_MS (BUF_LEN / 10000u) /* for the buffer, at that rate */

static struct qp *qp_of(const struct host *s) { return qp_get(s->h, s->qpn); }

/* Until the work is done; how long it took. */
static uint64_t done_ns(struct rig *r, struct host *at, uint64_t id)
{
	uint64_t from = r->now.ns;

	rig_run(r);
	while (wc_status(at, id) == 255)
		ck_assert(r->now.ns < from + 10000 * MS && rig_tick(r));
	ck_assert_uint_eq(wc_status(at, id), WC_SUCCESS);
	return r->now.ns - from;
}

static void in_time(uint64_t ns, uint64_t least_ms)
{
	ck_assert_msg(ns >= least_ms * MS && ns <= least_ms * MS * 6 / 5, "%.3f ms instead of %u", (double)ns / MS,
		      (unsigned)least_ms);
}

static void paced(uint8_t type, enum link_mode mode, enum wr_op op)
{
	struct link_conf c = conf_rc;
	struct rig r;

	c.type = type;
	c.timeout = 10; /* 4 ms: an ACK must be asked for more often than the window alone would */
	rig_init(&r, mode);
	rig_connect(&r, &c);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, KBPS, 0, r.now), 0);
	fill(r.a.buf, BUF_LEN, 1);
	rig_recv(&r, &r.b, 7, 0, BUF_LEN);
	SEND_WR(&r, &r.a, .id = 1, .op = op, .len = BUF_LEN);
	in_time(done_ns(&r, &r.a, 1), TIME_MS);
	check_fill(r.b.buf, BUF_LEN, 1);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_LOCAL_ACK_TIMEOUT) + stat_n(&r.a, HCA_STAT_EARLY_RETRANS), 0);
	/* And as fast as can be again. */
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, 0, 0, r.now), 0);
	rig_recv(&r, &r.b, 8, 0, BUF_LEN);
	SEND_WR(&r, &r.a, .id = 2, .op = op, .len = BUF_LEN);
	ck_assert_uint_le(done_ns(&r, &r.a, 2), 2 * MS);
	rig_fini(&r);
}

START_TEST(writes_and_sends)
{
	paced(QPT_RC, LINK_WIRE, WR_WRITE);
	paced(QPT_RC, LINK_EARLY, WR_SEND);
	paced(QPT_RC, LINK_LOCAL, WR_SEND);
	paced(QPT_UC, LINK_LOCAL, WR_WRITE);
	paced(QPT_XRC_SEND, LINK_WIRE, WR_SEND);
}
END_TEST

/* The side that answers a READ sends the data: its limit counts. */
START_TEST(read_responses)
{
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	fill(r.b.buf, BUF_LEN, 2);
	ck_assert_int_eq(hca_qp_rate(r.b.h, r.b.qpn, KBPS, 0, r.now), 0);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = BUF_LEN);
	in_time(done_ns(&r, &r.a, 1), TIME_MS);
	check_fill(r.a.buf, BUF_LEN, 2);
	rig_fini(&r);
}
END_TEST

START_TEST(datagrams)
{
	struct link_conf c = conf_rc;
	struct rig r;

	c.type = QPT_UD;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, 8 * 562, 0, r.now),
			 0); /* a datagram of 500 bytes each millisecond */
	for (unsigned i = 0; i < 50; i++) {
		rig_recv(&r, &r.b, 100 + i, 1024 * i, 1024);
		SEND_WR(&r, &r.a, .id = i, .op = WR_SEND, .len = 500);
	}
	in_time(done_ns(&r, &r.a, 49), 48);
	ck_assert_uint_eq(wc_status(&r.b, 149), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* So much in one go, and not more. */
START_TEST(bursts)
{
	struct rig r;
	struct burst b;
	uint64_t bytes = 0;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, KBPS, 10000, r.now), 0);
	r.now.ns += 1000 * MS; /* it was silent */
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = BUF_LEN);
	while (take(&r, &r.a, &b)) {
		ck_assert_uint_le(b.payload_len, 10000);
		ck_assert(b.ackreq);
		bytes += b.payload_len;
	}
	ck_assert_uint_ge(bytes, 10000);
	ck_assert_uint_le(bytes, 20000);
	rig_fini(&r);
}
END_TEST

/* The lower one counts; each can change while packets wait for the other. */
START_TEST(two_limits)
{
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, 2 * KBPS, 0, r.now), 0);
	rate_cut(r.a.h, qp_of(&r.a), KBPS);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = BUF_LEN);
	in_time(done_ns(&r, &r.a, 1), TIME_MS);
	rate_cut(r.a.h, qp_of(&r.a), 3 * KBPS);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = BUF_LEN);
	in_time(done_ns(&r, &r.a, 2), TIME_MS / 2);
	/* A hundred times slower, but not for long. */
	rate_cut(r.a.h, qp_of(&r.a), KBPS / 100);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_WRITE, .len = BUF_LEN);
	rig_run(&r);
	ck_assert(rig_tick(&r));
	ck_assert_uint_eq(wc_status(&r.a, 3), 255);
	rate_cut(r.a.h, qp_of(&r.a), 0);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, 0, 0, r.now), 0);
	ck_assert_uint_le(done_ns(&r, &r.a, 3), 2 * MS);
	rig_fini(&r);
}
END_TEST

/* A packet of 4 ms, and a rate that changes a little all the time, as congestion's does: it is not less slow for that. */
START_TEST(debt_is_paid)
{
	struct link_conf c = conf_rc;
	uint64_t bytes = 0;
	struct burst b;
	struct rig r;

	c.mtu = 5;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = BUF_LEN);
	for (unsigned i = 0; i < 400; i++) {
		rate_cut(r.a.h, qp_of(&r.a), KBPS / 10 + i % 2);
		hca_tick(r.a.h, r.now);
		while (take(&r, &r.a, &b))
			bytes += b.payload_len;
		r.now.ns += MS / 4;
	}
	ck_assert_uint_le(bytes, 100 * KBPS / 10 / 8 + 2 * 4096);
	ck_assert_uint_ge(bytes, 100 * KBPS / 10 / 8 * 9 / 10);
	rig_fini(&r);
}
END_TEST

/* A thousand ACKs take no second from what has to wait. */
START_TEST(acks_take_little)
{
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, KBPS / 100, 0, r.now), 0);
	for (unsigned i = 0; i < 1000; i++)
		rate_sent(r.a.h, qp_of(&r.a), 1, 0);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 64);
	ck_assert_uint_le(done_ns(&r, &r.a, 1), 3 * MS);
	rig_fini(&r);
}
END_TEST

static bool every_ninth(struct rig *r, struct host *from, const struct burst *)
{
	return from == &r->a && r->pkts % 9 == 0;
}

START_TEST(with_loss)
{
	struct rig r;

	rig_init(&r, LINK_EARLY);
	rig_connect(&r, &conf_rc);
	r.hook = every_ninth;
	fill(r.a.buf, BUF_LEN / 8, 5);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, KBPS, 0, r.now), 0);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = BUF_LEN / 8);
	ck_assert_uint_ge(done_ns(&r, &r.a, 1), (TIME_MS / 8) * MS);
	check_fill(r.b.buf, BUF_LEN / 8, 5);
	rig_fini(&r);
}
END_TEST

START_TEST(refused)
{
	struct qp_attr a = { .rate_limit = RD_RATE_MIN - 1 };
	struct qp_init init;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, RD_RATE_MIN - 1, 0, r.now), EINVAL);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, 0, 1000, r.now), EINVAL);
	ck_assert_int_eq(hca_qp_rate(r.a.h, 1, KBPS, 0, r.now), EINVAL);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_RATE_LIMIT, r.now), EINVAL);
	a.rate_limit = KBPS;
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_RATE_LIMIT, r.now), 0);
	ck_assert_int_eq(hca_qp_query(r.a.h, r.a.qpn, &a, &init), 0);
	ck_assert_uint_eq(a.rate_limit, KBPS);
	ck_assert_uint_eq(rate_kbps(&qp_of(&r.a)->rate), KBPS);
	a.rate_limit = RD_RATE_MIN; /* without its bit it is none */
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_ACCESS_FLAGS, r.now), 0);
	a.rate_limit = 0;
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_ACCESS_FLAGS, r.now), 0);
	ck_assert_uint_eq(rate_kbps(&qp_of(&r.a)->rate), KBPS);
	a.state = QPS_RESET;
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_STATE, r.now), 0);
	ck_assert_uint_eq(rate_kbps(&qp_of(&r.a)->rate), 0);
	ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, KBPS, 0, r.now), EINVAL);
	rig_fini(&r);
}
END_TEST

/* The rate changes while a burst is not paid for: at a higher one it is sooner, at a lower one as was granted. */
START_TEST(changed_in_between)
{
	const uint32_t kbps[] = { 10 * KBPS, 0, KBPS / 10, KBPS };
	uint64_t left[4];

	for (unsigned i = 0; i < 4; i++) {
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, KBPS, 50000, r.now), 0);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = BUF_LEN);
		while (take(&r, &r.a, &b))
			;
		ck_assert_int_eq(hca_qp_rate(r.a.h, r.a.qpn, kbps[i], kbps[i] ? 50000 : 0, r.now), 0);
		left[i] = mono_since(qp_of(&r.a)->rate.next, r.now);
		rig_fini(&r);
	}
	ck_assert_uint_ge(left[3], 1 * MS);
	ck_assert_uint_eq(left[0], left[3] / 10);
	ck_assert_uint_eq(left[1], 0);
	ck_assert_uint_eq(left[2], left[3]);
}
END_TEST

TEST_MAIN("core_rate", writes_and_sends, read_responses, datagrams, bursts, two_limits, debt_is_paid, acks_take_little,
	  with_loss, refused, changed_in_between)
