/* SPDX-License-Identifier: MIT */
/* verbs.c - one of everything that verbs make, and a connected pair with a message. */
#include "scarce.h"

#include "t/suite.h"

#include <infiniband/verbs.h>
#include <string.h>
#include <sys/mman.h>

#define BIG (4u << 20) /* memory that the library makes the daemon's, too */
#define LEN 4096u

static struct ibv_device **list;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr, *big_mr;
static struct ibv_mw *mw;
static struct ibv_srq *srq, *xrc_srq;
static struct ibv_xrcd *xrcd;
static struct ibv_qp *a, *b, *ud;
static struct ibv_ah *ah;
static struct ibv_dm *dm;
static union ibv_gid gid, group;
static unsigned char buf[LEN] __attribute__((aligned(4096)));
static unsigned char *big;

static int list_up(void) { return MADE(list = ibv_get_device_list(NULL)); }
static int list_down(void)
{
	ibv_free_device_list(list);
	return 0;
}

static int ctx_up(void) { return MADE(ctx = ibv_open_device(*list)); }
static int ctx_down(void) { return ibv_close_device(ctx); }

/* After some requests a connection has a mailbox, which stays. */
static void ctx_more(void)
{
	for (unsigned i = 0; i < 40; i++)
		ck_assert_int_eq(ibv_query_gid(ctx, 1, 0, &gid), 0);
}

static int pd_up(void) { return MADE(pd = ibv_alloc_pd(ctx)); }
static int pd_down(void) { return ibv_dealloc_pd(pd); }
static int channel_up(void) { return MADE(channel = ibv_create_comp_channel(ctx)); }
static int channel_down(void) { return ibv_destroy_comp_channel(channel); }
static int cq_up(void) { return MADE(cq = ibv_create_cq(ctx, 64, NULL, channel, 0)); }
static int cq_down(void) { return ibv_destroy_cq(cq); }
static int mr_up(void) { return MADE(mr = ibv_reg_mr(pd, buf, LEN, IBV_ACCESS_LOCAL_WRITE)); }
static int mr_down(void) { return ibv_dereg_mr(mr); }

static int big_up(void)
{
	int err;

	big = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(big, MAP_FAILED);
	memset(big, 7, BIG);
	err = MADE(big_mr = ibv_reg_mr(pd, big, BIG, IBV_ACCESS_LOCAL_WRITE));
	for (unsigned i = 0; i < BIG; i += LEN)
		ck_assert_uint_eq(big[i], 7);
	if (err)
		munmap(big, BIG);
	return err;
}

static int big_down(void)
{
	int err = ibv_dereg_mr(big_mr);

	for (unsigned i = 0; !err && i < BIG; i += LEN)
		ck_assert_uint_eq(big[i], 7);
	if (!err)
		munmap(big, BIG);
	return err;
}

static int mw_up(void) { return MADE(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)); }
static int mw_down(void) { return ibv_dealloc_mw(mw); }

static int srq_up(void)
{
	struct ibv_srq_init_attr at = { .attr = { 32, 1, 0 } };

	return MADE(srq = ibv_create_srq(pd, &at));
}

static int srq_down(void) { return ibv_destroy_srq(srq); }

static int xrcd_up(void)
{
	struct ibv_xrcd_init_attr at = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1 };

	return MADE(xrcd = ibv_open_xrcd(ctx, &at));
}

static int xrcd_down(void) { return ibv_close_xrcd(xrcd); }

static int xrc_srq_up(void)
{
	struct ibv_srq_init_attr_ex at = { .attr = { 32, 1, 0 },
					   .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					   .srq_type = IBV_SRQT_XRC,
					   .pd = pd,
					   .xrcd = xrcd,
					   .cq = cq };

	return MADE(xrc_srq = ibv_create_srq_ex(ctx, &at));
}

static int xrc_srq_down(void) { return ibv_destroy_srq(xrc_srq); }

/* ---- queue pairs ------------------------------------------------------------------------ */

static struct ibv_qp *qp_new(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr at = {
		.qp_type = type, .send_cq = cq, .recv_cq = cq, .cap = { 16, 16, 1, 1, 0 }, .sq_sig_all = 1
	};

	return ibv_create_qp(pd, &at);
}

static int connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int err = ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	at = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 1 } },
	};
	if (!err)
		err = ibv_modify_qp(qp, &at,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	at = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4
	};
	if (!err)
		err = ibv_modify_qp(qp, &at,
				    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	return err;
}

static int pair_down(void)
{
	int err = a ? ibv_destroy_qp(a) : 0;

	a = err ? a : NULL;
	if (!err)
		err = b ? ibv_destroy_qp(b) : 0;
	b = err ? b : NULL;
	return err;
}

static int pair_up(void)
{
	int err = MADE(a = qp_new(IBV_QPT_RC));

	if (!err)
		err = MADE(b = qp_new(IBV_QPT_RC));
	if (!err)
		err = connect_to(a, b);
	if (!err)
		err = connect_to(b, a);
	if (err)
		ck_assert_int_eq(pair_down(), 0);
	return err;
}

/* The queue pairs go on working, whatever fails besides. */
static int send_up(void)
{
	struct ibv_sge sge = { (uintptr_t)buf, LEN / 2, mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_wc wc;

	ck_assert_int_eq(ibv_post_recv(b, &recv, &bad_recv), 0);
	ck_assert_int_eq(ibv_post_send(a, &send, &bad_send), 0);
	for (unsigned got = 0; got < 2;)
		if (ibv_poll_cq(cq, 1, &wc) == 1) {
			ck_assert_msg(!wc.status, "%s", ibv_wc_status_str(wc.status));
			got++;
		}
	return 0;
}

static int nothing(void) { return 0; }

static int ah_up(void)
{
	struct ibv_ah_attr at = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 1 } };

	return MADE(ah = ibv_create_ah(pd, &at));
}

static int ah_down(void) { return ibv_destroy_ah(ah); }

static int ud_up(void)
{
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	int err = MADE(ud = qp_new(IBV_QPT_UD));

	if (!err)
		err = ibv_modify_qp(ud, &at, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	at.qp_state = IBV_QPS_RTR;
	if (!err)
		err = ibv_modify_qp(ud, &at, IBV_QP_STATE);
	if (err && ud)
		ck_assert_int_eq(ibv_destroy_qp(ud), 0);
	return err;
}

static int ud_down(void) { return ibv_destroy_qp(ud); }

static int group_up(void)
{
	static const union ibv_gid g = { { [10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2, [15] = 3 } };

	group = g;
	return ibv_attach_mcast(ud, &group, 0);
}

static int group_down(void) { return ibv_detach_mcast(ud, &group, 0); }

static int dm_up(void)
{
	struct ibv_alloc_dm_attr at = { .length = LEN };

	return MADE(dm = ibv_alloc_dm(ctx, &at));
}

static int dm_down(void) { return ibv_free_dm(dm); }

const struct step steps_verbs[] = {
	{ "ibv_get_device_list", list_up, list_down, NULL },
	{ "ibv_open_device", ctx_up, ctx_down, ctx_more },
	{ "ibv_alloc_pd", pd_up, pd_down, NULL },
	{ "ibv_create_comp_channel", channel_up, channel_down, NULL },
	{ "ibv_create_cq", cq_up, cq_down, NULL },
	{ "ibv_reg_mr", mr_up, mr_down, NULL },
	{ "two connected queue pairs", pair_up, pair_down, NULL },
	{ "a message", send_up, nothing, NULL },
	{ "ibv_reg_mr of much", big_up, big_down, NULL },
	{ "ibv_alloc_mw", mw_up, mw_down, NULL },
	{ "ibv_create_srq", srq_up, srq_down, NULL },
	{ "ibv_open_xrcd", xrcd_up, xrcd_down, NULL },
	{ "ibv_create_srq_ex", xrc_srq_up, xrc_srq_down, NULL },
	{ "ibv_create_ah", ah_up, ah_down, NULL },
	{ "a queue pair of UD", ud_up, ud_down, NULL },
	{ "ibv_attach_mcast", group_up, group_down, NULL },
	{ "ibv_alloc_dm", dm_up, dm_down, NULL },
	{ "a message after all that", send_up, nothing, NULL },
	{ 0 },
};
