/* SPDX-License-Identifier: MIT */
/* api_post.c - posting: states, limits, full queues, what is left after ERR, RESET and destruction; threads.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#define DEPTH 8u

struct pair {
	struct fix f;
	struct ibv_qp *a, *b;
};

static void pair_open(struct pair *p, enum ibv_qp_type type, unsigned depth)
{
	fix_open(&p->f);
	p->a = fix_qp(&p->f, type, depth, NULL);
	p->b = fix_qp(&p->f, type, depth, NULL);
	fix_connect(&p->f, p->a, p->b);
}

static void pair_close(struct pair *p)
{
	ck_assert_int_eq(ibv_destroy_qp(p->a), 0);
	ck_assert_int_eq(ibv_destroy_qp(p->b), 0);
	fix_close(&p->f);
}

START_TEST(states)
{
	struct fix f;
	struct ibv_qp *qp;

	fix_open(&f);
	qp = fix_qp(&f, IBV_QPT_RC, DEPTH, NULL);
	errno = EAGAIN;
	ck_assert_int_eq(fix_send(&f, qp, 1, 0, 8, 0), EINVAL);
	ck_assert_int_eq(errno, EINVAL); /* which programs print */
	errno = EAGAIN;
	ck_assert_int_eq(fix_recv(&f, qp, 1, 0, 8), EINVAL);
	ck_assert_int_eq(errno, EINVAL);
	fix_init(qp);
	ck_assert_int_eq(fix_send(&f, qp, 1, 0, 8, 0), EINVAL);
	ck_assert_int_eq(fix_recv(&f, qp, 1, 0, 8), 0);
	fix_rtr(&f, qp, qp);
	ck_assert_int_eq(fix_send(&f, qp, 1, 0, 8, 0), EINVAL);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	fix_close(&f);
}
END_TEST

/* Of a list the good part is posted, and bad_wr is the first that is not. */
START_TEST(bad_wr)
{
	struct pair p;
	struct ibv_sge sge[3];
	struct ibv_send_wr wr[3], *bad = NULL;
	struct ibv_recv_wr rwr = { .sg_list = sge, .num_sge = 3 }, *rbad = NULL;

	pair_open(&p, IBV_QPT_RC, DEPTH);
	for (int i = 0; i < 3; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)p.f.buf, 16, p.f.mr->lkey };
		wr[i] = (struct ibv_send_wr){ .wr_id = (uint64_t)i,
					      .next = i < 2 ? &wr[i + 1] : NULL,
					      .sg_list = sge,
					      .num_sge = 1,
					      .opcode = IBV_WR_SEND,
					      .send_flags = IBV_SEND_SIGNALED };
	}
	ck_assert_int_eq(fix_recv(&p.f, p.b, 9, 100, 100), 0);
	wr[1].num_sge = 3; /* the QP has 2 */
	ck_assert_int_eq(ibv_post_send(p.a, wr, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &wr[1]);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_ne(fix_wait_ok(p.f.cq).wr_id, 1);
	ck_assert_int_eq(ibv_post_recv(p.b, &rwr, &rbad), EINVAL);
	ck_assert_ptr_eq(rbad, &rwr);

	wr[1].next = NULL;
	wr[1].num_sge = 1;
	wr[1].send_flags = IBV_SEND_INLINE;
	sge[0].length = 4000;
	ck_assert_int_ne(ibv_post_send(p.a, &wr[1], &bad), 0);
	wr[1].send_flags = 0;
	wr[1].opcode = (enum ibv_wr_opcode)77;
	ck_assert_int_eq(ibv_post_send(p.a, &wr[1], &bad), EINVAL);
	wr[1].opcode = IBV_WR_TSO;
	ck_assert_int_eq(ibv_post_send(p.a, &wr[1], &bad), EINVAL);
	pair_close(&p);

	pair_open(&p, IBV_QPT_UD, DEPTH);
	wr[1].opcode = IBV_WR_RDMA_WRITE;
	ck_assert_int_eq(ibv_post_send(p.a, &wr[1], &bad), EINVAL);
	wr[1].opcode = IBV_WR_SEND;
	wr[1].wr.ud.ah = NULL;
	ck_assert_int_eq(ibv_post_send(p.a, &wr[1], &bad), EINVAL);
	pair_close(&p);
}
END_TEST

/* A queue holds what it was made for, until completions are polled. */
START_TEST(full)
{
	struct pair p;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;
	unsigned n = 0, sends, recvs;

	pair_open(&p, IBV_QPT_RC, DEPTH);
	ck_assert_int_eq(ibv_query_qp(p.a, &a, IBV_QP_CAP, &i), 0);
	sends = i.cap.max_send_wr;
	recvs = i.cap.max_recv_wr;
	while (!fix_recv(&p.f, p.b, n, 4096, 64))
		ck_assert_uint_le(++n, recvs);
	ck_assert_uint_eq(n, recvs);
	ck_assert_int_eq(fix_recv(&p.f, p.b, n, 4096, 64), ENOMEM);
	for (n = 0; n + 1 < sends; n++)
		ck_assert_int_eq(fix_send(&p.f, p.a, n, 0, 64, 0), 0);
	ck_assert_int_eq(fix_send(&p.f, p.a, 1000, 0, 64, IBV_SEND_SIGNALED), 0);
	ck_assert_int_eq(fix_send(&p.f, p.a, 1001, 0, 64, 0), ENOMEM);
	for (n = 0; n < recvs + 1; n++)
		fix_wait_ok(p.f.cq);
	/* The one signaled completion freed all. */
	for (n = 0; n < recvs; n++)
		ck_assert_int_eq(fix_recv(&p.f, p.b, n, 4096, 64), 0);
	for (n = 0; n < sends; n++)
		ck_assert_int_eq(fix_send(&p.f, p.a, n, 0, 64, IBV_SEND_SIGNALED), 0);
	ck_assert_int_eq(fix_send(&p.f, p.a, n, 0, 64, 0), ENOMEM);
	for (n = 0; n < recvs + sends; n++)
		fix_wait_ok(p.f.cq);
	pair_close(&p);
}
END_TEST

/* Sizes around what the library copies into the queue slot, from two sge, and inline. */
START_TEST(sizes)
{
	static const unsigned lens[] = { 0, 1, 7, 63, 64, 100, 175, 176, 177, 300, 1024, 1025, 3000 };
	struct pair p;

	pair_open(&p, IBV_QPT_RC, DEPTH);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		unsigned len = lens[i], half = len / 2;
		struct ibv_sge sge[2] = { { (uintptr_t)p.f.buf, half, p.f.mr->lkey },
					  { (uintptr_t)p.f.buf + half, len - half, p.f.mr->lkey } };
		struct ibv_send_wr *bad, wr = {
			.wr_id = 2, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
		};

		for (int way = 0; way < 2; way++) {
			struct ibv_wc wc;

			if (way == 1 && len > 64)
				break;
			wr.send_flags = IBV_SEND_SIGNALED | (way ? IBV_SEND_INLINE : 0);
			fix_fill(p.f.buf, len, len + (unsigned)way);
			ck_assert_int_eq(fix_recv(&p.f, p.b, 1, 4096, 4096), 0);
			ck_assert_int_eq(ibv_post_send(p.a, &wr, &bad), 0);
			for (int n = 0; n < 2; n++) {
				wc = fix_wait_ok(p.f.cq);
				if (wc.wr_id == 1)
					ck_assert_uint_eq(wc.byte_len, len);
			}
			ck_assert_msg(fix_filled(p.f.buf + 4096, len, len + (unsigned)way), "%u bytes, way %d", len,
				      way);
		}
	}
	pair_close(&p);
}
END_TEST

/* As much inline data as was granted, though the queue could have sges instead. */
START_TEST(inline_full)
{
	struct ibv_qp_init_attr a = { .cap = { 4, 4, 4, 1, 1024 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp[2];
	struct fix f;

	fix_open(&f);
	a.send_cq = a.recv_cq = f.cq;
	for (unsigned i = 0; i < 2; i++) {
		qp[i] = ibv_create_qp(f.pd, &a);
		ck_assert_msg(qp[i] != NULL, "ibv_create_qp: %s", strerror(errno));
	}
	ck_assert_uint_ge(a.cap.max_inline_data, 1024);
	fix_connect(&f, qp[0], qp[1]);
	for (unsigned len = 952; len <= 1024; len += 8) {
		fix_fill(f.buf, len, len);
		ck_assert_int_eq(fix_recv(&f, qp[1], 1, 4096, 1024), 0);
		ck_assert_int_eq(fix_send(&f, qp[0], 2, 0, len, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
		fix_wait_ok(f.cq);
		fix_wait_ok(f.cq);
		ck_assert(fix_filled(f.buf + 4096, len, len));
	}
	fix_pair_end(qp[0], qp[1]);
	fix_close(&f);
}
END_TEST

/* An sge outside of its MR is the HCA's to find: nothing is read by the library. */
START_TEST(bad_sge)
{
	struct pair p;
	struct ibv_sge sge;
	struct ibv_send_wr *bad,
		wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	pair_open(&p, IBV_QPT_RC, DEPTH);
	sge = (struct ibv_sge){ 64, 16, p.f.mr->lkey }; /* no memory there */
	ck_assert_int_eq(ibv_post_send(p.a, &wr, &bad), 0);
	ck_assert_int_eq(fix_wait(p.f.cq).status, IBV_WC_LOC_PROT_ERR);
	pair_close(&p);
	pair_open(&p, IBV_QPT_RC, DEPTH);
	sge = (struct ibv_sge){ (uintptr_t)p.f.buf, 16, p.f.mr->lkey + 1 };
	ck_assert_int_eq(ibv_post_send(p.a, &wr, &bad), 0);
	ck_assert_int_eq(fix_wait(p.f.cq).status, IBV_WC_LOC_PROT_ERR);
	pair_close(&p);
}
END_TEST

START_TEST(flush)
{
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, IBV_QPT_RC, DEPTH);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(fix_recv(&p.f, p.b, i, 0, 64), 0);
	ck_assert_int_eq(fix_state(p.b, IBV_QPS_ERR), 0);
	for (unsigned i = 0; i < 3; i++) {
		wc = fix_wait(p.f.cq);
		ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_uint_eq(wc.qp_num, p.b->qp_num);
	}
	/* In ERR what is posted is flushed. */
	ck_assert_int_eq(fix_send(&p.f, p.b, 7, 0, 64, 0), 0);
	wc = fix_wait(p.f.cq);
	ck_assert(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 7);
	pair_close(&p);
}
END_TEST

/* RESET: the queues are empty and whole, completions that lay in the CQ are gone; and the pair works again.
 */
START_TEST(reset)
{
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, IBV_QPT_RC, DEPTH);
	for (int round = 0; round < 5; round++) {
		for (unsigned i = 0; i < DEPTH; i++)
			ck_assert_int_eq(fix_recv(&p.f, p.b, i, 4096, 64), 0);
		for (unsigned i = 0; i < DEPTH / 2; i++)
			ck_assert_int_eq(fix_send(&p.f, p.a, i, 0, 64, IBV_SEND_SIGNALED), 0);
		fix_wait_ok(p.f.cq);
		ck_assert_int_eq(fix_state(p.a, IBV_QPS_RESET), 0);
		ck_assert_int_eq(fix_state(p.b, IBV_QPS_RESET), 0);
		ck_assert_int_eq(ibv_poll_cq(p.f.cq, 1, &wc), 0);
		fix_connect(&p.f, p.a, p.b);
	}
	pair_close(&p);
}
END_TEST

/* The completions of a destroyed QP are not shown. */
START_TEST(destroyed)
{
	struct pair p;
	struct ibv_qp *c, *d;

	pair_open(&p, IBV_QPT_RC, DEPTH);
	c = fix_qp(&p.f, IBV_QPT_RC, DEPTH, NULL);
	d = fix_qp(&p.f, IBV_QPT_RC, DEPTH, NULL);
	fix_connect(&p.f, c, d);
	ck_assert_int_eq(fix_recv(&p.f, p.b, 50, 4096, 64), 0);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(fix_recv(&p.f, d, 100 + i, 4096, 64), 0);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(fix_send(&p.f, c, 200 + i, 0, 64, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(p.f.cq);
	ck_assert_int_eq(ibv_destroy_qp(c), 0);
	ck_assert_int_eq(ibv_destroy_qp(d), 0);
	ck_assert_int_eq(fix_send(&p.f, p.a, 51, 0, 64, IBV_SEND_SIGNALED), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = fix_wait_ok(p.f.cq);

		ck_assert(wc.wr_id == 50 || wc.wr_id == 51);
	}
	pair_close(&p);
}
END_TEST

/*
 * A CQ just as large as what its QPs can have at a time does not overrun, whatever is left in it by QPs that are reset, or
 * destroyed, unpolled.  Completions of others in between stay in their order.
 */
START_TEST(left_unpolled)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 14, 1, 1, 0 } };
	struct ibv_async_event ev;
	struct ibv_cq *cq;
	struct ibv_qp *x, *y;
	struct fix f;

	fix_open(&f);
	cq = ibv_create_cq(f.ctx, 16, NULL, NULL, 0);
	ck_assert(cq && cq->cqe == 16);
	init.send_cq = init.recv_cq = cq;
	x = ibv_create_qp(f.pd, &init);
	init.cap.max_recv_wr = 2;
	y = ibv_create_qp(f.pd, &init);
	ck_assert(x && y);
	for (unsigned round = 0; round < 20; round++) {
		fix_init(x);
		fix_init(y);
		ck_assert_int_eq(fix_state(x, IBV_QPS_ERR), 0);
		ck_assert_int_eq(fix_state(y, IBV_QPS_ERR), 0);
		for (unsigned i = 0; i < 16; i++) {
			struct ibv_qp *qp = i == 5 || i == 9 ? y : x;

			ck_assert_int_eq(fix_recv(&f, qp, i, 0, 64), 0);
			ck_assert_int_eq(fix_state(qp, IBV_QPS_ERR), 0); /* one after the other */
		}
		if (round % 2) {
			ck_assert_int_eq(fix_state(x, IBV_QPS_RESET), 0);
		} else {
			ck_assert_int_eq(ibv_destroy_qp(x), 0);
			init.cap.max_recv_wr = 14;
			x = ibv_create_qp(f.pd, &init);
			ck_assert_ptr_nonnull(x);
		}
		for (unsigned i = 5; round % 3 && i <= 9; i += 4) {
			struct ibv_wc wc = fix_wait(cq);

			ck_assert(wc.wr_id == i && wc.qp_num == y->qp_num && wc.status == IBV_WC_WR_FLUSH_ERR);
		}
		ck_assert_int_eq(fix_state(y, IBV_QPS_RESET), 0);
	}
	ck_assert_int_eq(fcntl(f.ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(ibv_get_async_event(f.ctx, &ev), -1);
	fix_connect(&f, x, y);
	ck_assert_int_eq(fix_recv(&f, y, 1, 4096, 64), 0);
	ck_assert_int_eq(fix_send(&f, x, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	ck_assert_uint_eq(fix_wait_ok(cq).wr_id + fix_wait_ok(cq).wr_id, 3);
	fix_pair_end(x, y);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	fix_close(&f);
}
END_TEST

/* Completions on both sides of a resize come in order, none is lost. */
START_TEST(resized)
{
	struct pair p;
	unsigned next = 0;

	pair_open(&p, IBV_QPT_RC, 64);
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 10; i++) {
			ck_assert_int_eq(fix_recv(&p.f, p.b, round * 10 + i, 4096, 64), 0);
			ck_assert_int_eq(fix_send(&p.f, p.a, 0, 0, 64, i == 9 ? IBV_SEND_SIGNALED : 0), 0);
			if (i == 3 || i == 5 || i == 8)
				ck_assert_int_eq(ibv_resize_cq(p.f.cq, 100 + (int)(round * i)), 0);
		}
		for (unsigned n = 0; n < 11; n++) {
			struct ibv_wc wc = fix_wait_ok(p.f.cq);

			if (wc.opcode == IBV_WC_RECV)
				ck_assert_uint_eq(wc.wr_id, next++);
		}
	}
	ck_assert_uint_eq(next, 200);
	pair_close(&p);
}
END_TEST

/* ---- the state that the library knows ------------------------------------------------------ */

static struct {
	struct ibv_qp *qp;
	struct ibv_qp_attr *attr; /* on a page of its own */
	int written, go;          /* atomic */
} late;

/* The answer is being written out: it stays so until another thread has changed the state. */
static void late_write(int)
{
	__atomic_store_n(&late.written, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&late.go, __ATOMIC_ACQUIRE))
		sched_yield();
	mprotect(late.attr, sizeof(*late.attr), PROT_READ | PROT_WRITE);
}

static void *late_query(void *)
{
	struct ibv_qp_init_attr init;

	return (void *)(intptr_t)ibv_query_qp(late.qp, late.attr, IBV_QP_STATE, &init);
}

/* A query that ends after a change tells of the state before; what may be posted goes by the one behind it. */
START_TEST(query_late)
{
	struct sigaction was, act = { .sa_handler = late_write };
	struct pair p;
	pthread_t t;
	void *err;

	pair_open(&p, IBV_QPT_RC, DEPTH);
	late.qp = p.a;
	late.attr = mmap(NULL, sizeof(*late.attr), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(late.attr != MAP_FAILED);
	ck_assert_int_eq(fix_state(p.a, IBV_QPS_RESET), 0);
	ck_assert_int_eq(fix_state(p.b, IBV_QPS_RESET), 0);
	ck_assert_int_eq(sigaction(SIGSEGV, &act, &was), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, late_query, NULL), 0);
	while (!__atomic_load_n(&late.written, __ATOMIC_ACQUIRE)) /* the test has a bound */
		sched_yield();
	fix_connect(&p.f, p.a, p.b);
	__atomic_store_n(&late.go, 1, __ATOMIC_RELEASE);
	ck_assert_int_eq(pthread_join(t, &err), 0);
	ck_assert_int_eq(sigaction(SIGSEGV, &was, NULL), 0);
	ck_assert_ptr_null(err);
	ck_assert_int_eq(late.attr->qp_state, IBV_QPS_RESET);
	ck_assert_int_eq(p.a->state, IBV_QPS_RTS);
	ck_assert_int_eq(fix_recv(&p.f, p.b, 1, 4096, 64), 0);
	ck_assert_int_eq(fix_send(&p.f, p.a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	ck_assert_uint_eq(fix_wait_ok(p.f.cq).wr_id + fix_wait_ok(p.f.cq).wr_id, 3);
	munmap(late.attr, sizeof(*late.attr));
	pair_close(&p);
}
END_TEST

/* A QP that has failed by itself, asked for its address only: as in rdma-core, its state is the one that was set last. */
START_TEST(query_unasked)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct pair p;

	pair_open(&p, IBV_QPT_RC, DEPTH);
	ck_assert_int_eq(fix_recv(&p.f, p.b, 1, 4096, 16), 0);
	ck_assert_int_eq(fix_send(&p.f, p.a, 2, 0, 64, IBV_SEND_SIGNALED), 0); /* too long */
	ck_assert_int_ne(fix_wait(p.f.cq).status, IBV_WC_SUCCESS);
	ck_assert_int_ne(fix_wait(p.f.cq).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_query_qp(p.a, &a, IBV_QP_AV | IBV_QP_DEST_QPN, &init), 0);
	ck_assert_uint_eq(a.dest_qp_num, p.b->qp_num);
	ck_assert_int_eq(p.a->state, IBV_QPS_RTS);
	ck_assert_int_eq(ibv_query_qp(p.a, &a, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(a.qp_state, IBV_QPS_ERR);
	ck_assert_int_eq(p.a->state, IBV_QPS_ERR);
	pair_close(&p);
}
END_TEST

/* A QP with the steps of librdmacm: of two the second one is refused, and there is no QP; one, and it takes receives. */
START_TEST(steps)
{
	struct ibv_qp *(*make)(struct ibv_context *, struct ibv_qp_init_attr_ex *, const struct ibv_qp_attr *,
			       const int *mask, unsigned);
	const struct ibv_qp_attr a[2] = { { .qp_state = IBV_QPS_INIT, .port_num = 1 }, { .qp_state = IBV_QPS_RTR } };
	const int mask[2] = { IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, IBV_QP_STATE };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC,
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .cap = { DEPTH, DEPTH, 1, 1, 0 } };
	struct ibv_qp *qp;
	struct fix f;

	fix_open(&f);
	init.pd = f.pd;
	init.send_cq = init.recv_cq = f.cq;
	*(void **)&make = dlsym(RTLD_DEFAULT, "rdmad_create_qp");
	ck_assert(make);
	ck_assert(!make(f.ctx, &init, a, mask, 2));
	ck_assert_int_eq(errno, EINVAL);
	qp = make(f.ctx, &init, a, mask, 1);
	ck_assert(qp);
	ck_assert_int_eq(qp->state, IBV_QPS_INIT);
	ck_assert_int_eq(fix_recv(&f, qp, 1, 4096, 64), 0);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	fix_close(&f);
}
END_TEST

/* ---- threads ----------------------------------------------------------------------------- */

#define THREADS 4
#define EACH    2000

struct crowd {
	struct pair p;
	unsigned received; /* atomic */
	unsigned char seen[THREADS][EACH];
};

static void *crowd_send(void *arg)
{
	struct crowd *c = arg;
	static unsigned next;
	unsigned me = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < EACH;) {
		struct ibv_send_wr *bad, wr = { .wr_id = (uint64_t)me << 32 | i,
						.opcode = IBV_WR_SEND_WITH_IMM,
						.imm_data = me << 16 | i,
						.send_flags = IBV_SEND_SIGNALED };
		int err = ibv_post_send(c->p.a, &wr, &bad);

		if (err && err != ENOMEM)
			return (void *)1;
		i += !err;
	}
	return NULL;
}

/* Polls and posts the receive again; both kinds of thread run into each other's locks. */
static void *crowd_poll(void *arg)
{
	struct crowd *c = arg;
	struct ibv_wc wc[4];

	while (__atomic_load_n(&c->received, __ATOMIC_ACQUIRE) < THREADS * EACH) {
		int n = ibv_poll_cq(c->p.f.cq, 4, wc);

		for (int i = 0; i < n; i++) {
			unsigned from = wc[i].imm_data >> 16, k = wc[i].imm_data & 0xffff;

			if (wc[i].status)
				return (void *)1;
			if (wc[i].opcode != IBV_WC_RECV)
				continue;
			if (from >= THREADS || k >= EACH || __atomic_fetch_add(&c->seen[from][k], 1, __ATOMIC_RELAXED))
				return (void *)2;
			if (fix_recv(&c->p.f, c->p.b, 0, 4096, 64))
				return (void *)3;
			__atomic_fetch_add(&c->received, 1, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

START_TEST(threads)
{
	static struct crowd c;
	pthread_t s[THREADS], r[2];
	void *ret;

	pair_open(&c.p, IBV_QPT_RC, 64);
	for (int i = 0; i < 64; i++)
		ck_assert_int_eq(fix_recv(&c.p.f, c.p.b, 0, 4096, 64), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&r[i], NULL, crowd_poll, &c), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&s[i], NULL, crowd_send, &c), 0);
	for (int i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(s[i], &ret), 0);
		ck_assert_ptr_eq(ret, NULL);
	}
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_join(r[i], &ret), 0);
		ck_assert_ptr_eq(ret, NULL);
	}
	pair_close(&c.p);
}
END_TEST

void api_post(Suite *s)
{
	SUITE_ADD(s, states, bad_wr, full, sizes, inline_full, bad_sge, flush, reset, destroyed, left_unpolled, resized,
		  query_late, query_unasked, steps, threads);
}
