/* SPDX-License-Identifier: MIT */
/* core_ops.c - every operation of every service does what it says, on a wire and on a local link. */
#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

static const uint32_t lens[] = { 0, 1, 3, 4, 511, 512, 513, 1024, 1500, 70000, 300001 };
#define LENS (sizeof(lens) / sizeof(*lens))

static void both_modes(const struct link_conf *c, void (*body)(struct rig *, uint32_t len))
{
	for (enum link_mode mode = LINK_WIRE; mode <= LINK_LOCAL; mode++) {
		for (size_t i = 0; i < LENS; i++) {
			struct rig r;

			rig_init(&r, mode);
			rig_connect(&r, c);
			body(&r, lens[i]);
			rig_fini(&r);
		}
	}
}

static void write_body(struct rig *r, uint32_t len)
{
	fill(r->a.buf, len, 5);
	ck_assert_int_eq(SEND_WR(r, &r->a, .id = 1, .op = WR_WRITE, .len = len, .roff = 4096, .sge_n = 3), 0);
	rig_run(r);
	ck_assert_uint_eq(wc_status(&r->a, 1), WC_SUCCESS);
	check_fill(r->b.buf + 4096, len, 5);
	ck_assert_uint_eq(r->b.buf[4096 + len], 0);
	ck_assert_uint_eq(r->b.wc_n, 0);
	if (r->mode == LINK_LOCAL)
		ck_assert_uint_eq(r->bursts, 2);
}

static void write_imm_body(struct rig *r, uint32_t len)
{
	const struct cqe *c;

	fill(r->a.buf, len, 5);
	rig_recv(r, &r->b, 9, 0, 64);
	SEND_WR(r, &r->a, .id = 1, .op = WR_WRITE_IMM, .len = len, .roff = 4096, .imm = 0xdeadbeef,
		.flags = WR_SOLICITED);
	rig_run(r);
	ck_assert_uint_eq(wc_status(&r->a, 1), WC_SUCCESS);
	c = wc_of(&r->b, 9);
	ck_assert_ptr_nonnull(c);
	ck_assert_uint_eq(c->status, WC_SUCCESS);
	ck_assert_uint_eq(c->op, WC_OP_RECV_IMM);
	ck_assert_uint_eq(c->imm, 0xdeadbeef);
	ck_assert_uint_eq(c->flags, WC_WITH_IMM);
	ck_assert_uint_eq(c->byte_len, len);
	ck_assert_uint_eq(c->solicited, 1);
	ck_assert_uint_eq(c->src_qp, r->a.qpn);
	check_fill(r->b.buf + 4096, len, 5);
}

static void send_body(struct rig *r, uint32_t len)
{
	const struct cqe *c;

	fill(r->a.buf, len, 5);
	rig_recv(r, &r->b, 9, 4096, len + 10);
	SEND_WR(r, &r->a, .id = 1, .op = WR_SEND_IMM, .len = len, .imm = 77, .sge_n = 2, .flags = WR_SOLICITED);
	rig_run(r);
	c = wc_of(&r->b, 9);
	ck_assert_ptr_nonnull(c);
	ck_assert_uint_eq(c->status, WC_SUCCESS);
	ck_assert_uint_eq(c->op, WC_OP_RECV);
	ck_assert_uint_eq(c->byte_len, len);
	ck_assert_uint_eq(c->solicited, 1);
	ck_assert_uint_eq(c->imm, 77);
	check_fill(r->b.buf + 4096, len, 5);
	ck_assert_uint_eq(wc_status(&r->a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_of(&r->a, 1)->wqe, 1);
}

static void read_body(struct rig *r, uint32_t len)
{
	fill(r->b.buf + 8192, len, 6);
	SEND_WR(r, &r->a, .id = 1, .op = WR_READ, .off = 100, .len = len, .roff = 8192, .sge_n = 3);
	rig_run(r);
	ck_assert_uint_eq(wc_status(&r->a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_of(&r->a, 1)->op, WC_OP_READ);
	ck_assert_uint_eq(wc_of(&r->a, 1)->byte_len, len);
	check_fill(r->a.buf + 100, len, 6);
	ck_assert_uint_eq(r->a.buf[100 + len], 0);
}

START_TEST(rc_write) { both_modes(&conf_rc, write_body); } /* conf: rule 3.5 */
END_TEST
START_TEST(rc_write_imm) { both_modes(&conf_rc, write_imm_body); }
END_TEST
START_TEST(rc_send) { both_modes(&conf_rc, send_body); } /* conf: rule 3.5 */
END_TEST
START_TEST(rc_read) { both_modes(&conf_rc, read_body); } /* conf: rule 4.6 */
END_TEST

START_TEST(uc_ops) /* conf: rule 4.10 */
{
	struct link_conf c = conf_rc;

	c.type = QPT_UC;
	both_modes(&c, send_body);
	both_modes(&c, write_imm_body);
}
END_TEST

START_TEST(xrc_ops)
{
	struct link_conf c = conf_rc;

	c.type = QPT_XRC_SEND;
	both_modes(&c, send_body);
	both_modes(&c, write_body);
	both_modes(&c, write_imm_body);
	both_modes(&c, read_body);
}
END_TEST

START_TEST(rc_atomics) /* conf: rule 4.7 */
{
	struct rig r;
	uint64_t v = 41, old;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	memcpy(r.b.buf + 64, &v, 8);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_FETCH_ADD, .len = 8, .roff = 64, .compare_add = 1);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_CMP_SWP, .off = 8, .len = 8, .roff = 64, .compare_add = 42, .swap = 1000);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_CMP_SWP, .off = 16, .len = 8, .roff = 64, .compare_add = 42, .swap = 7);
	rig_run(&r);
	for (unsigned i = 1; i <= 3; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	memcpy(&old, r.a.buf, 8);
	ck_assert_uint_eq(old, 41);
	memcpy(&old, r.a.buf + 8, 8);
	ck_assert_uint_eq(old, 42);
	memcpy(&old, r.a.buf + 16, 8);
	ck_assert_uint_eq(old, 1000);
	memcpy(&v, r.b.buf + 64, 8);
	ck_assert_uint_eq(v, 1000);
	ck_assert_uint_eq(wc_of(&r.a, 1)->op, WC_OP_FETCH_ADD);
	ck_assert_uint_eq(wc_of(&r.a, 2)->op, WC_OP_COMP_SWAP);
	ck_assert_uint_eq(wc_of(&r.a, 2)->byte_len, 8);
	rig_fini(&r);
}
END_TEST

START_TEST(ud_send) /* conf: rule 4.11 */
{
	for (enum link_mode mode = LINK_WIRE; mode <= LINK_LOCAL; mode++) {
		struct link_conf conf = conf_rc;
		const struct cqe *c;
		const uint8_t *ip;
		uint32_t sum = 0;
		struct rig r;

		conf.type = QPT_UD;
		rig_init(&r, mode);
		rig_connect(&r, &conf);
		fill(r.a.buf, 4096, 3);
		rig_recv(&r, &r.b, 9, 0, 5000);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND_IMM, .len = 1001, .imm = 5);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
		c = wc_of(&r.b, 9);
		ck_assert_ptr_nonnull(c);
		ck_assert_uint_eq(c->byte_len, 1041);
		ck_assert_uint_eq(c->src_qp, r.a.qpn);
		ck_assert_uint_eq(c->flags, WC_GRH | WC_WITH_IMM);
		check_fill(r.b.buf + 40, 1001, 3);
		ip = r.b.buf + 20;
		for (unsigned i = 0; i < 20; i++) {
			ck_assert_uint_eq(r.b.buf[i], 0);
			sum += i & 1 ? ip[i] : (uint32_t)ip[i] << 8;
		}
		ck_assert_uint_eq(ip[0], 0x45);
		ck_assert_uint_eq((sum & 0xffff) + (sum >> 16), 0xffff);
		ck_assert_uint_eq(ip[2] << 8 | ip[3], 20 + 8 + 12 + 8 + 4 + 1004 + 4);
		ck_assert_mem_eq(ip + 12, r.a.gid + 12, 4);
		ck_assert_mem_eq(ip + 16, r.b.gid + 12, 4);
		rig_fini(&r);
	}
}
END_TEST

/* UC, too, tells once that data has come before RTS. */
START_TEST(uc_established) /* conf: rule 4.14 */
{
	struct link_conf c = conf_rc;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	c.type = QPT_UC;
	rig_connect(&r, &c);
	rig_to_init(&r, &r.b, &c);
	rig_to_rtr(&r, &r.b, &r.a, &c);
	rig_run(&r);
	ck_assert_uint_eq(r.b.ev_n, 0);
	for (unsigned i = 0; i < 3; i++) {
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 4);
		rig_run(&r);
		ck_assert(has_event(&r.b, EV_COMM_EST) && r.b.ev_n == 1);
	}
	rig_fini(&r);
}
END_TEST

/* A group's member has one copy of each datagram, however often it was attached; what is no datagram, or comes in ERR, none. */
START_TEST(ud_group) /* conf: rule 7.12 */
{
	static const uint8_t mgid[16] = { 0xff, 0x0e, [15] = 9 };
	struct qp_attr err = { .state = QPS_ERR };
	struct link_conf conf = conf_rc;
	struct burst b;
	struct rig r;

	conf.type = QPT_UD;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(hca_mcast_attach(r.b.h, r.b.qpn, mgid), 0);
		rig_recv(&r, &r.b, i, 0, 100);
	}
	b = pkt_from(&r, &r.a, SVC_UC | OP_SEND_ONLY, 0);
	b.dqpn = QPN_MCAST;
	memcpy(b.route.dgid, mgid, 16);
	pkt_give(&r, &r.b, &b, "hello", 5);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_QPN), 1);
	b.op_first = b.op_last = SVC_UD | OP_SEND_ONLY;
	pkt_give(&r, &r.b, &b, "hello", 5);
	ck_assert_uint_eq(r.b.wc_n, 1);
	ck_assert_uint_eq(wc_status(&r.b, 0), WC_SUCCESS);
	ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &err, QPA_STATE, r.now), 0);
	pkt_give(&r, &r.b, &b, "hello", 5);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_STATE), 1);
	ck_assert_uint_eq(r.b.wc_n, 2);
	ck_assert_uint_eq(wc_status(&r.b, 1), WC_WR_FLUSH_ERR);
	/* Once is enough to leave. */
	ck_assert_int_eq(hca_mcast_detach(r.b.h, r.b.qpn, mgid), 0);
	pkt_give(&r, &r.b, &b, "hello", 5);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_QPN), 2);
	rig_fini(&r);
}
END_TEST

/* All of the GRH, byte by byte; the first source is one whose header checksum carries twice. */
START_TEST(ud_grh) /* conf: rule 1.6 */
{
	static const struct {
		uint8_t tclass, hop_limit;
		uint32_t flow_label;
		uint8_t sgid[16], grh[40];
	} v[] = {
		{ 0xab, 7, 0, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xf4\x05", { [20] = 0x45, 0xab, 0,   60,  0,
										0,           0x40, 0,   7,   17,
										0xff,        0xfe, 255, 255, 244,
										5,           127,  0,   0,   2 } },
		{ 0, 64, 0, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01", { [20] = 0x45, 0,  0,   60,   0,    0,   0x40,
									  0,           64, 17,  0x3c, 0xae, 127, 0,
									  0,           1,  127, 0,    0,    2 } },
		{ 0xab, 7, 0xfabcd, "0123456789abcdef",
		  "\x6a\xbf\xab\xcd\0\x28\x11\x07"
		  "0123456789abcdef"
		  "fedcba9876543210" },
	};
	struct link_conf conf = conf_rc;
	struct rig r;

	conf.type = QPT_UD;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf);
	for (unsigned i = 0; i < sizeof(v) / sizeof(*v); i++) {
		struct burst b = pkt_from(&r, &r.a, SVC_UD | OP_SEND_ONLY, 0);

		b.route.tclass = v[i].tclass;
		b.route.hop_limit = v[i].hop_limit;
		b.route.flow_label = v[i].flow_label;
		memcpy(b.route.sgid, v[i].sgid, 16);
		if (v[i].grh[0])
			memcpy(b.route.dgid, v[i].grh + 24, 16);
		memset(r.b.buf, 0xee, 100);
		rig_recv(&r, &r.b, i, 0, 100);
		pkt_give(&r, &r.b, &b, "hello", 5);
		ck_assert_uint_eq(wc_status(&r.b, i), WC_SUCCESS);
		ck_assert_mem_eq(r.b.buf, v[i].grh, 40);
		ck_assert_mem_eq(r.b.buf + 40, "hello\xee", 6);
	}
	rig_fini(&r);
}
END_TEST

/* Of responses that come together some have come before: the rest counts. */
START_TEST(half_old_responses) /* conf: rule 4.6 */
{
	static uint8_t data[2048];
	struct burst b;
	struct rig r;

	fill(data, 2048, 3);
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 2048);
	ck_assert(take(&r, &r.a, &b));
	for (unsigned n = 2; n <= 4; n++) {
		b = pkt_from(&r, &r.b, OP_READ_RESP_FIRST, conf_rc.psn);
		b.op_last = n == 4 ? OP_READ_RESP_LAST : OP_READ_RESP_MIDDLE;
		b.n = n;
		pkt_give(&r, &r.a, &b, data, n * 512);
		ck_assert_uint_eq(r.a.wc_n, n == 4);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_STALE_RESP), n == 2 ? 0 : n == 3 ? 2 : 5);
	}
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	check_fill(r.a.buf, 2048, 3);
	rig_fini(&r);
}
END_TEST

/* A queue pair that signals all does so of WRs that do not ask for it. */
START_TEST(all_signaled)
{
	for (unsigned all = 0; all < 2; all++) {
		struct link_conf c = conf_rc;
		struct rig r;

		c.sig_all = all;
		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &c);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4, .quiet = true);
		rig_run(&r);
		ck_assert_uint_eq(r.a.wc_n, all);
		rig_fini(&r);
	}
}
END_TEST

/* Packets of another MTU that came together are as wrong as they are one by one. */
START_TEST(other_mtu) /* conf: rule 3.5 */
{
	static const struct {
		uint8_t type, first, last;
		const char *row;
	} v[] = {
		{ QPT_RC, OP_SEND_FIRST, OP_SEND_LAST, "RESP_LEN" },
		{ QPT_RC, OP_WRITE_FIRST, OP_WRITE_LAST, "RESP_LEN" },
		{ QPT_UC, SVC_UC | OP_SEND_FIRST, SVC_UC | OP_SEND_LAST, "UC_LEN" },
		{ QPT_UC, SVC_UC | OP_WRITE_FIRST, SVC_UC | OP_WRITE_LAST, "UC_LEN" },
		{ QPT_RC, OP_READ_RESP_FIRST, OP_READ_RESP_LAST, "REQ_BAD_RESP" },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(*v); i++) {
		bool resp = i == 4;
		struct link_conf c = conf_rc;
		struct burst b, out;
		struct rig r;

		c.type = v[i].type;
		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &c);
		rig_recv(&r, &r.b, 9, 4096, 2000);
		if (resp)
			SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 900);
		ck_assert(!resp || take(&r, &r.a, &out));
		b = pkt_from(&r, resp ? &r.b : &r.a, v[i].first, c.psn);
		b.op_last = v[i].last;
		b.n = 2;
		b.mtu = 600;
		b.dma_len = 900;
		pkt_give(&r, resp ? &r.a : &r.b, &b, r.b.buf, 900);
		ck_assert_uint_eq(fault_n(resp ? &r.a : &r.b, v[i].row), 1);
		rig_fini(&r);
	}
}
END_TEST

/* MigReq is 1 in all that is sent, and SE where a completion is to be solicited: not in a WRITE, which makes none. */
START_TEST(bits) /* conf: rule 3.1, rule 3.5 */
{
	static const struct {
		enum wr_op op;
		bool se;
	} v[] = { { WR_SEND, true }, { WR_WRITE_IMM, true }, { WR_WRITE, false }, { WR_READ, false } };
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	rig_recv(&r, &r.b, 9, 0, 64);
	rig_recv(&r, &r.b, 9, 0, 64);
	for (unsigned i = 0; i < sizeof(v) / sizeof(*v); i++) {
		SEND_WR(&r, &r.a, .id = i, .op = v[i].op, .len = 8, .flags = WR_SOLICITED);
		ck_assert(take(&r, &r.a, &b));
		ck_assert(b.migreq && b.se == v[i].se);
		pkt_give(&r, &r.b, &b, "12345678", v[i].op == WR_READ ? 0 : 8);
		ck_assert(take(&r, &r.b, &b));
		ck_assert(b.migreq && !b.se);
	}
	SEND_WR(&r, &r.a, .id = 9, .op = WR_SEND, .len = 100000, .flags = WR_SOLICITED);
	while (take(&r, &r.a, &b)) /* in its last packet only */
		ck_assert(b.se == (b.op_last == OP_SEND_LAST));
	ck_assert(b.se);
	rig_fini(&r);
}
END_TEST

/* Many messages one after the other: queues wrap, unsignaled ones complete silently, cqe.wqe counts them all. */
START_TEST(many)
{
	for (enum link_mode mode = LINK_WIRE; mode <= LINK_LOCAL; mode++) {
		struct rig r;
		unsigned posted = 0;

		rig_init(&r, mode);
		rig_connect(&r, &conf_rc);
		for (unsigned round = 0; round < 40; round++) {
			for (unsigned i = 0; i < 50; i++) {
				rig_recv(&r, &r.b, 100000 + posted, 0, 64);
				ck_assert_int_eq(SEND_WR(&r, &r.a, .id = posted, .op = WR_SEND, .len = i, .inl = i & 1,
							 .quiet = i % 10),
						 0);
				posted++;
			}
			rig_run(&r);
		}
		ck_assert_uint_eq(r.a.wc_n, 200);
		ck_assert_uint_eq(r.b.wc_n, 2000);
		ck_assert_uint_eq(r.a.wc[199].wr_id, 1990);
		ck_assert_uint_eq(r.a.wc[199].wqe, 1991);
		for (unsigned i = 0; i < 2000; i++)
			ck_assert_uint_eq(r.b.wc[i].wr_id, 100000 + i);
		rig_fini(&r);
	}
}
END_TEST

/* UC: each message that is dropped counts, but only once. */
START_TEST(each_dropped_one_counts) /* conf: rule 4.10 */
{
	static uint8_t data[512];
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	c.type = QPT_UC;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	for (unsigned i = 0; i < 4; i++) {
		b = pkt_from(&r, &r.a, SVC_UC | (i & 1 ? OP_WRITE_LAST : OP_WRITE_FIRST), c.psn + i);
		b.dma_len = 1024;
		b.rkey ^= 1;
		pkt_give(&r, &r.b, &b, data, 512);
		ck_assert_uint_eq(fault_n(&r.b, "UC_RKEY"), 1 + i / 2);
	}
	for (unsigned i = 4; i < 6; i++) {
		b = pkt_from(&r, &r.a, SVC_UC | OP_WRITE_ONLY, c.psn + i);
		b.dma_len = 512;
		b.rkey ^= 1;
		pkt_give(&r, &r.b, &b, data, 512);
		ck_assert_uint_eq(fault_n(&r.b, "UC_RKEY"), i - 1);
	}
	b = pkt_from(&r, &r.a, SVC_UC | OP_WRITE_LAST, c.psn + 8); /* of one that began in a gap */
	pkt_give(&r, &r.b, &b, data, 512);
	ck_assert_uint_eq(fault_n(&r.b, "UC_GAP"), 1);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_UC_DROPPED), 5);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_ops", rc_write, rc_write_imm, rc_send, rc_read, uc_ops, xrc_ops, rc_atomics, ud_send, ud_group, ud_grh,
	  uc_established, half_old_responses, all_signaled, other_mtu, bits, many, each_dropped_one_counts)
