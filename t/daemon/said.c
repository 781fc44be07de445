/* SPDX-License-Identifier: MIT */
/*
 * said.c - each cause that the HCA finds is brought about, and its sentence compared.  t/gate/why.test wants all of them.
 */
#include "proto/opcode.h"
#include "said.h"
/* clang-format off */
/* ---- receivers, by packets made by hand ---------------------------------------------- */

struct step { uint8_t op; uint32_t len, dma_len, rkey_xor; uint64_t va; int psn_off; };

struct row {
	unsigned cause;
	const char *text;
	uint8_t type;
	uint32_t recv_len;	/* of receive WR 1; 0: none is posted */
	struct step step[2];
	void (*prepare)(struct link_conf *);
	void (*between)(struct rig *);	/* before the last step */
};

static void no_rights(struct link_conf *c) { c->access = 0; }
static void no_rd(struct link_conf *c) { c->dest_rd_atomic = 0; }
static void one_rd(struct link_conf *c) { c->dest_rd_atomic = 1; }
static void gone(struct rig *r) { r->b.region.gone = true; }
static void dereg(struct rig *r) { ck_assert_int_eq(hca_mr_dereg(r->b.h, r->b.key), 0); }

#define ROW(name, sentence, type_, recv, ...) { .cause = WHY_##name, .text = sentence, .type = (type_), .recv_len = (recv), .step = __VA_ARGS__ }

static const struct row rows[] = {
	ROW(RESP_OP_SEQ, ERR "REM_INV_REQ_ERR: opcode does not follow the one before" OF "$", QPT_RC, 4096,
	    { { OP_SEND_FIRST, 512 }, { OP_SEND_ONLY, 5 } }),
	ROW(RESP_OP_UNSUP, ERR "operation not supported" OF, QPT_RC, 0, { { OP_FLUSH } }),
	ROW(RESP_QP_RIGHT, ERR "QP access flags do not have the operation; the QP has no remote access" OF, QPT_RC, 0,
	    { { OP_WRITE_ONLY, 4, 4 } }, .prepare = no_rights),
	ROW(RESP_LEN, ERR "payload does not fit PMTU, opcode or DMA length; path MTU 512" OF, QPT_RC, 0, { { OP_WRITE_ONLY, 4, 5 } }),
	ROW(RESP_MSG_LEN, ERR "message longer than 2\\^31" OF, QPT_RC, 0, { { OP_READ_REQUEST, .dma_len = 0x80000001 } }),
	ROW(RESP_ALIGN, ERR "atomic not on 8 aligned bytes; 0x[0-9a-f]+4" OF, QPT_RC, 0, { { OP_COMPARE_SWAP, .va = 4 } }),
	ROW(RESP_RD_NONE, ERR "READ or atomic with max_dest_rd_atomic 0" OF, QPT_RC, 0, { { OP_READ_REQUEST, .dma_len = 4 } }, .prepare = no_rd),
	ROW(RESP_RD_MANY, ERR "more READs and atomics than max_dest_rd_atomic; max_dest_rd_atomic is 1" OF, QPT_RC, 0,
	    { { OP_READ_REQUEST, .dma_len = 4 }, { OP_FETCH_ADD } }, .prepare = one_rd),
	ROW(RESP_RECV_LEN, ERR "LOC_LEN_ERR: a message of 65 bytes or more from 127\\.0\\.0\\.1 QP 0x[0-9a-f]+ does not fit the receive of 64 bytes "
	    "\\(wr_id 0x1\\)$", QPT_RC, 64, { { OP_SEND_ONLY, 65 } }),
	ROW(RESP_RKEY, ERR "rkey 0x[0-9a-f]+ was never that of an MR" OF, QPT_RC, 0, { { OP_WRITE_ONLY, 4, 4, .rkey_xor = 1 } }),
	ROW(RESP_INV, ERR "LOC_ACCESS_ERR: key 0x0 is of an MR, not of a window" OF "$", QPT_RC, 64, { { OP_SEND_ONLY_INV, 8 } }),
	ROW(RESP_READ_RKEY, ERR "rkey 0x[0-9a-f]+ " DEREG OF, QPT_RC, 0, { { OP_READ_REQUEST, .dma_len = 4 }, { OP_ACKNOWLEDGE } },
	    .between = dereg),
	ROW(RESP_RECV_PROT, ERR "LOC_PROT_ERR: sge 0 of 2: lkey 0x[0-9a-f]+ " DEREG RECV, QPT_RC, 64, { { OP_SEND_ONLY, 4 } },
	    .between = dereg),
	ROW(RESP_RECV_MEM, ERR "LOC_PROT_ERR: memory of the receive WR cannot be written" RECV, QPT_RC, 64, { { OP_SEND_ONLY, 4 } },
	    .between = gone),
	ROW(RESP_MEM, ERR "memory of the rkey cannot be reached" OF, QPT_RC, 0, { { OP_WRITE_ONLY, 4, 4 } }, .between = gone),
	ROW(UC_GAP, STAYS "PSN not as expected: packets were lost" OF, QPT_UC, 4096, { { OP_SEND_FIRST, 512 }, { OP_SEND_LAST, 4, .psn_off = 1 } }),
	ROW(UC_OP_SEQ, STAYS "message does not start with FIRST or ONLY, or does not end" OF, QPT_UC, 0, { { OP_WRITE_MIDDLE, 512 } }),
	ROW(UC_NO_RECV, STAYS "no receive WR" OF, QPT_UC, 0, { { OP_SEND_ONLY, 5 } }),
	ROW(UC_QP_RIGHT, STAYS "QP access flags do not have WRITE" OF, QPT_UC, 0, { { OP_WRITE_ONLY, 4, 4 } }, .prepare = no_rights),
	ROW(UC_LEN, STAYS "payload does not fit PMTU, opcode or DMA length" OF, QPT_UC, 0, { { OP_WRITE_ONLY, 4, 5 } }),
	ROW(UC_RECV_LEN, STAYS "a message of 65 bytes or more from 127\\.0\\.0\\.1 QP 0x[0-9a-f]+ does not fit the receive of 64 bytes", QPT_UC, 64,
	    { { OP_SEND_ONLY, 65 } }),
	ROW(UC_RKEY, STAYS "rkey 0x[0-9a-f]+ was never that of an MR" OF, QPT_UC, 0, { { OP_WRITE_ONLY, 4, 4, .rkey_xor = 1 } }),
	ROW(UC_INV, STAYS "key 0x[0-9a-f]+ is of an MR, not of a window" OF, QPT_UC, 64, { { OP_SEND_ONLY_INV, 8 } }),
	ROW(UC_RECV_PROT, ERR "LOC_PROT_ERR: sge 0 of 2: lkey 0x[0-9a-f]+ " DEREG RECV, QPT_UC, 64, { { OP_SEND_ONLY, 4 } }, .between = dereg),
	ROW(UC_RECV_MEM, ERR "LOC_PROT_ERR: memory of the receive WR cannot be written" RECV, QPT_UC, 64, { { OP_SEND_ONLY, 4 } }, .between = gone),
	ROW(UC_MEM, STAYS "memory of the rkey cannot be reached" OF, QPT_UC, 0, { { OP_WRITE_ONLY, 4, 4 } }, .between = gone),
};

START_TEST(receivers)
{
	static const uint8_t zeros[1024];
	const struct row *row = &rows[_i];
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	c.type = row->type;
	rig_init(&r, LINK_WIRE);
	if (row->prepare)
		row->prepare(&c);
	rig_connect(&r, &c);
	if (row->recv_len)
		rig_recv(&r, &r.b, 1, 65536, row->recv_len);
	for (unsigned i = 0; i < 2 && (i == 0 || row->step[i].op); i++) {
		const struct step *s = &row->step[i];

		if (row->between && (i == 1 || !row->step[1].op))
			row->between(&r);
		if (s->op == OP_ACKNOWLEDGE)	/* no request: only time passes */
			continue;
		b = pkt_from(&r, &r.a, (row->type == QPT_UC ? SVC_UC : SVC_RC) | s->op, c.psn + i + (uint32_t)s->psn_off);
		b.va += s->va;
		b.rkey ^= s->rkey_xor;
		b.dma_len = s->dma_len;
		pkt_give(&r, &r.b, &b, zeros, s->len);
	}
	while (take(&r, &r.b, &b)) {
	}
	said(&r.b, row->cause, row->text);
	rig_fini(&r);
}
END_TEST

static void datagram(struct rig *r, uint32_t recv_len, uint32_t len, uint32_t qkey, void (*between)(struct rig *))
{
	static const uint8_t zeros[8192];
	struct burst b;

	open_rig(r, QPT_UD);
	if (recv_len)
		rig_recv(r, &r->b, 1, 0, recv_len);
	if (between)
		between(r);
	b = pkt_from(r, &r->a, SVC_UD | OP_SEND_ONLY, 5);
	b.qkey = qkey;
	b.mtu = len;
	pkt_give(r, &r->b, &b, zeros, len);
}

START_TEST(datagrams)
{
	struct rig r;

	datagram(&r, 100, 4, 0x1235, NULL);
	SAID(&r.b, UD_QKEY, STAYS "Q_Key is not the QP's; 0x1235, the QP's is 0x1234; UD_SEND_ONLY with PSN 0x5 of 127\\.0\\.0\\.1 QP ");
	rig_fini(&r);
	datagram(&r, 0, 4, 0x1234, NULL);
	SAID(&r.b, UD_NO_RECV, STAYS "no receive WR; UD_SEND_ONLY with PSN 0x5 of 127");
	rig_fini(&r);
	datagram(&r, 5000, 4097, 0x1234, NULL);
	SAID(&r.b, UD_LEN, STAYS "datagram longer than the MTU; UD_SEND_ONLY");
	rig_fini(&r);
	datagram(&r, 43, 4, 0x1234, NULL);
	SAID(&r.b, UD_RECV_LEN, STAYS "LOC_LEN_ERR: a message of 44 bytes or more from .* does not fit the receive of 43 bytes \\(wr_id 0x1\\)");
	rig_fini(&r);
	datagram(&r, 100, 4, 0x1234, dereg);
	SAID(&r.b, UD_RECV_PROT, ERR "LOC_PROT_ERR: sge 0 of 2: lkey 0x[0-9a-f]+ " DEREG "; UD_SEND_ONLY .*; receive wr_id 0x1$");
	rig_fini(&r);
	datagram(&r, 100, 4, 0x1234, gone);
	SAID(&r.b, UD_RECV_MEM, ERR "LOC_PROT_ERR: memory of the receive WR cannot be written; UD_SEND_ONLY .*; receive wr_id 0x1$");
	rig_fini(&r);
}
END_TEST

/* ---- the requester -------------------------------------------------------------------- */

static void nak(struct rig *r, uint8_t syndrome)
{
	struct burst b;

	open_rig(r, QPT_RC);
	SEND_WR(r, &r->a, .id = 2, .op = WR_WRITE, .len = 8);
	while (take(r, &r->a, &b)) {
	}
	b = pkt_from(r, &r->b, OP_ACKNOWLEDGE, conf_rc.psn);
	b.syndrome = syndrome;
	pkt_give(r, &r->a, &b, NULL, 0);
}

#define PEER "127\\.0\\.0\\.2 QP 0x[0-9a-f]+"

START_TEST(naks)
{
	struct rig r;

	nak(&r, 0x61);
	SAID(&r.a, REQ_NAK_INV, ERR "REM_INV_REQ_ERR: " PEER " answered PSN 0x[0-9a-f]+ with NAK invalid request: "
	     "RDMA_WRITE wr_id 0x2, 8 bytes at 0x[0-9a-f]+ with rkey 0x[0-9a-f]+$");
	rig_fini(&r);
	nak(&r, 0x62);
	SAID(&r.a, REQ_NAK_ACCESS, ERR "REM_ACCESS_ERR: " PEER " answered .* with NAK remote access error: RDMA_WRITE wr_id 0x2, 8 bytes at ");
	rig_fini(&r);
	nak(&r, 0x63);
	SAID(&r.a, REQ_NAK_OP, ERR "REM_OP_ERR: " PEER " answered .* with NAK remote operational error: RDMA_WRITE wr_id 0x2, 8 bytes at ");
	rig_fini(&r);
	nak(&r, 0x64);
	SAID(&r.a, REQ_NAK_OTHER, ERR "BAD_RESP_ERR: " PEER " answered .*: RDMA_WRITE wr_id 0x2, 8 bytes at ");
	rig_fini(&r);
}
END_TEST

static bool from_a(struct rig *r, struct host *from, const struct burst *) { return from == &r->a; }

static bool third(struct rig *r, struct host *from, const struct burst *b)
{
	return from == &r->a && b->psn.v == ((conf_rc.psn + 2) & PSN_MASK);
}

static void give_up(struct rig *r, bool (*hook)(struct rig *, struct host *, const struct burst *), bool first)
{
	struct link_conf c = conf_rc;

	c.retry = c.rnr_retry = 2;
	rig_init(r, LINK_WIRE);
	rig_connect(r, &c);
	if (first) {
		SEND_WR(r, &r->a, .id = 1, .op = WR_WRITE, .len = 8);
		rig_settle(r, 10);
	}
	r->hook = hook;
	SEND_WR(r, &r->a, .id = 2, .op = hook ? WR_WRITE : WR_SEND, .len = 4096);
	rig_settle(r, 1000);
}

static int refusal; /* what the host says to packets of a; of the first try only: once */
static bool once;

static bool kept_back(struct rig *r, struct host *from, const struct burst *b)
{
	if (from != &r->a)
		return false;
	if (!once || !stat_n(from, HCA_STAT_LOCAL_ACK_TIMEOUT))
		hca_unsent(from->h, from->qpn, &b->route, b->n, refusal);
	return true;
}

START_TEST(not_arrived)
{
	struct route way = { .dgid = { [10] = 0xff, 0xff, 127, 0, 0, 9 } };
	struct rig r;

	open_rig(&r, QPT_UD);
	hca_refused(r.a.h, r.a.qpn, &way, 0x77, r.now);
	hca_refused(r.a.h, r.a.qpn, &way, 0x78, r.now); /* told once */
	SAID(&r.a, UD_REFUSED, STAYS "a datagram to 127\\.0\\.0\\.9 QP 0x77 did not arrive$");
	rig_fini(&r);
	/* Others are not told so: nobody; QP 1; one that has answers. */
	open_rig(&r, QPT_RC);
	for (unsigned i = 0; i < 3; i++)
		hca_refused(r.a.h, i < 2 ? i : r.a.qpn, &way, 0x77, r.now);
	ck_assert(!hca_why(r.a.h, &(struct why){ 0 }));
	rig_fini(&r);
}
END_TEST

/* Not the peer's silence, if packets did not get out of the host: and then it matters why. */
START_TEST(unsent)
{
	struct rig r;

	refusal = EPERM;
	for (unsigned heard = 0; heard < 2; heard++) {
		give_up(&r, kept_back, heard);
		SAID(&r.a, RETRY_UNSENT, ERR "RETRY_EXC after 3 timeouts .*; RDMA_WRITE wr_id 0x2; packets from 127\\.0\\.0\\.1 to 127\\.0\\.0\\.2 "
		     "could not be sent: Operation not permitted$");
		rig_fini(&r);
	}
	refusal = 0; /* the address has gone */
	give_up(&r, kept_back, true);
	SAID(&r.a, RETRY_UNSENT, "could not be sent: no interface has that source");
	rig_fini(&r);
	give_up(&r, kept_back, false);
	SAID(&r.a, RETRY_SILENT, ERR); /* RETRY_INSIDE, of the daemon */
	rig_fini(&r);
	refusal = EPERM;
	once = true;
	give_up(&r, kept_back, false);
	SAID(&r.a, RETRY_SILENT, ERR);
	rig_fini(&r);
	once = false;
}
END_TEST

START_TEST(retries)
{
	struct rig r;

	give_up(&r, from_a, false);
	SAID(&r.a, RETRY_SILENT, ERR "RETRY_EXC after 3 timeouts of [0-9]+ [um]s on PSN 0x[0-9a-f]+ \\(retry_cnt 2\\), 0 packets seen from " PEER
	     " since RTR [0-9]+ [um]s before, last sent RC_WRITE_[A-Z]+ from 127\\.0\\.0\\.1; RDMA_WRITE wr_id 0x2$");
	rig_fini(&r);
	give_up(&r, from_a, true);
	SAID(&r.a, RETRY_DEAF, ERR "RETRY_EXC after 3 timeouts .*, 0 packets seen from " PEER " since the last ACK, "
	     "the last one [0-9]+ [um]s before \\(1 in all\\)");
	rig_fini(&r);
	give_up(&r, third, false);
	SAID(&r.a, RETRY_LOSS, ERR "RETRY_EXC after .*[0-9]+ sequence NAKs or lost responses on PSN 0x[0-9a-f]+ \\(retry_cnt 2\\), "
	     "[0-9]+ packets seen from " PEER " since the last ACK, .* \\(1 in all\\)");
	rig_fini(&r);
	give_up(&r, NULL, false);
	SAID(&r.a, REQ_RNR_EXC, ERR "RNR_RETRY_EXC after 3 RNR NAKs on PSN 0x[0-9a-f]+ \\(rnr_retry 2, the peer's timer [0-9]+ [um]s\\): "
	     "no receive is posted at " PEER "; SEND wr_id 0x2$");
	rig_fini(&r);
}
END_TEST

/* The two do not agree on the first PSN: b expects so many more. */
START_TEST(psns)
{
	static const int32_t off[] = { 1000, 0x700000, -1, -1000, -0x700000 };

	for (size_t i = 0; i < sizeof(off) / sizeof(*off); i++) {
		struct link_conf c = conf_rc;
		struct why w;
		struct rig r;

		c.retry = 2;
		c.rq_off = off[i];
		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &c);
		SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 8);
		rig_settle(&r, 1000);
		w = SAID(&r.a, RETRY_PSN, ERR "RETRY_EXC after .*, it expects PSN 0x[0-9a-f]+, but sq_psn here is 0xfffff0, last sent ");
		ck_assert_uint_eq(w.far_psn, (c.psn + (uint32_t)off[i]) & PSN_MASK);
		/* Of those that are ahead, the first may have been lost. */
		if (off[i] > 0 || off[i] < -65536)
			SAID(&r.b, RX_PSN, STAYS "RC_WRITE_ONLY with PSN 0xfffff0 of 127\\.0\\.0\\.1 QP 0x[0-9a-f]+, but rq_psn here is 0x[0-9a-f]+$");
		rig_fini(&r);
	}
}
END_TEST

/* A response to a READ of 8 bytes, or what becomes of the memory that it is for. */
static void answer(struct rig *r, uint32_t len, bool unmap, bool gone_key)
{
	struct burst b;

	open_rig(r, QPT_RC);
	SEND_WR(r, &r->a, .id = 2, .op = WR_READ, .len = 8);
	ck_assert(take(r, &r->a, &b));
	r->a.region.gone = unmap;
	if (gone_key)
		ck_assert_int_eq(hca_mr_dereg(r->a.h, r->a.key), 0);
	b = pkt_from(r, &r->b, OP_READ_RESP_ONLY, conf_rc.psn);
	pkt_give(r, &r->a, &b, "1234567890", len);
}

START_TEST(responses)
{
	struct rig r;

	answer(&r, 9, false, false);
	SAID(&r.a, REQ_BAD_RESP, ERR "BAD_RESP_ERR: response of wrong opcode or length; ");
	rig_fini(&r);
	answer(&r, 8, false, true);
	SAID(&r.a, REQ_RESP_PROT, ERR "LOC_PROT_ERR: sge 0 of 1: lkey 0x[0-9a-f]+ " DEREG "; ");
	rig_fini(&r);
	answer(&r, 8, true, false);
	SAID(&r.a, REQ_RESP_MEM, ERR "LOC_PROT_ERR: memory of a READ or atomic cannot be written; ");
	rig_fini(&r);
	open_rig(&r, QPT_RC);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_READ, .len = 2000);
	r.b.region.gone = true;
	rig_run(&r);
	SAID(&r.b, RESP_READ_MEM, ERR "memory of a READ cannot be read" OF);
	rig_fini(&r);
	open_rig(&r, QPT_XRC_SEND);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_SEND, .len = 8, .srqn = 0x777);
	rig_run(&r);
	SAID(&r.b, RESP_XRC_SRQ, ERR "no such XRC SRQ in the domain, or another one in the middle of a message; XRC_SEND_ONLY with PSN");
	rig_fini(&r);
}
END_TEST

/* ---- send queues ------------------------------------------------------------------------- */

static void posts(struct rig *r, uint8_t type, const struct wr_arg *wr)
{
	open_rig(r, type);
	ck_assert_int_eq(rig_send(r, &r->a, wr), 0);
	rig_run(r);
}
#define POSTS(rig, type, ...) posts((rig), (type), &(struct wr_arg){ .id = 2, __VA_ARGS__ })

START_TEST(send_queues)
{
	struct rig r;

	POSTS(&r, QPT_RC, .op = WR_FETCH_ADD, .len = 4);
	SAID(&r.a, SQ_LEN, ERR "LOC_LEN_ERR: ATOMIC_FETCH_AND_ADD wr_id 0x2 of 4 bytes, not 8$");
	rig_fini(&r);
	POSTS(&r, QPT_UD, .op = WR_SEND, .len = 4097);
	SAID(&r.a, SQ_LEN, "to SQE: LOC_LEN_ERR: SEND wr_id 0x2 of 4097 bytes, more than 4096$");
	rig_fini(&r);
	POSTS(&r, QPT_RC, .op = WR_SEND, .len = 9, .off = BUF_LEN - 8);
	SAID(&r.a, SQ_PROT, ERR "LOC_PROT_ERR: sge 0 of 1: 0x[0-9a-f]+ \\+ 9 is out of bounds by 1 byte: the MR .*; SEND wr_id 0x2$");
	rig_fini(&r);
	POSTS(&r, QPT_RC, .op = WR_LOCAL_INV, .imm = 0x80000100);
	SAID(&r.a, SQ_INV, ERR "MW_BIND_ERR: rkey 0x80000100 was never that of an MR or a window; LOCAL_INV wr_id 0x2$");
	rig_fini(&r);
	open_rig(&r, QPT_RC);
	r.a.region.gone = true;
	SEND_WR(&r, &r.a, .id = 2, .op = WR_SEND, .len = 9);
	rig_run(&r);
	SAID(&r.a, SQ_MEM, ERR "LOC_PROT_ERR: memory of a send WR cannot be read; SEND wr_id 0x2$");
	rig_fini(&r);
	open_rig(&r, QPT_UD);
	hca_gid_set(r.a.h, 1, NULL);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_SEND, .len = 4);
	rig_run(&r);
	SAID(&r.a, SQ_OP, "to SQE: LOC_QP_OP_ERR: WR cannot be executed on this QP; sgid_index 1 of the address handle is no used row; SEND wr_id 0x2$");
	rig_fini(&r);
}
END_TEST

/* ---- what happens to a QP besides ------------------------------------------------------------- */

START_TEST(states)
{
	struct qp_attr err = { .state = QPS_ERR };
	struct burst b;
	struct rig r;

	open_rig(&r, QPT_RC);
	rig_recv(&r, &r.a, 1, 0, 8);
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &err, QPA_STATE, r.now), 0);
	SAID(&r.a, PROGRAM_ERR, ERR "the program brought the QP to ERR, and what was posted was flushed$");
	r.now.ns /= 2; /* a thread that looked at the clock before the other, and calls after it */
	SEND_WR(&r, &r.a, .id = 2, .op = WR_SEND, .len = 8);
	SAID(&r.a, FLUSH_LATE, STAYS "posted to a QP in ERR, and flushed at once; the QP went there 0 ns before: the program brought the QP to ERR, and what");
	b = pkt_from(&r, &r.b, OP_SEND_ONLY, conf_rc.psn + 77);
	pkt_give(&r, &r.a, &b, "1234", 4);
	SAID(&r.a, RX_STATE, STAYS "RC_SEND_ONLY with PSN 0x[0-9a-f]+ came from 127\\.0\\.0\\.2 and was dropped: the QP is in ERR$");
	rig_fini(&r);

	open_rig(&r, QPT_RC);
	b = pkt_from(&r, &r.a, OP_SEND_ONLY, conf_rc.psn);
	b.route.sgid[15] = 9;
	pkt_give(&r, &r.b, &b, "1234", 4);
	SAID(&r.b, RX_ROUTE, STAYS "RC_SEND_ONLY with PSN 0x[0-9a-f]+ came from 127\\.0\\.0\\.9 and was dropped: "
	     "the QP is connected to 127\\.0\\.0\\.1 QP 0x[0-9a-f]+$");
	hca_damaged(r.b.h, &b);
	SAID(&r.b, RX_ICRC, STAYS "RC_SEND_ONLY with PSN 0x[0-9a-f]+ came from 127\\.0\\.0\\.9 and was dropped: its ICRC is wrong; "
	     "the QP is connected to 127\\.0\\.0\\.1 QP 0x[0-9a-f]+$");
	rig_fini(&r);

	open_rig(&r, QPT_RC);
	hca_cq_overrun(r.a.h, r.a.cqn, r.now);
	rig_run(&r);
	SAID(&r.a, CQ_OVERRUN, ERR "a CQ of the QP overran; CQ [0-9]+$");
	rig_fini(&r);

	/* drain.c says so of a ring that makes no sense. */
	open_rig(&r, QPT_RC);
	rig_recv(&r, &r.a, 1, 0, 8);
	hca_qp_fail(r.a.h, r.a.qpn, WHY_RING_BROKEN, r.now);
	ck_assert_uint_eq(SAID(&r.a, RING_BROKEN, ERR "the program wrote nonsense into the memory of its queue$").flush_rq, 1);
	rig_fini(&r);
}
END_TEST

static void refused(struct rig *r, struct qp_attr a, uint32_t mask)
{
	ck_assert_int_ne(hca_qp_modify(r->a.h, r->a.qpn, &a, mask | QPA_STATE, r->now), 0);
}

START_TEST(modify)
{
	const uint32_t rtr = QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
	struct qp_attr a = { .state = QPS_RTR, .path_mtu = 3, .dest_qpn = 7, .cur_state = QPS_RTS, .av = { .sgid_index = 1 } };
	struct burst b;
	struct rig r;

	open_rig(&r, QPT_RC);
	refused(&r, (struct qp_attr){ .state = QPS_INIT }, 0);
	SAID(&r.a, MODIFY_EDGE, STAYS "INIT refused \\(from RTS\\): there is no such change; from RTS a QP of RC goes to RESET, ");
	refused(&r, (struct qp_attr){ .state = QPS_RTS, .cur_state = QPS_INIT }, QPA_CUR_STATE);
	SAID(&r.a, MODIFY_CUR, STAYS "RTS refused \\(it is there already\\): cur_qp_state says INIT$");
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &(struct qp_attr){ .state = QPS_RESET }, QPA_STATE, r.now), 0);
	refused(&r, (struct qp_attr){ .state = QPS_INIT, .port = 1 }, QPA_PORT);
	SAID(&r.a, MODIFY_LESS, STAYS "INIT refused \\(from RESET\\): attr_mask lacks ACCESS_FLAGS\\|PKEY_INDEX; "
	     "required are ACCESS_FLAGS\\|PKEY_INDEX\\|PORT$");
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &(struct qp_attr){ .state = QPS_INIT, .port = 1 },
				       QPA_STATE | QPA_PORT | QPA_PKEY_INDEX | QPA_ACCESS_FLAGS, r.now), 0);
	memcpy(a.av.dgid, r.b.gid, 16);
	refused(&r, a, rtr | QPA_QKEY);
	SAID(&r.a, MODIFY_MORE, STAYS "RTR refused \\(from INIT\\): attr_mask has QKEY; a QP of RC may have ");
	a.path_mtu = 6;
	refused(&r, a, rtr);
	SAID(&r.a, MODIFY_MTU, STAYS "RTR refused \\(from INIT\\): PATH_MTU 6 is not 1 to 5 \\(4096 bytes\\), the port's active MTU$");
	a.path_mtu = 3;
	a.min_rnr_timer = 32;
	refused(&r, a, rtr);
	SAID(&r.a, MODIFY_VALUE, STAYS "RTR refused \\(from INIT\\): MIN_RNR_TIMER 32 is more than 31$");
	a.min_rnr_timer = 0;
	a.av.sgid_index = 63;
	refused(&r, a, rtr);
	SAID(&r.a, MODIFY_GID, STAYS "RTR refused \\(from INIT\\): sgid_index 63 is an empty row of the GID table$");
	a.av.sgid_index = 1;
	memcpy(a.av.dgid, "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	refused(&r, a, rtr);
	SAID(&r.a, MODIFY_ROUTE, STAYS "RTR refused \\(from INIT\\): sgid_index 1 is 127\\.0\\.0\\.1, destination is routed: fe80::1$");
	rig_fini(&r);

	/* a READ is under way */
	open_rig(&r, QPT_RC);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_READ, .len = 8);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &(struct qp_attr){ .state = QPS_SQD }, QPA_STATE, r.now), 0);
	refused(&r, (struct qp_attr){ .state = QPS_SQD, .max_rd_atomic = 1 }, QPA_MAX_QP_RD_ATOMIC);
	SAID(&r.a, MODIFY_BUSY, STAYS "SQD refused \\(it is there already\\): ibv_modify_qp: max_rd_atomic cannot change while READs or atomics");
	rig_fini(&r);
}
END_TEST

/* Causes that no test brings about: their words alone. */
START_TEST(words)
{
	char buf[WHY_TEXT];
	struct words w = words_begin(buf, sizeof(buf));

	why_words(&w, &(struct why){ .cause = WHY_MODIFY_MEM, .qpn = 0x12, .from = QPS_INIT, .to = QPS_RTR, .type = QPT_RC },
		  false);
	ck_assert_str_eq(buf, "QP 0x12: RTR refused (from INIT): ibv_modify_qp: no memory");
	ck_assert_str_eq(why_what(WHY_MODIFY_MEM), "ibv_modify_qp: no memory");
	ck_assert(*why_hint(WHY_MODIFY_MEM));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("said");
	TCase *t = tcase_create("receivers");

	tcase_add_loop_test(t, receivers, 0, sizeof(rows) / sizeof(*rows));
	suite_add_tcase(suite, t);
	SUITE_ADD(suite, datagrams, naks, retries, unsent, not_arrived, psns, responses, send_queues, states, modify, words);
	return suite_run(suite);
}
