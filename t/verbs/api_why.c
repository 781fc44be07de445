/* SPDX-License-Identifier: MIT */
/*
 * api_why.c - what `rdmactl why` says when verbs fail: the sentence with its numbers, for each kind of failure that a
 * program can bring about by itself.  t/proto/core_fault has the rows of fault.def.
 */
#include "fixture.h"

#include <regex.h>
#include <stdio.h>

/* The daemon's causes for a QP (0: for all). */
static const char *asked(uint32_t qpn)
{
	static char text[1 << 16];
	char cmd[128];
	size_t n;
	FILE *f;

	if (qpn)
		snprintf(cmd, sizeof(cmd), "./rdmactl why -b 0x%x", qpn);
	else
		snprintf(cmd, sizeof(cmd), "./rdmactl why -a -b");
	f = popen(cmd, "r");
	ck_assert(f != NULL);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	ck_assert_int_eq(pclose(f), 0);
	return text;
}

static void says(uint32_t qpn, const char *pattern)
{
	const char *text = asked(qpn);
	regex_t re;

	ck_assert_int_eq(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	ck_assert_msg(!regexec(&re, text, 0, NULL, 0), "QP 0x%x: wanted: %s\ngot:\n%s", qpn, pattern, text);
	regfree(&re);
}

/* Of all that is told. */
static void says_once(const char *words)
{
	const char *at = strstr(asked(0), words);

	ck_assert(at && !strstr(at + 1, words));
}

struct duo {
	struct fix f;
	struct ibv_qp *a, *b;
};

static void duo_open(struct duo *d)
{
	fix_open(&d->f);
	d->a = fix_qp(&d->f, IBV_QPT_RC, 16, NULL);
	d->b = fix_qp(&d->f, IBV_QPT_RC, 16, NULL);
}

static void duo_close(struct duo *d)
{
	ck_assert_int_eq(ibv_destroy_qp(d->a), 0);
	if (d->b)
		ck_assert_int_eq(ibv_destroy_qp(d->b), 0);
	fix_close(&d->f);
}

/* To RTS with few and short retries. */
static void rts_brief(struct ibv_qp *qp, uint8_t rnr_retry)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .sq_psn = 0xfffff0,
				 .timeout = 1, /* the daemon takes 8 */
				 .retry_cnt = 3,
				 .rnr_retry = rnr_retry,
				 .max_rd_atomic = 4 };

	ck_assert_int_eq(ibv_modify_qp(qp, &a,
				       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static int post(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_sge *sge, int n, uint64_t addr, uint32_t rkey)
{
	struct ibv_send_wr *bad,
		wr = { .wr_id = 0x77, .sg_list = sge, .num_sge = n, .opcode = op, .send_flags = IBV_SEND_SIGNALED };

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

/* A WR of len bytes, and the status that it ends with. */
static enum ibv_wc_status ends(struct fix *f, struct ibv_qp *qp, enum ibv_wr_opcode op, unsigned len, uint64_t addr,
			       uint32_t rkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)f->buf, .length = len, .lkey = f->mr->lkey };
	struct ibv_wc wc;

	ck_assert_int_eq(post(qp, op, &sge, len ? 1 : 0, addr, rkey), 0);
	do
		wc = fix_wait(f->cq);
	while (wc.wr_id != 0x77);
	return wc.status;
}

/* ---- retries ------------------------------------------------------------------------- */

START_TEST(retry_silent)
{
	struct duo d;

	duo_open(&d);
	fix_init(d.a);
	fix_init(d.b);
	fix_rtr(&d.f, d.a, d.b);
	rts_brief(d.a, 7);
	ck_assert_int_eq(fix_recv(&d.f, d.a, 1, 0, 8), 0);
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_RDMA_WRITE, 64, 0, 0), IBV_WC_RETRY_EXC_ERR);
	says(d.a->qp_num,
	     "QP 0x[0-9a-f]+ to ERR: RETRY_EXC after 4 timeouts of 3145 us on PSN 0xfffff0 \\(retry_cnt 3\\), "
	     "0 packets seen from fe80::[0-9a-f:]+ QP 0x[0-9a-f]+ since RTR [0-9]+ [um]s before, last sent "
	     "RC_WRITE_ONLY");
	says(d.b->qp_num, "RC_WRITE_ONLY with PSN 0xfffff0 came from .* and was dropped: the QP is in INIT");
	/* All of it, as JSON: the chain, and what is known of the other end. */
	{
		char cmd[512];

		snprintf(cmd, sizeof(cmd),
			 "./rdmactl -j why 0x%x | grep -q '\"there\": \"rdmad0 is a device of this daemon; QP 0x%x of "
			 ".* is in INIT\"' && "
			 "./rdmactl why 0x%x | grep -q 'timeout   no ACK of PSN 0xfffff0; number 4, 0 retries left' && "
			 "./rdmactl why 0x%x | grep -q 'hint: peer unreachable or its QP not in RTR' && "
			 "./rdmactl why 0x%x | grep -q 'then: 0 sends and 1 receive '",
			 d.a->qp_num, d.b->qp_num, d.a->qp_num, d.a->qp_num, d.a->qp_num);
		ck_assert_int_eq(system(cmd), 0);
	}
	duo_close(&d);
}
END_TEST

START_TEST(retry_deaf)
{
	struct duo d;
	uint32_t qpn;

	duo_open(&d);
	qpn = d.b->qp_num;
	fix_init(d.a);
	fix_init(d.b);
	fix_rtr(&d.f, d.a, d.b);
	fix_rtr(&d.f, d.b, d.a);
	rts_brief(d.a, 7);
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_RDMA_WRITE, 64, (uintptr_t)d.f.buf, d.f.mr->rkey), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_destroy_qp(d.b), 0);
	d.b = NULL;
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_RDMA_WRITE, 64, (uintptr_t)d.f.buf, d.f.mr->rkey),
			 IBV_WC_RETRY_EXC_ERR);
	says(d.a->qp_num,
	     "RETRY_EXC after 4 timeouts of [0-9]+ us on PSN 0xfffff1 .*, 0 packets seen from .* since the last ACK, "
	     "the last one [0-9]+ [um]s before \\(1 in all\\)");
	{
		char cmd[128];

		snprintf(cmd, sizeof(cmd),
			 "./rdmactl why 0x%x | grep -q 'there is no QP 0x%x any more: .* destroyed it'", d.a->qp_num,
			 qpn);
		ck_assert_int_eq(system(cmd), 0);
	}
	duo_close(&d);
}
END_TEST

START_TEST(rnr)
{
	struct duo d;

	duo_open(&d);
	fix_init(d.a);
	fix_init(d.b);
	fix_rtr(&d.f, d.a, d.b);
	fix_rtr(&d.f, d.b, d.a);
	rts_brief(d.a, 2);
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_SEND, 8, 0, 0), IBV_WC_RNR_RETRY_EXC_ERR);
	says(d.a->qp_num, "RNR_RETRY_EXC after 3 RNR NAKs on PSN 0xfffff0 \\(rnr_retry 2, the peer's timer 10 us\\): "
			  "no receive is posted at .*; "
			  "SEND wr_id 0x77");
	duo_close(&d);
}
END_TEST

/* ---- keys: the responder says precisely, the requester what it was told --------------- */

static void refused_write(uint64_t off, unsigned len, uint32_t rkey_of, unsigned access, const char *pattern)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct duo d;
	uint32_t rkey;

	duo_open(&d);
	fix_connect(&d.f, d.a, d.b);
	pd = ibv_alloc_pd(d.f.ctx);
	mr = ibv_reg_mr(rkey_of == 1 ? pd : d.f.pd, d.f.buf, 4096, access);
	ck_assert(pd && mr);
	rkey = rkey_of == 2 ? mr->rkey ^ 1 : rkey_of == 3 ? 0x7abcde00 : mr->rkey;
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_RDMA_WRITE, len, (uintptr_t)d.f.buf + off, rkey),
			 IBV_WC_REM_ACCESS_ERR);
	says(d.b->qp_num, pattern);
	says(d.a->qp_num, "to ERR: REM_ACCESS_ERR: fe80.* answered PSN 0xfffff0 with NAK remote access error: "
			  "RDMA_WRITE wr_id 0x77, [0-9]+ bytes at "
			  "0x[0-9a-f]+ with rkey 0x[0-9a-f]+");
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	duo_close(&d);
}

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

START_TEST(keys)
{
	refused_write(0, 64, 1, ALL,
		      "to ERR: rkey 0x[0-9a-f]+ is of another protection domain \\([0-9]+, the QP's is [0-9]+\\); "
		      "RC_WRITE_ONLY with PSN 0xfffff0");
	refused_write(0, 64, 2, ALL, "to ERR: rkey 0x[0-9a-f]+ (was never that of an MR|is that of no MR)");
	refused_write(0, 64, 3, ALL, "to ERR: rkey 0x7abcde00 (was never that of an MR|is that of no MR)");
	refused_write(0, 64, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
		      "rkey 0x[0-9a-f]+ does not have REMOTE_WRITE \\(it has LOCAL_WRITE\\|REMOTE_READ\\)");
	refused_write(4090, 64, 0, ALL,
		      "0x[0-9a-f]+ \\+ 64 is out of bounds by 58 bytes: the MR of 0x[0-9a-f]+ is 0x[0-9a-f]+ \\+ 4096");
}
END_TEST

START_TEST(window_unbound)
{
	struct ibv_mw *mw;
	struct duo d;

	duo_open(&d);
	fix_connect(&d.f, d.a, d.b);
	mw = ibv_alloc_mw(d.f.pd, IBV_MW_TYPE_2);
	ck_assert(mw != NULL);
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_RDMA_WRITE, 8, 0, mw->rkey), IBV_WC_REM_ACCESS_ERR);
	says(d.b->qp_num, "rkey 0x[0-9a-f]+: the window is not bound");
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	duo_close(&d);
}
END_TEST

START_TEST(rights_of_qp)
{
	struct ibv_qp_attr a = { .qp_access_flags = 0 };
	struct duo d;

	duo_open(&d);
	fix_connect(&d.f, d.a, d.b);
	ck_assert_int_eq(ibv_modify_qp(d.b, &a, IBV_QP_ACCESS_FLAGS), 0);
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_RDMA_WRITE, 8, (uintptr_t)d.f.buf, d.f.mr->rkey),
			 IBV_WC_REM_INV_REQ_ERR);
	says(d.b->qp_num, "QP access flags do not have the operation; the QP has no remote access; RC_WRITE_ONLY");
	says(d.a->qp_num, "REM_INV_REQ_ERR: .* with NAK invalid request");
	duo_close(&d);
}
END_TEST

START_TEST(misaligned)
{
	struct duo d;

	duo_open(&d);
	fix_connect(&d.f, d.a, d.b);
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, (uintptr_t)d.f.buf + 4, d.f.mr->rkey),
			 IBV_WC_REM_INV_REQ_ERR);
	says(d.b->qp_num, "atomic not on 8 aligned bytes; 0x[0-9a-f]+4; RC_FETCH_ADD");
	duo_close(&d);
}
END_TEST

/* ---- receives --------------------------------------------------------------------------- */

START_TEST(recv_short)
{
	struct duo d;

	duo_open(&d);
	fix_connect(&d.f, d.a, d.b);
	ck_assert_int_eq(fix_recv(&d.f, d.b, 0x99, 0, 16), 0);
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_SEND, 64, 0, 0), IBV_WC_REM_INV_REQ_ERR);
	says(d.b->qp_num, "LOC_LEN_ERR: a message of 64 bytes or more from .* does not fit the receive of 16 bytes "
			  "\\(wr_id 0x99\\)");
	duo_close(&d);
}
END_TEST

START_TEST(recv_lkey)
{
	struct ibv_sge sge = { .length = 64, .lkey = 0x7abcde00 };
	struct ibv_recv_wr *bad, wr = { .wr_id = 0x99, .sg_list = &sge, .num_sge = 1 };
	struct duo d;

	duo_open(&d);
	sge.addr = (uintptr_t)d.f.buf;
	fix_connect(&d.f, d.a, d.b);
	ck_assert_int_eq(ibv_post_recv(d.b, &wr, &bad), 0);
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_SEND, 64, 0, 0), IBV_WC_REM_OP_ERR);
	says(d.b->qp_num, "LOC_PROT_ERR: sge 0 of 1: lkey 0x7abcde00 (was never that of an MR|is that of no MR); "
			  "RC_SEND_ONLY with PSN 0xfffff0 of "
			  ".*; receive wr_id 0x99");
	says(d.a->qp_num, "REM_OP_ERR: .* with NAK remote operational error");
	duo_close(&d);
}
END_TEST

/* ---- local ------------------------------------------------------------------------------- */

START_TEST(send_lkey)
{
	struct ibv_sge sge[2];
	struct duo d;

	duo_open(&d);
	fix_connect(&d.f, d.a, d.b);
	sge[0] = (struct ibv_sge){ (uintptr_t)d.f.buf, 600, d.f.mr->lkey };
	sge[1] = (struct ibv_sge){ (uintptr_t)d.f.buf + BUF_LEN - 10, 600, d.f.mr->lkey };
	ck_assert_int_eq(post(d.a, IBV_WR_SEND, sge, 2, 0, 0), 0);
	ck_assert_int_eq(fix_wait(d.f.cq).status, IBV_WC_LOC_PROT_ERR);
	says(d.a->qp_num, "to ERR: LOC_PROT_ERR: sge 1 of 2: 0x[0-9a-f]+ \\+ 600 is out of bounds by 590 bytes: .* \\+ "
			  "8192; SEND wr_id 0x77");
	duo_close(&d);
}
END_TEST

START_TEST(send_length)
{
	struct duo d;

	duo_open(&d);
	fix_connect(&d.f, d.a, d.b);
	ck_assert_int_eq(ends(&d.f, d.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 16, (uintptr_t)d.f.buf, d.f.mr->rkey),
			 IBV_WC_LOC_LEN_ERR);
	says(d.a->qp_num, "LOC_LEN_ERR: ATOMIC_FETCH_AND_ADD wr_id 0x77 of 16 bytes, not 8");
	duo_close(&d);
}
END_TEST

START_TEST(bind_refused)
{
	struct ibv_mw_bind_info info;
	struct ibv_send_wr *bad, wr = { .wr_id = 0x77, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mw *mw;
	struct duo d;

	duo_open(&d);
	fix_connect(&d.f, d.a, d.b);
	mw = ibv_alloc_mw(d.f.pd, IBV_MW_TYPE_2);
	info = (struct ibv_mw_bind_info){ d.f.mr, (uintptr_t)d.f.buf, 64, IBV_ACCESS_REMOTE_READ };
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = info;
	ck_assert_int_eq(ibv_post_send(d.a, &wr, &bad), 0);
	ck_assert_int_eq(fix_wait(d.f.cq).status, IBV_WC_MW_BIND_ERR);
	says(d.a->qp_num, "MW_BIND_ERR: lkey 0x[0-9a-f]+ of the region has LOCAL_WRITE\\|.*, a window like this needs "
			  "MW_BIND; BIND_MW wr_id 0x77");
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	duo_close(&d);
}
END_TEST

START_TEST(overrun)
{
	struct ibv_qp_init_attr init = { .cap = { 32, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct duo d;

	duo_open(&d);
	cq = ibv_create_cq(d.f.ctx, 4, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(d.f.pd, &init);
	ck_assert(cq && qp);
	fix_connect(&d.f, qp, d.b);
	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(fix_write_to(&d.f, qp, 0, (uintptr_t)d.f.buf, d.f.mr->rkey, 8), 0);
	while (fix_event(d.f.ctx) != IBV_EVENT_QP_FATAL) {}
	says(qp->qp_num, "to ERR: a CQ of the QP overran; CQ [0-9]+");
	for (int i = 0; i < 2; i++) {
		init.send_cq = i ? cq : d.f.cq;
		init.recv_cq = i ? d.f.cq : cq;
		ck_assert(!ibv_create_qp(d.f.pd, &init) && errno == EINVAL);
		says(0, "ibv_create_qp refused: .*: CQ [0-9]+ has overrun, and takes no completions any more: create "
			"another one");
	}
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	duo_close(&d);
}
END_TEST

START_TEST(flushes)
{
	struct duo d;

	duo_open(&d);
	fix_connect(&d.f, d.a, d.b);
	ck_assert_int_eq(fix_recv(&d.f, d.a, 1, 0, 8), 0);
	ck_assert_int_eq(fix_state(d.a, IBV_QPS_ERR), 0);
	ck_assert_int_eq(fix_wait(d.f.cq).status, IBV_WC_WR_FLUSH_ERR);
	says(d.a->qp_num, "to ERR: the program brought the QP to ERR, and what was posted was flushed");
	ck_assert_int_eq(fix_send(&d.f, d.a, 2, 0, 8, 0), 0);
	ck_assert_int_eq(fix_wait(d.f.cq).status, IBV_WC_WR_FLUSH_ERR);
	says(d.a->qp_num, "posted to a QP in ERR, and flushed at once; the QP went there [0-9]+ [num]s before: the "
			  "program brought the QP to ERR");
	duo_close(&d);
}
END_TEST

/* ---- ibv_modify_qp, and other verbs ---------------------------------------------------------- */

static void refused(struct ibv_qp *qp, struct ibv_qp_attr a, int mask, const char *pattern)
{
	ck_assert_int_eq(ibv_modify_qp(qp, &a, mask), EINVAL);
	says(qp->qp_num, pattern);
}

START_TEST(modify)
{
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = 7,
				 .ah_attr = { .is_global = 1, .port_num = 1 } },
			   b;
	struct duo d;

	duo_open(&d);
	refused(d.a, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE,
		"RTS refused \\(from RESET\\): there is no such change; from RESET a QP of RC goes to RESET, INIT");
	refused(d.a, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 }, IBV_QP_STATE | IBV_QP_PORT,
		"INIT refused \\(from RESET\\): attr_mask lacks ACCESS_FLAGS\\|PKEY_INDEX; required are "
		"ACCESS_FLAGS\\|PKEY_INDEX\\|PORT");
	refused(d.a, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 2 },
		IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS,
		"INIT refused .*: PORT 2: the device has port 1 only");
	fix_init(d.a);
	a.ah_attr.grh.dgid = d.f.gid;
	b = a;
	refused(d.a, b, rtr | IBV_QP_QKEY, "RTR refused \\(from INIT\\): attr_mask has QKEY; a QP of RC may have ");
	b.path_mtu = 6;
	refused(d.a, b, rtr, "PATH_MTU 6 is not 1 to [1-5] \\([0-9]+ bytes\\), the port's active MTU");
	b = a;
	b.cur_qp_state = IBV_QPS_RTS;
	refused(d.a, b, rtr | IBV_QP_CUR_STATE, "RTR refused \\(from INIT\\): cur_qp_state says RTS");
	b = a;
	b.ah_attr.grh.sgid_index = 63;
	refused(d.a, b, rtr, "RTR refused .*: sgid_index 63 is an empty row of the GID table");
	b = a;
	memset(&b.ah_attr.grh.dgid, 0, 16);
	memcpy(b.ah_attr.grh.dgid.raw + 10, "\xff\xff\x0a\x09\x08\x07", 6);
	refused(d.a, b, rtr,
		"RTR refused \\(from INIT\\): sgid_index 0 is fe80::[0-9a-f:]+, destination is routed: 10\\.9\\.8\\.7");
	b = a;
	b.ah_attr.is_global = 0;
	refused(d.a, b, rtr,
		"ibv_modify_qp refused: Invalid argument: is_global is 0: RoCE needs a GRH: .* \\(qperf: -cm 1; "
		"pingpongs: -g N\\)");
	b = a;
	b.ah_attr.port_num = 2;
	refused(d.a, b, rtr, "ibv_modify_qp refused: .*: port_num of the address is 2: there is port 1 only");
	b = a;
	b.qp_state = IBV_QPS_ERR + 1;
	refused(d.a, b, rtr, "ibv_modify_qp refused: .*: qp_state 7 is no state");
	duo_close(&d);
}
END_TEST

START_TEST(verbs)
{
	struct ibv_qp_init_attr init = { .cap = { 100000, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct duo d;

	duo_open(&d);
	init.send_cq = init.recv_cq = d.f.cq;
	ck_assert(!ibv_create_qp(d.f.pd, &init));
	says(0, "ibv_create_qp refused: Invalid argument: max_send_wr 100000 and max_recv_wr 1 \\(up to 16384\\)");
	init.cap.max_send_wr = 1;
	for (init.cap.max_inline_data = 1 << 14; init.cap.max_inline_data > 1 << 11; init.cap.max_inline_data /= 2)
		ck_assert(!ibv_create_qp(d.f.pd, &init));
	says_once("max_inline_data above ");
	ck_assert(!ibv_create_cq(d.f.ctx, 1 << 22, NULL, NULL, 0));
	says(0, "ibv_create_cq refused: Invalid argument: cqe 4194304 \\(1 to 1048576\\)");
	ck_assert(!ibv_reg_mr(d.f.pd, (void *)0x10000, 4096, IBV_ACCESS_LOCAL_WRITE));
	says(0, "ibv_reg_mr of 4096 bytes at 0x10000 refused: Bad address");
	ck_assert(!ibv_reg_mr(d.f.pd, d.f.buf, 4096, IBV_ACCESS_REMOTE_WRITE));
	says(0, "ibv_reg_mr refused: .*: remote write and atomics need IBV_ACCESS_LOCAL_WRITE");
	ck_assert_int_eq(ibv_dealloc_pd(d.f.pd), EBUSY);
	says(0, "ibv_dealloc_pd of 0x[0-9a-f]+ refused: Device or resource busy");
	ck_assert_int_ne(fix_send(&d.f, d.a, 1, 0, 8, 0), 0);
	says(d.a->qp_num, "ibv_post_send refused: Invalid argument: SEND with 1 sge \\(up to [0-9]+\\), flags 0x0, "
			  "inline data up to [0-9]+, in state RESET: sends need RTS");
	duo_close(&d);
}
END_TEST

/* ---- datagrams -------------------------------------------------------------------------------- */

START_TEST(datagrams)
{
	struct ibv_ah_attr aa = { .is_global = 1, .port_num = 1 };
	struct ibv_sge sge = { .length = 64 };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 0x77, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};
	struct ibv_port_attr port;
	struct duo d;

	fix_open(&d.f);
	ck_assert_int_eq(ibv_query_port(d.f.ctx, 1, &port), 0);
	ck_assert_uint_eq(port.qkey_viol_cntr, 0);
	d.a = fix_qp(&d.f, IBV_QPT_UD, 16, NULL);
	d.b = fix_qp(&d.f, IBV_QPT_UD, 16, NULL);
	fix_connect(&d.f, d.a, d.b);
	sge.addr = (uintptr_t)d.f.buf;
	sge.lkey = d.f.mr->lkey;
	aa.grh.dgid = d.f.gid;
	wr.wr.ud.ah = ibv_create_ah(d.f.pd, &aa);
	wr.wr.ud.remote_qpn = d.b->qp_num;
	wr.wr.ud.remote_qkey = 0x2222;
	ck_assert_int_eq(ibv_post_send(d.a, &wr, &bad), 0);
	fix_wait_ok(d.f.cq);
	says(d.b->qp_num,
	     "Q_Key is not the QP's; 0x2222, the QP's is 0x1111; UD_SEND_ONLY with PSN 0xfffff0 of fe80::");
	ck_assert_int_eq(ibv_query_port(d.f.ctx, 1, &port), 0);
	ck_assert_uint_eq(port.qkey_viol_cntr, 1);
	wr.wr.ud.remote_qkey = 0x1111;
	ck_assert_int_eq(ibv_post_send(d.a, &wr, &bad), 0);
	fix_wait_ok(d.f.cq);
	says(d.b->qp_num, "no receive WR; UD_SEND_ONLY");
	ck_assert_int_eq(fix_recv(&d.f, d.b, 0x99, 0, 100), 0);
	ck_assert_int_eq(ibv_post_send(d.a, &wr, &bad), 0);
	ck_assert_uint_eq(fix_wait(d.f.cq).wr_id | fix_wait(d.f.cq).wr_id, 0x99 | 0x77);
	says(d.b->qp_num, "LOC_LEN_ERR: a message of 104 bytes or more from .* does not fit the receive of 100 bytes");
	ck_assert_int_eq(ibv_destroy_ah(wr.wr.ud.ah), 0);
	duo_close(&d);
}
END_TEST

/* The QP is gone, its causes are not. */
START_TEST(kept)
{
	struct duo d;
	uint32_t qpn;

	duo_open(&d);
	qpn = d.a->qp_num;
	ck_assert_int_eq(ibv_modify_qp(d.a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE), EINVAL);
	duo_close(&d);
	says(qpn, "RTS refused");
}
END_TEST

void api_why(Suite *s)
{
	TCase *t = tcase_create("why");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, retry_silent);
	tcase_add_test(t, retry_deaf);
	tcase_add_test(t, rnr);
	tcase_add_test(t, keys);
	tcase_add_test(t, window_unbound);
	tcase_add_test(t, rights_of_qp);
	tcase_add_test(t, misaligned);
	tcase_add_test(t, recv_short);
	tcase_add_test(t, recv_lkey);
	tcase_add_test(t, send_lkey);
	tcase_add_test(t, send_length);
	tcase_add_test(t, bind_refused);
	tcase_add_test(t, overrun);
	tcase_add_test(t, flushes);
	tcase_add_test(t, modify);
	tcase_add_test(t, verbs);
	tcase_add_test(t, datagrams);
	tcase_add_test(t, kept);
	suite_add_tcase(s, t);
}
