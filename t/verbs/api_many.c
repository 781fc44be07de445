/* SPDX-License-Identifier: MIT */
/*
 * api_many.c - as much as a device claims to have: made, used in part, destroyed.
 *
 * API_MANY_MRS: how many regions; by hand all 524287 can be had, which takes its time.
 */
#include "fixture.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../maps.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QPS 8192u /* each of their allocations is dear */
#define MRS 8192u
#else
#define QPS 65536u
#define MRS 70000u /* more than a process has mappings */
#endif
#define NTH 997u /* of them one is used */
#define LEN (1u << 20)

/* Of queues, in this process. */
static unsigned mappings(void)
{
	struct mapping m;

	return maps_named("rdmad-queues", &m);
}

static void write_one(struct fix *f, struct ibv_qp *qp, unsigned seed)
{
	struct ibv_sge sge = { (uintptr_t)f->buf, 64, f->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { (uintptr_t)f->buf + 4096, f->mr->rkey } },
			   *bad;

	fix_fill(f->buf, 64, seed);
	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
	ck_assert_uint_eq(fix_wait_ok(f->cq).qp_num, qp->qp_num);
	ck_assert(fix_filled(f->buf + 4096, 64, seed));
}

START_TEST(queue_pairs)
{
	struct ibv_qp **qp = calloc(QPS, sizeof(struct ibv_qp *));
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct fix f;

	fix_open(&f);
	ck_assert_ptr_nonnull(qp);
	a.send_cq = a.recv_cq = f.cq;
	for (unsigned i = 0; i < QPS; i++) {
		qp[i] = ibv_create_qp(f.pd, &a);
		ck_assert_msg(qp[i] != NULL, "QP %u: %s", i, strerror(errno));
	}
	if (QPS == (unsigned)f.attr.max_qp) {
		errno = 0;
		ck_assert_ptr_null(ibv_create_qp(f.pd, &a));
		ck_assert_int_eq(errno, ENOMEM);
	}
	ck_assert_uint_le(mappings(), 20);
	for (unsigned i = 0; i + 1 < QPS; i += NTH) {
		fix_connect(&f, qp[i], qp[i + 1]);
		write_one(&f, qp[i], i);
	}
	write_one(&f, qp[1], 1); /* the first ones are still where they were */
	for (unsigned i = 0; i < QPS; i++)
		ck_assert_int_eq(ibv_destroy_qp(qp[i]), 0);
	ck_assert_uint_le(mappings(), 8); /* a few are kept */
	free(qp);
	fix_close(&f);
}
END_TEST

START_TEST(regions)
{
	const char *env = getenv("API_MANY_MRS");
	unsigned n = env ? (unsigned)atoi(env) : MRS;
	unsigned char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr **mr = calloc(n, sizeof(struct ibv_mr *)), *all;
	struct ibv_send_wr wr = { .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_qp *a, *b;
	struct ibv_sge sge;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	ck_assert(p != MAP_FAILED && mr);
	all = ibv_reg_mr(f.pd, p, LEN, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(all);
	for (unsigned i = 0; i < n; i++) {
		mr[i] = ibv_reg_mr(f.pd, p + i % (LEN / 2), LEN / 2, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		ck_assert_msg(mr[i] != NULL, "MR %u: %s", i, strerror(errno));
	}
	for (unsigned i = 0; i < n; i += NTH) {
		unsigned char *to = mr[i]->addr;

		sge = (struct ibv_sge){ (uintptr_t)f.buf, 64, f.mr->lkey };
		wr.sg_list = &sge;
		wr.wr.rdma.remote_addr = (uintptr_t)to;
		wr.wr.rdma.rkey = mr[i]->rkey;
		fix_fill(f.buf, 64, i);
		ck_assert_int_eq(ibv_post_send(a, &wr, &bad), 0);
		fix_wait_ok(f.cq);
		ck_assert(fix_filled(to, 64, i));
	}
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(ibv_dereg_mr(mr[i]), 0);
	ck_assert_int_eq(ibv_dereg_mr(all), 0);
	free(mr);
	munmap(p, LEN);
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

/* Queues of all sizes come and go: what they lay in does not stay behind. */
START_TEST(sizes)
{
	struct fix f;

	fix_open(&f);
	for (unsigned i = 1; i < 400; i++) {
		struct ibv_qp *qp = fix_qp(&f, IBV_QPT_RC, 1 + i * 40, NULL);
		struct ibv_cq *cq = ibv_create_cq(f.ctx, (int)i * 100, NULL, NULL, 0);
		struct ibv_srq_init_attr a = { .attr = { .max_wr = 1 + i * 40, .max_sge = 1 + i % 32 } };
		struct ibv_srq *srq = ibv_create_srq(f.pd, &a);

		ck_assert(qp && cq && srq);
		ck_assert_int_eq(ibv_destroy_srq(srq), 0);
		ck_assert_int_eq(ibv_destroy_cq(cq), 0);
		ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	}
	ck_assert_uint_le(mappings(), 8);
	fix_close(&f);
}
END_TEST

/* The limits as they are, and with no room for another descriptor. */
static void descriptor_limits(struct rlimit *was, struct rlimit *none)
{
	int free_fd = dup(0);

	ck_assert_int_ge(free_fd, 0);
	close(free_fd);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, was), 0);
	*none = (struct rlimit){ (rlim_t)free_fd, was->rlim_max };
}

/* A slab whose descriptor finds no room in the program is not used again. */
START_TEST(descriptor_lost)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 700, 700, 2, 2, 0 } };
	struct rlimit was, none;
	struct ibv_cq *cq;
	struct ibv_qp *qp, *peer;
	struct fix f;

	fix_open(&f);
	a.send_cq = a.recv_cq = f.cq;
	descriptor_limits(&was, &none);
	for (unsigned i = 0; i < 3; i++) { /* the second one is of the same length */
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
		errno = 0;
		ck_assert_ptr_null(ibv_create_cq(f.ctx, 5000, NULL, NULL, 0));
		ck_assert_int_eq(errno, EMFILE);
		errno = 0;
		ck_assert_ptr_null(ibv_create_qp(f.pd, &a));
		ck_assert_int_eq(errno, EMFILE);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	}
	cq = ibv_create_cq(f.ctx, 5000, NULL, NULL, 0);
	qp = ibv_create_qp(f.pd, &a);
	peer = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	ck_assert(cq && qp);
	fix_connect(&f, qp, peer);
	write_one(&f, qp, 3);
	fix_pair_end(qp, peer);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	fix_close(&f);
}
END_TEST

/* A resize that fails leaves the CQ as it was, armed or not, and with what is in it. */
START_TEST(resize_lost)
{
	struct rlimit was, none;
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	write_one(&f, a, 1);
	for (unsigned i = 0; i < 3; i++) {
		int cqe = f.cq->cqe;

		ck_assert_int_eq(fix_send(&f, a, 7, 0, 0, IBV_SEND_SIGNALED), 0);
		ck_assert_int_eq(fix_recv(&f, b, 8, 4096, 64), 0);
		descriptor_limits(&was, &none);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
		ck_assert_int_eq(ibv_resize_cq(f.cq, 4000), EMFILE);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
		ck_assert_int_eq(f.cq->cqe, cqe);
		ck_assert_uint_eq(fix_wait_ok(f.cq).wr_id + fix_wait_ok(f.cq).wr_id, 15);
		write_one(&f, a, i);
		if (i == 1) {
			ck_assert_int_eq(ibv_resize_cq(f.cq, 300), 0);
			write_one(&f, a, 2);
		}
	}
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

/* An object that came without its descriptor does not stay in the daemon: of device memory there are 64 MiB for all. */
START_TEST(object_lost)
{
	struct ibv_alloc_dm_attr attr = { .length = LEN };
	struct rlimit was, none;
	struct ibv_dm *dm;
	struct fix f;

	fix_open(&f);
	descriptor_limits(&was, &none);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (unsigned i = 0; i < 64; i++) {
		ck_assert_ptr_null(ibv_alloc_dm(f.ctx, &attr));
		ck_assert_int_eq(errno, EMFILE);
		ck_assert_ptr_null(ibv_create_comp_channel(f.ctx));
		ck_assert_int_eq(errno, EMFILE);
	}
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	dm = ibv_alloc_dm(f.ctx, &attr);
	ck_assert_ptr_nonnull(dm);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	fix_close(&f);
}
END_TEST

/* A CQ that was resized is polled in its old memory first: nobody gets that as long as it lives. */
START_TEST(resized)
{
	struct ibv_cq *more[8];
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(fix_recv(&f, b, 10 + i, 4096, 64), 0);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(fix_send(&f, a, i, 0, 64, IBV_SEND_SIGNALED), 0);
		if (i == 1)
			ck_assert_int_eq(ibv_resize_cq(f.cq, 128), 0);
		for (unsigned k = 0; i == 1 && k < 8; k++) {
			more[k] = ibv_create_cq(f.ctx, 64, NULL, NULL, 0);
			ck_assert_ptr_nonnull(more[k]);
			ck_assert_int_eq(ibv_req_notify_cq(more[k], 0), 0);
		}
	}
	ck_assert_int_eq(ibv_resize_cq(f.cq, 256), 0);
	for (unsigned i = 0; i < 8; i++)
		fix_wait_ok(f.cq);
	for (unsigned k = 0; k < 8; k++)
		ck_assert_int_eq(ibv_destroy_cq(more[k]), 0);
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

void api_many(Suite *s)
{
	TCase *t = tcase_create("many");

	SUITE_ADD(s, sizes, descriptor_lost, resize_lost, object_lost, resized);
	tcase_set_timeout(t, 600);
	tcase_add_test(t, queue_pairs);
	tcase_add_test(t, regions);
	suite_add_tcase(s, t);
}
