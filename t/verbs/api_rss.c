/* SPDX-License-Identifier: MIT */
/* api_rss.c - RAW_PACKET frames spread over WQs by a hash; on the loopback interface of a network namespace of our own. */
#include "fixture.h"

#include <stdio.h>
#include <sys/resource.h>

#define WQS    4u
#define TABLE  8u
#define FRAMES 64u
#define LEN    64u
#define SLOT   128u

struct scene {
	struct fix f;
	struct ibv_cq *cq[WQS], *scq;
	struct ibv_wq *wq[WQS];
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *rss, *sender;
	struct ibv_flow *flow;
	unsigned char *in; /* FRAMES slots for each WQ */
	struct ibv_mr *in_mr;
};

static uint8_t key[40] = { 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
			   0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
			   0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa };

static void wq_state(struct ibv_wq *wq, enum ibv_wq_state state, int err)
{
	struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state };

	ck_assert_int_eq(ibv_modify_wq(wq, &a), err);
	ck_assert(err || wq->state == state);
}

static struct ibv_qp *rss_qp(struct scene *s, const struct ibv_rx_hash_conf *conf)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RAW_PACKET,
					 .pd = s->f.pd,
					 .rwq_ind_tbl = s->table,
					 .rx_hash_conf = *conf,
					 .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
						      IBV_QP_INIT_ATTR_RX_HASH };

	return ibv_create_qp_ex(s->f.ctx, &a);
}

static const struct ibv_rx_hash_conf conf = { IBV_RX_HASH_FUNC_TOEPLITZ, 40, key,
					      IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 };

static void wq_post(struct scene *s, unsigned w, unsigned slot)
{
	struct ibv_sge sge = { (uintptr_t)s->in + (w * FRAMES + slot) * SLOT, SLOT, s->in_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	ck_assert_int_eq(ibv_post_wq_recv(s->wq[w], &wr, &bad), 0);
}

static void wqs_open(struct scene *s)
{
	s->in = calloc(WQS * FRAMES, SLOT);
	s->in_mr = ibv_reg_mr(s->f.pd, s->in, WQS * FRAMES * SLOT, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(s->in_mr != NULL);
	for (unsigned i = 0; i < WQS; i++) {
		struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ, .max_wr = FRAMES, .max_sge = 1, .pd = s->f.pd };

		s->cq[i] = a.cq = ibv_create_cq(s->f.ctx, FRAMES, NULL, NULL, 0);
		s->wq[i] = ibv_create_wq(s->f.ctx, &a);
		ck_assert_msg(s->cq[i] && s->wq[i], "%s", strerror(errno));
		ck_assert(a.max_wr >= FRAMES && s->wq[i]->state == IBV_WQS_RESET);
		wq_state(s->wq[i], IBV_WQS_ERR, EINVAL);
		wq_state(s->wq[i], IBV_WQS_RDY, 0);
		for (unsigned k = 0; k < FRAMES; k++)
			wq_post(s, i, k);
	}
}

static void scene_open(struct scene *s)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RAW_PACKET, .cap = { 8, 1, 1, 1, 0 } };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_wq *entry[TABLE];
	struct ibv_rwq_ind_table_init_attr ta = { .log_ind_tbl_size = 3, .ind_tbl = entry };

	fix_open(&s->f);
	wqs_open(s);
	for (unsigned i = 0; i < TABLE; i++)
		entry[i] = s->wq[i % WQS];
	s->table = ibv_create_rwq_ind_table(s->f.ctx, &ta);
	ck_assert(s->table != NULL);
	s->rss = rss_qp(s, &conf);
	ck_assert_msg(s->rss != NULL, "%s", strerror(errno));
	s->flow = ibv_create_flow(s->rss, &(struct ibv_flow_attr){ .type = IBV_FLOW_ATTR_ALL_DEFAULT, .port = 1 });
	s->scq = a.send_cq = a.recv_cq = ibv_create_cq(s->f.ctx, 16, NULL, NULL, 0);
	s->sender = ibv_create_qp(s->f.pd, &a);
	ck_assert(s->flow && s->sender);
	ck_assert_int_eq(ibv_modify_qp(s->sender, &init, IBV_QP_STATE | IBV_QP_PORT), 0);
	ck_assert_int_eq(fix_state(s->sender, IBV_QPS_RTR), 0);
	ck_assert_int_eq(fix_state(s->sender, IBV_QPS_RTS), 0);
}

static void scene_close(struct scene *s)
{
	ck_assert_int_eq(ibv_destroy_wq(s->wq[0]), EBUSY);
	ck_assert_int_eq(ibv_destroy_rwq_ind_table(s->table), EBUSY);
	ck_assert_int_eq(ibv_destroy_flow(s->flow), 0);
	ck_assert_int_eq(ibv_destroy_qp(s->rss), 0);
	ck_assert_int_eq(ibv_destroy_rwq_ind_table(s->table), 0);
	ck_assert_int_eq(ibv_destroy_qp(s->sender), 0);
	for (unsigned i = 0; i < WQS; i++) {
		ck_assert_int_eq(ibv_destroy_wq(s->wq[i]), 0);
		ck_assert_int_eq(ibv_destroy_cq(s->cq[i]), 0);
	}
	ck_assert_int_eq(ibv_destroy_cq(s->scq), 0);
	ck_assert_int_eq(ibv_dereg_mr(s->in_mr), 0);
	free(s->in);
	fix_close(&s->f);
}

/* From 192.0.2.n, with n behind the headers. */
static void frame_send(struct scene *s, unsigned n)
{
	static const unsigned char head[42] = {
		2, 0,  0,  0, 0, 9,   2, 0, 0, 0,   0, 8, 0x08, 0x00, 0x45, 0,    0,    LEN - 14, 0,        0, 0,
		0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 99,   0x10, 0x20, 0x30, 0x40, 0,        LEN - 34, 0, 0,
	};

	memcpy(s->f.buf, head, sizeof(head));
	s->f.buf[29] = s->f.buf[42] = (unsigned char)n;
	ck_assert_int_eq(fix_send(&s->f, s->sender, 1, 0, LEN, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(s->scq);
}

/* The frame's number; *w: which WQ has it.  UINT32_MAX: none yet. */
static unsigned frame_poll(struct scene *s, unsigned *w)
{
	struct ibv_wc wc;

	for (*w = 0; *w < WQS; ++*w) {
		if (ibv_poll_cq(s->cq[*w], 1, &wc) != 1)
			continue;
		ck_assert(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == LEN &&
			  wc.qp_num == s->wq[*w]->wq_num);
		return s->in[(*w * FRAMES + wc.wr_id) * SLOT + 42];
	}
	return UINT32_MAX;
}

/* Each frame goes to one WQ, all are used, and the same addresses find the same WQ again. */
START_TEST(spread)
{
	unsigned at[FRAMES], used[WQS] = { 0 };
	struct ibv_device_attr_ex d;
	struct scene s;

	scene_open(&s);
	ck_assert_int_eq(ibv_query_device_ex(s.f.ctx, NULL, &d), 0);
	ck_assert(d.rss_caps.supported_qpts == 1u << IBV_QPT_RAW_PACKET &&
		  d.rss_caps.rx_hash_function == IBV_RX_HASH_FUNC_TOEPLITZ &&
		  d.rss_caps.max_rwq_indirection_table_size >= TABLE && d.max_wq_type_rq >= WQS);
	for (unsigned i = 0; i < FRAMES; i++) {
		unsigned n = i / 2, w, got;

		frame_send(&s, n);
		for (unsigned tries = 0; (got = frame_poll(&s, &w)) == UINT32_MAX; tries++)
			ck_assert_uint_lt(tries, 100000000);
		ck_assert_uint_eq(got, n);
		ck_assert(!(i & 1) || at[i - 1] == w);
		at[i] = w;
		used[w]++;
	}
	for (unsigned i = 0; i < WQS; i++)
		ck_assert_uint_gt(used[i], 0);
	/* Receives that wait in a WQ are flushed when it goes to ERR. */
	wq_state(s.wq[1], IBV_WQS_ERR, 0);
	if (used[1] < FRAMES)
		ck_assert_int_eq(fix_wait(s.cq[1]).status, IBV_WC_WR_FLUSH_ERR);
	wq_state(s.wq[1], IBV_WQS_RDY, EINVAL);
	wq_state(s.wq[1], IBV_WQS_RESET, 0);
	wq_state(s.wq[1], IBV_WQS_RDY, 0);
	scene_close(&s);
}
END_TEST

START_TEST(rss_refused)
{
	struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ,
				      .max_wr = 4,
				      .max_sge = 1,
				      .comp_mask = IBV_WQ_INIT_ATTR_FLAGS,
				      .create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING };
	struct ibv_rwq_ind_table_init_attr ta = { .log_ind_tbl_size = 20 };
	struct ibv_rx_hash_conf c = conf;
	struct rlimit was;
	struct ibv_qp *qp;
	struct scene s;
	int err;

	scene_open(&s);
	a.pd = s.f.pd;
	a.cq = s.scq;
	ck_assert(!ibv_create_wq(s.f.ctx, &a) && errno == EOPNOTSUPP);
	a.comp_mask = 0;
	a.max_wr = 1u << 30;
	ck_assert(!ibv_create_wq(s.f.ctx, &a) && errno == EINVAL);
	ck_assert(!ibv_create_rwq_ind_table(s.f.ctx, &ta) && errno == EINVAL);
	c.rx_hash_function = 1 << 7;
	ck_assert(!rss_qp(&s, &c) && errno == EOPNOTSUPP);
	c = conf;
	c.rx_hash_key_len = 16;
	ck_assert(!rss_qp(&s, &c) && errno == EINVAL);
	c = conf;
	c.rx_hash_fields_mask |= IBV_RX_HASH_IPSEC_SPI;
	ck_assert(!rss_qp(&s, &c) && errno == EOPNOTSUPP);
	/* The table is shared memory, which ulimit -f bounds, as it does Check's notes. */
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, was.rlim_max });
	qp = rss_qp(&s, &conf);
	err = errno;
	setrlimit(RLIMIT_FSIZE, &was);
	ck_assert(!qp && err == EFBIG);
	scene_close(&s);
}
END_TEST

void api_rss(Suite *s)
{
	if (getenv("API_OWN_NET"))
		SUITE_ADD(s, spread, rss_refused);
	else
		printf("# skipped: receive side scaling: there is no network namespace of our own\n");
}
