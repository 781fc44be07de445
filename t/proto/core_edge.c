/* SPDX-License-Identifier: MIT */
/*
 * core_edge.c - edges of the specification at which other HCAs, or programs made for them, are met: depths that are not
 * a power of two or 0, a gap that closes before its NAK leaves, requests that are no request, faults in SQD.
 */

#include "proto/burst.h"
#include "proto/hdr.h"
#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

/* Others round the depth that they ask with up to a power of two: so many are answered. */
START_TEST(depth_is_rounded) /* conf: rule 4.6 */
{
	static const uint8_t depth[][2] = { { 8, 5 }, { 4, 3 }, { 8, 6 }, { 16, 9 }, { 5, 5 } };

	for (size_t i = 0; i < sizeof(depth) / sizeof(*depth); i++) {
		struct link_conf c = conf_rc;
		struct qp_init init;
		struct qp_attr a;
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		c.rd_atomic = depth[i][0];
		c.dest_rd_atomic = depth[i][1];
		rig_connect(&r, &c);
		fill(r.b.buf, 64 * 256, 7);
		for (unsigned k = 0; k < 60; k++)
			ck_assert_int_eq(
				SEND_WR(&r, &r.a, .id = k, .op = WR_READ, .off = k * 256, .roff = k * 256, .len = 256),
				0);
		while (take(&r, &r.a, &b)) /* all that it may ask before the first answer */
			pkt_give(&r, &r.b, &b, NULL, 0);
		rig_run(&r);
		for (unsigned k = 0; k < 60; k++)
			ck_assert_uint_eq(wc_status(&r.a, k), WC_SUCCESS);
		check_fill(r.a.buf, 60 * 256, 7);
		ck_assert_int_eq(hca_qp_query(r.b.h, r.b.qpn, &a, &init), 0);
		ck_assert_uint_eq(a.max_dest_rd_atomic, depth[i][1]);
		rig_fini(&r);
	}
}
END_TEST

/* A requester's depth of 0 is 1; a responder's of 0 is none. */
START_TEST(depth_0) /* conf: rule 4.6 */
{
	struct link_conf c = conf_rc;
	struct qp_init init;
	struct qp_attr a;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	c.rd_atomic = 0;
	c.timeout = 0;
	rig_connect(&r, &c);
	rig_recv(&r, &r.b, 9, 8192, 64);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 8);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_READ, .off = 64, .len = 8);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_FETCH_ADD, .off = 128, .len = 8);
	rig_run(&r);
	for (unsigned i = 1; i <= 3; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	ck_assert_int_eq(hca_qp_query(r.a.h, r.a.qpn, &a, &init), 0);
	ck_assert_uint_eq(a.max_rd_atomic, 0);
	rig_fini(&r);

	rig_init(&r, LINK_WIRE);
	c.dest_rd_atomic = 0;
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 0, .op = WR_WRITE, .len = 8);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 8);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 0), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_REM_INV_REQ_ERR);
	rig_fini(&r);
}
END_TEST

static void give(struct rig *r, uint32_t psn)
{
	struct burst b = pkt_from(r, &r->a, OP_WRITE_ONLY, conf_rc.psn + psn);

	b.va = (uintptr_t)r->b.buf;
	b.rkey = r->b.key;
	b.dma_len = 4;
	b.ackreq = true;
	pkt_give(r, &r->b, &b, "abcd", 4);
}

/* The responder's packets in one turn; how many. */
static unsigned said(struct rig *r, struct burst *last)
{
	struct burst b;
	unsigned n = 0;

	for (; take(r, &r->b, &b); n++)
		*last = b;
	return n;
}

/* PSNs 1, 0, 1 in one turn: all is there before the NAK leaves, and it becomes an ACK. */
START_TEST(gap_closes_before_nak) /* conf: rule 4.2 */
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	give(&r, 1);
	give(&r, 0);
	give(&r, 1);
	ck_assert_uint_eq(said(&r, &b), 1);
	ck_assert_uint_eq(b.syndrome, 0x1f);
	ck_assert_uint_eq(b.psn.v, (conf_rc.psn + 1) & PSN_MASK);

	/* A newer one is still missing something. */
	give(&r, 4);
	give(&r, 5);
	give(&r, 2);
	ck_assert_uint_eq(said(&r, &b), 1);
	ck_assert_uint_eq(b.syndrome, 0x60);
	ck_assert_uint_eq(b.psn.v, (conf_rc.psn + 3) & PSN_MASK);

	/* Also if an older one came behind it. */
	for (unsigned i = 0; i < 4; i++)
		give(&r, (const uint8_t[]){ 5, 4, 3, 4 }[i]);
	ck_assert_uint_eq(said(&r, &b), 1);
	ck_assert_uint_eq(b.syndrome, 0x60);
	ck_assert_uint_eq(b.psn.v, (conf_rc.psn + 5) & PSN_MASK);
	rig_fini(&r);
}
END_TEST

/* UC: the receive WR of a message that a loss has cut goes back to its SRQ, and is the next that is taken (rule 4.10). */
START_TEST(uc_srq_abort)
{
	static const uint8_t data[512] = { 5 };
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	c.type = QPT_UC;
	rig_connect_srq(&r, &c, (struct srq_init){ .max_wr = 4, .max_sge = 1 });
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(rig_srq_recv(&r, c.srqn_b, 50 + i, 0, 2048), 0);
	b = pkt_from(&r, &r.a, SVC_UC | OP_SEND_FIRST, c.psn);
	pkt_give(&r, &r.b, &b, data, 512);
	ck_assert_uint_eq(r.b.wc_n, 0);
	for (unsigned i = 0; i < 2; i++) { /* its LAST is lost */
		b = pkt_from(&r, &r.a, SVC_UC | OP_SEND_ONLY, c.psn + 2 + i);
		pkt_give(&r, &r.b, &b, data, 8);
		ck_assert_uint_eq(r.b.wc_n, i + 1);
		ck_assert_uint_eq(wc_status(&r.b, 50 + i), WC_SUCCESS);
		ck_assert_uint_eq(wc_of(&r.b, 50 + i)->byte_len, 8);
	}
	ck_assert_uint_eq(fault_n(&r.b, "UC_GAP"), 1);
	rig_fini(&r);
}
END_TEST

/* Another QP can have it at once; so it is with what a QP was using that is brought to RESET. */
START_TEST(srq_has_it_back)
{
	static const uint8_t data[512] = { 5 };

	for (unsigned reset = 0; reset < 2; reset++) {
		struct link_conf c = conf_rc;
		struct qp_init init = { .type = QPT_UD, .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
		struct qp_attr a = { .state = QPS_INIT, .port = 1, .qkey = 0x1234 };
		struct burst b;
		struct rig r;
		uint32_t qpn;

		rig_init(&r, LINK_WIRE);
		c.type = reset ? QPT_RC : QPT_UC;
		rig_connect_srq(&r, &c, (struct srq_init){ .max_wr = 4, .max_sge = 1 });
		init.pdn = r.b.pdn;
		init.send_cqn = init.recv_cqn = r.b.cqn;
		init.srqn = c.srqn_b;
		ck_assert_int_eq(hca_qp_create(r.b.h, &init, &qpn), 0);
		ck_assert_int_eq(hca_qp_modify(r.b.h, qpn, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY, r.now),
				 0);
		a.state = QPS_RTR;
		ck_assert_int_eq(hca_qp_modify(r.b.h, qpn, &a, QPA_STATE, r.now), 0);
		for (unsigned i = 0; i < 2; i++)
			ck_assert_int_eq(rig_srq_recv(&r, c.srqn_b, 50 + i, 0, 2048), 0);
		b = pkt_from(&r, &r.a, (reset ? SVC_RC : SVC_UC) | OP_SEND_FIRST, c.psn);
		pkt_give(&r, &r.b, &b, data, 512);
		a.state = QPS_RESET;
		if (reset)
			ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a, QPA_STATE, r.now), 0);
		b = pkt_from(&r, &r.a, SVC_UC | OP_SEND_LAST, c.psn + 2);
		if (!reset)
			pkt_give(&r, &r.b, &b, data, 8);
		b = pkt_from(&r, &r.a, SVC_UD | OP_SEND_ONLY, 0);
		b.dqpn = qpn;
		pkt_give(&r, &r.b, &b, data, 8);
		ck_assert_uint_eq(wc_status(&r.b, 50), WC_SUCCESS);
		ck_assert_uint_eq(r.b.wc_n, 1);
		rig_fini(&r);
	}
}
END_TEST

/* A receive that ends in a CQ which has overrun has left its SRQ, though nothing completes. */
START_TEST(srq_done_overrun)
{
	static const uint8_t data[512] = { 5 };
	uint32_t done = 0;
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect_srq(&r, &c, (struct srq_init){ .max_wr = 1, .max_sge = 1, .done = &done });
	ck_assert_int_eq(rig_srq_recv(&r, c.srqn_b, 0, 0, 4096), 0);
	b = pkt_from(&r, &r.a, SVC_RC | OP_SEND_FIRST, c.psn);
	pkt_give(&r, &r.b, &b, data, 512);
	ck_assert_int_eq(rig_srq_recv(&r, c.srqn_b, 0, 0, 4096), ENOMEM);
	ck_assert_uint_eq(done, 0);
	hca_cq_overrun(r.b.h, r.b.cqn, r.now);
	rig_run(&r);
	ck_assert_uint_eq(r.b.wc_n, 0);
	ck_assert_uint_eq(done, 1);
	ck_assert_int_eq(rig_srq_recv(&r, c.srqn_b, 0, 0, 4096), 0);
	rig_fini(&r);
}
END_TEST

/* UD: the receive WR that is too short is the only one that suffers (rule 4.11). */
START_TEST(ud_too_long)
{
	struct link_conf c = conf_rc;
	struct qp_init init;
	struct qp_attr a;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	c.type = QPT_UD;
	rig_connect(&r, &c);
	rig_recv(&r, &r.b, 50, 0, 40 + 9);
	rig_recv(&r, &r.b, 51, 0, 40 + 10);
	for (unsigned i = 1; i <= 2; i++) {
		SEND_WR(&r, &r.a, .id = i, .op = WR_SEND, .len = 10);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	}
	ck_assert_uint_eq(wc_status(&r.b, 50), WC_LOC_LEN_ERR);
	ck_assert_uint_eq(wc_status(&r.b, 51), WC_SUCCESS);
	ck_assert_int_eq(hca_qp_query(r.b.h, r.b.qpn, &a, &init), 0);
	ck_assert_uint_eq(a.state, QPS_RTS);
	rig_fini(&r);
}
END_TEST

/* NAK 0x65: the responder is still at it.  What is before it is acknowledged, nothing is refused or sent again for it. */
START_TEST(nak_in_progress)
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 1; i <= 2; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 4);
	while (take(&r, &r.a, &b))
		;
	for (unsigned i = 0; i < 3; i++) {
		b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + 1);
		b.syndrome = aeth_nak(NAK_IN_PROGRESS);
		pkt_give(&r, &r.a, &b, NULL, 0);
		ck_assert_uint_eq(r.a.wc_n, 1);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
		ck_assert(!take(&r, &r.a, &b));
	}
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + 1);
	pkt_give(&r, &r.a, &b, NULL, 0);
	ck_assert_uint_eq(wc_status(&r.a, 2), WC_SUCCESS);
	/* Without an answer it is asked for again, as ever. */
	SEND_WR(&r, &r.a, .id = 3, .op = WR_WRITE, .len = 4);
	ck_assert(take(&r, &r.a, &b));
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + 2);
	b.syndrome = aeth_nak(NAK_IN_PROGRESS);
	pkt_give(&r, &r.a, &b, NULL, 0);
	r.now = hca_deadline(r.a.h);
	hca_tick(r.a.h, r.now);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(b.psn.v, (conf_rc.psn + 2) & PSN_MASK);
	rig_fini(&r);
}
END_TEST

/* An answer that is due when a program brings its QP to ERR is not given. */
START_TEST(err_is_silent) /* conf: rule 4.13 */
{
	static const uint8_t ops[] = { OP_WRITE_ONLY, OP_READ_REQUEST, OP_FETCH_ADD };

	for (unsigned i = 0; i < sizeof(ops); i++) {
		struct qp_attr a = { .state = QPS_ERR };
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		b = pkt_from(&r, &r.a, ops[i], conf_rc.psn);
		b.dma_len = i < 2 ? 8 : 0;
		pkt_give(&r, &r.b, &b, "12345678", i ? 0 : 8);
		ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a, QPA_STATE, r.now), 0);
		ck_assert(!take(&r, &r.b, &b));
		rig_fini(&r);
	}
}
END_TEST

/* An older peer, which sends such a NAK all the same: it expects what was never sent, so all is there. */
START_TEST(nak_of_what_was_not_sent) /* conf: rule 4.5 */
{
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	c.timeout = 0;
	c.retry = 0; /* nothing is lost that could be sent again */
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 4);
	while (take(&r, &r.a, &b))
		;
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + 2);
	b.syndrome = 0x60;
	pkt_give(&r, &r.a, &b, NULL, 0);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 2), WC_SUCCESS);
	ck_assert(!take(&r, &r.a, &b));
	ck_assert_uint_eq(rig_state(&r.a), QPS_RTS);
	rig_fini(&r);
}
END_TEST

/*
 * DARE asks for 8 us and no retry; an HCA may have a timeout that is its least.  It waits three times as long as is said, and at
 * most 200 ms longer; 0 is never.
 */
START_TEST(least_timeout) /* conf: rule 4.5 */
{
	static const struct {
		uint8_t code;
		uint64_t ns;
	} v[] = { { 1, 3 * (4096 << 8) },          { 8, 3 * (4096 << 8) },          { 14, 3 * (4096 << 14) },
		  { 15, 200 * MS + (4096 << 15) }, { 18, 200 * MS + (4096 << 18) }, { 0, 0 } };

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		struct link_conf c = conf_rc;
		mono_t start_time;
		struct burst b;
		struct rig r;

		rig_least_timeout = 8;
		rig_init(&r, LINK_WIRE);
		c.retry = 0;
		c.timeout = v[i].code;
		rig_connect(&r, &c);
		start_time = r.now;
		SEND_WR(&r, &r.a, .id = 0, .op = WR_WRITE, .len = 4);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4);
		while (take(&r, &r.a, &b))
			;
		b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn);
		pkt_give(&r, &r.a, &b, NULL, 0); /* progress: it begins again */
		ck_assert_uint_eq(wc_status(&r.a, 0), WC_SUCCESS);
		while (wc_status(&r.a, 1) == 255 && rig_tick(&r))
			;
		ck_assert_uint_eq(wc_status(&r.a, 1), v[i].ns ? WC_RETRY_EXC_ERR : 255);
		ck_assert_uint_eq(r.now.ns - start_time.ns, v[i].ns);
		rig_fini(&r);
	}
	rig_least_timeout = 0;
}
END_TEST

/* A request of RC without an opcode, or with a payload that it may not have, at the PSN that is expected. */
START_TEST(no_request) /* conf: rule 4.2 */
{
	static const struct {
		uint8_t op;
		uint32_t len;
		const char *row;
	} v[] = {
		{ 0x15, 0, "RESP_OP_UNSUP" },     { 0x18, 8, "RESP_OP_UNSUP" },
		{ 0x1b, 0, "RESP_OP_UNSUP" },     { 0x1e, 0, "RESP_OP_UNSUP" },
		{ 0x1f, 64, "RESP_OP_UNSUP" },    { OP_SEND_LAST, 0, "RESP_LEN" },
		{ OP_SEND_FIRST, 0, "RESP_LEN" }, { OP_READ_REQUEST, 16 + 4, "RESP_LEN" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		for (unsigned off = 0; off < 2; off++) {
			uint8_t data[BTH_LEN + 64] = { v[i].op, 0, 0xff, 0xff };
			struct route route = { .hop_limit = 64 };
			struct burst b;
			struct rig r;

			rig_init(&r, LINK_WIRE);
			rig_connect(&r, &conf_rc);
			be24_put(data + BTH_DQPN, r.b.qpn);
			be24_put(data + BTH_PSN, (conf_rc.psn + off) & PSN_MASK);
			memcpy(route.sgid, r.a.gid, 16);
			memcpy(route.dgid, r.b.gid, 16);
			hca_rx(r.b.h, &route, data, BTH_LEN + v[i].len, r.now);
			if (off) {
				ck_assert_uint_eq(said(&r, &b), 0);
			} else {
				ck_assert_uint_eq(said(&r, &b), 1);
				ck_assert_uint_eq(b.syndrome, 0x61);
				ck_assert_uint_eq(fault_n(&r.b, v[i].row), 1);
			}
			rig_fini(&r);
		}
	}
}
END_TEST

/* In SQD a WR that has not begun waits, even one that can only fail. */
START_TEST(fault_waits_in_sqd) /* conf: rule 4.13 */
{
	struct qp_attr a = { .state = QPS_SQD };
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_FETCH_ADD, .len = 4);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_STATE, r.now), 0);
	rig_run(&r);
	ck_assert_uint_eq(r.a.wc_n, 0);
	a.state = QPS_RTS;
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_STATE, r.now), 0);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_LOC_LEN_ERR);
	rig_fini(&r);
}
END_TEST

/* A limit that is armed when fewer are queued already fires at once. */
START_TEST(srq_limit_below) /* conf: rule 4.14 */
{
	struct srq_init si = { .max_wr = 16, .max_sge = 1 };
	uint32_t srqn;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	si.pdn = r.b.pdn;
	ck_assert_int_eq(hca_srq_create(r.b.h, &si, &srqn), 0);
	ck_assert_int_eq(hca_srq_limit(r.b.h, srqn, 0), 0);
	rig_run(&r);
	ck_assert(!has_event(&r.b, EV_SRQ_LIMIT));
	ck_assert_int_eq(hca_srq_limit(r.b.h, srqn, 3), 0);
	rig_run(&r);
	ck_assert(has_event(&r.b, EV_SRQ_LIMIT));
	rig_fini(&r);
}
END_TEST

/* The P_Key counts for a datagram to a group as for any other. */
START_TEST(mcast_pkey) /* conf: C9-43, rule 7.12 */
{
	static const uint8_t mgid[16] = { 0xff, 0x0e, [15] = 9 };
	struct link_conf c = conf_rc;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	c.type = QPT_UD;
	rig_connect(&r, &c);
	ck_assert_int_eq(hca_mcast_attach(r.b.h, r.b.qpn, mgid), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct burst b = pkt_from(&r, &r.a, SVC_UD | OP_SEND_ONLY, 5);

		rig_recv(&r, &r.b, i, 0, 256);
		b.dqpn = QPN_MCAST;
		b.qkey = 0x1234;
		memcpy(b.route.dgid, mgid, 16);
		b.pkey = i ? 0xffff : 0x1234;
		pkt_give(&r, &r.b, &b, "hello", 5);
		rig_run(&r);
		ck_assert_uint_eq(r.b.wc_n, i);
		ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_PKEY), 1);
	}
	rig_fini(&r);
}
END_TEST

/* Loses the answers of b to a READ, as many as are left. */
static bool lose_reads(struct rig *r, struct host *from, const struct burst *p)
{
	unsigned *left = r->hook_arg;
	bool lost = from == &r->b && opcode_get(p->op_first)->kind == KIND_RESP && *left;

	*left -= lost;
	return lost;
}

/* The ACK behind a READ shows each time that its answer was lost; where no timer runs nothing else would. */
START_TEST(implied_again) /* conf: rule 4.5 */
{
	for (unsigned lost = 1; lost <= 8; lost++) {
		struct link_conf c = conf_rc;
		unsigned left = lost;
		struct rig r;

		c.timeout = 0;
		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &c);
		r.hook = lose_reads;
		r.hook_arg = &left;
		SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 4);
		SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 4);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 1), lost <= conf_rc.retry ? WC_SUCCESS : WC_RETRY_EXC_ERR);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_IMPLIED_NAK), lost);
		rig_fini(&r);
	}
}
END_TEST

/* ACKs that were under way when it fell back say it once more, up to the last of them; they cost nothing. */
START_TEST(implied_once) /* conf: rule 4.5 */
{
	enum { WRITES = 20 };
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	c.timeout = 0;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 0, .op = WR_READ, .len = 4);
	for (unsigned i = 1; i <= WRITES; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 4);
	while (take(&r, &r.a, &b))
		;
	for (unsigned i = 1; i <= WRITES; i++) {
		b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + i);
		pkt_give(&r, &r.a, &b, NULL, 0);
		while (take(&r, &r.a, &b)) /* all of it, after the first */
			;
	}
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_IMPLIED_NAK), 1);
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + WRITES);
	pkt_give(&r, &r.a, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_IMPLIED_NAK), 2);
	rig_run(&r);
	for (unsigned i = 0; i <= WRITES; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* With length 0 neither key nor address counts: of a region, of another one, of none, of a window that is not bound. */
START_TEST(nothing) /* conf: C9-88, rule 4.6, rule 6.1 */
{
	static const enum wr_op ops[] = { WR_SEND, WR_WRITE, WR_WRITE_IMM, WR_READ };
	struct rig r;
	uint32_t mw;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	ck_assert_int_eq(hca_mw_alloc(r.b.h, r.b.pdn, 2, &mw), 0);
	for (unsigned i = 0; i < 4 * 4; i++) {
		const uint32_t keys[] = { r.b.key, r.b.key ^ 1, 0x7fffff00, mw };

		rig_recv(&r, &r.b, 100 + i, 0, 64);
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = i, .op = ops[i / 4], .rkey = keys[i % 4], .roff = 1ull << 40),
				 0);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	}
	ck_assert_uint_eq(r.b.wc_n, 8);
	for (unsigned i = 0; i < r.b.wc_n; i++)
		ck_assert_uint_eq(r.b.wc[i].byte_len, 0);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_edge", srq_has_it_back, err_is_silent, implied_again, implied_once, nothing, depth_is_rounded, depth_0,
	  gap_closes_before_nak, uc_srq_abort, srq_done_overrun, ud_too_long, nak_in_progress, nak_of_what_was_not_sent,
	  least_timeout, no_request, fault_waits_in_sqd, srq_limit_below, mcast_pkey)
