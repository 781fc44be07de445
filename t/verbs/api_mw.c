/* SPDX-License-Identifier: MIT */
/* api_mw.c - memory windows of both types, invalidation, and regions with windows on them. */
#include "fixture.h"

#define WIN_RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct scene {
	struct fix f;
	struct ibv_mr *mr; /* windows can be bound to it */
	struct ibv_qp *a, *b;
};

static void scene_open(struct scene *s, enum ibv_qp_type type)
{
	fix_open(&s->f);
	s->mr = ibv_reg_mr(s->f.pd, s->f.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	ck_assert_ptr_ne(s->mr, NULL);
	s->a = fix_qp(&s->f, type, 16, NULL);
	s->b = fix_qp(&s->f, type, 16, NULL);
	fix_connect(&s->f, s->a, s->b);
}

static void scene_close(struct scene *s)
{
	ck_assert_int_eq(ibv_destroy_qp(s->a), 0);
	ck_assert_int_eq(ibv_destroy_qp(s->b), 0);
	ck_assert_int_eq(ibv_dereg_mr(s->mr), 0);
	fix_close(&s->f);
}

/* Remote access by a, of 64 bytes at addr. */
static enum ibv_wc_status use(struct scene *s, enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)s->f.buf, 64, s->f.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = op, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { addr, rkey }
	};

	ck_assert_int_eq(ibv_post_send(s->a, &wr, &bad), 0);
	return fix_wait(s->f.cq).status;
}

static int bind2(struct scene *s, struct ibv_mw *mw, uint32_t rkey, uint64_t addr, uint64_t len, unsigned access)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW,
					.send_flags = IBV_SEND_SIGNALED,
					.bind_mw = { mw, rkey, { s->mr, addr, len, access } } };

	return ibv_post_send(s->b, &wr, &bad);
}

START_TEST(type1) /* conf: o10-37.2.34 */
{
	uint64_t at;
	struct ibv_mw_bind bind = { .wr_id = 5, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mw *mw;
	struct scene s;
	struct ibv_wc wc;
	uint32_t old;

	scene_open(&s, IBV_QPT_RC);
	at = (uintptr_t)s.f.buf + 4096;
	ck_assert_int_eq(s.f.attr.max_mw > 0, 1);
	ck_assert(s.f.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	mw = ibv_alloc_mw(s.f.pd, IBV_MW_TYPE_1);
	ck_assert_ptr_ne(mw, NULL);
	ck_assert_int_eq(ibv_dealloc_pd(s.f.pd), EBUSY);
	bind.bind_info = (struct ibv_mw_bind_info){ s.mr, at, 64, WIN_RIGHTS };
	for (int i = 0; i < 300; i++) { /* the key byte goes round */
		old = mw->rkey;
		ck_assert_int_eq(ibv_bind_mw(s.b, mw, &bind), 0);
		ck_assert_uint_ne(mw->rkey, old);
		ck_assert_uint_eq(mw->rkey >> 8, old >> 8);
		wc = fix_wait_ok(s.f.cq);
		ck_assert(wc.opcode == IBV_WC_BIND_MW && wc.wr_id == 5);
	}
	fix_fill(s.f.buf, 64, 7);
	ck_assert_int_eq(use(&s, IBV_WR_RDMA_WRITE, at, mw->rkey), IBV_WC_SUCCESS);
	ck_assert(fix_filled(s.f.buf + 4096, 64, 7));
	/* The region is held by its window. */
	ck_assert_int_eq(ibv_dereg_mr(s.mr), EBUSY);
	ck_assert_int_ne(ibv_rereg_mr(s.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	ck_assert_int_eq(errno, EBUSY);
	/* The wrong verb for the type; length 0 ends it. */
	ck_assert_int_eq(bind2(&s, mw, mw->rkey + 1, at, 64, WIN_RIGHTS), EINVAL);
	bind.bind_info.length = 0;
	ck_assert_int_eq(ibv_bind_mw(s.b, mw, &bind), 0);
	fix_wait_ok(s.f.cq);
	ck_assert_int_eq(use(&s, IBV_WR_RDMA_WRITE, at, mw->rkey), IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	errno = 0;
	ck_assert_ptr_eq(ibv_alloc_mw(s.f.pd, (enum ibv_mw_type)3), NULL);
	ck_assert_int_eq(errno, EINVAL);
	scene_close(&s);
}
END_TEST

START_TEST(type2) /* conf: o10-37.2.35 */
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge;
	struct ibv_mw *mw;
	struct scene s;
	struct ibv_wc wc;
	uint32_t key;
	uint64_t at;

	scene_open(&s, IBV_QPT_RC);
	at = (uintptr_t)s.f.buf + 4096;
	mw = ibv_alloc_mw(s.f.pd, IBV_MW_TYPE_2);
	ck_assert_ptr_ne(mw, NULL);
	ck_assert(s.f.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	ck_assert(!(s.f.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A));
	ck_assert_int_eq(ibv_bind_mw(s.b, mw, &(struct ibv_mw_bind){ 0 }), EINVAL);
	key = mw->rkey;
	for (unsigned i = 0; i < 4; i++) {
		key = ibv_inc_rkey(key);
		/* The low 8 bits count; whatever the program has in the others, it is this window. */
		ck_assert_int_eq(bind2(&s, mw, i & 1 ? key ^ 0x12345600 : key, at, 64,
				       WIN_RIGHTS | (i & 1 ? IBV_ACCESS_ZERO_BASED : 0)),
				 0);
		ck_assert_int_eq(fix_wait_ok(s.f.cq).opcode, IBV_WC_BIND_MW);
		fix_fill(s.f.buf, 64, i);
		ck_assert_int_eq(use(&s, IBV_WR_RDMA_WRITE, i & 1 ? 0 : at, key), IBV_WC_SUCCESS);
		ck_assert(fix_filled(s.f.buf + 4096, 64, i));
		ck_assert_int_eq(use(&s, IBV_WR_RDMA_READ, i & 1 ? 0 : at, key), IBV_WC_SUCCESS);
		wr.invalidate_rkey = key;
		if (i < 2) {
			wr.opcode = IBV_WR_LOCAL_INV;
			ck_assert_int_eq(ibv_post_send(s.b, &wr, &bad), 0);
			ck_assert_int_eq(fix_wait_ok(s.f.cq).opcode, IBV_WC_LOCAL_INV);
			continue;
		}
		/* small and inline, or from memory */
		sge = (struct ibv_sge){ (uintptr_t)s.f.buf, i == 2 ? 8 : 3000, s.f.mr->lkey };
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.send_flags = IBV_SEND_SIGNALED | (i == 2 ? IBV_SEND_INLINE : 0);
		ck_assert_int_eq(fix_recv(&s.f, s.b, 1, 4096, 3000), 0);
		ck_assert_int_eq(ibv_post_send(s.a, &wr, &bad), 0);
		for (int n = 0; n < 2; n++) {
			wc = fix_wait_ok(s.f.cq);
			if (wc.wr_id != 1)
				continue;
			ck_assert_uint_eq(wc.wc_flags, IBV_WC_WITH_INV);
			ck_assert_uint_eq(wc.invalidated_rkey, key);
			ck_assert_uint_eq(wc.byte_len, sge.length);
		}
	}
	ck_assert_int_eq(use(&s, IBV_WR_RDMA_READ, 0, key), IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	scene_close(&s);
}
END_TEST

/* Failures come as completions; the QP is in ERR then, a UC one in SQE. */
START_TEST(wrong)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;

	for (unsigned k = 0; k < 4; k++) {
		enum ibv_qp_type type = k & 1 ? IBV_QPT_UC : IBV_QPT_RC;
		struct ibv_mw *mw;
		struct scene s;

		scene_open(&s, type);
		mw = ibv_alloc_mw(s.f.pd, IBV_MW_TYPE_2);
		wr.invalidate_rkey = mw->rkey;
		if (k & 2)
			ck_assert_int_eq(ibv_post_send(s.b, &wr, &bad), 0); /* it is not bound */
		else
			ck_assert_int_eq(bind2(&s, mw, mw->rkey, (uintptr_t)s.f.buf, BUF_LEN + 1, WIN_RIGHTS), 0);
		ck_assert_int_eq(fix_wait(s.f.cq).status, IBV_WC_MW_BIND_ERR);
		ck_assert_int_eq(ibv_query_qp(s.b, &a, IBV_QP_STATE, &i), 0);
		ck_assert_int_eq(a.qp_state, k & 1 ? IBV_QPS_SQE : IBV_QPS_ERR);
		ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
		scene_close(&s);
	}
}
END_TEST

/* All that rereg can change, one by one and together: what peers may do follows at once. */
START_TEST(rereg)
{
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	struct scene s;

	scene_open(&s, IBV_QPT_RC);
	pd = ibv_alloc_pd(s.f.ctx);
	mr = ibv_reg_mr(s.f.pd, s.f.buf, 64, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
			 0);
	ck_assert_int_eq(use(&s, IBV_WR_RDMA_WRITE, (uintptr_t)s.f.buf, mr->rkey), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, s.f.buf + 4096, 64, 0), 0);
	fix_fill(s.f.buf, 64, 3);
	ck_assert_int_eq(use(&s, IBV_WR_RDMA_WRITE, (uintptr_t)s.f.buf + 4096, mr->rkey), IBV_WC_SUCCESS);
	ck_assert(fix_filled(s.f.buf + 4096, 64, 3));
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, s.f.buf,
				      128, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE),
			 0);
	ck_assert_int_eq(use(&s, IBV_WR_RDMA_READ, (uintptr_t)s.f.buf + 64, mr->rkey), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	ck_assert_ptr_eq(mr->pd, pd);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(use(&s, IBV_WR_RDMA_READ, (uintptr_t)s.f.buf, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	scene_close(&s);
}
END_TEST

void api_mw(Suite *s) { SUITE_ADD(s, type1, type2, wrong, rereg); }
