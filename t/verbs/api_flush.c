/* SPDX-License-Identifier: MIT */
/*
 * api_flush.c - ibv_wr_flush() and ibv_wr_atomic_write(), as programs built with newer headers reach them: the pointer
 * to the first lies behind what our headers know.
 */
#include "fixture.h"

#define QP_EX_WITH_FLUSH        (1u << 11)
#define ACCESS_FLUSH_GLOBAL     (1u << 8)
#define ACCESS_FLUSH_PERSISTENT (1u << 9)
#define WC_FLUSH                8

typedef void (*flush_fn)(struct ibv_qp_ex *, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level);

struct scene {
	struct fix f;
	struct ibv_mr *mr;
	struct ibv_qp *a, *b;
	struct ibv_qp_ex *x;
	flush_fn flush;
};

static struct ibv_qp *qp_new(struct fix *f)
{
	struct ibv_qp_init_attr_ex a = { .send_cq = f->cq,
					 .recv_cq = f->cq,
					 .cap = { 16, 16, 2, 2, 0 },
					 .qp_type = IBV_QPT_RC,
					 .pd = f->pd,
					 .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					 .send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_RDMA_WRITE |
							   QP_EX_WITH_FLUSH };
	struct ibv_qp *qp = ibv_create_qp_ex(f->ctx, &a);

	ck_assert_msg(qp != NULL, "ibv_create_qp_ex: %s", strerror(errno));
	return qp;
}

static void scene_open(struct scene *s)
{
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | ACCESS_FLUSH_GLOBAL |
						       ACCESS_FLUSH_PERSISTENT };

	fix_open(&s->f);
	s->mr = ibv_reg_mr(s->f.pd, s->f.buf, BUF_LEN,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | (int)ACCESS_FLUSH_GLOBAL);
	ck_assert_msg(s->mr != NULL, "ibv_reg_mr: %s", strerror(errno));
	s->a = qp_new(&s->f);
	s->b = qp_new(&s->f);
	fix_connect(&s->f, s->a, s->b);
	ck_assert_int_eq(ibv_modify_qp(s->b, &attr, IBV_QP_ACCESS_FLAGS), 0);
	s->x = ibv_qp_to_qp_ex(s->a);
	s->x->wr_flags = IBV_SEND_SIGNALED;
	memcpy(&s->flush, (char *)s->x + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *),
	       sizeof(s->flush));
}

static void scene_close(struct scene *s)
{
	ck_assert_int_eq(ibv_destroy_qp(s->a), 0);
	ck_assert_int_eq(ibv_destroy_qp(s->b), 0);
	ck_assert_int_eq(ibv_dereg_mr(s->mr), 0);
	fix_close(&s->f);
}

START_TEST(capabilities)
{
	struct ibv_device_attr_ex a;
	struct fix f;

	fix_open(&f);
	ck_assert_int_eq(ibv_query_device_ex(f.ctx, NULL, &a), 0);
	ck_assert_uint_eq(a.device_cap_flags_ex >> 38, 5); /* FLUSH_GLOBAL, not PERSISTENT, ATOMIC_WRITE */
	ck_assert_uint_eq((uint32_t)a.device_cap_flags_ex, a.orig_attr.device_cap_flags);
	errno = 0;
	ck_assert_ptr_eq(ibv_reg_mr(f.pd, f.buf, 64, (int)ACCESS_FLUSH_PERSISTENT), NULL);
	ck_assert_int_eq(errno, EOPNOTSUPP);
	fix_close(&f);
}
END_TEST

START_TEST(works)
{
	uint64_t value, at;
	struct scene s;
	struct ibv_wc wc;

	scene_open(&s);
	at = (uintptr_t)s.f.buf + 4096;
	for (unsigned i = 0; i < 8; i++) {
		value = 0x1111111111111111u * (i + 1);
		ibv_wr_start(s.x);
		s.x->wr_id = 1;
		ibv_wr_atomic_write(s.x, s.mr->rkey, at + 8 * i, &value);
		s.x->wr_id = 2;
		s.flush(s.x, s.mr->rkey, i & 1 ? at : 0, i & 1 ? 64 : 0, 1, !(i & 1));
		ck_assert_int_eq(ibv_wr_complete(s.x), 0);
		value = 0; /* it was taken with the call */
		wc = fix_wait_ok(s.f.cq);
		ck_assert(wc.wr_id == 1 && wc.opcode == IBV_WC_ATOMIC_WRITE);
		wc = fix_wait_ok(s.f.cq);
		ck_assert(wc.wr_id == 2 && (int)wc.opcode == WC_FLUSH);
		memcpy(&value, s.f.buf + 4096 + 8 * i, 8);
		ck_assert_uint_eq(value, 0x1111111111111111u * (i + 1));
	}
	/* nonsense is refused at once */
	ibv_wr_start(s.x);
	s.flush(s.x, s.mr->rkey, at, 8, 0, 0);
	ck_assert_int_eq(ibv_wr_complete(s.x), EINVAL);
	ibv_wr_start(s.x);
	s.flush(s.x, s.mr->rkey, at, 8, 1, 2);
	ck_assert_int_eq(ibv_wr_complete(s.x), EINVAL);
	scene_close(&s);
}
END_TEST

START_TEST(wrong)
{
	for (unsigned i = 0; i < 4; i++) {
		static const enum ibv_wc_status want[] = { IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR,
							   IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR };
		uint64_t value = 5, at;
		struct scene s;

		scene_open(&s);
		at = (uintptr_t)s.f.buf;
		ibv_wr_start(s.x);
		if (i == 0)
			s.flush(s.x, s.mr->rkey, at, 8, 3, 0); /* the region is not persistent */
		else if (i == 1)
			s.flush(s.x, s.f.mr->rkey, at, 8, 1, 1); /* this one has no such right */
		else
			ibv_wr_atomic_write(s.x, s.mr->rkey, i == 2 ? at + 4 : at + BUF_LEN, &value);
		ck_assert_int_eq(ibv_wr_complete(s.x), 0);
		ck_assert_int_eq(fix_wait(s.f.cq).status, want[i]);
		scene_close(&s);
	}
}
END_TEST

void api_flush(Suite *s) { SUITE_ADD(s, capabilities, works, wrong); }
