/* SPDX-License-Identifier: MIT */
/* lid.c - a port of InfiniBand (rdmad-run --as ib): peers are addressed by LID, without a GRH.  Run by lid.test. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "../suite.h"

#define QKEY    0x1234u
#define BUF_LEN 4096u
#define GRH_LEN 40u

static struct ibv_context *ctx;
static struct ibv_port_attr port;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char buf[BUF_LEN];

static void up(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	ck_assert(list && list[0]);
	ctx = ibv_open_device(list[0]);
	ck_assert_ptr_nonnull(ctx);
	ibv_free_device_list(list);
	ck_assert_int_eq(ibv_query_port(ctx, 1, &port), 0);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ck_assert(pd && cq && mr);
}

static void down(void)
{
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
}

/* In INIT. */
static struct ibv_qp *qp_of(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	ck_assert_ptr_nonnull(qp);
	ck_assert_int_eq(ibv_modify_qp(qp, &a,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
			 0);
	return qp;
}

static int rc_rtr(struct ibv_qp *qp, uint32_t to, uint16_t dlid)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = dlid, .port_num = 1 },
	};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static void rc_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};

	ck_assert_int_eq(ibv_modify_qp(qp, &a,
				       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static struct ibv_qp *ud_ready(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp *qp = qp_of(IBV_QPT_UD);

	ck_assert_int_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

static struct ibv_sge at(unsigned off, unsigned len)
{
	return (struct ibv_sge){ .addr = (uintptr_t)buf + off, .length = len, .lkey = mr->lkey };
}

static void recv_at(struct ibv_qp *qp, unsigned off, unsigned len)
{
	struct ibv_sge sge = at(off, len);
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
}

/* The first n completions: all well; the one of a receive. */
static struct ibv_wc wait_for(unsigned n)
{
	struct ibv_wc wc, got = { 0 };

	for (unsigned done = 0; done < n;) {
		if (!ibv_poll_cq(cq, 1, &wc))
			continue; /* Check's limit ends it */
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV)
			got = wc;
		done++;
	}
	return got;
}

START_TEST(port_has_a_lid)
{
	struct ibv_gid_entry e;

	up();
	ck_assert_int_eq(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
	ck_assert(port.lid > 0 && port.lid <= 0x7fff);
	ck_assert_int_eq(port.sm_lid, port.lid);
	ck_assert_int_eq(port.lmc, 0);
	ck_assert(!(port.flags & IBV_QPF_GRH_REQUIRED));
	ck_assert_int_eq(ibv_query_gid_ex(ctx, 1, 0, &e, 0), 0);
	ck_assert_int_eq(e.gid_type, IBV_GID_TYPE_IB);
	down();
}
END_TEST

START_TEST(connected)
{
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct ibv_qp *one, *two;

	up();
	one = qp_of(IBV_QPT_RC);
	two = qp_of(IBV_QPT_RC);
	ck_assert_int_eq(rc_rtr(one, two->qp_num, port.lid), 0);
	ck_assert_int_eq(rc_rtr(two, one->qp_num, port.lid), 0);
	rc_rts(one);
	rc_rts(two);
	ck_assert_int_eq(ibv_query_qp(one, &a, IBV_QP_AV, &init), 0);
	ck_assert_int_eq(a.ah_attr.dlid, port.lid);
	ck_assert_int_eq(a.ah_attr.is_global, 0);
	strcpy(buf, "by LID");
	recv_at(two, 1024, 64);
	sge = at(0, 7);
	ck_assert_int_eq(ibv_post_send(one, &wr, &bad), 0);
	ck_assert_uint_eq(wait_for(2).byte_len, 7);
	ck_assert_str_eq(buf + 1024, "by LID");
	ck_assert_int_eq(ibv_destroy_qp(one), 0);
	ck_assert_int_eq(ibv_destroy_qp(two), 0);
	down();
}
END_TEST

/* The receiver learns the sender's LID, and answers to it, though the sender gave a GRH, too, with the GIDs of rows 0. */
START_TEST(datagrams)
{
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_ah_attr to = { .port_num = 1 };
	struct ibv_qp *one, *two;
	struct ibv_ah *there, *back;
	struct ibv_wc wc;

	up();
	to.dlid = port.lid;
	to.is_global = 1;
	ck_assert_int_eq(ibv_query_gid(ctx, 1, 0, &to.grh.dgid), 0);
	one = ud_ready();
	two = ud_ready();
	there = ibv_create_ah(pd, &to);
	ck_assert_ptr_nonnull(there);
	strcpy(buf, "there");
	recv_at(two, 1024, GRH_LEN + 64);
	sge = at(0, 6);
	wr.wr.ud.ah = there;
	wr.wr.ud.remote_qpn = two->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	ck_assert_int_eq(ibv_post_send(one, &wr, &bad), 0);
	wc = wait_for(2);
	ck_assert_str_eq(buf + 1024 + GRH_LEN, "there");
	ck_assert_int_eq(wc.slid, port.lid);

	ck_assert(!(wc.wc_flags & IBV_WC_GRH));
	back = ibv_create_ah_from_wc(pd, &wc, NULL, 1);
	ck_assert_ptr_nonnull(back);
	strcpy(buf, "back");
	recv_at(one, 2048, GRH_LEN + 64);
	sge = at(0, 5);
	wr.wr.ud.ah = back;
	wr.wr.ud.remote_qpn = wc.src_qp;
	ck_assert_int_eq(ibv_post_send(two, &wr, &bad), 0);
	wait_for(2);
	ck_assert_str_eq(buf + 2048 + GRH_LEN, "back");
	ck_assert_int_eq(ibv_destroy_ah(there), 0);
	ck_assert_int_eq(ibv_destroy_ah(back), 0);
	ck_assert_int_eq(ibv_destroy_qp(one), 0);
	ck_assert_int_eq(ibv_destroy_qp(two), 0);
	down();
}
END_TEST

START_TEST(no_lid_of_a_port)
{
	static const uint16_t none[] = { 0, 0x8000, 0xc000, 0xffff };
	struct ibv_ah_attr to = { .port_num = 1 };
	struct ibv_qp *qp;

	up();
	qp = qp_of(IBV_QPT_RC);
	for (unsigned i = 0; i < sizeof(none) / sizeof(*none); i++) {
		to.dlid = none[i];
		errno = 0;
		ck_assert_ptr_null(ibv_create_ah(pd, &to));
		ck_assert_int_eq(errno, EINVAL);
		ck_assert_int_eq(rc_rtr(qp, qp->qp_num, none[i]), EINVAL);
	}
	to.dlid = port.lid;
	to.port_num = 2;
	ck_assert_ptr_null(ibv_create_ah(pd, &to));
	ck_assert_int_eq(rc_rtr(qp, qp->qp_num, port.lid), 0);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	down();
}
END_TEST

TEST_MAIN("lid", port_has_a_lid, connected, datagrams, no_lid_of_a_port)
