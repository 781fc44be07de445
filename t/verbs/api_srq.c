/* SPDX-License-Identifier: MIT */
/* api_srq.c - shared receive queues: their length, and whose keys their receives name. */
#include "fixture.h"

#include <unistd.h>

/* A queue that grows beyond its ring, and shrinks. */
START_TEST(srq_resize)
{
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr grow = { .max_wr = 100 }, got;
	struct ibv_sge sge;
	struct ibv_recv_wr *bad, wr[100] = { 0 };
	struct ibv_qp *a, *b;
	struct ibv_srq *srq;
	struct fix f;

	fix_open(&f);
	sge = (struct ibv_sge){ (uintptr_t)f.buf + 4096, 64, f.mr->lkey };
	srq = ibv_create_srq(f.pd, &si);
	ck_assert(srq != NULL);
	a = fix_qp(&f, IBV_QPT_RC, 16, NULL);
	b = fix_qp(&f, IBV_QPT_RC, 16, srq);
	fix_connect(&f, a, b);
	ck_assert_int_eq(ibv_modify_srq(srq, &grow, IBV_SRQ_MAX_WR), 0);
	ck_assert_int_eq(ibv_query_srq(srq, &got), 0);
	ck_assert_uint_eq(got.max_wr, 100);
	for (unsigned i = 0; i < 100; i++)
		wr[i] = (struct ibv_recv_wr){
			.wr_id = i, .sg_list = &sge, .num_sge = 1, .next = i < 99 ? &wr[i + 1] : NULL
		};
	ck_assert_int_eq(ibv_post_srq_recv(srq, wr, &bad), 0);
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_int_eq(fix_send(&f, a, 1000, 0, 32, IBV_SEND_SIGNALED), 0);
		for (unsigned k = 0; k < 2; k++) {
			struct ibv_wc wc = fix_wait_ok(f.cq);

			ck_assert_uint_eq(wc.wr_id, wc.opcode == IBV_WC_RECV ? i : 1000);
		}
	}
	grow.max_wr = 2;
	ck_assert_int_eq(ibv_modify_srq(srq, &grow, IBV_SRQ_MAX_WR), 0);
	grow.max_wr = (unsigned)f.attr.max_srq_wr + 1;
	ck_assert_int_eq(ibv_modify_srq(srq, &grow, IBV_SRQ_MAX_WR), EINVAL);
	grow.srq_limit = 3;
	ck_assert_int_eq(ibv_modify_srq(srq, &grow, IBV_SRQ_LIMIT), EINVAL); /* more than it holds */
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	fix_close(&f);
}
END_TEST

/* So, too, where the daemon sleeps meanwhile, as nothing is to be done for receives. */
START_TEST(srq_grown)
{
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq_attr grow = { .max_wr = 400 };
	struct ibv_recv_wr *bad, wr = { 0 };
	struct ibv_srq *srq;
	struct fix f;

	fix_open(&f);
	for (unsigned ms = 0; ms < 16; ms++) {
		srq = ibv_create_srq(f.pd, &si);
		ck_assert(srq != NULL);
		ck_assert_int_eq(ibv_modify_srq(srq, &grow, IBV_SRQ_MAX_WR), 0);
		usleep(ms * 1000); /* then it most likely does, and in one of them for sure */
		for (unsigned i = 0; i < grow.max_wr; i++)
			ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
		ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
		ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	}
	fix_close(&f);
}
END_TEST

/* Of two attributes one is wrong: neither is modified. */
START_TEST(srq_both)
{
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq_attr both = { .max_wr = 8, .srq_limit = 12 }, got;
	const int mask = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
	struct ibv_srq *srq;
	struct fix f;

	fix_open(&f);
	srq = ibv_create_srq(f.pd, &si);
	ck_assert(srq != NULL);
	ck_assert_int_eq(ibv_modify_srq(srq, &both, mask), EINVAL);
	ck_assert_int_eq(ibv_query_srq(srq, &got), 0);
	ck_assert(got.max_wr == 16 && got.srq_limit == 0);
	both.max_wr = 20;
	ck_assert_int_eq(ibv_modify_srq(srq, &both, mask), 0);
	ck_assert_int_eq(ibv_query_srq(srq, &got), 0);
	ck_assert(got.max_wr == 20);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	fix_close(&f);
}
END_TEST

/* The daemon has taken what was posted. */
static void taken(struct ibv_srq *srq)
{
	struct ibv_srq_attr none = { .srq_limit = 0 };

	ck_assert_int_eq(ibv_modify_srq(srq, &none, IBV_SRQ_LIMIT), 0);
}

/* So many more receives fit, as long as the daemon has those before, and no more than those. */
static void srq_fits(struct fix *f, struct ibv_srq *srq, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(fix_srq_recv(f, srq, 7, 4096, 64), 0);
		taken(srq);
	}
	ck_assert_int_eq(fix_srq_recv(f, srq, 7, 4096, 64), ENOMEM);
	taken(srq);
	ck_assert_int_eq(fix_srq_recv(f, srq, 7, 4096, 64), ENOMEM);
}

/* Two messages; of the CQ of the receives so many completions are polled. */
static void two_sends(struct fix *f, struct ibv_qp *a, struct ibv_cq *recvs, unsigned polled)
{
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(fix_send(f, a, 1, 0, 32, IBV_SEND_SIGNALED), 0);
	for (unsigned i = 0; i < 2; i++)
		fix_wait_ok(f->cq);
	while (polled--)
		fix_wait_ok(recvs);
}

/* max_wr receives are outstanding at most: those that the daemon has taken count until they have completed. */
START_TEST(srq_full)
{
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 3, .max_sge = 1 } };
	struct ibv_qp_init_attr qi = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_srq_attr attr = { .max_wr = 20 };
	struct ibv_cq *recvs;
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	recvs = ibv_create_cq(f.ctx, 8, NULL, NULL, 0);
	qi.srq = ibv_create_srq(f.pd, &si);
	qi.send_cq = f.cq;
	qi.recv_cq = recvs;
	b = ibv_create_qp(f.pd, &qi);
	ck_assert(recvs && qi.srq && b);
	ck_assert_uint_eq(si.attr.max_wr, 3);
	a = fix_qp(&f, IBV_QPT_RC, 16, NULL);
	fix_connect(&f, a, b);
	srq_fits(&f, qi.srq, 3);
	two_sends(&f, a, recvs, 2);
	srq_fits(&f, qi.srq, 2);
	ck_assert_int_eq(ibv_modify_srq(qi.srq, &attr, IBV_SRQ_MAX_WR), 0); /* beyond the ring */
	srq_fits(&f, qi.srq, 17);
	attr.max_wr = 19;
	ck_assert_int_eq(ibv_modify_srq(qi.srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	two_sends(&f, a, recvs, 2);
	ck_assert_int_eq(ibv_modify_srq(qi.srq, &attr, IBV_SRQ_MAX_WR), 0);
	srq_fits(&f, qi.srq, 1);
	two_sends(&f, a, recvs, 0);
	fix_pair_end(a, b);
	srq_fits(&f, qi.srq, 2);
	ck_assert_int_eq(ibv_destroy_srq(qi.srq), 0);
	ck_assert_int_eq(ibv_destroy_cq(recvs), 0);
	fix_close(&f);
}
END_TEST

/* The limit is set by ibv_modify_srq() only; before, nobody looks at it. */
START_TEST(srq_any_limit)
{
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 4, .max_sge = 1, .srq_limit = 0xa5a5a5a5 } };
	struct ibv_srq_attr got;
	struct ibv_srq *srq;
	struct fix f;

	fix_open(&f);
	srq = ibv_create_srq(f.pd, &si);
	ck_assert(srq != NULL);
	ck_assert_int_eq(ibv_query_srq(srq, &got), 0);
	ck_assert_uint_eq(got.srq_limit, 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	fix_close(&f);
}
END_TEST

/* A receive is of the SRQ's PD, whatever that of the QP is. */
START_TEST(srq_of_another_pd) /* conf: rule 6.1 */
{
	const enum ibv_qp_type type = _i & 1 ? IBV_QPT_UC : IBV_QPT_RC;
	const bool fits = _i < 2;
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_recv_wr *bad, wr = { .wr_id = 7, .num_sge = 1 };
	struct ibv_sge sge;
	struct ibv_qp *a, *b;
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	struct ibv_mr *m;
	struct ibv_wc wc;
	struct fix f;

	fix_open(&f);
	pd = ibv_alloc_pd(f.ctx);
	ck_assert(pd != NULL);
	m = ibv_reg_mr(pd, f.buf + 4096, 4096, IBV_ACCESS_LOCAL_WRITE);
	srq = ibv_create_srq(pd, &si);
	ck_assert(m && srq);
	a = fix_qp(&f, type, 16, NULL);
	b = fix_qp(&f, type, 16, srq);
	fix_connect(&f, a, b);
	sge = (struct ibv_sge){ (uintptr_t)f.buf + 4096, 64, fits ? m->lkey : f.mr->lkey };
	wr.sg_list = &sge;
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	fix_fill((unsigned char *)f.buf, 64, 3);
	fix_fill((unsigned char *)f.buf + 4096, 64, 4);
	ck_assert_int_eq(fix_send(&f, a, 1, 0, 64, IBV_SEND_SIGNALED), 0);
	for (unsigned i = 0; i < 2; i++) {
		wc = fix_wait(f.cq);
		if (wc.wr_id == 7)
			ck_assert_int_eq(wc.status, fits ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
		else
			ck_assert_int_eq(wc.status, fits || type == IBV_QPT_UC ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
	}
	ck_assert(fix_filled((unsigned char *)f.buf + 4096, 64, fits ? 3 : 4));
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fix_close(&f);
}
END_TEST

void api_srq(Suite *s)
{
	TCase *t = tcase_create("srq_of_another_pd");

	SUITE_ADD(s, srq_resize, srq_grown, srq_both, srq_full, srq_any_limit);
	tcase_add_loop_test(t, srq_of_another_pd, 0, 4);
	suite_add_tcase(s, t);
}
