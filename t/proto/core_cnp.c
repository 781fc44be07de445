/* SPDX-License-Identifier: MIT */
/* core_cnp.c - congestion: what is marked is answered by CNPs, not too many; a CNP slows what goes to that peer, and it recovers. */
#include "proto/cnp.h"
#include "proto/hdr.h"
#include "proto/opcode.h"
#include "proto/cong.h"
#include "rig.h"
#include "t/suite.h"

#define US   1000ull
#define ECT0 2u

/* A packet with data from a to b, marked as told. */
static void data_rx(struct rig *r, uint8_t op, uint32_t psn, uint8_t ecn)
{
	struct burst b = pkt_from(r, &r->a, op, psn);
	uint8_t bytes[256] = { 0 };

	b.route.tclass = ecn;
	b.va = (uintptr_t)r->b.buf;
	b.rkey = r->b.key;
	b.dma_len = sizeof(bytes);
	pkt_give(r, &r->b, &b, bytes, sizeof(bytes));
}

static struct burst cnp_to(struct rig *r, struct host *to)
{
	struct burst b = pkt_from(r, to == &r->a ? &r->b : &r->a, OP_ACKNOWLEDGE, 0);

	b.op_first = b.op_last = OPCODE_CNP;
	return b;
}

static void cnp_rx_one(struct rig *r, struct host *to)
{
	struct burst b = cnp_to(r, to);

	pkt_give(r, to, &b, NULL, 0);
}

/* How many CNPs b sends now, and nothing but what it may. */
static unsigned cnps(struct rig *r, struct burst *last)
{
	struct burst b;
	unsigned n = 0;

	while (take(r, &r->b, &b)) {
		if (b.op_first != OPCODE_CNP)
			continue;
		*last = b;
		n++;
	}
	return n;
}

/* ---- what is marked -------------------------------------------------------- */

static void marked(uint8_t type, uint8_t op)
{
	struct link_conf c = conf_rc;
	struct rig r;
	struct burst b;
	uint8_t pkt[PKT_HDR_MAX];
	uint32_t psn = c.psn;

	c.type = type;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	for (uint8_t ecn = 0; ecn < 3; ecn++)
		data_rx(&r, op, psn++ & PSN_MASK, 0x68 | ecn);
	ck_assert_uint_eq(cnps(&r, &b), 0);
	data_rx(&r, op, psn++ & PSN_MASK, 0x6b);
	ck_assert_uint_eq(cnps(&r, &b), 1);
	ck_assert_uint_eq(b.dqpn, r.a.qpn);
	ck_assert_uint_eq(b.route.tclass, 0xc2);
	ck_assert_mem_eq(b.route.dgid, r.a.gid, 16);
	ck_assert_uint_eq(burst_hdr(&b, 0, pkt), 28);
	ck_assert_uint_eq(pkt[BTH_OPCODE], 0x81);
	ck_assert_uint_eq(pkt[BTH_ECN], BTH_BECN);
	for (unsigned i = BTH_ACK; i < 28; i++)
		ck_assert_uint_eq(pkt[i], 0);

	/* A flood of them: one more for each CNP_GAP_NS, and none for the past. */
	for (unsigned i = 0; i < 1000; i++) {
		r.now.ns += 1 * US;
		data_rx(&r, op, psn++ & PSN_MASK, 3);
		cnps(&r, &b);
	}
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_NP_CNP_SENT), 1 + 1000 * US / CNP_GAP_NS);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_NP_ECN_MARKED_ROCE_PACKETS), 1001);
	r.now.ns += 1000 * MS;
	ck_assert_uint_eq(cnps(&r, &b), 0);
	data_rx(&r, op, psn++ & PSN_MASK, 3);
	ck_assert_uint_eq(cnps(&r, &b), 1);
	rig_fini(&r);
}

START_TEST(rc_marked) { marked(QPT_RC, SVC_RC | OP_WRITE_ONLY); } /* conf: section 8 */
END_TEST
START_TEST(uc_marked) { marked(QPT_UC, SVC_UC | OP_WRITE_ONLY); }
END_TEST

/* UD is counted only, ACKs too; a QP that is in the error state says nothing. */
START_TEST(not_answered) /* conf: section 8 */
{
	struct link_conf c = conf_rc;
	struct rig r;
	struct burst b;
	struct qp_attr err = { .state = QPS_ERR };

	c.type = QPT_UD;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	rig_recv(&r, &r.b, 1, 0, 4096);
	b = pkt_from(&r, &r.a, SVC_UD | OP_SEND_ONLY, 5);
	b.route.tclass = 3;
	b.qkey = 0x1234;
	pkt_give(&r, &r.b, &b, "four", 4);
	ck_assert_uint_eq(wc_status(&r.b, 1), WC_SUCCESS);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_NP_ECN_MARKED_ROCE_PACKETS), 1);
	ck_assert_uint_eq(cnps(&r, &b), 0);
	rig_fini(&r);

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	b = pkt_from(&r, &r.a, OP_ACKNOWLEDGE, 0);
	b.route.tclass = 3;
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_uint_eq(cnps(&r, &b), 0);
	data_rx(&r, OP_WRITE_ONLY, conf_rc.psn, 3);
	ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &err, QPA_STATE, r.now), 0);
	ck_assert_uint_eq(cnps(&r, &b), 0);
	data_rx(&r, OP_WRITE_ONLY, conf_rc.psn + 1, 3);
	ck_assert_uint_eq(cnps(&r, &b), 0);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_NP_CNP_SENT), 0);
	rig_fini(&r);
}
END_TEST

/* ---- CNPs that come ---------------------------------------------------------- */

#define WRITES 8u

/*
 * Virtual time: a's data is taken as it comes, each turn of the clock one timer; what it sent is acknowledged
 * at once, and it always has more.  Bytes that went in so long a time.
 */
struct flow {
	struct rig r;
	uint64_t id;
	uint64_t line_ns; /* what a packet takes on the wire */
	bool read;        /* b asks, a's responses are the flow */
};

static void flow_feed(struct flow *f)
{
	struct host *x = f->read ? &f->r.b : &f->r.a;
	struct qp_info info;

	while (hca_qp_info(x->h, x->qpn, &info) && info.sq_len < WRITES)
		SEND_WR(&f->r, x, .id = f->id++, .op = f->read ? WR_READ : WR_WRITE, .len = BUF_LEN, .quiet = true);
}

static uint64_t flow_run(struct flow *f, uint64_t ns)
{
	mono_t end = mono_add(f->r.now, ns), next;
	struct burst b;
	uint64_t bytes = 0;

	while (mono_before(f->r.now, end)) {
		bool more = false;

		flow_feed(f);
		while (take(&f->r, &f->r.b, &b)) {
			hca_rx_burst(f->r.a.h, &b, f->r.now);
			more = true;
		}
		if (take(&f->r, &f->r.a, &b)) {
			bytes += b.payload_len;
			hca_rx_burst(f->r.b.h, &b, f->r.now);
			f->r.now.ns += b.n * f->line_ns;
			more = true;
		}
		if (more)
			continue;
		next = mono_min(mono_min(hca_deadline(f->r.a.h), hca_deadline(f->r.b.h)), end);
		if (mono_before(f->r.now, next))
			f->r.now = next;
		hca_tick(f->r.a.h, f->r.now);
		hca_tick(f->r.b.h, f->r.now);
	}
	hca_verify(f->r.a.h);
	hca_verify(f->r.b.h);
	return bytes;
}

static void flow_init(struct flow *f, uint8_t type, bool read)
{
	struct link_conf c = conf_rc;

	c.type = type;
	c.tclass = ECT0;
	*f = (struct flow){ .line_ns = 512, .read = read }; /* 512 bytes each: 1 GB/s */
	rig_init(&f->r, LINK_WIRE);
	rig_connect(&f->r, &c);
	f->r.now.ns = 1 * MS;
}

static void between(uint64_t v, uint64_t low, uint64_t high)
{
	ck_assert_uint_ge(v, low);
	ck_assert_uint_le(v, high);
}

/* One CNP halves, and after some milliseconds all is as before. */
static void slows(uint8_t type, bool read)
{
	struct flow f;
	uint64_t full, low;

	flow_init(&f, type, read);
	flow_run(&f, 20 * MS);
	full = flow_run(&f, 10 * MS) / 10;
	between(full, 600000, 1100000);
	cnp_rx_one(&f.r, &f.r.a);
	ck_assert_uint_eq(stat_n(&f.r.a, HCA_STAT_RP_CNP_HANDLED), 1);
	low = flow_run(&f, 3 * cong_law.timer_ns) * MS / (3 * cong_law.timer_ns);
	between(low, full * 4 / 10, full * 8 / 10 + 61440); /* a burst */
	flow_run(&f, 8 * MS);
	between(flow_run(&f, 4 * MS) / 4, full * 9 / 10, full * 11 / 10);
	flow_run(&f, 20 * MS);
	between(flow_run(&f, 10 * MS) / 10, full * 99 / 100, full * 101 / 100);
	ck_assert_uint_eq(stat_n(&f.r.a, HCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	ck_assert_uint_eq(stat_n(&f.r.a, HCA_STAT_RETRY_EXCEEDED_ERR), 0);
	rig_fini(&f.r);
}

START_TEST(rc_slows) { slows(QPT_RC, false); } /* conf: section 8 */
END_TEST
START_TEST(read_responses_slow) { slows(QPT_RC, true); }
END_TEST
START_TEST(uc_slows) { slows(QPT_UC, false); }
END_TEST

/* A volley is one; with one in each cong_law.cut_ns it goes down, and comes back. */
START_TEST(many_cnps)
{
	struct flow f;
	uint64_t full, low, before;

	flow_init(&f, QPT_RC, false);
	flow_run(&f, 20 * MS);
	full = flow_run(&f, 10 * MS) / 10;
	for (unsigned i = 0; i < 50; i++)
		cnp_rx_one(&f.r, &f.r.a);
	between(flow_run(&f, cong_law.cut_ns) * MS / cong_law.cut_ns, full * 3 / 10, full * 7 / 10);
	before = full;
	for (unsigned i = 0; i < 16; i++) {
		low = 0;
		for (unsigned k = 0; k < 3; k++) {
			cnp_rx_one(&f.r, &f.r.a);
			low += flow_run(&f, cong_law.cut_ns);
		}
		ck_assert_uint_le(low, before + before / 8 + 61440); /* a burst */
		before = low;
	}
	ck_assert_uint_le(low, full / 4);
	flow_run(&f, 1000 * MS);
	between(flow_run(&f, 10 * MS) / 10, full * 99 / 100, full * 101 / 100);
	ck_assert_uint_eq(stat_n(&f.r.a, HCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	rig_fini(&f.r);
}
END_TEST

/* A CNP in each step of 50 us, as no receiver but a liar sends them: 16 packets of data go for each that counts, so it is slow, not dead. */
START_TEST(forged)
{
	struct flow f;
	uint64_t low = 0, counted;

	flow_init(&f, QPT_RC, false);
	flow_run(&f, 20 * MS);
	for (unsigned i = 0; i < 20000; i++) {
		cnp_rx_one(&f.r, &f.r.a);
		low += flow_run(&f, 50 * US);
	}
	counted = stat_n(&f.r.a, HCA_STAT_RP_CNP_HANDLED);
	ck_assert_uint_ge(low / 1000, 8 * cong_law.min / 8);
	ck_assert_uint_le(counted, low / 512 / CONG_PKTS * cong_law.cut_ns / (50 * US));
	ck_assert_uint_eq(counted + stat_n(&f.r.a, HCA_STAT_RP_CNP_IGNORED), 20000);
	rig_fini(&f.r);
}
END_TEST

/* Nothing that was sent can have been marked: before anything is sent, where marks are not welcome, long after it. */
START_TEST(no_answer)
{
	struct link_conf c = conf_rc;
	struct rig r;

	for (unsigned ect = 0; ect < 2; ect++) {
		c.tclass = ect ? ECT0 : 0x68;
		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &c);
		cnp_rx_one(&r, &r.a);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_IGNORED), 1);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 512 * CONG_PKTS);
		rig_run(&r);
		r.now.ns += ect ? CONG_AGE_NS : 0;
		cnp_rx_one(&r, &r.a);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_IGNORED), 2);
		SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 512);
		rig_run(&r);
		cnp_rx_one(&r, &r.a);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_HANDLED), ect);
		rig_fini(&r);
	}
}
END_TEST

/* One for each packet, and never more: nobody can tell it from a receiver.  The QP stays at the lowest rate, and comes back. */
START_TEST(forged_one_for_each)
{
	struct flow f;
	uint64_t full, low = 0, n = 0;

	flow_init(&f, QPT_RC, false);
	flow_run(&f, 20 * MS);
	full = flow_run(&f, 10 * MS) / 10;
	for (unsigned ms = 0; ms < 400; ms++) {
		uint64_t sent = 0;

		for (unsigned k = 0; k < 20; k++) {
			uint64_t got = flow_run(&f, 50 * US);

			sent += got;
			for (n += got; n >= 512; n -= 512)
				cnp_rx_one(&f.r, &f.r.a);
		}
		low += ms < 300 ? 0 : sent;
	}
	between(low * 8 / 100, cong_law.min * 8 / 10, cong_law.min * 15 / 10);
	ck_assert_uint_eq(stat_n(&f.r.a, HCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	flow_run(&f, 3000 * MS);
	between(flow_run(&f, 10 * MS) / 10, full * 9 / 10, full * 11 / 10);
	rig_fini(&f.r);
}
END_TEST

/*
 * Item 18: as fair as adapters.  Of two CNPs the second one sets the target low: behind the fast recovery the rate grows by
 * cong_law.ai in cong_law.timer_ns, and by more only when a lot has been sent.
 */
START_TEST(increase_is_fair)
{
	struct flow f;
	uint64_t before, after, steps = 20 * MS / cong_law.timer_ns;

	flow_init(&f, QPT_RC, false);
	flow_run(&f, 20 * MS);
	for (unsigned i = 0; i < 3; i++) {
		cnp_rx_one(&f.r, &f.r.a);
		flow_run(&f, 1 * MS);
	}
	flow_run(&f, 6 * cong_law.timer_ns);
	before = flow_run(&f, 10 * MS) * 8 / 10; /* kbit/s, from here on */
	flow_run(&f, 10 * MS);
	after = flow_run(&f, 10 * MS) * 8 / 10;
	between(after - before, steps * cong_law.ai * 8 / 10, steps * cong_law.ai * 12 / 10);
	rig_fini(&f.r);
}
END_TEST

/* While it is slowed, all messages arrive, ACKs are asked for often enough, and nothing is sent twice. */
START_TEST(slow_is_not_lost)
{
	struct link_conf c = conf_rc;
	struct rig r;

	c.tclass = ECT0;
	rig_init(&r, LINK_EARLY);
	rig_connect(&r, &c);
	fill(r.a.buf, BUF_LEN, 9);
	for (unsigned i = 0; i < 20; i++) {
		SEND_WR(&r, &r.a, .id = 100 + i, .op = WR_WRITE, .len = 512 * CONG_PKTS, .off = 512, .roff = 512);
		rig_run(&r);
		cnp_rx_one(&r, &r.a);
		r.now.ns += MS;
	}
	ck_assert_uint_ge(stat_n(&r.a, HCA_STAT_RP_CNP_HANDLED), 5);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = BUF_LEN);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_READ, .len = BUF_LEN);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_FETCH_ADD, .len = 8);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), 255);
	rig_settle(&r, 20000);
	for (unsigned i = 1; i <= 3; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	check_fill(r.b.buf, BUF_LEN, 9);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_COMPLETER_RETRY_ERR), 0);
	rig_fini(&r);
}
END_TEST

/* For nobody, for UD, from a stranger, for a QP that is not connected: counted. */
START_TEST(ignored)
{
	struct link_conf c = conf_rc;
	struct qp_attr err = { .state = QPS_ERR };
	struct rig r;
	struct burst b;

	rig_init(&r, LINK_WIRE);
	c.tclass = ECT0;
	rig_connect(&r, &c);
	/* One of the peer's would count for as much as this. */
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 2 * 512 * CONG_PKTS);
	rig_run(&r);
	b = cnp_to(&r, &r.a);
	b.dqpn ^= 0x100;
	pkt_give(&r, &r.a, &b, NULL, 0);
	b = cnp_to(&r, &r.a);
	b.route.sgid[15] = 77;
	pkt_give(&r, &r.a, &b, NULL, 0);
	b = cnp_to(&r, &r.a);
	b.pkey = 0x1234;
	pkt_give(&r, &r.a, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_IGNORED), 3);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_HANDLED), 0);
	cnp_rx_one(&r, &r.a);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_HANDLED), 1);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 2 * 512 * CONG_PKTS);
	rig_settle(&r, 1000);
	ck_assert_uint_eq(wc_status(&r.a, 2), WC_SUCCESS);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &err, QPA_STATE, r.now), 0);
	cnp_rx_one(&r, &r.a);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_IGNORED), 4);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_HANDLED), 1);
	rig_fini(&r);

	c.type = QPT_UD;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	cnp_rx_one(&r, &r.a);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_IGNORED), 1);
	for (unsigned i = 0; i < 4; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_SEND, .len = 8);
	rig_run(&r);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* Marked data, CNPs, and what they do, all in one: a flow whose network marks what is above its share. */
START_TEST(closed_loop)
{
	struct flow f;
	struct burst b;
	uint64_t bytes = 0, queue = 0, last, share = 250000000, worst = 0;
	mono_t end;

	flow_init(&f, QPT_RC, false);
	flow_run(&f, 5 * MS);
	last = f.r.now.ns;
	for (end = mono_add(f.r.now, 400 * MS); mono_before(f.r.now, end); f.r.now.ns += 5 * US) {
		uint64_t drained = (f.r.now.ns - last) * share / 1000000000;

		last = f.r.now.ns;
		queue = queue > drained ? queue - drained : 0;
		flow_feed(&f);
		while (take(&f.r, &f.r.b, &b))
			hca_rx_burst(f.r.a.h, &b, f.r.now);
		if (take(&f.r, &f.r.a, &b)) {
			queue += b.payload_len;
			bytes += b.payload_len;
			b.route.tclass = queue > 100000 ? 3 : 2;
			hca_rx_burst(f.r.b.h, &b, f.r.now);
			f.r.now.ns += b.n * f.line_ns;
		}
		hca_tick(f.r.a.h, f.r.now);
		if (f.r.now.ns > end.ns - 200 * MS && queue > worst)
			worst = queue;
	}
	between(bytes, share / 10 * 4 * 6 / 10, share / 10 * 4 * 12 / 10);
	ck_assert_uint_le(worst, 2000000);
	ck_assert_uint_gt(stat_n(&f.r.a, HCA_STAT_RP_CNP_HANDLED), 10);
	ck_assert_uint_eq(stat_n(&f.r.a, HCA_STAT_RP_CNP_HANDLED), stat_n(&f.r.b, HCA_STAT_NP_CNP_SENT));
	rig_fini(&f.r);
}
END_TEST

TEST_MAIN("core_cnp", rc_marked, uc_marked, not_answered, rc_slows, read_responses_slow, uc_slows, many_cnps,
	  increase_is_fair, forged, forged_one_for_each, no_answer, slow_is_not_lost, ignored, closed_loop)
