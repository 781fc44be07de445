/* SPDX-License-Identifier: MIT */
/* pkey.c - P_Keys: what each packet has, who takes it, what is counted; the row of a QP changes where it may. */
#include <errno.h>

#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

#define QP_INIT (QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS)

static const uint8_t types[] = { QPT_RC, QPT_UC, QPT_UD, QPT_XRC_SEND };

/* The P_Keys that a and b have to send, and how many packets had them. */
struct seen {
	uint16_t a, b;
	unsigned a_n, b_n;
};

static bool look(struct rig *r, struct host *from, const struct burst *b)
{
	struct seen *s = r->hook_arg;

	ck_assert_uint_eq(b->pkey, from == &r->a ? s->a : s->b);
	*(from == &r->a ? &s->a_n : &s->b_n) += 1;
	return false;
}

/* A QP in each row of a's table sends to one in each row of b's. */
static void pair(uint8_t type, enum link_mode mode, uint8_t row_a, uint8_t row_b)
{
	struct link_conf c = conf_rc;
	struct seen s = { 0 };
	struct rig r;
	bool fits;

	c.type = type;
	c.pkey_a = row_a;
	c.pkey_b = row_b;
	rig_init(&r, mode);
	s.a = rig_pkey(&r, &r.a, row_a);
	s.b = rig_pkey(&r, &r.b, row_b);
	/* Partition 4 has limited members only. */
	fits = (s.a & 0x7fff) == (s.b & 0x7fff) && (s.a & 0x7fff) != 4;
	r.hook = look;
	r.hook_arg = &s;
	rig_connect(&r, &c);
	rig_recv(&r, &r.b, 100, 0, 2048);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = type == QPT_UD ? 256 : 1024);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.b, 100), fits ? WC_SUCCESS : 255);
	if (type == QPT_UD || type == QPT_UC)
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	else
		ck_assert_uint_eq(wc_status(&r.a, 1), fits ? WC_SUCCESS : 255);
	if (type == QPT_UD && fits)
		ck_assert_uint_eq(wc_of(&r.b, 100)->pkey_index, row_b);
	if (fits && (type == QPT_RC || type == QPT_XRC_SEND)) {
		SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 1024);
		SEND_WR(&r, &r.a, .id = 3, .op = WR_READ, .len = 1024);
		SEND_WR(&r, &r.a, .id = 4, .op = WR_FETCH_ADD, .len = 8);
		rig_run(&r);
		for (unsigned i = 2; i <= 4; i++)
			ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	}
	if (mode == LINK_WIRE)
		ck_assert(s.a_n && (!fits || type == QPT_UD || type == QPT_UC || s.b_n));
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_BAD_PKEY), 0);
	ck_assert(fits ? !stat_n(&r.b, HCA_STAT_BAD_PKEY) : stat_n(&r.b, HCA_STAT_BAD_PKEY) > 0);
	if (mode == LINK_WIRE && !fits)
		ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_PKEY), s.a_n);
	rig_fini(&r);
}

START_TEST(members) /* conf: C9-43, rule 1.9 */
{
	for (unsigned t = 0; t < sizeof(types); t++)
		for (uint8_t a = 0; a < RIG_PKEYS; a++)
			for (uint8_t b = 0; b < RIG_PKEYS; b++) {
				pair(types[t], LINK_WIRE, a, b);
				pair(types[t], LINK_LOCAL, a, b);
			}
}
END_TEST

/* 0x0000 and 0x8000 are no partition's: nobody has them, and so nobody takes them. */
START_TEST(invalid) /* conf: rule 1.9 */
{
	static const uint16_t bad[] = { 0x0000, 0x8000, 0x7ffe, 0xfffe };
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 4; i++) {
		struct burst b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn), x;

		b.pkey = bad[i];
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_PKEY), i + 1);
		ck_assert(!take(&r, &r.b, &x));
	}
	rig_fini(&r);
}
END_TEST

/* An ACK, a NAK and a response out of another partition are dropped as a request is. */
START_TEST(answers) /* conf: C9-43, rule 1.9 */
{
	static const uint8_t ops[] = { OP_ACKNOWLEDGE, OP_ACKNOWLEDGE, OP_READ_RESP_ONLY };
	struct link_conf c = conf_rc;

	c.pkey_a = 2; /* 0x0002 */
	c.pkey_b = 3; /* 0x8002 */
	for (unsigned i = 0; i < 3; i++) {
		struct burst b, x;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &c);
		SEND_WR(&r, &r.a, .id = 1, .op = i == 2 ? WR_READ : WR_WRITE, .len = 4);
		ck_assert(take(&r, &r.a, &x));
		ck_assert_uint_eq(x.pkey, 0x0002);
		b = pkt_from(&r, &r.b, ops[i], c.psn);
		b.syndrome = i == 1 ? aeth_nak(NAK_INV_REQ) : aeth_ack();
		for (unsigned k = 0; k < 3; k++) {
			static const uint16_t not_ours[] = { 0xffff, 0x8001, 0x0002 };

			b.pkey = not_ours[k]; /* the last one: two limited members */
			pkt_give(&r, &r.a, &b, "abcd", i == 2 ? 4 : 0);
			ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_BAD_PKEY), k + 1);
		}
		ck_assert_uint_eq(wc_status(&r.a, 1), 255);
		b.pkey = 0x8002;
		pkt_give(&r, &r.a, &b, "abcd", i == 2 ? 4 : 0);
		ck_assert_uint_eq(wc_status(&r.a, 1), i == 1 ? WC_REM_INV_REQ_ERR : WC_SUCCESS);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_BAD_PKEY), 3);
		rig_fini(&r);
	}
}
END_TEST

static int modify(struct rig *r, struct host *x, uint32_t mask, const struct qp_attr *a)
{
	return hca_qp_modify(x->h, x->qpn, a, mask, r->now);
}

static unsigned row_of(struct host *x)
{
	struct qp_init init;
	struct qp_attr a;

	ck_assert_int_eq(hca_qp_query(x->h, x->qpn, &a, &init), 0);
	return a.pkey_index;
}

/* In SQD the row may be another one, for what is sent again, too; in RTS it may not; a row that the table has not is refused. */
START_TEST(row_changes) /* conf: rule 1.9, section 5 */
{
	struct qp_attr a = { .pkey_index = 3 };
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	c.pkey_a = 1;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(b.pkey, 0x8001);
	ck_assert_int_eq(modify(&r, &r.a, QPA_PKEY_INDEX, &a), EINVAL);
	a.state = QPS_SQD;
	ck_assert_int_eq(modify(&r, &r.a, QPA_STATE | QPA_PKEY_INDEX, &a), EINVAL);
	ck_assert_int_eq(modify(&r, &r.a, QPA_STATE, &a), 0);
	a.pkey_index = RIG_PKEYS;
	ck_assert_int_eq(modify(&r, &r.a, QPA_PKEY_INDEX, &a), EINVAL);
	ck_assert_uint_eq(row_of(&r.a), 1);
	a.pkey_index = 3;
	ck_assert_int_eq(modify(&r, &r.a, QPA_PKEY_INDEX, &a), 0);
	ck_assert_uint_eq(row_of(&r.a), 3);
	r.now = hca_deadline(r.a.h);
	hca_tick(r.a.h, r.now);
	ck_assert(take(&r, &r.a, &b)); /* the WRITE, sent again */
	ck_assert_uint_eq(b.pkey, 0x8003);
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, c.psn);
	b.pkey = 0x0003;
	pkt_give(&r, &r.a, &b, NULL, 0);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);

	a = (struct qp_attr){ .state = QPS_RESET };
	ck_assert_int_eq(modify(&r, &r.a, QPA_STATE, &a), 0);
	ck_assert_uint_eq(row_of(&r.a), 0);
	/* INIT to INIT, and on the way to RTR. */
	a = (struct qp_attr){ .state = QPS_INIT, .port = 1, .pkey_index = 2 };
	ck_assert_int_eq(modify(&r, &r.a, QP_INIT, &a), 0);
	a.pkey_index = 4;
	ck_assert_int_eq(modify(&r, &r.a, QPA_STATE | QPA_PKEY_INDEX, &a), 0);
	ck_assert_uint_eq(row_of(&r.a), 4);
	rig_to_rtr(&r, &r.a, &r.b, &c);
	ck_assert_uint_eq(row_of(&r.a), 4);
	a = (struct qp_attr){ .state = QPS_RESET };
	ck_assert_int_eq(modify(&r, &r.a, QPA_STATE, &a), 0);
	a = (struct qp_attr){ .state = QPS_INIT, .port = 1 };
	ck_assert_int_eq(modify(&r, &r.a, QP_INIT, &a), 0);
	a = (struct qp_attr){
		.state = QPS_RTR, .pkey_index = 1, .path_mtu = c.mtu, .dest_qpn = r.b.qpn, .av = { .sgid_index = 1 }
	};
	memcpy(a.av.dgid, r.b.gid, 16);
	ck_assert_int_eq(modify(&r, &r.a,
				QPA_STATE | QPA_PKEY_INDEX | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
					QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER,
				&a),
			 0);
	ck_assert_uint_eq(row_of(&r.a), 1);
	rig_fini(&r);
}
END_TEST

/* Two QPs of a group in two partitions: each has its own; a third partition is none's, and counts once. */
START_TEST(group) /* conf: C9-43, rule 1.9, rule 7.12 */
{
	static const uint8_t mgid[16] = { 0xff, 0x0e, [15] = 9 };
	static const struct {
		uint16_t pkey;
		unsigned first, second, bad;
	} rows[] = {
		{ 0x8004, 1, 0, 0 }, { 0x0002, 1, 1, 0 }, { 0x0004, 1, 1, 1 }, { 0xffff, 1, 1, 2 }, { 0x8002, 1, 2, 2 }
	};
	struct qp_attr a, rtr = { .state = QPS_RTR };
	struct link_conf c = conf_rc;
	struct qp_init init;
	uint32_t other;
	struct rig r;

	c.type = QPT_UD;
	c.pkey_b = 1; /* 0x0004 */
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	ck_assert_int_eq(hca_qp_query(r.b.h, r.b.qpn, &a, &init), 0);
	ck_assert_int_eq(hca_qp_create(r.b.h, &init, &other), 0);
	a = (struct qp_attr){ .state = QPS_INIT, .port = 1, .qkey = 0x1234, .pkey_index = 3 }; /* 0x8002 */
	ck_assert_int_eq(hca_qp_modify(r.b.h, other, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY, r.now), 0);
	ck_assert_int_eq(hca_qp_modify(r.b.h, other, &rtr, QPA_STATE, r.now), 0);
	ck_assert_int_eq(hca_mcast_attach(r.b.h, r.b.qpn, mgid), 0);
	ck_assert_int_eq(hca_mcast_attach(r.b.h, other, mgid), 0);
	for (unsigned i = 0; i < 8; i++) {
		uint32_t first = r.b.qpn;

		rig_recv(&r, &r.b, i, 0, 256);
		r.b.qpn = other;
		rig_recv(&r, &r.b, 10 + i, 0, 256);
		r.b.qpn = first;
	}
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct burst b = pkt_from(&r, &r.a, SVC_UD | OP_SEND_ONLY, 5);
		unsigned n[2] = { 0 };

		b.dqpn = QPN_MCAST;
		memcpy(b.route.dgid, mgid, 16);
		b.pkey = rows[i].pkey;
		pkt_give(&r, &r.b, &b, "hello", 5);
		rig_run(&r);
		for (unsigned k = 0; k < r.b.wc_n; k++) {
			n[r.b.wc[k].qpn == other]++;
			ck_assert_uint_eq(r.b.wc[k].pkey_index, r.b.wc[k].qpn == other ? 3 : 1);
		}
		ck_assert_uint_eq(n[0], rows[i].first);
		ck_assert_uint_eq(n[1], rows[i].second);
		ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_PKEY), rows[i].bad);
	}
	rig_fini(&r);
}
END_TEST

/* A destroyed QP acknowledges what is of its partition, and so is the ACK. */
START_TEST(ghosts) /* conf: rule 1.9 */
{
	struct link_conf c = conf_rc;
	struct burst b, x;
	struct rig r;

	c.pkey_a = 3; /* 0x8003 */
	c.pkey_b = 2; /* 0x0003 */
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_int_eq(hca_qp_retire(r.b.h, r.b.qpn, r.now), 0);
	for (unsigned i = 0; i < 3; i++) {
		static const uint16_t pkey[] = { 0xffff, 0x0003, 0x8003 };

		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, c.psn);
		b.pkey = pkey[i];
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert_int_eq(take(&r, &r.b, &x), i == 2);
	}
	ck_assert_uint_eq(x.pkey, 0x0003);
	rig_fini(&r);
}
END_TEST

/* A CNP has the P_Key of its QP, and is believed in its partition only. */
START_TEST(cnps) /* conf: rule 1.9, section 8 */
{
	static const uint16_t pkey[] = { 0xffff, 0x0002, 0x8002 };
	struct link_conf c = conf_rc;
	struct burst b, x;
	struct rig r;

	c.pkey_a = 2; /* 0x0002 */
	c.pkey_b = 3; /* 0x8002 */
	c.tclass = 2;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, c.psn);
	b.pkey = 0x0002;
	b.route.tclass = 3;
	b.dma_len = 4;
	pkt_give(&r, &r.b, &b, "abcd", 4);
	ck_assert(take(&r, &r.b, &x) && x.op_first == OPCODE_CNP);
	ck_assert_uint_eq(x.pkey, 0x8002);

	for (unsigned i = 0; i < 3; i++) {
		SEND_WR(&r, &r.a, .id = 1 + i, .op = WR_WRITE, .len = 4);
		r.now = mono_add(r.now, 10000000);
		ck_assert(take(&r, &r.a, &x));
		b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, 0);
		b.op_first = b.op_last = OPCODE_CNP;
		b.pkey = pkey[i];
		pkt_give(&r, &r.a, &b, NULL, 0);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_HANDLED),
				  1 + (i == 2)); /* the default one is believed */
	}
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RP_CNP_IGNORED), 1);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_BAD_PKEY), 1);
	rig_fini(&r);
}
END_TEST

/* QP1 is in the default partition, whatever else the table has. */
START_TEST(manager) /* conf: C9-42, rule 1.9 */
{
	static const uint16_t pkey[] = { 0x8001, 0x8002, 0x0004, 0x7fff, 0xffff };
	struct gsi g = { .mad = { 1 } };
	uint8_t mad[MAD_LEN] = { 0 };
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	for (unsigned i = 0; i < 5; i++) {
		b = pkt_from(&r, &r.a, SVC_UD | OP_SEND_ONLY, 0);
		b.dqpn = b.sqpn = QPN_GSI;
		b.qkey = QKEY_GSI;
		b.pkey = pkey[i];
		pkt_give(&r, &r.b, &b, mad, sizeof(mad));
		ck_assert_int_eq(hca_gsi_rx(r.b.h, &g), i >= 3);
	}
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_PKEY), 3);
	memcpy(g.route.sgid, r.b.gid, 16);
	memcpy(g.route.dgid, r.a.gid, 16);
	ck_assert_int_eq(hca_gsi_send(r.b.h, &g), 0);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.pkey, 0xffff);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("pkey", members, invalid, answers, row_changes, group, ghosts, cnps, manager)
