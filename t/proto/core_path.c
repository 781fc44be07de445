/* SPDX-License-Identifier: MIT */
/* core_path.c - how much is in flight: windows, AckReq, loss, QPs that hold their share for ever; and the longest message. */
#include <errno.h>

#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

#define WINDOW (1u << 20) /* as rig.c sets it */
#define TRAIN  61440u
#define MSGS   12u

/* A sender without an answer stops at the window, and has asked for ACKs on the way. */
START_TEST(window_and_ackreq)
{
	struct rig r;
	struct burst b;
	uint64_t bytes = 0, unasked = 0;
	psn_t end = psn(0);

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 4; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = BUF_LEN);
	while (take(&r, &r.a, &b)) {
		ck_assert_uint_le(b.payload_len, TRAIN);
		bytes += b.payload_len;
		unasked = b.ackreq ? 0 : unasked + b.payload_len;
		ck_assert_uint_le(unasked, WINDOW / 4);
		end = psn_add(b.psn, b.n);
	}
	ck_assert_uint_le(bytes, WINDOW);
	ck_assert_uint_ge(bytes, WINDOW / 2);
	ck_assert_uint_eq(unasked, 0); /* the last before standing still asks */
	/* Half of it is acknowledged: about as much follows. */
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + ((end.v - conf_rc.psn) & PSN_MASK) / 2);
	pkt_give(&r, &r.a, &b, NULL, 0);
	for (bytes = 0; take(&r, &r.a, &b);)
		bytes += b.payload_len;
	ck_assert_uint_ge(bytes, WINDOW / 4);
	ck_assert_uint_le(bytes, WINDOW / 2 + TRAIN);
	rig_fini(&r);
}
END_TEST

/* A READ is asked for in parts that fit the window, at fixed places of the message. */
START_TEST(read_in_parts)
{
	struct rig r;
	struct burst b;
	uint64_t bytes = 0;
	uint32_t part = 0;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = BUF_LEN);
	while (take(&r, &r.a, &b)) {
		ck_assert_uint_eq(b.op_first, OP_READ_REQUEST);
		ck_assert_uint_eq(b.va, (uintptr_t)r.b.buf + bytes);
		ck_assert(!part || b.dma_len == part);
		part = b.dma_len;
		bytes += part;
	}
	ck_assert_uint_le(bytes, WINDOW);
	ck_assert_uint_ge(bytes, WINDOW / 4);
	ck_assert_uint_eq(part % 512, 0);
	rig_fini(&r);

	/* And all of it arrives. */
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	fill(r.b.buf, BUF_LEN, 3);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = BUF_LEN);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_of(&r.a, 1)->byte_len, BUF_LEN);
	check_fill(r.a.buf, BUF_LEN, 3);
	rig_fini(&r);
}
END_TEST

struct asked {
	uint64_t end; /* how far, of the message */
	uint32_t part, n;
	unsigned seen; /* responses; the 100th is lost */
};

static bool hundredth_lost(struct rig *r, struct host *from, const struct burst *b)
{
	struct asked *k = r->hook_arg;
	uint64_t off = b->va - (uintptr_t)r->b.buf;

	if (from == &r->b)
		return ++k->seen == 100;
	ck_assert_uint_eq(b->op_first, OP_READ_REQUEST);
	k->part = k->part ? k->part : b->dma_len;
	k->end = off + b->dma_len;
	ck_assert_uint_eq(k->end % k->part, 0);
	k->n++;
	return false;
}

/* A READ that is asked for again ends where its part does: the rest was another request, which the peer may not have heard. */
START_TEST(part_again) /* conf: rule 4.6 */
{
	struct asked k = { 0 };
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	r.hook = hundredth_lost;
	r.hook_arg = &k;
	fill(r.b.buf, BUF_LEN, 3);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = BUF_LEN);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	check_fill(r.a.buf, BUF_LEN, 3);
	ck_assert_uint_eq(k.end, BUF_LEN);
	ck_assert_uint_gt(k.n, BUF_LEN / k.part);
	rig_fini(&r);
}
END_TEST

static uint64_t burst_until_full(struct rig *r)
{
	struct burst b;
	uint64_t bytes = 0;

	while (take(r, &r->a, &b))
		bytes += b.payload_len;
	return bytes;
}

/* Loss halves the window; ACKs bring it back. */
START_TEST(loss_halves)
{
	struct link_conf c = conf_rc;
	struct rig r;
	uint64_t full, half;

	c.timeout = 10;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	for (unsigned i = 0; i < 8; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = BUF_LEN);
	full = burst_until_full(&r);
	r.now = hca_deadline(r.a.h);
	hca_tick(r.a.h, r.now);
	half = burst_until_full(&r);
	ck_assert_uint_le(half, full / 2 + TRAIN);
	ck_assert_uint_ge(half, full / 4);
	rig_settle(&r, 3);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	for (unsigned i = 0; i < 60; i++) {
		SEND_WR(&r, &r.a, .id = 100 + i, .op = WR_WRITE, .len = BUF_LEN);
		rig_run(&r);
	}
	for (unsigned i = 0; i < 8; i++)
		SEND_WR(&r, &r.a, .id = 200 + i, .op = WR_WRITE, .len = BUF_LEN);
	ck_assert_uint_ge(burst_until_full(&r), full - TRAIN);
	rig_fini(&r);
}
END_TEST

/*
 * Twenty QPs share the window.  The packets that most of them sent while it was open ask for no ACK, as more was to
 * follow, and are more than the window is after a loss.  So nobody says that it has arrived - unless one of them goes
 * on and asks, which needs no timer.
 */
START_TEST(unasked_does_not_shut)
{
	enum { QPS = 20, WRS = 30, LEN = 8000 };
	struct {
		uint32_t a, b;
		psn_t end;
		bool asked;
	} qp[QPS], *q = qp;
	struct link_conf c = conf_rc;
	unsigned asked = 0;
	struct burst b;
	struct rig r;

	c.timeout = 20;
	rig_init(&r, LINK_EARLY);
	for (unsigned i = 0; i < QPS; i++) {
		rig_connect(&r, &c);
		qp[i].a = r.a.qpn;
		qp[i].b = r.b.qpn;
		qp[i].asked = false;
		for (unsigned k = 0; k < WRS; k++)
			SEND_WR(&r, &r.a, .id = i * WRS + k, .op = WR_WRITE, .len = LEN);
	}
	while (take(&r, &r.a, &b)) {
		for (q = qp; q->a != b.sqpn; q++)
			;
		q->asked = b.ackreq;
		q->end = psn_add(b.psn, b.n);
	}
	/* All that was asked for is answered: the first by a NAK, which halves the window. */
	for (q = qp; q < qp + QPS; q++) {
		if (!q->asked)
			continue;
		r.a.qpn = q->a;
		r.b.qpn = q->b;
		b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, asked ? q->end.v - 1 : conf_rc.psn);
		b.syndrome = asked++ ? aeth_ack() : aeth_nak(NAK_PSN_SEQ);
		pkt_give(&r, &r.a, &b, NULL, 0);
	}
	ck_assert(asked && asked < QPS / 2);
	ck_assert(hca_tx(r.a.h, &b, r.now) && b.ackreq);
	rig_fini(&r);
}
END_TEST

/* One QP's peer is dead and its timeout is hours: the others to that host go on. */
START_TEST(dead_qp_does_not_starve)
{
	struct link_conf c = conf_rc;
	struct rig r;
	uint32_t dead;

	c.timeout = 31;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	dead = r.a.qpn;
	for (unsigned i = 0; i < 4; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = BUF_LEN);
	burst_until_full(&r); /* all lost */
	ck_assert_int_eq(hca_qp_destroy(r.b.h, r.b.qpn), 0);
	rig_connect(&r, &c);
	fill(r.a.buf, BUF_LEN, 1);
	SEND_WR(&r, &r.a, .id = 50, .op = WR_WRITE, .len = BUF_LEN);
	rig_run(&r);
	while (wc_status(&r.a, 50) == 255 && r.now.ns < 10000 * MS)
		ck_assert(rig_tick(&r));
	ck_assert_uint_eq(wc_status(&r.a, 50), WC_SUCCESS);
	check_fill(r.b.buf, BUF_LEN, 1);
	ck_assert_int_eq(hca_qp_destroy(r.a.h, dead), 0);
	rig_fini(&r);
}
END_TEST

/* ---- 2^31 bytes ---------------------------------------------------------------- */

static uint64_t copied;

static int counting_copy(void *, const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n,
			 uint64_t)
{
	uint64_t want = 0, have = 0;

	for (unsigned i = 0; i < dst_n; i++)
		want += dst[i].len;
	for (unsigned i = 0; i < src_n; i++)
		have += src[i].len;
	ck_assert_uint_eq(want, have);
	/* Bytes go where they belong: both regions begin at 0. */
	ck_assert_uint_eq(dst[0].addr, copied);
	ck_assert_uint_eq(src[0].addr, copied);
	copied += want;
	return 0;
}

static const struct mem_ops counting = { .copy = counting_copy };

static void longest(enum wr_op op, bool local, uint8_t mtu, uint32_t first_psn)
{
	struct hca_cfg cfg = { .mem = &counting,
			       .qpn_low_bits = 1,
			       .mtu = 5,
			       .burst_len = 61440,
			       .local_burst_len = 1 << 20,
			       .window_len = 1 << 22 };
	struct mr_attr mr = { .access = 0xf, .len = 1ull << 32, .region = &copied };
	struct link_conf c = conf_rc;
	struct rig r;
	struct {
		struct send_wr wr;
		struct sge sge[2];
	} w;
	struct host *x = &r.a;

	memset(&r, 0, sizeof(r));
	c.mtu = mtu;
	c.psn = first_psn;
	c.timeout = 0;
	r.now.ns = 1;
	for (unsigned i = 0; i < 2; i++, x = &r.b) {
		cfg.qpn_low = i;
		x->h = hca_new(&cfg);
		x->gid[15] = (uint8_t)(i + 1);
		hca_gid_set(x->h, 1, x->gid);
		hca_pd_alloc(x->h, &x->pdn);
		mr.pdn = x->pdn;
		hca_cq_create(x->h, 64, &x->cqn);
		ck_assert_int_eq(hca_mr_reg(x->h, &mr, &x->key), 0);
	}
	if (local) {
		hca_local_set(r.a.h, r.b.gid, true);
		hca_local_set(r.b.h, r.a.gid, true);
	}
	rig_connect(&r, &c);
	copied = 0;
	w.wr = (struct send_wr){ .op = (uint8_t)op, .flags = WR_SIGNALED, .sge_n = 2, .rkey = r.b.key };
	w.sge[0] = (struct sge){ 0, 1u << 30, r.a.key };
	w.sge[1] = (struct sge){ 1u << 30, 1u << 30, r.a.key };
	ck_assert_int_eq(hca_post_send(r.a.h, r.a.qpn, &w.wr, r.now), 0);
	for (bool more = true; more;) {
		struct burst b;

		more = false;
		while (hca_tx(r.a.h, &b, r.now)) {
			hca_rx_burst(r.b.h, &b, r.now);
			more = true;
		}
		while (hca_tx(r.b.h, &b, r.now)) {
			hca_rx_burst(r.a.h, &b, r.now);
			more = true;
		}
	}
	ck_assert_uint_eq(copied, 1ull << 31);
	r.a.wc_n = hca_completions(r.a.h, r.a.wc, WCS);
	ck_assert_uint_eq(r.a.wc_n, 1);
	ck_assert_uint_eq(r.a.wc[0].status, WC_SUCCESS);
	rig_fini(&r);
}

START_TEST(longest_message) /* conf: C9-94, rule 4.6 */
{
	longest(WR_WRITE, true, 5, 0xffff00);
	longest(WR_WRITE, true, 1, 5); /* 2^23 packets */
	longest(WR_READ, true, 1, 0x7ffff0);
	longest(WR_WRITE, false, 1, 0xfffff0);
	longest(WR_READ, false, 1, 0xfffff0);
}
END_TEST

/* Of messages that follow each other not each one is asked to be acknowledged; but what nothing follows always is. */
START_TEST(few_ackreqs) /* conf: rule 4.3 */
{
	struct qp_attr sqd = { .state = QPS_SQD, .en_sqd_async_notify = true };
	unsigned asked = 0, bursts = 0;
	struct burst b = { 0 };
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 8; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 20000);
	for (; take(&r, &r.a, &b); bursts++)
		asked += b.ackreq;
	ck_assert_uint_eq(bursts, 8);
	ck_assert(b.ackreq);
	ck_assert_uint_le(asked, 4);
	rig_fini(&r);

	/* The queue is stopped behind a message that has not asked: it comes once more, at once, and asks. */
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 2; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 100);
	ck_assert(hca_tx(r.a.h, &b, r.now) && !b.ackreq);
	hca_rx_burst(r.b.h, &b, r.now);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &sqd, QPA_STATE | QPA_EN_SQD_ASYNC_NOTIFY, r.now), 0);
	rig_run(&r);
	ck_assert(has_event(&r.a, EV_SQ_DRAINED));
	ck_assert_uint_eq(wc_status(&r.a, 0), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 1), 255); /* none */
	rig_fini(&r);
}
END_TEST

/* A QP that waits for the window in the middle of a message is given another way while it drains: there it goes on. */
START_TEST(new_way_in_sqd) /* conf: rule 4.13 */
{
	struct qp_attr sqd = { .state = QPS_SQD, .en_sqd_async_notify = true }, av = { .av.sgid_index = 1 };
	struct link_conf c = conf_rc;
	uint32_t waits;
	struct burst b;
	struct rig r;

	c.timeout = 10;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	waits = r.a.qpn;
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 3 * TRAIN);
	ck_assert(take(&r, &r.a, &b));
	hca_rx_burst(r.b.h, &b, r.now);
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + b.n - 1);
	hca_qp_hold(r.a.h, waits, true);
	pkt_give(&r, &r.a, &b, NULL, 0);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = BUF_LEN);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_WRITE, .len = BUF_LEN);
	burst_until_full(&r); /* all lost */
	hca_qp_hold(r.a.h, waits, false);
	ck_assert(!take(&r, &r.a, &b));
	memcpy(av.av.dgid, r.b.gid, 16);
	ck_assert_int_eq(hca_qp_modify(r.a.h, waits, &sqd, QPA_STATE | QPA_EN_SQD_ASYNC_NOTIFY, r.now), 0);
	ck_assert(!take(&r, &r.a, &b));
	ck_assert_int_eq(hca_qp_modify(r.a.h, waits, &av, QPA_AV, r.now), 0);
	hca_verify(r.a.h);
	rig_settle(&r, 20);
	ck_assert(has_event(&r.a, EV_SQ_DRAINED));
	for (unsigned i = 1; i <= 3; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* READs that are asked keep the depth as it is; nor does an attribute that is not in the mask change it. */
START_TEST(depth_of_what_is_asked) /* conf: rule 4.13 */
{
	struct qp_attr a = { .state = QPS_SQD, .max_rd_atomic = 1, .access = conf_rc.access };
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_ACCESS_FLAGS, r.now), 0);
	for (unsigned i = 0; i < 2; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_READ, .len = 4);
	ck_assert(take(&r, &r.a, &b) && take(&r, &r.a, &b));
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_STATE, r.now), 0);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_MAX_QP_RD_ATOMIC, r.now), EBUSY);
	rig_settle(&r, 5);
	ck_assert(wc_status(&r.a, 0) == WC_SUCCESS && wc_status(&r.a, 1) == WC_SUCCESS);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_MAX_QP_RD_ATOMIC, r.now), 0);
	rig_fini(&r);
}
END_TEST

/* On a local link small messages share an ACK, those behind which there is much to complete have one each. */
START_TEST(few_ackreqs_locally) /* conf: rule 4.3 */
{
	static const struct {
		uint32_t len;
		unsigned least, most;
	} t[] = { { 64, 1, 2 }, { 4096, 1, 3 }, { 20000, 8, 8 } }, *c = t;

	for (; c < t + sizeof(t) / sizeof(t[0]); c++) {
		unsigned asked = 0;
		struct burst b = { 0 };
		struct rig r;

		rig_init(&r, LINK_LOCAL);
		rig_connect(&r, &conf_rc);
		for (unsigned i = 0; i < 8; i++)
			SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = c->len);
		while (take(&r, &r.a, &b))
			asked += b.ackreq;
		ck_assert(b.ackreq);
		ck_assert_uint_ge(asked, c->least);
		ck_assert_uint_le(asked, c->most);
		rig_fini(&r);
	}
}
END_TEST

/* The first answer of the peer is late, as its host is busy. */
static bool answers_late(struct rig *r, struct host *from, const struct burst *)
{
	unsigned *n = r->hook_arg;

	if (from == &r->b && (*n)++ % 4)
		r->now.ns += 150 * MS;
	return from == &r->a && *n > 40;
}

/* Of forty round trips three of four take 150 ms, the others nothing: what is lost then is not sent again after 600. */
START_TEST(early_though_the_peer_is_busy)
{
	unsigned answers = 0;
	struct rig r;
	mono_t t0;

	rig_init(&r, LINK_EARLY);
	r.hook = answers_late;
	r.hook_arg = &answers;
	rig_connect(&r, &conf_rc);
	for (unsigned i = 1; i <= 41; i++) {
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 4);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	}
	ck_assert_uint_eq(answers, 41);
	t0 = r.now;
	SEND_WR(&r, &r.a, .id = 42, .op = WR_WRITE, .len = 4);
	rig_run(&r);
	while (!stat_n(&r.a, HCA_STAT_EARLY_RETRANS))
		ck_assert(rig_tick(&r));
	ck_assert_uint_le(mono_since(r.now, t0), 50 * MS);
	rig_fini(&r);
}
END_TEST

/* A round trip of no time, then so many of 30 ms; how long is waited before what is lost then is sent again? */
struct slow {
	unsigned answers, n;
};

static bool slow_then_lost(struct rig *r, struct host *from, const struct burst *)
{
	struct slow *s = r->hook_arg;

	if (from == &r->b && s->answers++)
		r->now.ns += 30 * MS;
	return from == &r->a && s->answers > s->n;
}

static uint64_t early_after(unsigned n)
{
	struct slow slow = { .n = n };
	struct rig r;
	mono_t t0;

	rig_init(&r, LINK_EARLY);
	r.hook = slow_then_lost;
	r.hook_arg = &slow;
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i <= n; i++) {
		SEND_WR(&r, &r.a, .id = 1 + i, .op = WR_WRITE, .len = 4);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 1 + i), WC_SUCCESS);
	}
	t0 = r.now;
	SEND_WR(&r, &r.a, .id = n + 2, .op = WR_WRITE, .len = 4);
	rig_run(&r);
	while (!stat_n(&r.a, HCA_STAT_EARLY_RETRANS))
		ck_assert(rig_tick(&r));
	t0.ns = mono_since(r.now, t0);
	rig_fini(&r);
	return t0.ns;
}

/* Three seconds of a busy host do not make the network slow; half a minute without one quick answer does. */
START_TEST(shortest_round_trip)
{
	ck_assert_uint_le(early_after(100), 25 * MS);
	ck_assert_uint_ge(early_after(1000), 100 * MS);
}
END_TEST

TEST_MAIN("core_path", early_though_the_peer_is_busy, shortest_round_trip, few_ackreqs, new_way_in_sqd,
	  depth_of_what_is_asked, few_ackreqs_locally, window_and_ackreq, read_in_parts, part_again, loss_halves,
	  unasked_does_not_shut, dead_qp_does_not_starve, longest_message)
