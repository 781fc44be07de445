/* SPDX-License-Identifier: MIT */
/* why.c - causes of the requester in virtual time, and the flight recorder: what is written, read, and lost. */
#include "proto/opcode.h"
#include "proto/trace.h"
#include "proto/why.h"
#include "rig.h"
#include "t/suite.h"

static bool from_a(struct rig *r, struct host *from, const struct burst *) { return from == &r->a; }

/* One packet never comes through, all others do. */
static bool third(struct rig *r, struct host *from, const struct burst *b)
{
	return from == &r->a && b->psn.v == ((conf_rc.psn + 2) & PSN_MASK);
}

static struct why cause_of(struct host *x, unsigned cause)
{
	struct why w;

	while (hca_why(x->h, &w))
		if (w.cause == cause)
			return w;
	ck_abort_msg("no cause %u", cause);
}

static unsigned records(const struct why *w, unsigned event)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->log_n; i++)
		n += w->log[i].event == event;
	return n;
}

static struct why run_out(struct rig *r, bool (*hook)(struct rig *, struct host *, const struct burst *), bool first,
			  unsigned cause)
{
	struct link_conf c = conf_rc;

	c.retry = 2;
	rig_init(r, LINK_WIRE);
	rig_connect(r, &c);
	if (first) {
		SEND_WR(r, &r->a, .id = 1, .op = WR_WRITE, .len = 8);
		rig_settle(r, 10);
		ck_assert_uint_eq(wc_status(&r->a, 1), WC_SUCCESS);
	}
	r->hook = hook;
	SEND_WR(r, &r->a, .id = 2, .op = WR_WRITE, .len = 4096);
	rig_recv(r, &r->a, 7, 0, 64);
	rig_settle(r, 1000);
	ck_assert_uint_eq(wc_status(&r->a, 2), WC_RETRY_EXC_ERR);
	return cause_of(&r->a, cause);
}

START_TEST(silent)
{
	struct rig r;
	struct why w = run_out(&r, from_a, false, WHY_RETRY_SILENT);

	ck_assert_uint_eq(w.timeouts, 3);
	ck_assert_uint_eq(w.retry_cnt, 2);
	ck_assert_uint_eq(w.psn, conf_rc.psn);
	ck_assert_uint_eq(w.rx_pkts, 0);
	ck_assert_uint_eq(w.wr_id, 2);
	ck_assert(w.is_wr && w.from == QPS_RTS && w.to == QPS_ERR && w.status == WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(w.flush_sq, 0);
	ck_assert_uint_eq(w.flush_rq, 1);
	ck_assert_uint_ge(w.at.ns - w.since.ns, 3 * w.timeout_ns);
	ck_assert_uint_eq(records(&w, TR_TIMEOUT), 3);
	ck_assert_uint_eq(records(&w, TR_FIRST_TX), 1);
	ck_assert_uint_eq(records(&w, TR_FIRST_RX), 0);
	rig_fini(&r);
}
END_TEST

START_TEST(deaf)
{
	struct rig r;
	struct why w = run_out(&r, from_a, true, WHY_RETRY_DEAF);

	ck_assert_uint_eq(w.timeouts, 3);
	ck_assert_uint_eq(w.psn, (conf_rc.psn + 1) & PSN_MASK);
	ck_assert_uint_eq(w.rx_pkts, 1);
	ck_assert_uint_eq(w.rx_pkts_since, 0);
	ck_assert_uint_lt(w.rx_last.ns, w.at.ns);
	rig_fini(&r);
}
END_TEST

START_TEST(loss)
{
	struct rig r;
	struct why w = run_out(&r, third, false, WHY_RETRY_LOSS);

	ck_assert_uint_ge(w.naks, 1);
	ck_assert_uint_eq(w.psn, (conf_rc.psn + 2) & PSN_MASK);
	ck_assert_uint_ge(records(&w, TR_NAK_RX), 1);
	ck_assert_uint_ge(records(&w, TR_AGAIN), 1);
	rig_fini(&r);
}
END_TEST

/* Trouble before the last ACK does not count any more. */
START_TEST(progress)
{
	struct link_conf c = conf_rc;
	struct rig r;
	struct why w;

	c.retry = 2;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	r.hook = from_a;
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8);
	rig_run(&r);
	rig_tick(&r); /* one timeout */
	r.hook = NULL;
	rig_settle(&r, 10);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert(!hca_why(r.a.h, &w) && !hca_why(r.b.h, &w));
	r.hook = from_a;
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 8);
	rig_settle(&r, 100);
	ck_assert_uint_eq(cause_of(&r.a, WHY_RETRY_DEAF).timeouts, 3);
	rig_fini(&r);
}
END_TEST

/* The FIFO is bounded: what it has no room for is counted. */
START_TEST(fifo)
{
	struct rig r;
	struct why w;
	unsigned n = 0;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < WHYS + 5; i++)
		ck_assert_int_eq(
			hca_qp_modify(r.a.h, r.a.qpn, &(struct qp_attr){ .state = QPS_INIT }, QPA_STATE, r.now),
			EINVAL);
	while (hca_why(r.a.h, &w)) {
		ck_assert_uint_eq(w.cause, WHY_MODIFY_EDGE);
		n++;
	}
	ck_assert_uint_eq(n, WHYS);
	ck_assert_uint_eq(hca_why_lost(r.a.h), 5);
	rig_fini(&r);
}
END_TEST

START_TEST(bursts)
{
	struct trace_rec rec[256];
	uint64_t from = 0, lost;
	unsigned tx = 0, all = 0;
	struct rig r;
	uint32_t n;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	while ((n = hca_trace(r.a.h, &from, rec, 256, &lost)))
		ck_assert_uint_eq(lost, 0);
	for (unsigned i = 0; i < 20; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 8);
	rig_settle(&r, 10);
	while ((n = hca_trace(r.a.h, &from, rec, 256, &lost)))
		all += n;
	ck_assert_uint_le(all, 2); /* the first packets only: nothing for each */
	ck_assert_int_eq(hca_trace_bursts(r.a.h, true), 0);
	for (unsigned i = 0; i < 20; i++)
		SEND_WR(&r, &r.a, .id = 100 + i, .op = WR_WRITE, .len = 8);
	rig_settle(&r, 10);
	while ((n = hca_trace(r.a.h, &from, rec, 256, &lost)))
		for (uint32_t i = 0; i < n; i++)
			tx += rec[i].event == TR_TX ? rec[i].n : 0;
	ck_assert_uint_ge(tx, 20);
	hca_trace_bursts(r.a.h, false);
	rig_fini(&r);
}
END_TEST

/* A reader that comes too late is told how many it has missed; one that starts anew gets what is there. */
START_TEST(ring)
{
	struct trace_rec rec[64];
	uint64_t from = 0, lost, missed = 0;
	uint32_t n, got = 0;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 2 * TRACE_RING; i++) {
		struct burst b = pkt_from(&r, &r.a, SVC_RC | OP_WRITE_ONLY, conf_rc.psn - 1);

		pkt_give(&r, &r.b, &b, NULL, 0); /* a duplicate: one record */
		while (take(&r, &r.b, &b))
			;
	}
	while ((n = hca_trace(r.b.h, &from, rec, 64, &lost))) {
		missed += lost;
		got += n;
	}
	ck_assert_uint_eq(got, TRACE_RING);
	ck_assert_uint_ge(missed, TRACE_RING);
	rig_fini(&r);
}
END_TEST

/* Without a timer nothing is ever counted: what is in flight is a wait. */
START_TEST(no_timer)
{
	static const uint8_t types[] = { QPT_RC, QPT_XRC_SEND };

	for (size_t i = 0; i < sizeof(types); i++) {
		struct link_conf c = conf_rc;
		struct rig r;
		struct why w;

		c.type = types[i];
		c.timeout = 0;
		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &c);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8);
		rig_settle(&r, 10);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
		ck_assert(!hca_wait(r.a.h, r.a.qpn, MONO_NEVER, &w) || w.cause != WHY_WAIT_ACK);
		ck_assert(types[i] != QPT_XRC_SEND || !hca_wait(r.b.h, r.b.qpn, MONO_NEVER, &w)); /* it posts nothing */
		r.hook = from_a;
		SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 8);
		rig_settle(&r, 10);
		ck_assert(hca_wait(r.a.h, r.a.qpn, MONO_NEVER, &w));
		ck_assert_uint_eq(w.cause, WHY_WAIT_ACK);
		ck_assert_uint_eq(w.timeouts, 0);
		ck_assert_uint_eq(w.timeout_ns, 0);
		ck_assert_uint_eq(w.wr_id, 2);
		rig_fini(&r);
	}
}
END_TEST

/* A receiver of UC waits for what was lost, until more comes long after that. */
START_TEST(uc_lost)
{
	struct link_conf c = conf_rc;
	struct rig r;
	struct why w;

	c.type = QPT_UC;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	for (unsigned i = 0; i < 8; i++)
		rig_recv(&r, &r.b, 100 + i, 64 * i, 64);
	for (unsigned i = 0; i < 4; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_SEND, .len = 8);
	r.hook = third;
	rig_settle(&r, 10);
	ck_assert(hca_wait(r.b.h, r.b.qpn, MONO_NEVER, &w));
	ck_assert_uint_eq(w.cause, WHY_WAIT_UC);
	ck_assert_uint_eq(w.got, 1);
	ck_assert_uint_eq(w.psn, (conf_rc.psn + 2) & PSN_MASK);
	r.now = mono_add(r.now, 11000000000u);
	SEND_WR(&r, &r.a, .id = 4, .op = WR_SEND, .len = 8);
	rig_settle(&r, 10);
	ck_assert(hca_wait(r.b.h, r.b.qpn, MONO_NEVER, &w));
	ck_assert_uint_eq(w.cause, WHY_WAIT_RECV);
	ck_assert_uint_eq(w.got, 4);
	rig_fini(&r);
}
END_TEST

/* A late answer of an earlier connection does not tell where the peer is; the same twice does, until another one comes. */
START_TEST(far_answers)
{
	static const struct {
		uint32_t behind;
		bool psn;
	} t[] = { { 200, false }, { 1, false },   { 200, false }, { 200, true },
		  { 1, false },   { 200, false }, { 300, false } };
	struct rig r;
	struct burst b;
	struct why w;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 8);
	while (take(&r, &r.a, &b)) {}
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, (conf_rc.psn - t[i].behind) & PSN_MASK);
		pkt_give(&r, &r.a, &b, NULL, 0);
		ck_assert_msg((hca_wait(r.a.h, r.a.qpn, MONO_NEVER, &w) && w.cause == WHY_WAIT_PSN) == t[i].psn, "%zu",
			      i);
	}
	rig_fini(&r);
}
END_TEST

/* A peer that sends no more is not waited with. */
START_TEST(refused_long_ago)
{
	struct link_conf c = conf_rc;
	struct rig r;
	struct why w;

	c.rnr_retry = 7;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 8);
	rig_settle(&r, 10);
	ck_assert(hca_wait(r.b.h, r.b.qpn, MONO_NEVER, &w));
	ck_assert_uint_eq(w.cause, WHY_WAIT_EMPTY);
	hca_time(r.b.h, mono_add(r.now, 6000000000u));
	ck_assert(hca_wait(r.b.h, r.b.qpn, MONO_NEVER, &w));
	ck_assert_uint_eq(w.cause, WHY_WAIT_POST);
	rig_fini(&r);
}
END_TEST

static bool has_cause(struct host *x, unsigned cause)
{
	bool found = false;
	struct why w;

	while (hca_why(x->h, &w))
		found |= w.cause == cause;
	return found;
}

/* A QP that went to ERR with requests under way hears the answers: that is nothing to tell of.  Requests are. */
START_TEST(late_answers)
{
	struct qp_attr err = { .state = QPS_ERR };
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &err, QPA_STATE, r.now), 0);
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn);
	pkt_give(&r, &r.a, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_BAD_STATE), 1);
	ck_assert(!has_cause(&r.a, WHY_RX_STATE));
	b = pkt_from(&r, &r.b, OP_SEND_ONLY, conf_rc.psn + 77);
	pkt_give(&r, &r.a, &b, "1234", 4);
	ck_assert(has_cause(&r.a, WHY_RX_STATE));
	rig_fini(&r);
}
END_TEST

/* A QP connected with itself refuses its own WRITE: it is in ERR before it hears that, and the WR is flushed. */
START_TEST(own_nak) /* conf: rule 4.9 */
{
	struct burst b;
	struct rig r;
	struct why w;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	rig_to_init(&r, &r.a, &conf_rc);
	rig_to_rtr(&r, &r.a, &r.a, &conf_rc);
	rig_to_rts(&r, &r.a, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8, .rkey = r.a.key ^ 1);
	while (hca_tx(r.a.h, &b, r.now))
		hca_rx_burst(r.a.h, &b, r.now);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_WR_FLUSH_ERR);
	ck_assert(has_event(&r.a, EV_QP_ACCESS_ERR));
	w = cause_of(&r.a, WHY_RESP_RKEY);
	ck_assert_uint_eq(w.flush_sq, 1);
	ck_assert(!has_cause(&r.a, WHY_RX_STATE));
	rig_fini(&r);
}
END_TEST

TEST_MAIN("why", silent, deaf, loss, progress, fifo, bursts, ring, no_timer, uc_lost, far_answers, refused_long_ago,
	  late_answers, own_nak)
