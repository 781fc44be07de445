/* SPDX-License-Identifier: MIT */
/* core_loss.c - lost, doubled, refused and late packets: what is sent again, what is not, and when. */
#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

/* Drops packets by number (the first is 0), as bits of *hook_arg; keeps a list of what went out. */
struct script {
	uint64_t lose;
	struct burst log[256];
	const struct host *from[256];
	unsigned n;
};

static bool by_script(struct rig *r, struct host *from, const struct burst *p)
{
	struct script *s = r->hook_arg;
	unsigned i = s->n++;

	ck_assert_uint_lt(i, 256);
	s->log[i] = *p;
	s->from[i] = from;
	return i < 64 && (s->lose >> i & 1);
}

static void start(struct rig *r, struct script *s, const struct link_conf *c, uint64_t lose)
{
	*s = (struct script){ .lose = lose };
	rig_init(r, LINK_WIRE);
	r->hook = by_script;
	r->hook_arg = s;
	rig_connect(r, c);
}

/* Packets of this opcode that a host sent. */
static unsigned sent(const struct script *s, const struct host *x, uint8_t op)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n; i++)
		n += s->from[i] == x && s->log[i].op_first == op;
	return n;
}

static const struct burst *nth(const struct script *s, const struct host *x, uint8_t op, unsigned n)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->from[i] == x && s->log[i].op_first == op && !n--)
			return &s->log[i];
	ck_abort_msg("no such packet");
	return NULL;
}

/* WRITE of 5 packets; the third is lost: one NAK, and go-back-N from the middle of the message. */
START_TEST(nak_goes_back_to_the_middle) /* conf: rule 4.5 */
{
	struct script s;
	struct rig r;
	const struct burst *b;

	start(&r, &s, &conf_rc, 1 << 2);
	fill(r.a.buf, 2500, 9);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 2500);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	check_fill(r.b.buf, 2500, 9);
	ck_assert_uint_eq(sent(&s, &r.a, OP_WRITE_FIRST), 1);
	ck_assert_uint_eq(sent(&s, &r.a, OP_WRITE_MIDDLE), 3 + 2);
	ck_assert_uint_eq(sent(&s, &r.a, OP_WRITE_LAST), 2);
	b = nth(&s, &r.b, OP_ACKNOWLEDGE, 0);
	ck_assert_uint_eq(b->syndrome, 0x60);
	ck_assert_uint_eq(b->psn.v, conf_rc.psn + 2);
	/* The same PSN, opcode and bytes again; no time has passed. */
	ck_assert_uint_eq(nth(&s, &r.a, OP_WRITE_MIDDLE, 3)->psn.v, conf_rc.psn + 2);
	ck_assert_uint_eq(r.now.ns, 1);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_OUT_OF_SEQ_REQUEST) >= 1, 1);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_NAK_SENT), 1);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RCVD_SEQ_ERR), 1);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_COMPLETER_RETRY_ERR), 1);
	rig_fini(&r);
}
END_TEST

/* One NAK per gap, whatever follows it; silent until the expected one comes. */
START_TEST(one_nak_per_gap) /* conf: C9-105, rule 4.2 */
{
	struct burst b;
	struct rig r;
	unsigned naks = 0;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 1; i < 6; i++) {
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + i);
		pkt_give(&r, &r.b, &b, NULL, 0);
		while (take(&r, &r.b, &b))
			naks += b.syndrome == 0x60;
	}
	ck_assert_uint_eq(naks, 1);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.syndrome, aeth_ack());
	ck_assert_uint_eq(b.psn.v, conf_rc.psn);
	ck_assert_uint_eq(b.msn, 1);
	/* A new gap, a new NAK. */
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 3);
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.syndrome, 0x60);
	ck_assert_uint_eq(b.psn.v, conf_rc.psn + 1);
	rig_fini(&r);
}
END_TEST

/* The last packet is lost: nothing but time tells.  Progress reloads the retry counter. */
START_TEST(timeout_resends) /* conf: C9-140, rule 4.5 */
{
	struct link_conf c = conf_rc;
	struct script s;
	struct rig r;

	c.retry = 1;
	start(&r, &s, &c, 1 << 0 | 1 << 3 | 1 << 6);
	for (unsigned i = 1; i <= 3; i++) {
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 4);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, i), 255);
		ck_assert(rig_tick(&r));
		while (wc_status(&r.a, i) == 255 && rig_tick(&r))
			;
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	}
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_LOCAL_ACK_TIMEOUT), 3);
	rig_fini(&r);
}
END_TEST

/*
 * The same with early retransmission: 8 ms, then 16 and 32 more, cost no retry; the fourth time the ACK
 * timeout of 67 ms is over, and a peer that is gone is given up when that has come retry + 1 times.
 */
START_TEST(early_costs_no_retry)
{
	struct link_conf c = conf_rc;
	struct script s = { .lose = ~0ull };
	mono_t start_time;
	struct rig r;

	c.retry = 1;
	c.timeout = 14;
	rig_init(&r, LINK_EARLY);
	r.hook = by_script;
	r.hook_arg = &s;
	rig_connect(&r, &c);
	start_time = r.now;
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4);
	rig_run(&r);
	ck_assert_uint_eq(s.n, 1);
	ck_assert(rig_tick(&r));
	ck_assert_uint_eq(s.n, 2);
	ck_assert_uint_eq(r.now.ns - start_time.ns, 8 * MS);
	while (wc_status(&r.a, 1) == 255)
		ck_assert(rig_tick(&r));
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_LOCAL_ACK_TIMEOUT), 2);
	ck_assert_uint_ge(stat_n(&r.a, HCA_STAT_EARLY_RETRANS), 3);
	ck_assert_uint_eq(s.n, 2 + stat_n(&r.a, HCA_STAT_EARLY_RETRANS));
	ck_assert_uint_ge(r.now.ns - start_time.ns, 2 * ack_timeout_ns(14));
	rig_fini(&r);
}
END_TEST

/* A lost ACK: the duplicate SEND is not executed again, but acknowledged with the newest PSN. */
START_TEST(duplicate_send_is_acked_only) /* conf: C9-105, rule 4.2 */
{
	struct script s;
	struct rig r;

	start(&r, &s, &conf_rc, 1 << 1);
	rig_recv(&r, &r.b, 50, 0, 64);
	rig_recv(&r, &r.b, 51, 64, 64);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 4);
	rig_settle(&r, 4);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.b, 50), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.b, 51), 255);
	ck_assert_uint_eq(sent(&s, &r.a, OP_SEND_ONLY), 2);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_DUPLICATE_REQUEST), 1);
	rig_fini(&r);
}
END_TEST

/* A lost atomic response: the saved result comes again, the memory changes once. */
START_TEST(duplicate_atomic_is_replayed) /* conf: rule 4.2 */
{
	struct script s;
	struct rig r;
	uint64_t v;

	start(&r, &s, &conf_rc, 1 << 1);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_FETCH_ADD, .len = 8, .compare_add = 5);
	rig_settle(&r, 4);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	memcpy(&v, r.b.buf, 8);
	ck_assert_uint_eq(v, 5);
	memcpy(&v, r.a.buf, 8);
	ck_assert_uint_eq(v, 0);
	ck_assert_uint_eq(sent(&s, &r.b, OP_ATOMIC_ACK), 2);
	rig_fini(&r);
}
END_TEST

/* A response of a READ is lost: the next one tells (implied NAK), and only the rest is asked for again. */
START_TEST(read_resumes_in_the_middle) /* conf: rule 4.6 */
{
	struct script s;
	struct rig r;
	const struct burst *b;

	start(&r, &s, &conf_rc, 1 << 3); /* 0: request, 1..6: responses */
	fill(r.b.buf + 8192, 3000, 4);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 3000, .roff = 8192, .sge_n = 2);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	check_fill(r.a.buf, 3000, 4);
	ck_assert_uint_eq(r.now.ns, 1);
	ck_assert_uint_eq(sent(&s, &r.a, OP_READ_REQUEST), 2);
	b = nth(&s, &r.a, OP_READ_REQUEST, 1);
	ck_assert_uint_eq(b->psn.v, conf_rc.psn + 2);
	ck_assert_uint_eq(b->va, (uintptr_t)r.b.buf + 8192 + 1024);
	ck_assert_uint_eq(b->dma_len, 3000 - 1024);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_IMPLIED_NAK), 1);
	ck_assert_uint_eq(nth(&s, &r.b, OP_READ_RESP_FIRST, 1)->psn.v, conf_rc.psn + 2);
	rig_fini(&r);
}
END_TEST

/* rxe goes on with MIDDLE and LAST where a READ is resumed; others start with FIRST or ONLY: all are right. */
START_TEST(resumed_read_takes_any_opcode) /* conf: rule 4.6 */
{
	static const uint8_t second[] = { OP_READ_RESP_LAST, OP_READ_RESP_ONLY };
	static const uint8_t first[] = { OP_READ_RESP_MIDDLE, OP_READ_RESP_FIRST };
	static uint8_t data[512];

	for (unsigned i = 0; i < 4; i++) {
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 1200);
		while (take(&r, &r.a, &b))
			;
		b = pkt_from(&r, &r.b, OP_READ_RESP_FIRST, conf_rc.psn);
		pkt_give(&r, &r.a, &b, data, 512);
		if (i & 2) { /* and the second one, so that one packet is left */
			b = pkt_from(&r, &r.b, OP_READ_RESP_MIDDLE, conf_rc.psn + 1);
			pkt_give(&r, &r.a, &b, data, 512);
		}
		r.now = hca_deadline(r.a.h);
		hca_tick(r.a.h, r.now);
		while (!take(&r, &r.a, &b)) {
			r.now = hca_deadline(r.a.h);
			hca_tick(r.a.h, r.now);
		}
		ck_assert_uint_eq(b.op_first, OP_READ_REQUEST);
		ck_assert_uint_eq(b.psn.v, conf_rc.psn + (i & 2 ? 2 : 1));
		if (i & 2) {
			b = pkt_from(&r, &r.b, second[i & 1], conf_rc.psn + 2);
			pkt_give(&r, &r.a, &b, data, 176);
		} else {
			b = pkt_from(&r, &r.b, first[i & 1], conf_rc.psn + 1);
			pkt_give(&r, &r.a, &b, data, 512);
			b = pkt_from(&r, &r.b, OP_READ_RESP_LAST, conf_rc.psn + 2);
			pkt_give(&r, &r.a, &b, data, 176);
		}
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
		rig_fini(&r);
	}
}
END_TEST

/* A READ asked for again outside of what was granted is not answered; inside it is, even after the window of RETH moved. */
START_TEST(duplicate_read_stays_inside) /* conf: rule 4.2 */
{
	static const struct {
		uint32_t psn, va, len, rkey;
		bool ok;
	} dup[] = { { 0, 0, 2000, 0, true },  { 1, 512, 1488, 0, true }, { 3, 1536, 464, 0, true },
		    { 1, 512, 500, 0, true }, { 1, 0, 1488, 0, false },  { 1, 512, 1489, 0, false },
		    { 0, 0, 2001, 0, false }, { 0, 0, 2000, 1, false },  { 0, 512, 100, 0, false } };

	for (size_t i = 0; i < sizeof(dup) / sizeof(*dup); i++) {
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		b = pkt_from(&r, &r.a, OP_READ_REQUEST, conf_rc.psn);
		b.dma_len = 2000;
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(b.n, 4);
		ck_assert(!take(&r, &r.b, &b));
		b = pkt_from(&r, &r.a, OP_READ_REQUEST, conf_rc.psn + dup[i].psn);
		b.dma_len = dup[i].len;
		b.va += dup[i].va;
		b.rkey ^= dup[i].rkey;
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert_msg(take(&r, &r.b, &b) == dup[i].ok, "duplicate %zu", i);
		if (dup[i].ok) {
			ck_assert_uint_eq(b.psn.v, (conf_rc.psn + dup[i].psn) & PSN_MASK);
			ck_assert_uint_eq(b.payload_len, dup[i].len);
			ck_assert_uint_eq(b.n, (dup[i].len + 511) / 512);
		}
		rig_fini(&r);
	}
}
END_TEST

/* SENDs before a READ that was answered: their duplicates must not acknowledge the READ. */
START_TEST(duplicate_ack_stops_before_read) /* conf: C9-110, rule 4.3 */
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	pkt_give(&r, &r.b, &b, NULL, 0);
	b = pkt_from(&r, &r.a, OP_READ_REQUEST, conf_rc.psn + 1);
	b.dma_len = 4;
	pkt_give(&r, &r.b, &b, NULL, 0);
	/* The explicit ACK first, then the response (some HCAs want it so). */
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.op_first, OP_ACKNOWLEDGE);
	ck_assert_uint_eq(b.psn.v, conf_rc.psn);
	ck_assert_uint_eq(b.msn, 1);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.op_first, OP_READ_RESP_ONLY);
	ck_assert_uint_eq(b.msn, 2);
	for (unsigned i = 0; i < 2; i++) { /* nor must they when another request was executed behind it */
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(b.psn.v, conf_rc.psn);
		ck_assert(!take(&r, &r.b, &b));
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + 2);
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(b.psn.v, conf_rc.psn + 2);
	}
	rig_fini(&r);
}
END_TEST

/* An ACK behind a READ without its response: the response was lost; the READ is asked for again at once. */
START_TEST(ack_beyond_read_is_a_nak) /* conf: rule 4.5 */
{
	struct script s;
	struct rig r;

	start(&r, &s, &conf_rc, 1 << 1); /* READ, its response, WRITE, ACK */
	fill(r.b.buf, 100, 8);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .off = 4096, .len = 100);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .off = 512, .roff = 512, .len = 4);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 2), WC_SUCCESS);
	ck_assert_uint_eq(r.a.wc[0].wr_id, 1);
	check_fill(r.a.buf + 4096, 100, 8);
	ck_assert_uint_eq(r.now.ns, 1);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_IMPLIED_NAK), 1);
	rig_fini(&r);
}
END_TEST

/* Old and ghost responses change nothing. */
START_TEST(stale_and_ghost) /* conf: rule 4.5 */
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4);
	while (take(&r, &r.a, &b))
		;
	for (int off = -3; off <= 4; off++) {
		for (unsigned syndrome = 0x1f; syndrome <= 0x63; syndrome++) {
			if (off == 0 || (syndrome > 0x1f && syndrome < 0x60) || (off == 1 && syndrome == 0x60))
				continue; /* the last: t/proto/core_edge */
			b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + (uint32_t)off);
			b.syndrome = (uint8_t)syndrome;
			pkt_give(&r, &r.a, &b, NULL, 0);
		}
	}
	ck_assert_uint_eq(r.a.wc_n, 0);
	ck_assert(!take(&r, &r.a, &b));
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn);
	for (unsigned syndrome = 0x40; syndrome < 0x80; syndrome += syndrome == 0x5f ? 7 : 1) {
		b.syndrome = (uint8_t)syndrome; /* reserved: ignored */
		pkt_give(&r, &r.a, &b, NULL, 0);
		ck_assert_uint_eq(r.a.wc_n, 0);
	}
	b.syndrome = 0; /* as ConnectX says it: no credits */
	pkt_give(&r, &r.a, &b, NULL, 0);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* A burst of which a part is known: the rest counts. */
START_TEST(half_old_burst)
{
	static uint8_t data[2048];
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	fill(data, 2048, 3);
	b = pkt_from(&r, &r.a, OP_WRITE_FIRST, conf_rc.psn);
	b.dma_len = 2048;
	pkt_give(&r, &r.b, &b, data, 512);
	b = pkt_from(&r, &r.a, OP_WRITE_FIRST, conf_rc.psn);
	b.dma_len = 2048;
	b.op_last = OP_WRITE_LAST;
	b.n = 4;
	pkt_give(&r, &r.b, &b, data, 2048);
	check_fill(r.b.buf, 2048, 3);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.psn.v, conf_rc.psn + 3);
	ck_assert_uint_eq(b.msn, 1);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_DUPLICATE_REQUEST), 1);
	rig_fini(&r);
}
END_TEST

/* A burst with a wrong end: what is before it counts, the NAK names the packet. */
START_TEST(burst_with_a_wrong_packet)
{
	static uint8_t data[2048];
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	fill(data, 2048, 3);
	rig_recv(&r, &r.b, 1, 0, 1300);
	b = pkt_from(&r, &r.a, OP_SEND_FIRST, conf_rc.psn);
	b.op_last = OP_SEND_LAST;
	b.n = 4;
	pkt_give(&r, &r.b, &b, data, 2048);
	check_fill(r.b.buf, 1024, 3);
	ck_assert_uint_eq(r.b.buf[1024], 0);
	ck_assert_uint_eq(wc_status(&r.b, 1), WC_LOC_LEN_ERR);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.syndrome, 0x61);
	ck_assert_uint_eq(b.psn.v, conf_rc.psn + 2);
	rig_fini(&r);
}
END_TEST

/* Every loss of one packet among the first twenty of a mixed load, PSNs around 2^24: all completes, once. */
START_TEST(each_single_loss)
{
	for (unsigned lost = 0; lost < 24; lost++) {
		struct link_conf c = conf_rc;
		struct script s;
		struct rig r;
		uint64_t v;

		c.psn = 0xffffff - lost % 20;
		start(&r, &s, &c, 1ull << lost);
		fill(r.b.buf + 8192, 2000, 2);
		fill(r.a.buf, 1300, 1);
		for (unsigned i = 0; i < 3; i++)
			rig_recv(&r, &r.b, 50 + i, 16384 + i * 2048, 2048);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 1300);
		SEND_WR(&r, &r.a, .id = 2, .op = WR_READ, .off = 4096, .roff = 8192, .len = 2000);
		SEND_WR(&r, &r.a, .id = 3, .op = WR_FETCH_ADD, .off = 8192, .len = 8, .compare_add = 1);
		SEND_WR(&r, &r.a, .id = 4, .op = WR_WRITE_IMM, .roff = 65536, .len = 1300);
		SEND_WR(&r, &r.a, .id = 5, .op = WR_SEND, .len = 5, .flags = WR_FENCE);
		rig_settle(&r, 10);
		for (unsigned i = 1; i <= 5; i++) {
			ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
			ck_assert_uint_eq(r.a.wc[i - 1].wr_id, i);
		}
		for (unsigned i = 0; i < 3; i++)
			ck_assert_uint_eq(wc_status(&r.b, 50 + i), WC_SUCCESS);
		check_fill(r.a.buf + 4096, 2000, 2);
		check_fill(r.b.buf + 16384, 1300, 1);
		check_fill(r.b.buf + 65536, 1300, 1);
		memcpy(&v, r.b.buf, 8);
		ck_assert_uint_eq(v, 1);
		rig_fini(&r);
	}
}
END_TEST

/* Early, one packet asks how far the peer has come: all of it, and nothing follows; or nothing, and all the rest does. */
START_TEST(early_is_one_packet)
{
	static const uint64_t lose[] = { 1 << 5, 0x1f };

	for (unsigned i = 0; i < 2; i++) {
		struct script s = { .lose = lose[i] };
		struct rig r;

		rig_init(&r, LINK_EARLY);
		r.hook = by_script;
		r.hook_arg = &s;
		rig_connect(&r, &conf_rc);
		fill(r.a.buf, 2500, 9);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 2500);
		rig_run(&r);
		ck_assert_uint_eq(s.n, i ? 5 : 6);
		ck_assert_uint_eq(wc_status(&r.a, 1), 255);
		ck_assert(rig_tick(&r));
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
		check_fill(r.b.buf, 2500, 9);
		ck_assert_uint_eq(sent(&s, &r.a, OP_WRITE_FIRST), 2);
		ck_assert(nth(&s, &r.a, OP_WRITE_FIRST, 1)->ackreq);
		ck_assert_uint_eq(sent(&s, &r.a, OP_WRITE_LAST), i ? 2 : 1);
		ck_assert_uint_eq(sent(&s, &r.a, OP_WRITE_MIDDLE), i ? 6 : 3);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_EARLY_RETRANS), 1);
		rig_fini(&r);
	}
}
END_TEST

/* A peer that says nothing for long is asked by one packet each time, until the ACK timeout. */
START_TEST(early_does_not_flood)
{
	struct script s = { .lose = ~0ull };
	struct rig r;

	rig_init(&r, LINK_EARLY);
	r.hook = by_script;
	r.hook_arg = &s;
	rig_connect(&r, &conf_rc);
	for (unsigned i = 1; i <= 4; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 2500);
	rig_run(&r);
	ck_assert_uint_eq(s.n, 20);
	while (!stat_n(&r.a, HCA_STAT_LOCAL_ACK_TIMEOUT)) {
		ck_assert_uint_eq(s.n, 20 + stat_n(&r.a, HCA_STAT_EARLY_RETRANS));
		ck_assert(rig_tick(&r));
	}
	ck_assert_uint_ge(stat_n(&r.a, HCA_STAT_EARLY_RETRANS), 3);
	ck_assert_uint_eq(s.n, 40 + stat_n(&r.a, HCA_STAT_EARLY_RETRANS));
	rig_fini(&r);
}
END_TEST

/* A program that has ended while its QP is still there is as silent as a host without power: also about what comes behind. */
START_TEST(ended_says_nothing)
{
	static const enum wr_op ops[] = { WR_WRITE, WR_SEND, WR_FETCH_ADD };

	for (unsigned i = 0; i < 3; i++) {
		struct script s;
		struct rig r;

		start(&r, &s, &conf_rc, 0);
		r.b.region.ended = true;
		for (unsigned k = 1; k <= 3; k++) {
			rig_recv(&r, &r.b, 10 + k, 0, 64);
			SEND_WR(&r, &r.a, .id = k, .op = ops[i], .len = ops[i] == WR_FETCH_ADD ? 8 : 64);
		}
		rig_run(&r);
		ck_assert_uint_eq(s.n, 3);
		ck_assert_uint_eq(wc_status(&r.a, 1), 255);
		rig_settle(&r, 100);
		ck_assert_uint_eq(sent(&s, &r.b, OP_ACKNOWLEDGE), 0);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_RETRY_EXC_ERR);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_LOCAL_ACK_TIMEOUT), conf_rc.retry + 1u);
		ck_assert_uint_eq(r.b.wc_n, 0);
		rig_fini(&r);
	}
}
END_TEST

TEST_MAIN("core_loss", ended_says_nothing, early_is_one_packet, early_does_not_flood, nak_goes_back_to_the_middle,
	  one_nak_per_gap, timeout_resends, early_costs_no_retry, duplicate_send_is_acked_only,
	  duplicate_atomic_is_replayed, read_resumes_in_the_middle, resumed_read_takes_any_opcode,
	  duplicate_read_stays_inside, duplicate_ack_stops_before_read, ack_beyond_read_is_a_nak, stale_and_ghost,
	  half_old_burst, burst_with_a_wrong_packet, each_single_loss)
