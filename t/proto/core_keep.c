/* SPDX-License-Identifier: MIT */
/* core_keep.c - two HCAs that keep what comes behind a gap: what is sent again, what peers that go back get, and what becomes of rooms. */
#include "proto/keep.h"
#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

#define MTU 512u

/* Loses what of a's packets lies in from .. from + n, as often as times says; counts all. */
struct losses {
	struct {
		uint32_t from, n, times;
	} gap[4];
	unsigned requests, naks;
	unsigned lost[4];
};

static bool lose(struct rig *r, struct host *from, const struct burst *p)
{
	struct losses *l = r->hook_arg;

	l->requests += from == &r->a;
	l->naks += from == &r->b && p->syndrome == 0x60;
	for (unsigned i = 0; i < 4 && from == &r->a; i++) {
		uint32_t at = psn_dist(psn(conf_rc.psn + l->gap[i].from), p->psn);

		if (at < l->gap[i].n && l->lost[i] < l->gap[i].n * l->gap[i].times) {
			l->lost[i]++;
			return true;
		}
	}
	return false;
}

static void start(struct rig *r, struct losses *l)
{
	rig_init(r, LINK_KEEP);
	rig_connect(r, &conf_rc);
	r->hook = lose;
	r->hook_arg = l;
}

static void write_pkts(struct rig *r, unsigned id, unsigned pkts)
{
	fill(r->a.buf, (size_t)pkts * MTU, id);
	SEND_WR(r, &r->a, .id = id, .op = WR_WRITE, .len = pkts * MTU);
	rig_run(r);
	if (wc_status(&r->a, id) == 255)
		rig_settle(r, 10);
	ck_assert_uint_eq(wc_status(&r->a, id), WC_SUCCESS);
	check_fill(r->b.buf, (size_t)pkts * MTU, id);
}

/* One packet, one that follows another gap closely, and three in a row: each is sent again, and no other. */
START_TEST(only_what_was_lost) /* conf: rule 4.5 */
{
	struct losses l = { .gap = { { 3, 1, 1 }, { 6, 1, 1 }, { 20, 3, 1 } } };
	struct rig r;

	start(&r, &l);
	write_pkts(&r, 1, 40);
	ck_assert_uint_eq(l.requests, 40 + 5);
	ck_assert_uint_eq(l.naks, 4); /* the third gap was longer than the one packet that is sent first */
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_MENDED), 5);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_KEPT_REQUEST), 36 - 4);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_DUPLICATE_REQUEST), 0);
	ck_assert_uint_eq(r.now.ns, 1); /* no timer was needed */
	rig_fini(&r);
}
END_TEST

/* A gap that is longer: twice as many each time. */
START_TEST(long_gap)
{
	struct losses l = { .gap = { { 3, 1, 1 }, { 60, 20, 1 } } };
	struct rig r;

	start(&r, &l);
	write_pkts(&r, 1, 50);
	write_pkts(&r, 2, 100);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_MENDED), 1 + 1 + 2 + 4 + 8 + 16);
	ck_assert_uint_eq(l.requests, 150 + 32);
	ck_assert_uint_eq(r.now.ns, 1);
	rig_fini(&r);
}
END_TEST

/* One that is too long to be kept: the peer says that it has nothing behind it, and all goes again. */
START_TEST(too_long_gap)
{
	struct losses l = { .gap = { { 3, 1, 1 }, { 60, 70, 1 } } };
	struct rig r;

	start(&r, &l);
	write_pkts(&r, 1, 50);
	write_pkts(&r, 2, 100);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_MENDED), 2);
	ck_assert_uint_eq(l.requests, 150 + 1 + 150 - 60);
	ck_assert_uint_eq(r.now.ns, 1);
	rig_fini(&r);
}
END_TEST

/* The packet that was sent again is lost, too: that is seen after two round trips or so, and not at the ACK timeout. */
START_TEST(lost_twice) /* conf: rule 4.5 */
{
	struct losses l = { .gap = { { 3, 1, 1 }, { 15, 1, 3 } } };
	struct rig r;

	start(&r, &l);
	write_pkts(&r, 1, 10);
	write_pkts(&r, 2, 10);
	ck_assert_uint_eq(l.requests, 20 + 1 + 3);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_EARLY_RETRANS), 2);
	rig_fini(&r);
}
END_TEST

/* Many small messages, atomics among them: each is carried out once, in the order of posting. */
START_TEST(small_ones)
{
	struct losses l = { .gap = { { 0, 1, 1 }, { 4, 2, 1 }, { 9, 1, 1 } } };
	uint64_t *word;
	struct rig r;

	start(&r, &l);
	word = (uint64_t *)(void *)(r.b.buf + 4096);
	for (unsigned i = 0; i < 12; i++)
		rig_recv(&r, &r.b, 100 + i, 8192, 64);
	for (unsigned i = 0; i < 12; i++) {
		if (i % 3 == 1)
			SEND_WR(&r, &r.a, .id = i, .op = WR_FETCH_ADD, .off = 65536 + 8 * i, .len = 8, .roff = 4096,
				.compare_add = 1);
		else
			SEND_WR(&r, &r.a, .id = i, .op = WR_SEND, .len = i);
	}
	rig_settle(&r, 20);
	for (unsigned i = 0; i < 12; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	ck_assert_uint_eq(*word, 4);
	for (unsigned i = 0, k = 0; i < 12; i++)
		if (i % 3 != 1)
			ck_assert_uint_eq(wc_of(&r.b, 100 + k++)->byte_len, i);
	rig_fini(&r);
}
END_TEST

/* Three messages in a row: what goes again is of more than one of them. */
START_TEST(three_small_ones)
{
	struct losses l = { .gap = { { 0, 1, 1 }, { 6, 3, 1 } } };
	struct rig r;

	start(&r, &l);
	write_pkts(&r, 100, 3);
	for (unsigned i = 0; i < 12; i++) {
		r.a.buf[4096 + i] = (uint8_t)(i + 1);
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .off = 4096 + i, .roff = 4096 + i, .len = 1);
	}
	rig_run(&r);
	for (unsigned i = 0; i < 12; i++) {
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
		ck_assert_uint_eq(r.b.buf[4096 + i], i + 1);
	}
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_MENDED), 1 + 1 + 2);
	ck_assert_uint_eq(l.requests, 3 + 12 + 4);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_DUPLICATE_REQUEST), 0);
	rig_fini(&r);
}
END_TEST

/* XRC: what is sent again names its SRQ, too. */
START_TEST(xrc)
{
	struct losses l = { .gap = { { 3, 1, 1 }, { 6, 3, 1 } } };
	struct link_conf c = conf_rc;
	struct rig r;

	rig_init(&r, LINK_KEEP);
	c.type = QPT_XRC_SEND;
	rig_connect(&r, &c);
	r.hook = lose;
	r.hook_arg = &l;
	write_pkts(&r, 1, 20);
	ck_assert_uint_eq(l.requests, 20 + 4);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_MENDED), 4);
	rig_fini(&r);
}
END_TEST

static void give(struct rig *r, uint8_t op, uint32_t at, uint32_t dma_len)
{
	struct burst b = pkt_from(r, &r->a, op, conf_rc.psn + at);

	b.dma_len = dma_len;
	pkt_give(r, &r->b, &b, "abcd", op == OP_WRITE_ONLY ? 4 : 0);
}

/* A READ behind a gap takes as many PSNs as it has responses: what comes behind it is the next, and no gap. */
START_TEST(read_is_as_long) /* conf: rule 4.2 */
{
	static const uint32_t len[] = { 0, 1, MTU - 1, MTU, MTU + 1, 2 * MTU, 2 * MTU + 1, 3 * MTU };

	for (unsigned i = 0; i < 2 * sizeof(len) / sizeof(*len); i++) {
		uint32_t l = len[i / 2], n = l ? (l + MTU - 1) / MTU : 1, acked = 0;
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_KEEP);
		rig_connect(&r, &conf_rc);
		give(&r, OP_READ_REQUEST, 1, l);
		ck_assert(take(&r, &r.b, &b) && b.syndrome == 0x60);
		if (i & 1)
			give(&r, OP_WRITE_ONLY, 1 + n, 4);
		give(&r, OP_WRITE_ONLY, 0, 4);
		for (; take(&r, &r.b, &b); acked = psn_dist(psn(conf_rc.psn), b.psn) + b.n)
			ck_assert_uint_eq(b.syndrome, aeth_ack());
		ck_assert_uint_eq(acked, 1 + n + (i & 1));
		rig_fini(&r);
	}
}
END_TEST

/* Nothing of what is kept shows before its turn; then all of it is carried out, with one ACK. */
START_TEST(in_its_turn) /* conf: rule 4.2 */
{
	const uint8_t data[2] = { 1, 2 };
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_KEEP);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 2; i > 0; i--) {
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + i);
		b.dma_len = 1;
		b.va += i;
		pkt_give(&r, &r.b, &b, data, 1);
		pkt_give(&r, &r.b, &b, data + 1, 1); /* its double has other data, and comes too late */
	}
	ck_assert_uint_eq(r.b.buf[1] + r.b.buf[2], 0);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.syndrome, 0x60);
	ck_assert(!take(&r, &r.b, &b));
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert(r.b.buf[1] == 1 && r.b.buf[2] == 1);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.syndrome, aeth_ack());
	ck_assert_uint_eq(b.psn.v, psn(conf_rc.psn + 2).v);
	ck_assert_uint_eq(b.msn, 3);
	rig_fini(&r);
}
END_TEST

/*
 * A peer that goes back sends all that was missing by itself: it is told of the rest of the gap only where it asks, or where
 * another gap begins.
 */
START_TEST(one_nak_for_a_gap) /* conf: C9-105, rule 4.2 */
{
	for (unsigned asks = 0; asks < 2; asks++) {
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_KEEP);
		rig_connect(&r, &conf_rc);
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 2);
		pkt_give(&r, &r.b, &b, NULL, 0);
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 4);
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(b.syndrome, 0x60);
		ck_assert_uint_eq(b.psn.v, conf_rc.psn);
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
		b.ackreq = asks;
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert_uint_eq(take(&r, &r.b, &b), asks);
		if (asks)
			ck_assert_uint_eq(b.syndrome, 0x60);
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 1);
		b.ackreq = false;
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b)); /* what was kept is done, and the next gap is known */
		ck_assert_uint_eq(b.syndrome, 0x60);
		ck_assert_uint_eq(b.psn.v, conf_rc.psn + 3);
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 3);
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(b.syndrome, aeth_ack());
		ck_assert_uint_eq(b.psn.v, conf_rc.psn + 4);
		rig_fini(&r);
	}
}
END_TEST

/* A receiver that was not ready for all that was kept has no gap any more when it is. */
START_TEST(no_gap_behind_rnr)
{
	static const uint8_t op[] = { OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST };
	static uint8_t data[MTU];
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_KEEP);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 3; i++) {
		b = pkt_from(&r, &r.a, op[i], conf_rc.psn + 1 + i);
		pkt_give(&r, &r.b, &b, data, MTU);
	}
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(aeth_type(b.syndrome), AETH_RNR_NAK);
	rig_recv(&r, &r.b, 1, 0, 3 * MTU);
	for (unsigned i = 0; i < 3; i++) {
		b = pkt_from(&r, &r.a, op[i], conf_rc.psn + 1 + i);
		pkt_give(&r, &r.b, &b, data, MTU);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(b.syndrome, aeth_ack());
	}
	ck_assert_uint_eq(wc_status(&r.b, 1), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* A SEND behind a gap finds no receive WR when its turn comes: RNR, and it goes on from there. */
START_TEST(not_ready)
{
	struct losses l = { .gap = { { 1, 1, 1 } } };
	struct rig r;

	start(&r, &l);
	for (unsigned i = 0; i < 5; i++)
		SEND_WR(&r, &r.a, .id = i, .op = i == 2 ? WR_SEND : WR_WRITE, .len = 8);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 2), 255);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RCVD_RNR_ERR), 1);
	rig_recv(&r, &r.b, 9, 4096, 64);
	rig_settle(&r, 5);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.b, 9), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* A request that is kept is wrong, or its QP ends: the error is that of any request, and the room is free again (rig_fini() looks). */
START_TEST(wrong_one)
{
	struct losses l = { .gap = { { 0, 1, 1 } } };
	struct rig r;

	start(&r, &l);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 8, .rkey = 0x123400);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_WRITE, .len = 8);
	rig_settle(&r, 5);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 2), WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(wc_status(&r.a, 3), WC_WR_FLUSH_ERR);
	rig_fini(&r);
}
END_TEST

/* A READ takes as many PSNs as its responses have: what follows it lies close behind it, and is kept, too. */
START_TEST(behind_a_read)
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_KEEP);
	rig_connect(&r, &conf_rc);
	b = pkt_from(&r, &r.a, OP_READ_REQUEST, conf_rc.psn + 1);
	b.dma_len = 60 * MTU;
	pkt_give(&r, &r.b, &b, NULL, 0);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 61);
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_KEPT_REQUEST), 2);
	/* One that asks for more than a room has does not open it. */
	b = pkt_from(&r, &r.a, OP_READ_REQUEST, conf_rc.psn + 62);
	b.dma_len = 1u << 31;
	pkt_give(&r, &r.b, &b, NULL, 0);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 63 + KEEP_GAP + 1);
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_KEPT_REQUEST), 3);
	rig_fini(&r);
}
END_TEST

/* Behind an RNR NAK nothing is kept: all of it comes again. */
START_TEST(behind_rnr)
{
	struct rig r;
	struct losses l = { .gap = { { 0, 0, 0 } } };

	start(&r, &l);
	SEND_WR(&r, &r.a, .id = 0, .op = WR_SEND, .len = 8);
	for (unsigned i = 1; i < 5; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 8);
	rig_run(&r);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_KEPT_REQUEST), 0);
	rig_recv(&r, &r.b, 9, 4096, 64);
	rig_settle(&r, 5);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* How many request packets a sends now, and the PSN of the first. */
static unsigned sends(struct rig *r, uint32_t *first)
{
	struct burst b;
	unsigned n = 0;

	while (take(r, &r->a, &b)) {
		if (!n)
			*first = psn_dist(psn(conf_rc.psn), b.psn);
		n += b.n;
	}
	return n;
}

static void answers(struct rig *r, uint8_t syndrome, uint32_t n)
{
	struct burst b = pkt_from(r, &r->b, OP_ACKNOWLEDGE, conf_rc.psn + n);

	b.syndrome = syndrome;
	pkt_give(r, &r->a, &b, NULL, 0);
}

/*
 * The peer goes back to what it expects, as the specification has it: one packet is sent to see that, and then all.  It is
 * believed at the next loss, and tried again at the one behind that.
 */
START_TEST(peer_that_goes_back) /* conf: rule 4.5 */
{
	const uint32_t at[] = { 2, 10, 20, 30, 40, 50, 60, 70 };
	const bool tries[] = { true, false, true, false, false, false, true, false };
	uint32_t first;
	struct rig r;

	rig_init(&r, LINK_KEEP);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 100 * MTU);
	ck_assert_uint_eq(sends(&r, &first), 100);
	for (unsigned i = 0; i < 8; i++) {
		answers(&r, 0x60, at[i]);
		if (tries[i]) {
			ck_assert_uint_eq(sends(&r, &first), 1);
			ck_assert_uint_eq(first, at[i]);
			/* It has taken that one, and nothing behind; a packet of the same turn makes it a NAK. */
			answers(&r, i ? aeth_ack() : 0x60, at[i] + !i);
			ck_assert_uint_eq(sends(&r, &first), 100 - at[i] - 1);
			ck_assert_uint_eq(first, at[i] + 1);
		} else {
			ck_assert_uint_eq(sends(&r, &first), 100 - at[i]);
			ck_assert_uint_eq(first, at[i]);
		}
	}
	answers(&r, aeth_ack(), 99);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* More QPs with gaps than rooms: the others drop what comes, until a room has not been used for a while. */
START_TEST(rooms_are_few)
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_KEEP);
	for (unsigned i = 0; i < KEEP_ROOMS + 3; i++) {
		rig_connect(&r, &conf_rc);
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 1);
		pkt_give(&r, &r.b, &b, NULL, 0);
		hca_verify(r.b.h);
	}
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_KEPT_REQUEST), KEEP_ROOMS);
	r.now.ns += 2000 * MS;
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_KEPT_REQUEST), KEEP_ROOMS + 1);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	pkt_give(&r, &r.b, &b, NULL, 0);
	rig_run(&r);
	ck_assert_uint_eq(r.last.psn.v, psn(conf_rc.psn + 1).v);
	rig_fini(&r);

	/* One that was given back serves the next at once. */
	rig_init(&r, LINK_KEEP);
	for (unsigned i = 0; i < KEEP_ROOMS + 1; i++) {
		rig_connect(&r, &conf_rc);
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 1);
		pkt_give(&r, &r.b, &b, NULL, 0);
		r.now.ns += MS;
		if (i == KEEP_ROOMS - 1)
			ck_assert_int_eq(
				hca_qp_modify(r.b.h, r.b.qpn, &(struct qp_attr){ .state = QPS_ERR }, QPA_STATE, r.now),
				0);
	}
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_KEPT_REQUEST), KEEP_ROOMS + 1);
	rig_fini(&r);
}
END_TEST

/* Far behind the gap, farther than a room is long, longer than the MTU: dropped. */
START_TEST(no_room_for_that)
{
	static uint8_t data[4096];
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_KEEP);
	rig_connect(&r, &conf_rc);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + KEEP_GAP + 1);
	pkt_give(&r, &r.b, &b, NULL, 0);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 5);
	b.mtu = b.dma_len = 4096;
	pkt_give(&r, &r.b, &b, data, 4096);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_KEPT_REQUEST), 0);
	for (unsigned i = KEEP_GAP; i <= KEEP_LEN / MTU; i += KEEP_GAP) {
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + i);
		pkt_give(&r, &r.b, &b, NULL, 0);
	}
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_KEPT_REQUEST), KEEP_LEN / MTU / KEEP_GAP - 1);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_keep", three_small_ones, xrc, read_is_as_long, only_what_was_lost, long_gap, too_long_gap, lost_twice,
	  small_ones, in_its_turn, one_nak_for_a_gap, no_gap_behind_rnr, not_ready, behind_a_read, behind_rnr,
	  wrong_one, peer_that_goes_back, rooms_are_few, no_room_for_that)
