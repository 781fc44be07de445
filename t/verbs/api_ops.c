/* SPDX-License-Identifier: MIT */
/*
 * api_ops.c - the table of ibv_post_send(3): every operation on every type of QP does what it says or is refused; and
 * every flag.
 */
#include "fixture.h"

enum { RC, UC, UD, XRC, TYPES };

static const enum ibv_qp_type types[TYPES] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND };

/* The expected result of ibv_post_send(): 0 it is executed; else the errno. */
static const struct cell {
	enum ibv_wr_opcode op;
	int err[TYPES];
} table[] = {
	{ IBV_WR_SEND, { 0, 0, 0, 0 } },
	{ IBV_WR_SEND_WITH_IMM, { 0, 0, 0, 0 } },
	{ IBV_WR_RDMA_WRITE, { 0, 0, EINVAL, 0 } },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, { 0, 0, EINVAL, 0 } },
	{ IBV_WR_RDMA_READ, { 0, EINVAL, EINVAL, 0 } },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, { 0, EINVAL, EINVAL, 0 } },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, { 0, EINVAL, EINVAL, 0 } },
	{ IBV_WR_LOCAL_INV, { 0, 0, EINVAL, 0 } },
	{ IBV_WR_BIND_MW, { 0, 0, EINVAL, 0 } },
	{ IBV_WR_SEND_WITH_INV, { 0, 0, EINVAL, 0 } },
	{ IBV_WR_ATOMIC_WRITE, { 0, EINVAL, EINVAL, 0 } },
	{ (enum ibv_wr_opcode)14, { EINVAL, EINVAL, EINVAL, EINVAL } }, /* FLUSH: by ibv_wr_flush() only */
	{ IBV_WR_TSO, { EINVAL, EINVAL, EOPNOTSUPP, EINVAL } },
	{ IBV_WR_DRIVER1, { EINVAL, EINVAL, EINVAL, EINVAL } },
	{ (enum ibv_wr_opcode)40, { EINVAL, EINVAL, EINVAL, EINVAL } },
};

struct scene {
	struct fix f;
	struct ibv_mr *mr;
	struct ibv_qp *a, *b; /* a sends; windows of b for a, and of a */
	struct ibv_mw *mw, *own;
	struct ibv_ah *ah;
	struct fix_xrc x;
};

static void scene_open(struct scene *s, unsigned t)
{
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 };

	s->x.srqn = 0;
	fix_open(&s->f);
	s->mr = ibv_reg_mr(s->f.pd, s->f.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	s->mw = ibv_alloc_mw(s->f.pd, IBV_MW_TYPE_2);
	s->own = ibv_alloc_mw(s->f.pd, IBV_MW_TYPE_2);
	ah.grh.dgid = s->f.gid;
	s->ah = ibv_create_ah(s->f.pd, &ah);
	ck_assert(s->mr && s->mw && s->own && s->ah);
	if (t == XRC) {
		fix_xrc_open(&s->f, &s->x);
		s->a = s->x.send;
		s->b = fix_qp(&s->f, IBV_QPT_XRC_SEND, 4, NULL); /* what binds for the receiving end */
		fix_init(s->b);
		fix_rtr(&s->f, s->b, s->x.recv);
		fix_rts(s->b);
		return;
	}
	s->a = fix_qp(&s->f, types[t], 16, NULL);
	s->b = fix_qp(&s->f, types[t], 16, NULL);
	fix_connect(&s->f, s->a, s->b);
}

static void scene_close(struct scene *s)
{
	if (s->a->qp_type == IBV_QPT_XRC_SEND)
		fix_xrc_close(&s->x);
	else
		ck_assert_int_eq(ibv_destroy_qp(s->a), 0);
	ck_assert_int_eq(ibv_destroy_qp(s->b), 0);
	ck_assert_int_eq(ibv_dealloc_mw(s->mw), 0);
	ck_assert_int_eq(ibv_dealloc_mw(s->own), 0);
	ck_assert_int_eq(ibv_destroy_ah(s->ah), 0);
	ck_assert_int_eq(ibv_dereg_mr(s->mr), 0);
	fix_close(&s->f);
}

/* For what a sends. */
static int recv_ready(struct scene *s)
{
	return s->a->qp_type == IBV_QPT_XRC_SEND ? fix_srq_recv(&s->f, s->x.srq, 2, 2048, 64)
						 : fix_recv(&s->f, s->b, 2, 2048, 64);
}

static int bind(struct scene *s, struct ibv_qp *qp, struct ibv_mw *mw)
{
	struct ibv_send_wr *bad,
		wr = { .wr_id = 99,
		       .opcode = IBV_WR_BIND_MW,
		       .send_flags = IBV_SEND_SIGNALED,
		       .bind_mw = { mw, mw->rkey, { s->mr, (uintptr_t)s->f.buf, 64, IBV_ACCESS_REMOTE_WRITE } } };
	int err = ibv_post_send(qp, &wr, &bad);

	if (!err)
		ck_assert_uint_eq(fix_wait_ok(s->f.cq).wr_id, 99);
	return err;
}

/* The request of an operation on a, 8 bytes long; what it needs is there. */
static struct ibv_send_wr wr_of(struct scene *s, enum ibv_wr_opcode op, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = op, .sg_list = sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED
	};
	uint64_t to = (uintptr_t)s->f.buf + 4096;

	*sge = (struct ibv_sge){ (uintptr_t)s->f.buf, 8, s->f.mr->lkey };
	switch (op) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = s->f.mr->rkey;
		break;
	case IBV_WR_BIND_MW:
		wr.num_sge = 0;
		wr.bind_mw.mw = s->own;
		wr.bind_mw.rkey = s->own->rkey;
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ s->mr, (uintptr_t)s->f.buf, 64, 0 };
		break;
	case IBV_WR_LOCAL_INV:
		wr.num_sge = 0;
		wr.invalidate_rkey = s->own->rkey;
		break;
	case IBV_WR_SEND_WITH_INV: wr.invalidate_rkey = s->mw->rkey; break;
	default: wr.wr.rdma.remote_addr = to; wr.wr.rdma.rkey = s->f.mr->rkey;
	}
	wr.qp_type.xrc.remote_srqn = s->x.srqn;
	if (s->a->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = s->b->qp_num;
		wr.wr.ud.remote_qkey = 0x1111;
	}
	return wr;
}

static int takes_recv(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_SEND_WITH_INV ||
	       op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

START_TEST(matrix)
{
	const struct cell *c = &table[_i / TYPES];
	int want = c->err[_i % TYPES];
	struct ibv_send_wr wr, *bad = NULL;
	struct ibv_sge sge;
	struct scene s;

	scene_open(&s, (unsigned)_i % TYPES);
	if (!want && c->op == IBV_WR_LOCAL_INV)
		ck_assert_int_eq(bind(&s, s.a, s.own), 0);
	if (!want && c->op == IBV_WR_SEND_WITH_INV)
		ck_assert_int_eq(bind(&s, s.b, s.mw), 0);
	if (takes_recv(c->op))
		ck_assert_int_eq(recv_ready(&s), 0);
	wr = wr_of(&s, c->op, &sge);
	ck_assert_msg(ibv_post_send(s.a, &wr, &bad) == want, "op %d on type %d", c->op, s.a->qp_type);
	if (want)
		ck_assert_ptr_eq(bad, &wr);
	for (int n = want ? 0 : 1 + takes_recv(c->op); n; n--)
		fix_wait_ok(s.f.cq);
	/* The queue is whole, whatever it was. */
	if (!takes_recv(c->op) || want) {
		if (!takes_recv(c->op))
			ck_assert_int_eq(recv_ready(&s), 0);
		wr = wr_of(&s, IBV_WR_SEND, &sge);
		ck_assert_int_eq(ibv_post_send(s.a, &wr, &bad), 0);
		fix_wait_ok(s.f.cq);
		fix_wait_ok(s.f.cq);
	}
	scene_close(&s);
}
END_TEST

/* Each flag with each operation.  INLINE is for what carries data out, IP_CSUM is not offered. */
START_TEST(flags)
{
	static const unsigned all[] = { IBV_SEND_FENCE, IBV_SEND_SOLICITED, IBV_SEND_INLINE, IBV_SEND_IP_CSUM, 1 << 5,
					1 << 30 };
	const struct cell *c = &table[_i / TYPES];
	struct ibv_send_wr wr, *bad = NULL;
	struct ibv_sge sge;
	struct scene s;

	if (c->err[_i % TYPES])
		return;
	for (unsigned k = 0; k < sizeof(all) / sizeof(*all); k++) {
		int want = all[k] == IBV_SEND_FENCE || all[k] == IBV_SEND_SOLICITED ? 0 : EINVAL;

		if (all[k] == IBV_SEND_INLINE &&
		    (takes_recv(c->op) || c->op == IBV_WR_RDMA_WRITE || c->op == IBV_WR_ATOMIC_WRITE))
			want = 0;
		scene_open(&s, (unsigned)_i % TYPES);
		if (c->op == IBV_WR_LOCAL_INV)
			ck_assert_int_eq(bind(&s, s.a, s.own), 0);
		if (c->op == IBV_WR_SEND_WITH_INV)
			ck_assert_int_eq(bind(&s, s.b, s.mw), 0);
		if (takes_recv(c->op))
			ck_assert_int_eq(recv_ready(&s), 0);
		wr = wr_of(&s, c->op, &sge);
		wr.send_flags |= all[k];
		if (all[k] == IBV_SEND_INLINE)
			sge.lkey = 0x1234; /* is not looked at */
		ck_assert_msg(ibv_post_send(s.a, &wr, &bad) == want, "op %d on type %d, flag %#x", c->op, s.a->qp_type,
			      all[k]);
		for (int n = want ? 0 : 1 + takes_recv(c->op); n; n--)
			fix_wait_ok(s.f.cq);
		scene_close(&s);
	}
}
END_TEST

/* Without SIGNALED there is no completion, unless it is an error. */
START_TEST(unsignaled)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct scene s;

	scene_open(&s, RC);
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		if (table[i].err[RC] || takes_recv(table[i].op) || table[i].op == IBV_WR_LOCAL_INV)
			continue;
		wr = wr_of(&s, table[i].op, &sge);
		wr.send_flags = 0;
		ck_assert_int_eq(ibv_post_send(s.a, &wr, &bad), 0);
	}
	wr = wr_of(&s, IBV_WR_LOCAL_INV, &sge);
	wr.wr_id = 77;
	ck_assert_int_eq(ibv_post_send(s.a, &wr, &bad), 0);
	ck_assert_uint_eq(fix_wait_ok(s.f.cq).wr_id, 77);
	wr.send_flags = 0;
	wr.wr_id = 78;
	ck_assert_int_eq(ibv_post_send(s.a, &wr, &bad), 0); /* no more bound */
	wc = fix_wait(s.f.cq);
	ck_assert(wc.wr_id == 78 && wc.status == IBV_WC_MW_BIND_ERR);
	scene_close(&s);
}
END_TEST

void api_ops(Suite *s)
{
	TCase *t = tcase_create("matrix");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, matrix, 0, TYPES * (int)(sizeof(table) / sizeof(*table)));
	tcase_add_loop_test(t, flags, 0, TYPES * (int)(sizeof(table) / sizeof(*table)));
	suite_add_tcase(s, t);
	SUITE_ADD(s, unsignaled);
}
