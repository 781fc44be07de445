/* SPDX-License-Identifier: MIT */
/*
 * core_fault.c - every row of fault.def, brought about by name: what is answered, how the WRs
 * concerned complete, which event comes, and in which state the QP is then.
 */
#include "proto/opcode.h"
#include "proto/why.h"
#include "rig.h"
#include "t/suite.h"

#define NONE 255u

/* ---- the RC and UC receiver, by packets made by hand --------------------------- */

struct step {
	uint8_t op;
	uint32_t len, dma_len;
	uint64_t va; /* offset in b's buffer */
	uint32_t rkey_xor;
	int psn_off; /* from where the sequence is */
};

struct row {
	const char *name;
	uint8_t nak;       /* syndrome of the answer; 0: none */
	unsigned recv_wc;  /* of receive WR 1; NONE: it stays */
	unsigned event;    /* NONE: no event */
	bool err;          /* the QP is in ERR then */
	uint32_t recv_len; /* of receive WR 1; 0: none is posted */
	struct step step[3];
	void (*prepare)(struct rig *, struct link_conf *); /* before connecting */
	void (*between)(struct rig *);                     /* before the last step */
};

static void no_rights(struct rig *, struct link_conf *c) { c->access = 0; }
static void no_rd(struct rig *, struct link_conf *c) { c->dest_rd_atomic = 0; }
static void one_rd(struct rig *, struct link_conf *c) { c->dest_rd_atomic = 1; }
static void gone(struct rig *r) { r->b.region.gone = true; }
static void dereg(struct rig *r) { ck_assert_int_eq(hca_mr_dereg(r->b.h, r->b.key), 0); }

#define INV 0x61
#define ACC 0x62
#define OPE 0x63

/* The usual ends: what is answered, how the receive WR completes, the event, and whether the QP is in ERR. */
#define INV_FLUSH   INV, WC_WR_FLUSH_ERR, EV_QP_REQ_ERR, true
#define INV_RECV    INV, WC_REM_INV_REQ_ERR, EV_QP_REQ_ERR, true
#define ACC_FLUSH   ACC, WC_WR_FLUSH_ERR, EV_QP_ACCESS_ERR, true
#define ROW(n, ...) ROW_(n, __VA_ARGS__)
#define ROW_(n, k, rwc, ev, e, rlen, ...)                                                                 \
	{                                                                                                 \
		.name = (n), .nak = (k), .recv_wc = (rwc), .event = (ev), .err = (e), .recv_len = (rlen), \
		.step = __VA_ARGS__                                                                       \
	}

static const struct row rc_rows[] = {
	ROW("RESP_GAP", 0x60, NONE, NONE, false, 0, { { .op = OP_SEND_ONLY, .len = 4, .psn_off = 1 } }),
	ROW("RESP_RNR", 0x2c, NONE, NONE, false, 0, { { .op = OP_SEND_ONLY, .len = 4 } }),
	ROW("RESP_RNR", 0x2c, NONE, NONE, false, 0, { { .op = OP_WRITE_ONLY_IMM, .len = 4, .dma_len = 4 } }),
	ROW("RESP_OP_SEQ", INV_RECV, 4096,
	    { { .op = OP_SEND_FIRST, .len = 512 }, { .op = OP_WRITE_MIDDLE, .len = 512 } }),
	ROW("RESP_OP_SEQ", INV_RECV, 4096, { { .op = OP_SEND_FIRST, .len = 512 }, { .op = OP_SEND_ONLY, .len = 5 } }),
	ROW("RESP_OP_SEQ", INV_FLUSH, 4096, { { .op = OP_SEND_LAST, .len = 5 } }),
	ROW("RESP_OP_SEQ", INV_FLUSH, 4096,
	    { { .op = OP_WRITE_FIRST, .len = 512, .dma_len = 2000 }, { .op = OP_READ_REQUEST, .dma_len = 8 } }),
	ROW("RESP_OP_UNSUP", INV_FLUSH, 4096, { { .op = OP_FLUSH } }),
	ROW("RESP_LEN", INV_FLUSH, 4096, { { .op = OP_ATOMIC_WRITE, .len = 8, .dma_len = 9 } }),
	ROW("RESP_ALIGN", INV_FLUSH, 4096, { { .op = OP_ATOMIC_WRITE, .len = 8, .dma_len = 8, .va = 4 } }),
	ROW("RESP_RKEY", ACC_FLUSH, 64, { { .op = OP_ATOMIC_WRITE, .len = 8, .dma_len = 8, .va = BUF_LEN } }),
	ROW("RESP_INV", ACC, WC_LOC_ACCESS_ERR, EV_QP_ACCESS_ERR, true, 64, { { .op = OP_SEND_ONLY_INV, .len = 8 } }),
	ROW("RESP_QP_RIGHT", INV_FLUSH, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4 } }, .prepare = no_rights),
	ROW("RESP_QP_RIGHT", INV_FLUSH, 64, { { .op = OP_READ_REQUEST, .dma_len = 4 } }, .prepare = no_rights),
	ROW("RESP_QP_RIGHT", INV_FLUSH, 64, { { .op = OP_FETCH_ADD } }, .prepare = no_rights),
	ROW("RESP_LEN", INV_FLUSH, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 5 } }),
	ROW("RESP_LEN", INV_FLUSH, 64, { { .op = OP_WRITE_FIRST, .len = 256, .dma_len = 700 } }),
	ROW("RESP_LEN", INV_FLUSH, 64, { { .op = OP_WRITE_FIRST, .len = 512, .dma_len = 512 } }),
	ROW("RESP_LEN", INV_FLUSH, 64,
	    { { .op = OP_WRITE_FIRST, .len = 512, .dma_len = 700 }, { .op = OP_WRITE_LAST, .len = 187 } }),
	ROW("RESP_LEN", INV_FLUSH, 64,
	    { { .op = OP_WRITE_FIRST, .len = 512, .dma_len = 700 }, { .op = OP_WRITE_MIDDLE, .len = 512 } }),
	ROW("RESP_LEN", INV_RECV, 2048, { { .op = OP_SEND_ONLY, .len = 513 } }),
	ROW("RESP_LEN", INV_RECV, 2048, { { .op = OP_SEND_FIRST, .len = 512 }, { .op = OP_SEND_LAST, .len = 0 } }),
	ROW("RESP_MSG_LEN", INV_FLUSH, 64, { { .op = OP_READ_REQUEST, .dma_len = 0x80000001 } }),
	ROW("RESP_MSG_LEN", INV_FLUSH, 64, { { .op = OP_WRITE_FIRST, .len = 512, .dma_len = 0xffffffff } }),
	ROW("RESP_ALIGN", INV_FLUSH, 64, { { .op = OP_COMPARE_SWAP, .va = 4 } }),
	ROW("RESP_RD_NONE", INV_FLUSH, 64, { { .op = OP_READ_REQUEST, .dma_len = 4 } }, .prepare = no_rd),
	ROW("RESP_RD_MANY", INV_FLUSH, 64, { { .op = OP_READ_REQUEST, .dma_len = 4 }, { .op = OP_FETCH_ADD } },
	    .prepare = one_rd),
	ROW("RESP_RECV_LEN", INV, WC_LOC_LEN_ERR, NONE, true, 64, { { .op = OP_SEND_ONLY, .len = 65 } }),
	ROW("RESP_RECV_LEN", INV, WC_LOC_LEN_ERR, NONE, true, 700,
	    { { .op = OP_SEND_FIRST, .len = 512 }, { .op = OP_SEND_LAST, .len = 189 } }),
	ROW("RESP_RKEY", ACC_FLUSH, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4, .rkey_xor = 1 } }),
	ROW("RESP_RKEY", ACC_FLUSH, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4, .rkey_xor = 0x100 } }),
	ROW("RESP_RKEY", ACC_FLUSH, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4, .va = BUF_LEN - 3 } }),
	ROW("RESP_RKEY", ACC_FLUSH, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4, .va = -1ull } }),
	ROW("RESP_RKEY", ACC_FLUSH, 64, { { .op = OP_WRITE_FIRST, .len = 512, .dma_len = 513, .va = BUF_LEN - 512 } }),
	ROW("RESP_RKEY", ACC_FLUSH, 64, { { .op = OP_READ_REQUEST, .dma_len = 9, .va = BUF_LEN - 8 } }),
	ROW("RESP_RKEY", ACC_FLUSH, 64, { { .op = OP_FETCH_ADD, .va = BUF_LEN } }),
	ROW("RESP_RKEY", ACC, WC_LOC_ACCESS_ERR, EV_QP_ACCESS_ERR, true, 64,
	    { { .op = OP_WRITE_ONLY_IMM, .len = 4, .dma_len = 4, .rkey_xor = 1 } }),
	ROW("RESP_RKEY", ACC_FLUSH, 64,
	    { { .op = OP_WRITE_FIRST, .len = 512, .dma_len = 700 }, { .op = OP_WRITE_LAST, .len = 188 } },
	    .between = dereg),
	ROW("RESP_READ_RKEY", ACC_FLUSH, 64, { { .op = OP_READ_REQUEST, .dma_len = 4 }, { .op = OP_ACKNOWLEDGE } },
	    .between = dereg),
	ROW("RESP_RECV_PROT", OPE, WC_LOC_PROT_ERR, NONE, true, 64, { { .op = OP_SEND_ONLY, .len = 4 } },
	    .between = dereg),
	ROW("RESP_RECV_MEM", OPE, WC_LOC_PROT_ERR, NONE, true, 64, { { .op = OP_SEND_ONLY, .len = 4 } },
	    .between = gone),
	ROW("RESP_MEM", OPE, WC_WR_FLUSH_ERR, EV_QP_FATAL, true, 64,
	    { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4 } }, .between = gone),
	ROW("RESP_MEM", OPE, WC_WR_FLUSH_ERR, EV_QP_FATAL, true, 64, { { .op = OP_FETCH_ADD } }, .between = gone),
	ROW("RESP_MEM", OPE, WC_LOC_PROT_ERR, EV_QP_FATAL, true, 64,
	    { { .op = OP_WRITE_ONLY_IMM, .len = 4, .dma_len = 4 } }, .between = gone),
};

static const struct row uc_rows[] = {
	ROW("UC_GAP", 0, NONE, NONE, false, 4096,
	    { { .op = OP_SEND_FIRST, .len = 512 }, { .op = OP_SEND_LAST, .len = 4, .psn_off = 1 } }),
	ROW("UC_GAP", 0, NONE, NONE, false, 4096, { { .op = OP_SEND_LAST, .len = 4, .psn_off = 1 } }),
	ROW("UC_OP_SEQ", 0, NONE, NONE, false, 4096,
	    { { .op = OP_SEND_FIRST, .len = 512 }, { .op = OP_WRITE_LAST, .len = 4 } }),
	ROW("UC_OP_SEQ", 0, NONE, NONE, false, 4096, { { .op = OP_WRITE_MIDDLE, .len = 512 } }),
	ROW("UC_OP_SEQ", 0, WC_SUCCESS, NONE, false, 4096,
	    { { .op = OP_SEND_FIRST, .len = 512 }, { .op = OP_SEND_ONLY, .len = 4 } }),
	ROW("UC_NO_RECV", 0, NONE, NONE, false, 0, { { .op = OP_SEND_ONLY, .len = 5 } }),
	ROW("UC_NO_RECV", 0, NONE, NONE, false, 0, { { .op = OP_WRITE_ONLY_IMM, .len = 5, .dma_len = 5 } }),
	ROW("UC_QP_RIGHT", 0, NONE, NONE, false, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4 } },
	    .prepare = no_rights),
	ROW("UC_LEN", 0, NONE, NONE, false, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 5 } }),
	ROW("UC_LEN", 0, NONE, NONE, false, 4096, { { .op = OP_SEND_FIRST, .len = 511 } }),
	ROW("UC_LEN", 0, NONE, NONE, false, 64, { { .op = OP_WRITE_FIRST, .len = 512, .dma_len = 0xffffffff } }),
	ROW("UC_RECV_LEN", 0, NONE, NONE, false, 64, { { .op = OP_SEND_ONLY, .len = 65 } }),
	ROW("UC_INV", 0, NONE, NONE, false, 64, { { .op = SVC_UC | OP_SEND_ONLY_INV, .len = 8 } }),
	ROW("UC_RKEY", 0, NONE, NONE, false, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4, .rkey_xor = 1 } }),
	ROW("UC_RKEY", 0, NONE, NONE, false, 64,
	    { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4, .va = BUF_LEN - 3 } }),
	ROW("UC_RKEY", 0, NONE, NONE, false, 64,
	    { { .op = OP_WRITE_FIRST, .len = 512, .dma_len = 700 }, { .op = OP_WRITE_LAST, .len = 188 } },
	    .between = dereg),
	ROW("UC_RECV_PROT", 0, WC_LOC_PROT_ERR, NONE, true, 64, { { .op = OP_SEND_ONLY, .len = 4 } }, .between = dereg),
	ROW("UC_RECV_MEM", 0, WC_LOC_PROT_ERR, NONE, true, 64, { { .op = OP_SEND_ONLY, .len = 4 } }, .between = gone),
	ROW("UC_MEM", 0, NONE, NONE, false, 64, { { .op = OP_WRITE_ONLY, .len = 4, .dma_len = 4 } }, .between = gone),
};

/* All but what the transport mends by itself leaves a cause, with the key that did not open, where it was one. */
static void why_told(struct rig *r, const struct row *row)
{
	bool mended = !strcmp(row->name, "RESP_GAP") || !strcmp(row->name, "RESP_RNR"), told = false;
	bool key = strstr(row->name, "RKEY") || strstr(row->name, "_INV") || strstr(row->name, "_PROT");
	struct why w;

	while (hca_why(r->b.h, &w)) {
		if (!w.fault || strcmp(hca_fault_name(w.fault - 1u), row->name))
			continue;
		told = true;
		ck_assert_msg(!key || (w.key.why >= WHY_KEY_NONE && w.key.why < WHY_CAUSES), "%s: key %u", row->name,
			      w.key.why);
		ck_assert_msg((w.to == QPS_ERR) == row->err, "%s: to %u", row->name, w.to);
		ck_assert_msg(w.log_n > 0 && w.log[w.log_n - 1].event == TR_FAULT, "%s: log", row->name);
		ck_assert_uint_eq(w.qpn, r->b.qpn);
	}
	ck_assert_msg(told != mended, "%s: no cause", row->name);
}

static void run_row(const struct row *row, uint8_t type)
{
	static const uint8_t zeros[1024];
	struct link_conf c = conf_rc;
	struct burst b, out;
	struct rig r;
	uint32_t p = c.psn;
	uint8_t nak = 0;

	c.type = type;
	rig_init(&r, LINK_WIRE);
	if (row->prepare)
		row->prepare(&r, &c);
	rig_connect(&r, &c);
	if (row->recv_len)
		rig_recv(&r, &r.b, 1, 65536, row->recv_len);
	for (unsigned i = 0; i < 3 && (i == 0 || row->step[i].op); i++) {
		const struct step *s = &row->step[i];

		if (row->between && (i == 2 || !row->step[i + 1].op))
			row->between(&r);
		if (s->op == OP_ACKNOWLEDGE) /* not a request: only time passes */
			continue;
		b = pkt_from(&r, &r.a, (type == QPT_UC ? SVC_UC : SVC_RC) | s->op, p + (uint32_t)s->psn_off);
		b.va += s->va;
		b.rkey ^= s->rkey_xor;
		b.dma_len = s->dma_len;
		pkt_give(&r, &r.b, &b, zeros, s->len);
		p++;
	}
	while (take(&r, &r.b, &out)) {
		if (out.op_first != OP_ACKNOWLEDGE || out.syndrome == aeth_ack())
			continue;
		nak = out.syndrome;
		/* It names the packet that was wrong, or the one that was expected. */
		ck_assert_msg(out.psn.v == ((p - 1) & PSN_MASK), "%s: psn %x", row->name, out.psn.v);
	}
	ck_assert_msg(fault_n(&r.b, row->name) == 1, "%s: taken %u times", row->name,
		      (unsigned)fault_n(&r.b, row->name));
	ck_assert_msg(nak == row->nak, "%s: NAK 0x%02x", row->name, nak);
	ck_assert_msg(wc_status(&r.b, 1) == row->recv_wc, "%s: recv WC %u", row->name, wc_status(&r.b, 1));
	ck_assert_msg(row->event == NONE ? !r.b.ev_n : has_event(&r.b, row->event), "%s: event", row->name);
	ck_assert_msg((rig_state(&r.b) == QPS_ERR) == row->err, "%s: state %u", row->name, rig_state(&r.b));
	why_told(&r, row);
	rig_fini(&r);
}

START_TEST(rc_responder) /* conf: C10-87, CA17-39, rule 4.9 */
{
	for (size_t i = 0; i < sizeof(rc_rows) / sizeof(*rc_rows); i++)
		run_row(&rc_rows[i], QPT_RC);
}
END_TEST

START_TEST(uc_receiver) /* conf: rule 4.10 */
{
	for (size_t i = 0; i < sizeof(uc_rows) / sizeof(*uc_rows); i++)
		run_row(&uc_rows[i], QPT_UC);
}
END_TEST

/* ---- what the requester hears ---------------------------------------------------- */

static void nak_ends(uint8_t syndrome, const char *name, unsigned wc)
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	rig_recv(&r, &r.a, 7, 0, 64);
	for (unsigned i = 1; i <= 4; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 4, .quiet = i == 4);
	while (take(&r, &r.a, &b))
		;
	b = pkt_from(&r, &r.b, OP_ACKNOWLEDGE, conf_rc.psn + 1);
	b.syndrome = syndrome;
	pkt_give(&r, &r.a, &b, NULL, 0);
	/* Before it: acknowledged.  It: the error.  Behind it: flushed, also the unsignaled one, in order. */
	ck_assert_uint_eq(fault_n(&r.a, name), 1);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 2), wc);
	ck_assert_uint_eq(wc_status(&r.a, 3), WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(wc_status(&r.a, 4), WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(wc_status(&r.a, 7), WC_WR_FLUSH_ERR);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(r.a.wc[i].wr_id, i + 1);
	ck_assert_uint_eq(r.a.wc[1].vendor_err != 0, 1);
	ck_assert_uint_eq(rig_state(&r.a), QPS_ERR);
	/* Posted in ERR: flushed at once. */
	ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 20, .op = WR_SEND, .len = 4), 0);
	rig_recv(&r, &r.a, 21, 0, 64);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 20), WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(wc_status(&r.a, 21), WC_WR_FLUSH_ERR);
	rig_fini(&r);
}

START_TEST(requester_naks) /* conf: rule 4.12 */
{
	nak_ends(0x61, "REQ_NAK_INV", WC_REM_INV_REQ_ERR);
	nak_ends(0x62, "REQ_NAK_ACCESS", WC_REM_ACCESS_ERR);
	nak_ends(0x63, "REQ_NAK_OP", WC_REM_OP_ERR);
	nak_ends(0x64, "REQ_NAK_OTHER", WC_BAD_RESP_ERR);
}
END_TEST

/* A response to a READ of 1200 bytes (3 packets of 512) that does not fit. */
static void bad_resp(uint8_t op, uint32_t len, unsigned skip)
{
	static const uint8_t zeros[1024];
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 1200);
	while (take(&r, &r.a, &b))
		;
	for (unsigned i = 0; i < skip; i++) {
		b = pkt_from(&r, &r.b, i ? OP_READ_RESP_MIDDLE : OP_READ_RESP_FIRST, conf_rc.psn + i);
		pkt_give(&r, &r.a, &b, zeros, 512);
		ck_assert_uint_eq(r.a.wc_n, 0);
	}
	b = pkt_from(&r, &r.b, op, conf_rc.psn + skip);
	pkt_give(&r, &r.a, &b, zeros, len);
	ck_assert_uint_eq(fault_n(&r.a, "REQ_BAD_RESP"), 1);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_BAD_RESP_ERR);
	rig_fini(&r);
}

START_TEST(requester_bad_responses) /* conf: rule 4.6, rule 4.12 */
{
	bad_resp(OP_READ_RESP_FIRST, 511, 0);
	bad_resp(OP_READ_RESP_ONLY, 512, 0);
	bad_resp(OP_READ_RESP_MIDDLE, 512, 0);
	bad_resp(OP_READ_RESP_FIRST, 512, 1);
	bad_resp(OP_READ_RESP_LAST, 512, 1);
	bad_resp(OP_READ_RESP_MIDDLE, 512, 2);
	bad_resp(OP_READ_RESP_LAST, 175, 2);
	bad_resp(OP_READ_RESP_LAST, 177, 2);
	bad_resp(OP_ATOMIC_ACK, 0, 0);
}
END_TEST

static void resp_memory(enum wr_op op, bool unmap, const char *name)
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = op, .len = 8);
	ck_assert(take(&r, &r.a, &b));
	if (unmap)
		r.a.region.gone = true;
	else
		ck_assert_int_eq(hca_mr_dereg(r.a.h, r.a.key), 0);
	b = pkt_from(&r, &r.b, op == WR_READ ? OP_READ_RESP_ONLY : OP_ATOMIC_ACK, conf_rc.psn);
	pkt_give(&r, &r.a, &b, "12345678", op == WR_READ ? 8 : 0);
	ck_assert_uint_eq(fault_n(&r.a, name), 1);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_LOC_PROT_ERR);
	rig_fini(&r);
}

START_TEST(requester_memory)
{
	resp_memory(WR_READ, false, "REQ_RESP_PROT");
	resp_memory(WR_FETCH_ADD, false, "REQ_RESP_PROT");
	resp_memory(WR_READ, true, "REQ_RESP_MEM");
	resp_memory(WR_CMP_SWP, true, "REQ_RESP_MEM");
}
END_TEST

START_TEST(retries_exhausted) /* conf: C9-140, rule 4.12 */
{
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;
	unsigned sent = 0;

	c.retry = 3;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4);
	for (unsigned i = 0; i < 10; i++) {
		while (take(&r, &r.a, &b)) {
			ck_assert(b.ackreq);
			sent++;
		}
		if (r.a.wc_n)
			break;
		ck_assert(!mono_is_never(hca_deadline(r.a.h)));
		ck_assert_uint_ge(hca_deadline(r.a.h).ns - r.now.ns, 67 * MS);
		ck_assert_uint_le(hca_deadline(r.a.h).ns - r.now.ns, 4 * 68 * MS);
		r.now = hca_deadline(r.a.h);
		hca_tick(r.a.h, r.now);
	}
	ck_assert_uint_eq(sent, 4);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(fault_n(&r.a, "REQ_RETRY_EXC"), 1);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_RETRY_EXCEEDED_ERR), 1);
	rig_fini(&r);
}
END_TEST

/* ---- send queues -------------------------------------------------------------------- */

static void sq_fails(uint8_t type, const struct wr_arg *bad, const char *name, unsigned wc, bool unmap)
{
	struct link_conf c = conf_rc;
	struct rig r;

	c.type = type;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	rig_recv(&r, &r.b, 50, 0, 600);
	rig_recv(&r, &r.a, 51, 0, 600);
	ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 400), 0);
	if (unmap) {
		rig_run(&r);
		r.a.region.gone = true;
	}
	ck_assert_int_eq(rig_send(&r, &r.a, bad), 0);
	ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 3, .op = WR_SEND, .len = 4), 0);
	rig_run(&r);
	/* The one before is delivered and acknowledged first. */
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.b, 50), WC_SUCCESS);
	ck_assert_msg(wc_status(&r.a, 2) == wc, "%s, type %u: WC %u", name, type, wc_status(&r.a, 2));
	ck_assert_uint_eq(wc_status(&r.a, 3), WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(fault_n(&r.a, name), 1);
	ck_assert_uint_eq(rig_state(&r.a), type == QPT_RC ? QPS_ERR : QPS_SQE);
	if (type != QPT_RC) {
		struct qp_attr a = { .state = QPS_RTS };

		/* The receive side lives on; what is posted now is flushed; RTS makes it whole again. */
		ck_assert_uint_eq(wc_status(&r.a, 51), NONE);
		SEND_WR(&r, &r.a, .id = 4, .op = WR_SEND, .len = 4);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 4), WC_WR_FLUSH_ERR);
		ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_STATE, r.now), 0);
		r.a.region.gone = false;
		rig_recv(&r, &r.b, 60, 0, 600);
		SEND_WR(&r, &r.a, .id = 5, .op = WR_SEND, .len = 4);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 5), WC_SUCCESS);
		ck_assert_uint_eq(wc_status(&r.b, 60), WC_SUCCESS);
	}
	rig_fini(&r);
}

START_TEST(send_queue) /* conf: rule 4.12 */
{
	static const struct wr_arg prot = { .id = 2, .op = WR_SEND, .len = 9, .lkey = 0x12345 };
	static const struct wr_arg far = { .id = 2, .op = WR_SEND, .len = 9, .off = BUF_LEN - 8 };
	static const struct wr_arg plain = { .id = 2, .op = WR_SEND, .len = 9 };
	static const struct wr_arg big = {
		.id = 2,
		.op = WR_SEND,
		.len = 0xf0000000,
	};
	static const struct wr_arg over = { .id = 2, .op = WR_SEND, .len = 4097 };
	static const struct wr_arg atom = { .id = 2, .op = WR_FETCH_ADD, .len = 4 };
	static const struct wr_arg bind = { .id = 2, .op = WR_BIND_MW, .len = 4, .rkey = 0x80000100 };
	static const struct wr_arg inv = { .id = 2, .op = WR_LOCAL_INV, .imm = 0x80000100 };
	static const struct wr_arg read = { .id = 2, .op = WR_READ, .len = 4, .lkey = 77 };

	for (uint8_t type = QPT_RC; type <= QPT_UD; type++) {
		sq_fails(type, &prot, "SQ_PROT", WC_LOC_PROT_ERR, false);
		sq_fails(type, &far, "SQ_PROT", WC_LOC_PROT_ERR, false);
		sq_fails(type, &big, "SQ_LEN", WC_LOC_LEN_ERR, false);
		sq_fails(type, &plain, "SQ_MEM", WC_LOC_PROT_ERR, true);
	}
	for (uint8_t type = QPT_RC; type <= QPT_UC; type++) {
		sq_fails(type, &bind, "SQ_BIND", WC_MW_BIND_ERR, false);
		sq_fails(type, &inv, "SQ_INV", WC_MW_BIND_ERR, false);
	}
	sq_fails(QPT_UD, &over, "SQ_LEN", WC_LOC_LEN_ERR, false);
	sq_fails(QPT_RC, &atom, "SQ_LEN", WC_LOC_LEN_ERR, false);
	sq_fails(QPT_RC, &read, "SQ_PROT", WC_LOC_PROT_ERR, false);
}
END_TEST

START_TEST(send_queue_no_route)
{
	struct link_conf c = conf_rc;
	struct rig r;

	c.type = QPT_UD;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	hca_gid_set(r.a.h, 1, NULL);
	hca_gid_set(r.a.h, 2, r.a.gid); /* another row is none */
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 4);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_LOC_QP_OP_ERR);
	ck_assert_uint_eq(fault_n(&r.a, "SQ_OP"), 1);
	rig_fini(&r);
}
END_TEST

/* A read response whose memory the host cannot read. */
START_TEST(read_memory)
{
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 2000);
	r.b.region.gone = true;
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_REM_OP_ERR);
	ck_assert_uint_eq(fault_n(&r.b, "RESP_READ_MEM"), 1);
	ck_assert(has_event(&r.b, EV_QP_FATAL));
	rig_fini(&r);
}
END_TEST

/* ---- UD -------------------------------------------------------------------------------- */

static void ud_fault(const char *name, uint32_t recv_len, uint32_t len, uint32_t qkey, void (*between)(struct rig *),
		     unsigned wc, bool err)
{
	static const uint8_t zeros[8192];
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	c.type = QPT_UD;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	if (recv_len)
		rig_recv(&r, &r.b, 1, 0, recv_len);
	if (between)
		between(&r);
	b = pkt_from(&r, &r.a, SVC_UD | OP_SEND_ONLY, 5);
	b.qkey = qkey;
	b.mtu = len;
	pkt_give(&r, &r.b, &b, zeros, len);
	ck_assert_msg(fault_n(&r.b, name) == 1, "%s", name);
	ck_assert_msg(wc_status(&r.b, 1) == wc, "%s: WC %u", name, wc_status(&r.b, 1));
	ck_assert_uint_eq(rig_state(&r.b), err ? QPS_ERR : QPS_RTS);
	rig_fini(&r);
}

START_TEST(ud_receiver) /* conf: C9-92, rule 4.11 */
{
	ud_fault("UD_QKEY", 100, 4, 0x1235, NULL, NONE, false);
	ud_fault("UD_NO_RECV", 0, 4, 0x1234, NULL, NONE, false);
	ud_fault("UD_LEN", 5000, 4097, 0x1234, NULL, NONE, false);
	ud_fault("UD_RECV_LEN", 43, 4, 0x1234, NULL, WC_LOC_LEN_ERR, false);
	ud_fault("UD_RECV_LEN", 39, 0, 0x1234, NULL, WC_LOC_LEN_ERR, false);
	ud_fault("UD_RECV_PROT", 100, 4, 0x1234, dereg, WC_LOC_PROT_ERR, true);
	ud_fault("UD_RECV_MEM", 100, 4, 0x1234, gone, WC_LOC_PROT_ERR, true);
}
END_TEST

START_TEST(cq_overrun) /* conf: rule 4.9 */
{
	const struct qp_attr reset = { .state = QPS_RESET }, init = { .state = QPS_INIT, .port = 1 };
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	hca_cq_overrun(r.a.h, r.a.cqn, r.now);
	rig_run(&r);
	ck_assert_uint_eq(fault_n(&r.a, "CQ_OVERRUN"), 1);
	ck_assert(has_event(&r.a, EV_CQ_ERR));
	ck_assert(has_event(&r.a, EV_QP_FATAL));
	ck_assert_uint_eq(rig_state(&r.a), QPS_ERR);
	/* Its CQ is in error for good, and it would never complete anything. */
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &reset, QPA_STATE, r.now), 0);
	ck_assert_int_eq(
		hca_qp_modify(r.a.h, r.a.qpn, &init, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, r.now),
		0);
	ck_assert_uint_eq(fault_n(&r.a, "CQ_OVERRUN"), 2);
	ck_assert(has_event(&r.a, EV_QP_FATAL));
	ck_assert_uint_eq(rig_state(&r.a), QPS_ERR);
	rig_fini(&r);
}
END_TEST

/* The tables above and the tests name every row there is. */
START_TEST(all_rows_named) /* conf: CA17-39, rule 4.9 */
{
	static const char *const others[] = { "RESP_READ_MEM", "REQ_NAK_INV",   "REQ_NAK_ACCESS", "REQ_NAK_OP",
					      "REQ_NAK_OTHER", "REQ_RETRY_EXC", "REQ_RNR_EXC",    "REQ_BAD_RESP",
					      "REQ_RESP_PROT", "REQ_RESP_MEM",  "SQ_LEN",         "SQ_OP",
					      "SQ_PROT",       "SQ_MEM",        "SQ_BIND",        "SQ_INV",
					      "RESP_XRC_SRQ",  "UD_QKEY",       "UD_NO_RECV",     "UD_LEN",
					      "UD_RECV_LEN",   "UD_RECV_PROT",  "UD_RECV_MEM",    "CQ_OVERRUN" };

	for (unsigned i = 0; i < hca_fault_n(); i++) {
		const char *name = hca_fault_name(i);
		bool found = false;

		for (size_t k = 0; k < sizeof(rc_rows) / sizeof(*rc_rows); k++)
			found |= !strcmp(rc_rows[k].name, name);
		for (size_t k = 0; k < sizeof(uc_rows) / sizeof(*uc_rows); k++)
			found |= !strcmp(uc_rows[k].name, name);
		for (size_t k = 0; k < sizeof(others) / sizeof(*others); k++)
			found |= !strcmp(others[k], name);
		ck_assert_msg(found, "no test for %s", name);
	}
}
END_TEST

TEST_MAIN("core_fault", rc_responder, uc_receiver, requester_naks, requester_bad_responses, requester_memory,
	  retries_exhausted, send_queue, send_queue_no_route, read_memory, ud_receiver, cq_overrun, all_rows_named)
