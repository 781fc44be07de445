/* SPDX-License-Identifier: MIT */
/* api_ex.c - ibv_wr_*() and ibv_start_poll(): the same operations in their extended form. */
#include "../proc_state.h"
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

struct ex {
	struct fix f;
	struct ibv_cq_ex *cq;
	struct ibv_qp *a, *b;
	struct ibv_qp_ex *x;
};

static struct ibv_qp *ex_qp(struct ex *e, uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = ibv_cq_ex_to_cq(e->cq),
		.recv_cq = ibv_cq_ex_to_cq(e->cq),
		.cap = { 16, 16, 2, 2, 64 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = e->f.pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(e->f.ctx, &a);
}

static void ex_open(struct ex *e)
{
	struct ibv_cq_init_attr_ex ca = {
		.cqe = 64,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};

	fix_open(&e->f);
	e->cq = ibv_create_cq_ex(e->f.ctx, &ca);
	ck_assert(e->cq != NULL);
	e->a = ex_qp(e, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
				IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
	e->b = ex_qp(e, IBV_QP_EX_WITH_SEND);
	ck_assert(e->a && e->b);
	e->x = ibv_qp_to_qp_ex(e->a);
	ck_assert(e->x != NULL);
	fix_connect(&e->f, e->a, e->b);
}

static void ex_close(struct ex *e)
{
	ck_assert_int_eq(ibv_destroy_qp(e->a), 0);
	ck_assert_int_eq(ibv_destroy_qp(e->b), 0);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(e->cq)), 0);
	fix_close(&e->f);
}

/* Starts to poll; the caller reads and ends.  Fails after PATIENCE_S. */
static void ex_wait(struct ex *e)
{
	struct ibv_poll_cq_attr pa = { 0 };
	time_t end = time(NULL) + PATIENCE_S;
	int err;

	while ((err = ibv_start_poll(e->cq, &pa)) == ENOENT)
		ck_assert_msg(time(NULL) <= end, "no completion within %d s", PATIENCE_S);
	ck_assert_int_eq(err, 0);
	ck_assert_msg(e->cq->status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(e->cq->status));
}

START_TEST(all_there)
{
	struct ex e;

	ex_open(&e);
	/* No inline looks before it calls. */
	for (size_t i = offsetof(struct ibv_qp_ex, wr_atomic_cmp_swp); i < sizeof(struct ibv_qp_ex);
	     i += sizeof(void *))
		ck_assert_ptr_ne(*(void **)((char *)e.x + i), NULL);
	for (size_t i = offsetof(struct ibv_cq_ex, start_poll); i < sizeof(struct ibv_cq_ex); i += sizeof(void *))
		ck_assert_ptr_ne(*(void **)((char *)e.cq + i), NULL);
	for (size_t i = 0; i < sizeof(struct ibv_context_ops); i += sizeof(void *))
		ck_assert_ptr_ne(*(void **)((char *)&e.f.ctx->ops + i), NULL);
	ck_assert_ptr_eq(ibv_qp_to_qp_ex(fix_qp(&e.f, IBV_QPT_RC, 1, NULL)), NULL);
	errno = 0;
	ck_assert_ptr_eq(ex_qp(&e, IBV_QP_EX_WITH_TSO), NULL);
	ck_assert_int_eq(errno, EOPNOTSUPP);
}
END_TEST

static uint64_t mono_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* No completion was made before its work was posted. */
START_TEST(times)
{
	struct ex e;

	ex_open(&e);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t posted = mono_ns();

		ibv_wr_start(e.x);
		e.x->wr_id = i;
		e.x->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(e.x, e.f.mr->rkey, (uintptr_t)e.f.buf + 4096);
		ibv_wr_set_sge(e.x, e.f.mr->lkey, (uintptr_t)e.f.buf, 8);
		ck_assert_int_eq(ibv_wr_complete(e.x), 0);
		ex_wait(&e);
		ck_assert_uint_ge(ibv_wc_read_completion_ts(e.cq), posted);
		ck_assert_uint_le(ibv_wc_read_completion_ts(e.cq), mono_ns());
		ibv_end_poll(e.cq);
	}
	ex_close(&e);
}
END_TEST

START_TEST(send)
{
	struct ibv_data_buf parts[2];
	struct ex e;

	ex_open(&e);
	fix_fill(e.f.buf, 1000, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(fix_recv(&e.f, e.b, i, 2000 + i * 1000, 1000), 0);
	parts[0] = (struct ibv_data_buf){ e.f.buf, 10 };
	parts[1] = (struct ibv_data_buf){ e.f.buf + 10, 20 };
	ibv_wr_start(e.x);
	e.x->wr_id = 10;
	e.x->wr_flags = 0;
	ibv_wr_send(e.x);
	ibv_wr_set_sge(e.x, e.f.mr->lkey, (uintptr_t)e.f.buf, 1000);
	e.x->wr_id = 11;
	ibv_wr_send_imm(e.x, 0x12345678);
	ibv_wr_set_inline_data(e.x, e.f.buf, 30);
	e.x->wr_id = 12;
	e.x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(e.x);
	ibv_wr_set_inline_data_list(e.x, 2, parts);
	ck_assert_int_eq(ibv_wr_complete(e.x), 0);

	for (unsigned got = 0; got < 4; ibv_end_poll(e.cq)) {
		ex_wait(&e);
		do {
			got++;
			if (ibv_wc_read_opcode(e.cq) != IBV_WC_RECV) {
				ck_assert_uint_eq(e.cq->wr_id, 12);
				ck_assert_uint_eq(ibv_wc_read_qp_num(e.cq), e.a->qp_num);
				continue;
			}
			ck_assert_uint_eq(ibv_wc_read_qp_num(e.cq), e.b->qp_num);
			ck_assert_uint_eq(ibv_wc_read_byte_len(e.cq), e.cq->wr_id ? 30 : 1000);
			ck_assert_uint_eq(!!(ibv_wc_read_wc_flags(e.cq) & IBV_WC_WITH_IMM), e.cq->wr_id == 1);
			if (e.cq->wr_id == 1)
				ck_assert_uint_eq(ibv_wc_read_imm_data(e.cq), 0x12345678);
			ck_assert(ibv_wc_read_completion_ts(e.cq) != 0);
		} while (!ibv_next_poll(e.cq));
	}
	ck_assert(fix_filled(e.f.buf + 2000, 1000, 3));
	ck_assert(fix_filled(e.f.buf + 3000, 30, 3));
	ck_assert(fix_filled(e.f.buf + 4000, 30, 3));
	ex_close(&e);
}
END_TEST

START_TEST(one_sided)
{
	uint64_t *word, at;
	struct ex e;

	ex_open(&e);
	fix_fill(e.f.buf, 1000, 4);
	word = (uint64_t *)(e.f.buf + 4096);
	at = (uintptr_t)word;
	*word = 40;
	ibv_wr_start(e.x);
	e.x->wr_id = 1;
	e.x->wr_flags = 0;
	ibv_wr_rdma_write(e.x, e.f.mr->rkey, (uintptr_t)e.f.buf + 2000);
	ibv_wr_set_sge(e.x, e.f.mr->lkey, (uintptr_t)e.f.buf, 1000);
	ibv_wr_rdma_read(e.x, e.f.mr->rkey, (uintptr_t)e.f.buf + 2000);
	ibv_wr_set_sge(e.x, e.f.mr->lkey, (uintptr_t)e.f.buf + 6000, 1000);
	ibv_wr_atomic_fetch_add(e.x, e.f.mr->rkey, at, 2);
	ibv_wr_set_sge(e.x, e.f.mr->lkey, at + 8, 8);
	e.x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_cmp_swp(e.x, e.f.mr->rkey, at, 42, 99);
	ibv_wr_set_sge(e.x, e.f.mr->lkey, at + 16, 8);
	ck_assert_int_eq(ibv_wr_complete(e.x), 0);
	ex_wait(&e);
	ck_assert_int_eq(ibv_wc_read_opcode(e.cq), IBV_WC_COMP_SWAP);
	ck_assert_int_eq(ibv_next_poll(e.cq), ENOENT);
	ibv_end_poll(e.cq);
	ck_assert(fix_filled(e.f.buf + 2000, 1000, 4));
	ck_assert(fix_filled(e.f.buf + 6000, 1000, 4));
	ck_assert(word[0] == 99 && word[1] == 40 && word[2] == 42);
	ex_close(&e);
}
END_TEST

/* The first error is what wr_complete returns, and nothing is posted; the queue is as it was. */
START_TEST(errors)
{
	struct ibv_poll_cq_attr pa = { 0 };
	struct ex e;

	ex_open(&e);
	for (unsigned round = 0; round < 40; round++) {
		ibv_wr_start(e.x);
		e.x->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(e.x);
		ibv_wr_set_sge(e.x, e.f.mr->lkey, (uintptr_t)e.f.buf, 8);
		if (round % 4 == 0) {
			ibv_wr_send_tso(e.x, e.f.buf, 8, 8);
			ck_assert_int_eq(ibv_wr_complete(e.x), EINVAL);
		} else if (round % 4 == 1) {
			ibv_wr_send(e.x);
			ibv_wr_set_inline_data(e.x, e.f.buf, 4000);
			ck_assert_int_eq(ibv_wr_complete(e.x), EINVAL);
		} else if (round % 4 == 2) {
			for (unsigned i = 0; i < 16; i++)
				ibv_wr_send(e.x);
			ck_assert_int_eq(ibv_wr_complete(e.x), ENOMEM);
		} else {
			ibv_wr_abort(e.x);
		}
	}
	ck_assert_int_eq(ibv_start_poll(e.cq, &pa), ENOENT);
	ck_assert_int_eq(fix_recv(&e.f, e.b, 1, 4096, 64), 0);
	ibv_wr_start(e.x);
	ibv_wr_send(e.x);
	ibv_wr_set_sge(e.x, e.f.mr->lkey, (uintptr_t)e.f.buf, 8);
	ck_assert_int_eq(ibv_wr_complete(e.x), 0);
	for (int i = 0; i < 2; i++) {
		ex_wait(&e);
		ibv_end_poll(e.cq);
	}
	ex_close(&e);
}
END_TEST

/* Between start_poll and end_poll the CQ is the program's to arm and to resize, and its queue pairs come and go. */
START_TEST(between)
{
	struct ibv_poll_cq_attr pa = { 0 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *more;
	struct ibv_cq *cq;
	uint32_t num;
	struct ex e;

	ex_open(&e);
	cq = ibv_cq_ex_to_cq(e.cq);
	ck_assert_int_eq(fix_state(e.b, IBV_QPS_RESET), 0);
	for (unsigned round = 0; round < 4; round++) {
		more = ex_qp(&e, IBV_QP_EX_WITH_SEND);
		ck_assert_ptr_nonnull(more);
		num = more->qp_num;
		fix_init(more);
		fix_init(e.b);
		for (unsigned i = 0; i < 4; i++) {
			ck_assert_int_eq(fix_recv(&e.f, more, 10 + i, 0, 64), 0);
			ck_assert_int_eq(fix_recv(&e.f, e.b, 20 + i, 0, 64), 0);
			ck_assert_int_eq(fix_state(more, IBV_QPS_ERR), 0);
			ck_assert_int_eq(fix_state(e.b, IBV_QPS_ERR), 0);
		}
		ck_assert_int_eq(ibv_query_qp(more, &attr, IBV_QP_STATE, &init), 0); /* behind a turn: all is there */
		ck_assert_int_eq(ibv_start_poll(e.cq, &pa), 0);
		ck_assert_uint_eq(e.cq->wr_id, 10);
		ck_assert_int_eq(ibv_req_notify_cq(cq, 0), 0);
		if (round & 1)
			ck_assert_int_eq(ibv_resize_cq(cq, 100), 0);
		if (round & 2)
			ck_assert_int_eq(fix_state(more, IBV_QPS_RESET), 0);
		ck_assert_int_eq(ibv_destroy_qp(more), 0);
		ck_assert_uint_eq(ibv_wc_read_qp_num(e.cq), num);
		more = ex_qp(&e, IBV_QP_EX_WITH_SEND);
		ck_assert_ptr_nonnull(more);
		for (unsigned i = 0; i < 4; i++) {
			ck_assert_int_eq(ibv_next_poll(e.cq), 0);
			ck_assert_uint_eq(e.cq->wr_id, 20 + i);
			ck_assert_uint_eq(ibv_wc_read_qp_num(e.cq), e.b->qp_num);
		}
		ck_assert_int_eq(ibv_next_poll(e.cq), ENOENT);
		ibv_end_poll(e.cq);
		ck_assert_int_eq(ibv_destroy_qp(more), 0);
		ck_assert_int_eq(fix_state(e.b, IBV_QPS_RESET), 0);
	}
	ex_close(&e);
}
END_TEST

struct second {
	struct ibv_cq *cq;
	pid_t tid;      /* atomic */
	uint64_t wr_id; /* atomic; 0: it has found nothing yet */
};

static void *second_polls(void *arg)
{
	struct second *s = arg;
	struct ibv_wc wc;

	__atomic_store_n(&s->tid, gettid(), __ATOMIC_RELEASE);
	while (!ibv_poll_cq(s->cq, 1, &wc))
		;
	__atomic_store_n(&s->wr_id, wc.wr_id, __ATOMIC_RELEASE);
	return NULL;
}

/* It waits for a lock, or has found something. */
static bool is_at_rest(struct second *s)
{
	return proc_state(__atomic_load_n(&s->tid, __ATOMIC_ACQUIRE)) == 'S' ||
	       __atomic_load_n(&s->wr_id, __ATOMIC_ACQUIRE);
}

/* A program of one thread polls without a lock; but what it makes between start_poll and end_poll waits for the end. */
START_TEST(thread_between)
{
	struct ibv_poll_cq_attr pa = { 0 };
	time_t end = time(NULL) + PATIENCE_S;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct second s = { 0 };
	struct ex e;
	pthread_t t;

	ex_open(&e);
	s.cq = ibv_cq_ex_to_cq(e.cq);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(fix_recv(&e.f, e.b, 10 + i, 0, 64), 0);
	ck_assert_int_eq(fix_state(e.b, IBV_QPS_ERR), 0);
	ck_assert_int_eq(ibv_query_qp(e.b, &attr, IBV_QP_STATE, &init), 0); /* behind a turn: all is there */
	ck_assert_int_eq(ibv_start_poll(e.cq, &pa), 0);
	ck_assert_uint_eq(e.cq->wr_id, 10);
	ck_assert_int_eq(pthread_create(&t, NULL, second_polls, &s), 0);
	while (!is_at_rest(&s)) {
		ck_assert_msg(time(NULL) <= end, "the second thread does not come to rest");
		sched_yield();
	}
	ck_assert_uint_eq(__atomic_load_n(&s.wr_id, __ATOMIC_ACQUIRE), 0);
	ibv_end_poll(e.cq);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_uint_eq(s.wr_id, 11);
	ex_close(&e);
}
END_TEST

START_TEST(cq_flags)
{
	struct ibv_cq_init_attr_ex ca = { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_CVLAN };
	struct fix f;

	fix_open(&f);
	errno = 0;
	ck_assert_ptr_eq(ibv_create_cq_ex(f.ctx, &ca), NULL);
	ck_assert_int_eq(errno, EOPNOTSUPP);
	fix_close(&f);
}
END_TEST

void api_ex(Suite *s) { SUITE_ADD(s, all_there, times, send, one_sided, errors, between, thread_between, cq_flags); }
