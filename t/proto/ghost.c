/* SPDX-License-Identifier: MIT */
/* ghost.c - a QP that its program has destroyed acknowledges again what it had executed, and nothing else. */
#include <errno.h>

#include "proto/hca_in.h"
#include "rig.h"
#include "t/suite.h"

#define PSN0 (conf_rc.psn)

/* b has executed two SENDs and a WRITE of a, in 2, 1 and 1 packets: psn 0 to 3. */
static void start(struct rig *r)
{
	rig_init(r, LINK_WIRE);
	rig_connect(r, &conf_rc);
	rig_recv(r, &r->b, 1, 0, 1000);
	rig_recv(r, &r->b, 2, 1000, 100);
	SEND_WR(r, &r->a, .id = 1, .op = WR_SEND, .len = 1000);
	SEND_WR(r, &r->a, .id = 2, .op = WR_SEND, .len = 100);
	SEND_WR(r, &r->a, .id = 3, .op = WR_WRITE, .len = 100);
	rig_run(r);
	ck_assert_uint_eq(wc_status(&r->a, 3), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r->b, 2), WC_SUCCESS);
}

/* Gives b a packet of a; true: b answered, with *out. */
static bool asked(struct rig *r, uint8_t op, uint32_t psn, uint32_t len, struct burst *out)
{
	struct burst b = pkt_from(r, &r->a, op, psn);
	static const uint8_t payload[512];

	b.dma_len = len;
	pkt_give(r, &r->b, &b, payload, op == OP_READ_REQUEST ? 0 : len);
	return take(r, &r->b, out);
}

static void must_ack(struct rig *r, uint8_t op, uint32_t psn, uint32_t len, uint32_t acked, uint32_t msn)
{
	struct burst b;

	ck_assert(asked(r, op, psn, len, &b));
	ck_assert_uint_eq(b.op_first, OP_ACKNOWLEDGE);
	ck_assert_uint_eq(b.syndrome, aeth_ack());
	ck_assert_uint_eq(b.psn.v, acked & PSN_MASK);
	ck_assert_uint_eq(b.msn, msn);
	ck_assert_uint_eq(b.dqpn, r->a.qpn);
	ck_assert_uint_eq(b.payload_len, 0);
	ck_assert(!take(r, &r->b, &b));
}

static void must_be_silent(struct rig *r, uint8_t op, uint32_t psn, uint32_t len)
{
	uint64_t before = stat_n(&r->b, HCA_STAT_BAD_QPN);
	struct burst b;

	ck_assert(!asked(r, op, psn, len, &b));
	ck_assert_uint_eq(stat_n(&r->b, HCA_STAT_BAD_QPN), before + 1);
}

START_TEST(duplicates_only)
{
	struct hca_live n;
	struct qp_info info;
	struct burst b;
	struct rig r;
	uint32_t q;

	start(&r);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), EINVAL);
	ck_assert(!take(&r, &r.b, &b)); /* nothing by itself */
	/* In each case all was executed. */
	must_ack(&r, OP_SEND_FIRST, PSN0, 512, PSN0 + 3, 3);
	must_ack(&r, OP_SEND_LAST, PSN0 + 1, 488, PSN0 + 3, 3);
	must_ack(&r, OP_SEND_ONLY, PSN0 + 2, 100, PSN0 + 3, 3);
	must_ack(&r, OP_WRITE_ONLY, PSN0 + 3, 100, PSN0 + 3, 3);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_GHOST_ACKS), 4);
	/* A new request; one whose answer has data; a packet that is no request. */
	must_be_silent(&r, OP_SEND_ONLY, PSN0 + 4, 100);
	must_be_silent(&r, OP_WRITE_ONLY, PSN0 + 9, 100);
	must_be_silent(&r, OP_READ_REQUEST, PSN0 + 3, 100);
	must_be_silent(&r, OP_FETCH_ADD, PSN0 + 3, 0);
	must_be_silent(&r, OP_ACKNOWLEDGE, PSN0 + 3, 0);
	must_be_silent(&r, SVC_UC | OP_SEND_ONLY, PSN0 + 3, 10);
	/* It is no object. */
	hca_objects(r.b.h, &n);
	ck_assert_uint_eq(n.qp, 0);
	ck_assert_uint_eq(hca_qp_list(r.b.h, &q, 1), 0);
	ck_assert(!hca_qp_info(r.b.h, r.b.qpn, &info));
	rig_fini(&r);
}
END_TEST

START_TEST(only_its_peer)
{
	struct burst b, x;
	struct rig r;

	start(&r);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	for (unsigned i = 0; i < 4; i++) {
		b = pkt_from(&r, &r.a, OP_SEND_ONLY, PSN0 + 2);
		if (i == 0)
			b.route.sgid[15] ^= 1;
		else if (i == 1)
			b.route.dgid[15] ^= 1;
		else if (i == 2)
			b.pkey = 0x8001;
		else
			b.sqpn ^= 1; /* known where no network is between */
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(!take(&r, &r.b, &x));
	}
	must_ack(&r, OP_SEND_ONLY, PSN0 + 2, 0, PSN0 + 3, 3);
	rig_fini(&r);
}
END_TEST

/* In each state in which it answers. */
START_TEST(each_state)
{
	struct qp_attr sqd = { .state = QPS_SQD };
	struct burst b;
	struct rig r;

	start(&r);
	ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &sqd, QPA_STATE, r.now), 0);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	must_ack(&r, OP_WRITE_ONLY, PSN0 + 3, 100, PSN0 + 3, 3);
	rig_fini(&r);

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	rig_to_init(&r, &r.b, &conf_rc);
	rig_to_rtr(&r, &r.b, &r.a, &conf_rc);
	ck_assert(asked(&r, OP_WRITE_ONLY, PSN0, 100, &b));
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	must_ack(&r, OP_WRITE_ONLY, PSN0, 100, PSN0, 1);
	rig_fini(&r);
}
END_TEST

/* A program that was killed, a QP in ERR for a fault, one that executed nothing: none of them leaves a ghost. */
START_TEST(none)
{
	for (unsigned i = 0; i < 3; i++) {
		struct burst b;
		struct rig r;

		start(&r);
		if (i == 0) {
			ck_assert_int_eq(hca_qp_destroy(r.b.h, r.b.qpn), 0);
		} else if (i == 1) {
			ck_assert(asked(&r, OP_SEND_MIDDLE, PSN0 + 4, 512, &b)); /* no message was begun */
			ck_assert_uint_eq(b.syndrome, aeth_nak(NAK_INV_REQ));
			ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
		} else {
			rig_fini(&r);
			rig_init(&r, LINK_WIRE);
			rig_connect(&r, &conf_rc);
			ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
		}
		must_be_silent(&r, OP_SEND_ONLY, i == 2 ? PSN0 - 1 : PSN0 + 2, 100);
		rig_fini(&r);
	}
}
END_TEST

/* rdma_disconnect() brings the QP to ERR before it is destroyed.  In ERR it says nothing. */
START_TEST(by_way_of_err)
{
	struct qp_attr a = { .state = QPS_ERR };
	struct burst b;
	struct rig r;

	start(&r);
	ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a, QPA_STATE, r.now), 0);
	ck_assert(!asked(&r, OP_SEND_ONLY, PSN0 + 2, 100, &b));
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	must_ack(&r, OP_SEND_ONLY, PSN0 + 2, 100, PSN0 + 3, 3);
	rig_fini(&r);

	/* RESET forgets that, as all else. */
	start(&r);
	ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a, QPA_STATE, r.now), 0);
	a.state = QPS_RESET;
	ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a, QPA_STATE, r.now), 0);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	must_be_silent(&r, OP_SEND_ONLY, PSN0 + 2, 100);
	rig_fini(&r);
}
END_TEST

/* An ACK that was due and not yet sent goes out; it does not need to be asked for. */
START_TEST(ack_that_was_due)
{
	struct burst b, x;
	struct rig r;

	start(&r);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, PSN0 + 4);
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	ck_assert(take(&r, &r.b, &x));
	ck_assert_uint_eq(x.op_first, OP_ACKNOWLEDGE);
	ck_assert_uint_eq(x.psn.v, psn(PSN0 + 4).v);
	ck_assert_uint_eq(x.msn, 4);
	rig_fini(&r);
}
END_TEST

/* Half a message is not executed; nor is it known to a peer that a READ was, if its response never left. */
START_TEST(not_what_is_unfinished)
{
	static const uint8_t payload[512];
	struct burst b;
	struct rig r;

	start(&r);
	rig_recv(&r, &r.b, 3, 0, 2000);
	for (unsigned i = 0; i < 2; i++) {
		b = pkt_from(&r, &r.a, i ? OP_SEND_MIDDLE : OP_SEND_FIRST, PSN0 + 4 + i);
		pkt_give(&r, &r.b, &b, payload, 512);
	}
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	while (take(&r, &r.b, &b))
		ck_assert_uint_eq(b.psn.v, psn(PSN0 + 3).v);
	must_be_silent(&r, OP_SEND_FIRST, PSN0 + 4, 512);
	must_ack(&r, OP_SEND_ONLY, PSN0 + 2, 100, PSN0 + 3, 3);
	rig_fini(&r);

	start(&r);
	b = pkt_from(&r, &r.a, OP_READ_REQUEST, PSN0 + 4);
	b.dma_len = 700;
	pkt_give(&r, &r.b, &b, NULL, 0);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, PSN0 + 6);
	b.ackreq = false;
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	must_be_silent(&r, OP_WRITE_ONLY, PSN0 + 6, 0);
	must_ack(&r, OP_SEND_ONLY, PSN0 + 2, 100, PSN0 + 3, 3);
	rig_fini(&r);
}
END_TEST

static uint32_t other_qp(struct rig *r)
{
	struct qp_init init = {
		.type = QPT_RC, .pdn = r->b.pdn, .send_cqn = r->b.cqn, .recv_cqn = r->b.cqn, .cap = { 1, 1, 1, 1, 0 }
	};
	uint32_t qpn;

	ck_assert_int_eq(hca_qp_create(r->b.h, &init, &qpn), 0);
	return qpn;
}

/* Its time: long enough for all retries of a peer with the same timeout, four times late each. */
START_TEST(life)
{
	struct rig r;

	start(&r);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	r.now.ns += 8 * 4 * ack_timeout_ns(conf_rc.timeout) - 1;
	must_ack(&r, OP_SEND_ONLY, PSN0 + 2, 100, PSN0 + 3, 3);
	r.now.ns++;
	must_be_silent(&r, OP_SEND_ONLY, PSN0 + 2, 100);
	rig_fini(&r);
}
END_TEST

/* When all numbers have been given out once (the rig's have one low bit), the ghost's is passed over while it lives. */
START_TEST(number)
{
	struct rig r;

	start(&r);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	r.b.h->qp.last = (r.b.qpn >> 1) - 1;
	ck_assert_uint_eq(other_qp(&r), r.b.qpn + 2);
	must_ack(&r, OP_SEND_ONLY, PSN0 + 2, 100, PSN0 + 3, 3);
	r.now.ns += 100 * 1000000000ull;
	must_be_silent(&r, OP_SEND_ONLY, PSN0 + 2, 100);
	r.b.h->qp.last = (r.b.qpn >> 1) - 1;
	ck_assert_uint_eq(other_qp(&r), r.b.qpn);
	rig_fini(&r);
}
END_TEST

/* So many others that the place is wanted: the newer one has it. */
START_TEST(bounded)
{
	uint32_t old;
	struct rig r;

	start(&r);
	old = r.b.qpn;
	ck_assert_int_eq(hca_qp_retire(r.b.h, old, r.now), 0);
	for (unsigned i = 1; i < GHOSTS; i++)
		ck_assert_int_eq(hca_qp_destroy(r.b.h, other_qp(&r)), 0);
	must_ack(&r, OP_SEND_ONLY, PSN0 + 2, 100, PSN0 + 3, 3);
	rig_connect(&r, &conf_rc);
	ck_assert_uint_eq(r.b.qpn, old + 2 * GHOSTS);
	SEND_WR(&r, &r.a, .id = 9, .op = WR_WRITE, .len = 100);
	rig_run(&r);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	must_ack(&r, OP_WRITE_ONLY, PSN0, 100, PSN0, 1);
	r.b.qpn = old;
	must_be_silent(&r, OP_SEND_ONLY, PSN0 + 2, 100);
	rig_fini(&r);
}
END_TEST

/* The story at the head of ghost.h, with nobody's hand in it. */
START_TEST(lost_last_ack)
{
	struct rig r;

	for (unsigned orderly = 0; orderly < 2; orderly++) {
		rig_init(&r, LINK_EARLY);
		rig_connect(&r, &conf_rc);
		rig_recv(&r, &r.b, 1, 0, 100);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 100);
		while (take(&r, &r.a, &r.last))
			hca_rx_burst(r.b.h, &r.last, r.now);
		while (take(&r, &r.b, &r.last))
			; /* lost */
		ck_assert_uint_eq(wc_status(&r.b, 1), WC_SUCCESS);
		if (orderly)
			ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
		else
			ck_assert_int_eq(hca_qp_destroy(r.b.h, r.b.qpn), 0);
		rig_settle(&r, 100);
		ck_assert_uint_eq(wc_status(&r.a, 1), orderly ? WC_SUCCESS : WC_RETRY_EXC_ERR);
		rig_fini(&r);
	}
}
END_TEST

TEST_MAIN("ghost", each_state, duplicates_only, only_its_peer, none, by_way_of_err, ack_that_was_due,
	  not_what_is_unfinished, life, number, bounded, lost_last_ack)
