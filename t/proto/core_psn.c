/* SPDX-License-Identifier: MIT */
/* core_psn.c - how far PSNs and lengths reach: what is in flight at most, what is forgotten, the longest message. */
#include "proto/hca_in.h"
#include "rig.h"

#define MTU 512u

/* A key of x for len bytes, of which the test reaches only those from its buffer on: they are at off. */
static uint32_t long_key(struct host *x, uint64_t off, uint64_t len)
{
	struct mr_attr mr = { .pdn = x->pdn,
			      .access = 0x31f,
			      .addr = (uintptr_t)x->buf - off,
			      .iova = (uintptr_t)x->buf - off,
			      .len = len,
			      .region = &x->region };
	uint32_t key;

	ck_assert_int_eq(hca_mr_reg(x->h, &mr, &key), 0);
	return key;
}

/* Nothing is lost within a host, and so there is no window but that of PSNs. */
static uint32_t sent_at_once(enum wr_op op, uint32_t len)
{
	struct link_conf c = conf_rc;
	uint32_t key, out = 0;
	struct burst b;
	struct rig r;

	c.mtu = 1;
	rig_init(&r, LINK_LOCAL);
	rig_connect(&r, &c);
	key = long_key(&r.a, 0, 1ull << 32);
	for (unsigned i = 0; i < 16; i++)
		ck_assert_int_eq(SEND_WR(&r, &r.a, .op = op, .len = len, .lkey = key), 0);
	while (take(&r, &r.a, &b)) {
		ck_assert_uint_eq(b.psn.v, psn(c.psn + out).v);
		out += op == WR_READ ? b.dma_len / 256 : b.n;
	}
	ck_assert(op == WR_READ || b.ackreq);
	rig_fini(&r);
	return out;
}

/* No more are in flight than can be told from those of before, however little is heard of them. */
START_TEST(half_a_turn) /* conf: rule 4.1 */
{
	ck_assert_uint_eq(sent_at_once(WR_WRITE, 1u << 29), PSN_WINDOW);
	ck_assert_uint_eq(sent_at_once(WR_WRITE, (1u << 31) - 256), PSN_WINDOW);
	ck_assert_uint_eq(sent_at_once(WR_READ, 1u << 29), PSN_WINDOW);
	ck_assert_uint_eq(sent_at_once(WR_READ, 1u << 31), PSN_WINDOW);
	ck_assert_uint_le(sent_at_once(WR_READ, (1u << 29) + (1u << 28)), PSN_WINDOW);
}
END_TEST

/* A READ that was answered long ago is forgotten before its PSN is that of something new: a duplicate gets the newest ACK. */
START_TEST(long_ago) /* conf: rule 4.2 */
{
	for (unsigned far = 0; far < 2; far++) {
		uint32_t ago = PSN_WINDOW + far;
		struct burst b;
		struct qp *qp;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		qp = qp_get(r.b.h, r.b.qpn);
		b = pkt_from(&r, &r.a, OP_READ_REQUEST, conf_rc.psn);
		b.dma_len = MTU;
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b));
		qp->resp.epsn = psn(conf_rc.psn + ago); /* as after so many WRITEs */
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn + ago);
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(qp->resp.rd_n, !far);
		qp->resp.epsn = psn_add(qp->resp.epsn, PSN_WINDOW + 10);
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, qp->resp.epsn.v);
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b));
		b = pkt_from(&r, &r.a, OP_WRITE_ONLY, psn_sub(qp->resp.epsn, 1).v);
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(b.op_first, OP_ACKNOWLEDGE);
		ck_assert_uint_eq(b.psn.v, psn_sub(qp->resp.epsn, 1).v);
		rig_fini(&r);
	}
}
END_TEST

/* A SEND says at no time how long it will be: it is too long when more than 2^31 bytes have come, whatever there is room for. */
START_TEST(longest_send) /* conf: rule 4.6 */
{
	const uint64_t off = RD_MAX_MSG - 4 - MTU;
	static uint8_t data[MTU];

	for (unsigned more = 0; more < 2; more++) {
		struct {
			struct recv_wr wr;
			struct sge sge[2];
		} slot = { .wr = { .wr_id = 1, .sge_n = 2 } };
		struct burst b;
		struct rig r;

		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &conf_rc);
		slot.sge[0] = (struct sge){ (uintptr_t)r.b.buf, MTU, r.b.key };
		slot.sge[1] = (struct sge){ (uintptr_t)r.b.buf - off, RD_MAX_MSG, long_key(&r.b, off, 1ull << 32) };
		ck_assert_int_eq(hca_post_recv(r.b.h, r.b.qpn, &slot.wr, r.now), 0);
		b = pkt_from(&r, &r.a, OP_SEND_FIRST, conf_rc.psn);
		pkt_give(&r, &r.b, &b, data, MTU);
		ck_assert(take(&r, &r.b, &b));
		qp_get(r.b.h, r.b.qpn)->resp.off = MTU + off; /* as after so many */
		b = pkt_from(&r, &r.a, OP_SEND_LAST, conf_rc.psn + 1);
		pkt_give(&r, &r.b, &b, data, 4 + more);
		ck_assert(take(&r, &r.b, &b));
		ck_assert_uint_eq(b.syndrome, more ? aeth_nak(NAK_INV_REQ) : aeth_ack());
		ck_assert_uint_eq(wc_status(&r.b, 1), more ? WC_REM_INV_REQ_ERR : WC_SUCCESS);
		ck_assert_uint_eq(fault_n(&r.b, "RESP_MSG_LEN"), more);
		if (!more)
			ck_assert_uint_eq(wc_of(&r.b, 1)->byte_len, RD_MAX_MSG);
		rig_fini(&r);
	}
}
END_TEST

TEST_MAIN("core_psn", half_a_turn, long_ago, longest_send)
