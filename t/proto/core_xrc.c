/* SPDX-License-Identifier: MIT */
/* core_xrc.c - XRC: whose receive WRs and whose keys a message uses, what the two ends can do, and how things end. */
#include <errno.h>

#include "proto/hdr.h"
#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

#define XRC(op) (SVC_XRC | OP_##op)

static struct link_conf conf_xrc(void)
{
	struct link_conf c = conf_rc;

	c.type = QPT_XRC_SEND;
	return c;
}

static void start(struct rig *r)
{
	struct link_conf c = conf_xrc();

	rig_init(r, LINK_WIRE);
	rig_connect(r, &c);
}

/* One more SRQ of b's domain, or of another one. */
static uint32_t srq_new(struct rig *r, uint32_t xrcdn, uint32_t pdn, uint32_t cqn)
{
	struct srq_init s = { .pdn = pdn, .max_wr = 8, .max_sge = 2, .xrcdn = xrcdn, .cqn = cqn };
	uint32_t srqn;

	ck_assert_int_eq(hca_srq_create(r->b.h, &s, &srqn), 0);
	return srqn;
}

static void srq_recv(struct rig *r, uint32_t srqn, uint64_t id, uint64_t off, uint32_t len)
{
	ck_assert_int_eq(rig_srq_recv(r, srqn, id, off, len), 0);
}

/* On the wire: requests with an XRCETH right behind the BTH, responses without. */
START_TEST(headers) /* conf: rule 3.4 */
{
	static const struct {
		uint8_t op;
		uint16_t len;
	} t[] = {
		{ XRC(SEND_FIRST), 16 },    { XRC(SEND_MIDDLE), 16 },     { XRC(SEND_LAST_IMM), 20 },
		{ XRC(SEND_ONLY_INV), 20 }, { XRC(WRITE_ONLY_IMM), 36 },  { XRC(READ_REQUEST), 32 },
		{ XRC(COMPARE_SWAP), 44 },  { XRC(READ_RESP_FIRST), 16 }, { XRC(READ_RESP_MIDDLE), 12 },
		{ XRC(ACKNOWLEDGE), 16 },   { XRC(ATOMIC_ACK), 24 },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct burst b = { .op_first = t[i].op,
				   .op_last = t[i].op,
				   .n = 1,
				   .dqpn = 0x11,
				   .srqn = 0xabcdef,
				   .rkey = 5 },
			     back = { 0 };
		uint8_t d[PKT_HDR_MAX + 256] = { 0 };
		struct span s;
		size_t len = burst_hdr(&b, 0, d), pay;

		ck_assert_uint_eq(len, t[i].len);
		ck_assert_uint_eq(opcode_get(t[i].op)->hdr_len, t[i].len);
		pay = opcode_get(t[i].op)->pay == PAY_NONE ? 0 : 256;
		ck_assert_int_eq(burst_parse(&back, &s, d, len + pay), PARSE_OK);
		if (opcode_get(t[i].op)->hdrs & HDR_XRCETH) {
			ck_assert_mem_eq(d + BTH_LEN, "\0\xab\xcd\xef", 4);
			ck_assert_uint_eq(back.srqn, 0xabcdef);
		} else {
			ck_assert_uint_eq(back.srqn, 0);
		}
	}
	ck_assert_str_eq(opcode_get(0xa4)->name, "XRC_SEND_ONLY");
	ck_assert_ptr_null(opcode_get(0xb5)->name);
}
END_TEST

/* One pair of QPs, many SRQs: each message takes a WR of the one that it names, and completes where that completes. */
START_TEST(many_srqs)
{
	struct rig r;
	uint32_t srqn[3], cqn;

	start(&r);
	ck_assert_int_eq(hca_cq_create(r.b.h, 64, &cqn), 0);
	srqn[0] = r.b.srqn;
	srqn[1] = srq_new(&r, r.b.xrcdn, r.b.pdn, cqn);
	srqn[2] = srq_new(&r, r.b.xrcdn, r.b.pdn, r.b.cqn);
	for (unsigned i = 0; i < 6; i++)
		srq_recv(&r, srqn[i % 3], 100 + i, 1000 * i, 900);
	for (unsigned i = 0; i < 6; i++) {
		fill(r.a.buf, 900, i);
		SEND_WR(&r, &r.a, .id = i, .op = WR_SEND_IMM, .len = 900, .imm = i, .srqn = srqn[i % 3]);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
		ck_assert_uint_eq(wc_status(&r.b, 100 + i), WC_SUCCESS);
		ck_assert_uint_eq(wc_of(&r.b, 100 + i)->cqn, i % 3 == 1 ? cqn : r.b.cqn);
		ck_assert_uint_eq(wc_of(&r.b, 100 + i)->srqn, srqn[i % 3]);
		ck_assert_uint_eq(wc_of(&r.b, 100 + i)->srq, 2);
		ck_assert_uint_eq(wc_of(&r.b, 100 + i)->qpn, r.b.qpn);
		check_fill(r.b.buf + 1000 * i, 900, i);
	}
	ck_assert_int_eq(hca_cq_destroy(r.b.h, cqn), EBUSY);
	ck_assert_int_eq(hca_srq_destroy(r.b.h, srqn[1]), 0);
	ck_assert_int_eq(hca_cq_destroy(r.b.h, cqn), 0);
	/* none there: RNR, and then it is */
	SEND_WR(&r, &r.a, .id = 50, .op = WR_SEND, .len = 9, .srqn = srqn[2]);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 50), 255);
	srq_recv(&r, srqn[2], 150, 0, 64);
	rig_settle(&r, 3);
	ck_assert_uint_eq(wc_status(&r.a, 50), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* Keys are those of the SRQ's PD, whatever the operation. */
START_TEST(pd_of_srq)
{
	static const enum wr_op ops[] = { WR_WRITE, WR_READ, WR_FETCH_ADD };

	for (unsigned i = 0; i < 6; i++) {
		uint32_t pdn, srqn;
		struct rig r;

		start(&r);
		ck_assert_int_eq(hca_pd_alloc(r.b.h, &pdn), 0);
		srqn = srq_new(&r, r.b.xrcdn, i & 1 ? pdn : r.b.pdn, r.b.cqn);
		SEND_WR(&r, &r.a, .id = 1, .op = ops[i / 2], .len = 8, .srqn = srqn);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 1), i & 1 ? WC_REM_ACCESS_ERR : WC_SUCCESS);
		rig_fini(&r);
	}
}
END_TEST

/* No such SRQ, one of another domain, one that is not of XRC; another one in the middle of a message. */
START_TEST(wrong_srq)
{
	for (unsigned i = 0; i < 8; i++) {
		uint32_t srqn = 77, x;
		struct burst p;
		struct rig r;

		start(&r);
		rig_recv(&r, &r.b, 9, 0, 4000);
		ck_assert_int_eq(hca_xrcd_alloc(r.b.h, &x), 0);
		if (i % 4 == 1)
			srqn = srq_new(&r, x, r.b.pdn, r.b.cqn);
		else if (i % 4 >= 2)
			srqn = srq_new(&r, i % 4 == 2 ? 0 : r.b.xrcdn, r.b.pdn, r.b.cqn);
		if (i % 4 == 3) {
			p = pkt_from(&r, &r.a, XRC(SEND_FIRST), conf_rc.psn);
			pkt_give(&r, &r.b, &p, r.a.buf, 512);
			p = pkt_from(&r, &r.a, XRC(SEND_LAST), (conf_rc.psn + 1) & PSN_MASK);
			p.srqn = srqn;
			pkt_give(&r, &r.b, &p, r.a.buf, 10);
			ck_assert_uint_eq(wc_status(&r.b, 9), WC_WR_FLUSH_ERR);
		} else {
			SEND_WR(&r, &r.a, .id = 1, .op = i < 4 ? WR_SEND : WR_READ, .len = 8, .srqn = srqn);
			rig_run(&r);
			ck_assert_uint_eq(wc_status(&r.a, 1), WC_REM_INV_REQ_ERR);
			ck_assert_uint_eq(wc_status(&r.b, 9), 255); /* stays for others */
		}
		ck_assert_uint_eq(fault_n(&r.b, "RESP_XRC_SRQ"), 1);
		ck_assert(has_event(&r.b, EV_QP_REQ_ERR));
		rig_fini(&r);
	}
}
END_TEST

/* The ends: what each is made of, and what it refuses. */
START_TEST(ends)
{
	struct {
		struct send_wr wr;
		struct sge sge;
	} x = { .wr = { .op = WR_SEND } };
	struct recv_wr rw = { 0 };
	struct rig r;
	struct qp_attr a;
	struct qp_init i;
	uint32_t qpn, key;
	struct burst p;

	start(&r);
	ck_assert_int_eq(hca_post_send(r.b.h, r.b.qpn, &x.wr, r.now), EINVAL);
	ck_assert_int_eq(hca_post_recv(r.b.h, r.b.qpn, &rw, r.now), EINVAL);
	ck_assert_int_eq(hca_post_recv(r.a.h, r.a.qpn, &rw, r.now), EINVAL);
	ck_assert_int_eq(hca_qp_query(r.b.h, r.b.qpn, &a, &i), 0);
	ck_assert(i.type == QPT_XRC_RECV && i.xrcdn == r.b.xrcdn && !i.send_cqn && a.state == QPS_RTS);
	ck_assert_int_eq(hca_qp_query(r.a.h, r.a.qpn, &a, &i), 0);
	ck_assert(i.type == QPT_XRC_SEND && i.send_cqn == r.a.cqn && !i.recv_cqn);

	i = (struct qp_init){ .type = QPT_XRC_RECV, .xrcdn = 99 };
	ck_assert_int_eq(hca_qp_create(r.b.h, &i, &qpn), EINVAL);
	i.xrcdn = r.b.xrcdn;
	i.cap.max_send_wr = 1;
	ck_assert_int_eq(hca_qp_create(r.b.h, &i, &qpn), EINVAL);
	i = (struct qp_init){ .type = QPT_XRC_SEND, .pdn = r.a.pdn };
	ck_assert_int_eq(hca_qp_create(r.a.h, &i, &qpn), EINVAL);
	i.send_cqn = r.a.cqn;
	i.cap.max_recv_wr = 1;
	ck_assert_int_eq(hca_qp_create(r.a.h, &i, &qpn), EINVAL);

	/* A request to the end that asks, a response to the one that answers; RC packets to either. */
	p = pkt_from(&r, &r.b, XRC(SEND_ONLY), 0);
	pkt_give(&r, &r.a, &p, "x", 1);
	p = pkt_from(&r, &r.a, XRC(ACKNOWLEDGE), 0);
	pkt_give(&r, &r.b, &p, NULL, 0);
	p = pkt_from(&r, &r.a, OP_SEND_ONLY, conf_rc.psn);
	pkt_give(&r, &r.b, &p, "x", 1);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_BAD_QPN), 1);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_QPN), 2);

	ck_assert_int_eq(hca_xrcd_free(r.b.h, r.b.xrcdn), EBUSY);
	ck_assert_int_eq(hca_srq_destroy(r.b.h, r.b.srqn), 0);
	ck_assert_int_eq(hca_xrcd_free(r.b.h, r.b.xrcdn), EBUSY);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8);
	ck_assert_int_eq(hca_qp_destroy(r.b.h, r.b.qpn), 0);
	ck_assert_int_eq(hca_xrcd_free(r.b.h, r.b.xrcdn), 0);
	ck_assert_int_eq(hca_xrcd_free(r.b.h, r.b.xrcdn), EINVAL);
	ck_assert_int_eq(hca_mw_alloc(r.a.h, r.a.pdn, 2, &key), 0);
	rig_fini(&r);
}
END_TEST

/* An SRQ goes while a message to it is under way, and while one has just come. */
START_TEST(srq_goes)
{
	struct burst p;
	struct rig r;

	start(&r);
	rig_recv(&r, &r.b, 9, 0, 4000);
	p = pkt_from(&r, &r.a, XRC(SEND_FIRST), conf_rc.psn);
	pkt_give(&r, &r.b, &p, r.a.buf, 512);
	ck_assert_int_eq(hca_srq_destroy(r.b.h, r.b.srqn), 0);
	hca_verify(r.b.h);
	rig_run(&r);
	ck_assert(has_event(&r.b, EV_QP_REQ_ERR));
	ck_assert_uint_eq(wc_status(&r.b, 9), 255);
	rig_fini(&r);

	start(&r);
	rig_recv(&r, &r.b, 9, 0, 4000);
	p = pkt_from(&r, &r.a, XRC(SEND_ONLY), conf_rc.psn);
	p.payload_len = 0;
	hca_rx_burst(r.b.h, &p, r.now);
	ck_assert_int_eq(hca_srq_destroy(r.b.h, r.b.srqn), 0);
	hca_verify(r.b.h);
	r.b.wc_n += hca_completions(r.b.h, r.b.wc, WCS);
	ck_assert_uint_eq(r.b.wc_n, 0);
	rig_fini(&r);
}
END_TEST

/* Windows bound on a sending QP are open to the receiving ones of the same PD. */
START_TEST(windows)
{
	uint32_t target, from, key;
	struct rig r;

	start(&r);
	target = r.b.qpn;
	from = r.a.qpn;
	ck_assert_int_eq(hca_mw_alloc(r.b.h, r.b.pdn, 2, &key), 0);
	{ /* the same the other way round, for a QP of b that can bind */
		struct qp_init init = {
			.type = QPT_XRC_SEND, .pdn = r.b.pdn, .send_cqn = r.b.cqn, .cap = { 8, 0, 1, 0, 0 }
		};
		struct qp_attr a = { .state = QPS_INIT, .port = 1 };

		ck_assert_int_eq(hca_qp_create(r.b.h, &init, &r.b.qpn), 0);
		ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a,
					       QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, r.now),
				 0);
		a = (struct qp_attr){ .state = QPS_RTR, .path_mtu = 2, .av.sgid_index = 1 };
		memcpy(a.av.dgid, r.a.gid, 16);
		ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a,
					       QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN, r.now),
				 0);
		a = (struct qp_attr){ .state = QPS_RTS, .timeout = 14 };
		ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a,
					       QPA_STATE | QPA_SQ_PSN | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY |
						       QPA_MAX_QP_RD_ATOMIC,
					       r.now),
				 0);
	}
	SEND_WR(&r, &r.b, .id = 1, .op = WR_BIND_MW, .len = 64, .rkey = key, .access = ACC_REMOTE_WRITE);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.b, 1), WC_SUCCESS);
	r.b.qpn = target;
	r.a.qpn = from;
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 64, .rkey = key);
	rig_recv(&r, &r.b, 9, 0, 64);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_SEND_INV, .len = 4, .imm = key);
	SEND_WR(&r, &r.a, .id = 4, .op = WR_WRITE, .len = 64, .rkey = key);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 2), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 3), WC_SUCCESS);
	ck_assert_uint_eq(wc_of(&r.b, 9)->flags, WC_WITH_INV);
	ck_assert_uint_eq(wc_status(&r.a, 4), WC_REM_ACCESS_ERR);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_xrc", headers, many_srqs, pd_of_srq, wrong_srq, ends, srq_goes, windows)
