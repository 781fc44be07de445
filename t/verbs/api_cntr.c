/* SPDX-License-Identifier: MIT */
/* api_cntr.c - completion counters, by their symbols: the library that this is linked with has none of them. */
#include "fixture.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../lib/verbs/newer.h"

#define DEPTH 8u

/* The bits of rdma-core's header. */
enum { CNTR_SEND, CNTR_RECV, CNTR_READ, CNTR_REMOTE_READ, CNTR_WRITE, CNTR_REMOTE_WRITE, CNTR_OPS };

typedef int (*number_fn)(struct newer_cntr *, uint64_t);
typedef int (*read_fn)(struct newer_cntr *, uint64_t *);

static int (*caps_query)(struct ibv_context *, void *, size_t);
static struct newer_cntr *(*cntr_create)(struct ibv_context *, const struct newer_cntr_attr *);
static int (*cntr_destroy)(struct newer_cntr *);
static int (*cntr_attach)(struct ibv_qp *, struct newer_cntr *, const struct newer_cntr_attach *);
static number_fn cntr_set, cntr_set_err, cntr_inc, cntr_inc_err;
static read_fn cntr_read, cntr_read_err;

static void find(void *fn, const char *name)
{
	void *sym = dlvsym(RTLD_DEFAULT, name, "IBVERBS_1.18");

	ck_assert_msg(sym != NULL, "no %s", name);
	memcpy(fn, &sym, sizeof(sym));
}

static void cntr_open(struct fix *f)
{
	fix_open(f);
	find(&caps_query, "_ibv_query_comp_cntr_caps");
	find(&cntr_create, "ibv_create_comp_cntr");
	find(&cntr_destroy, "ibv_destroy_comp_cntr");
	find(&cntr_attach, "ibv_qp_attach_comp_cntr");
	find(&cntr_set, "ibv_set_comp_cntr");
	find(&cntr_set_err, "ibv_set_err_comp_cntr");
	find(&cntr_inc, "ibv_inc_comp_cntr");
	find(&cntr_inc_err, "ibv_inc_err_comp_cntr");
	find(&cntr_read, "ibv_read_comp_cntr");
	find(&cntr_read_err, "ibv_read_err_comp_cntr");
}

static struct newer_cntr *cntr_of(struct fix *f, uint32_t type)
{
	struct newer_cntr *c = cntr_create(f->ctx, &(struct newer_cntr_attr){ .type = type });

	ck_assert(c && c->context == f->ctx);
	return c;
}

static int attach(struct ibv_qp *qp, struct newer_cntr *c, uint32_t ops)
{
	return cntr_attach(qp, c, &(struct newer_cntr_attach){ .ops = ops });
}

static void counted(read_fn from, struct newer_cntr *c, uint64_t want)
{
	const time_t end = time(NULL) + PATIENCE_S;
	uint64_t v = 0;

	for (;;) {
		ck_assert_int_eq(from(c, &v), 0);
		if (v == want)
			return;
		ck_assert_msg(v < want && time(NULL) <= end, "%llu instead of %llu", (unsigned long long)v,
			      (unsigned long long)want);
	}
}

static void is_now(read_fn from, struct newer_cntr *c, uint64_t want)
{
	uint64_t v = ~want;

	ck_assert_int_eq(from(c, &v), 0);
	ck_assert_uint_eq(v, want);
}

static void post(struct fix *f, struct ibv_qp *qp, enum ibv_wr_opcode op, unsigned len, uint32_t rkey, unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)f->buf, len, f->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = flags };

	wr.wr.rdma.remote_addr = (uintptr_t)f->buf + 4096;
	wr.wr.rdma.rkey = rkey;
	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
}

START_TEST(numbers)
{
	struct newer_cntr_caps caps = { 0 };
	struct newer_cntr **v, *c;
	struct fix f;

	cntr_open(&f);
	ck_assert_int_eq(caps_query(f.ctx, &caps, sizeof(caps)), 0);
	ck_assert(caps.max_value == UINT64_MAX && caps.max_counters == 256 && caps.ops == 0x37);
	ck_assert_int_eq(caps_query(f.ctx, &caps, sizeof(caps) - 1), EINVAL);
	c = cntr_of(&f, 0);
	is_now(cntr_read, c, 0);
	ck_assert_int_eq(cntr_set(c, UINT64_MAX), 0);
	ck_assert_int_eq(cntr_inc(c, 3), 0);
	is_now(cntr_read, c, 2);
	ck_assert_int_eq(cntr_set_err(c, 7), 0);
	ck_assert_int_eq(cntr_inc_err(c, 8), 0);
	is_now(cntr_read_err, c, 15);
	is_now(cntr_read, c, 2);

	v = calloc(caps.max_counters, sizeof(struct newer_cntr *));
	v[0] = c;
	for (unsigned i = 1; i < caps.max_counters; i++)
		v[i] = cntr_of(&f, 0);
	ck_assert(!cntr_create(f.ctx, &(struct newer_cntr_attr){ 0 }) && errno == ENOMEM);
	ck_assert_int_eq(cntr_destroy(v[0]), 0);
	v[0] = cntr_of(&f, 0);
	is_now(cntr_read, v[0], 0); /* nothing of the one that was there before */
	for (unsigned i = 0; i < caps.max_counters; i++)
		ck_assert_int_eq(cntr_destroy(v[i]), 0);
	free(v);
	ck_assert(!cntr_create(f.ctx, &(struct newer_cntr_attr){ .type = 2 }) && errno == EINVAL);
	ck_assert(!cntr_create(f.ctx, &(struct newer_cntr_attr){ .flags = 1 }) && errno == EINVAL);
	ck_assert(!cntr_create(f.ctx, &(struct newer_cntr_attr){ .comp_mask = 1 }) && errno == EINVAL);
	fix_close(&f);
}
END_TEST

/* Unsignaled requests, too; each kind where it belongs. */
static void counts(enum ibv_qp_type type)
{
	struct newer_cntr *sent, *bytes, *got, *theirs;
	struct ibv_qp *a, *b;
	struct fix f;

	cntr_open(&f);
	a = fix_qp(&f, type, DEPTH, NULL);
	b = fix_qp(&f, type, DEPTH, NULL);
	sent = cntr_of(&f, 0);
	bytes = cntr_of(&f, CNTR_TYPE_BYTES);
	got = cntr_of(&f, CNTR_TYPE_BYTES);
	theirs = cntr_of(&f, 0);
	ck_assert_int_eq(attach(a, sent, 1u << CNTR_SEND), 0);
	ck_assert_int_eq(attach(a, bytes, 1u << CNTR_WRITE | 1u << CNTR_READ), 0);
	fix_init(b);
	ck_assert_int_eq(attach(b, got, 1u << CNTR_RECV), 0);
	ck_assert_int_eq(attach(b, theirs, 1u << CNTR_REMOTE_WRITE), 0);
	fix_connect(&f, a, b);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(fix_recv(&f, b, i, 0, 4096), 0);
	post(&f, a, IBV_WR_SEND, 100, 0, 0);
	post(&f, a, IBV_WR_SEND_WITH_IMM, 200, 0, 0);
	post(&f, a, IBV_WR_RDMA_WRITE, 3000, f.mr->rkey, 0);
	post(&f, a, IBV_WR_RDMA_WRITE_WITH_IMM, 50, f.mr->rkey, 0);
	if (type == IBV_QPT_RC)
		post(&f, a, IBV_WR_RDMA_READ, 7, f.mr->rkey, 0);
	counted(cntr_read, sent, 2);
	counted(cntr_read, bytes, type == IBV_QPT_RC ? 3057 : 3050);
	counted(cntr_read, got, 350);
	counted(cntr_read, theirs, 2);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(fix_wait_ok(f.cq).opcode & IBV_WC_RECV);
	is_now(cntr_read_err, sent, 0);

	/* A key that is none: a WRITE of RC fails at both ends, and what waits is flushed; UC drops it, and takes the next. */
	ck_assert_int_eq(fix_recv(&f, b, 9, 0, 4096), 0);
	post(&f, a, IBV_WR_RDMA_WRITE, 10, f.mr->rkey ^ 0x5500, 0);
	if (type == IBV_QPT_RC) {
		counted(cntr_read_err, bytes, 1);
		counted(cntr_read_err, theirs, 1);
		counted(cntr_read_err, got, 1);
		ck_assert_int_eq(cntr_destroy(theirs), EBUSY);
		is_now(cntr_read, theirs, 2);
	} else {
		post(&f, a, IBV_WR_RDMA_WRITE_WITH_IMM, 50, f.mr->rkey, 0);
		ck_assert_uint_eq(fix_wait_ok(f.cq).wr_id, 9);
		is_now(cntr_read, theirs, 3);
		is_now(cntr_read_err, theirs, 0);
	}
	fix_pair_end(a, b);
	ck_assert_int_eq(cntr_destroy(theirs), 0);
	ck_assert_int_eq(cntr_destroy(got), 0);
	ck_assert_int_eq(cntr_destroy(bytes), 0);
	ck_assert_int_eq(cntr_destroy(sent), 0);
	fix_close(&f);
}

START_TEST(counts_rc) { counts(IBV_QPT_RC); }
END_TEST

START_TEST(counts_uc) { counts(IBV_QPT_UC); }
END_TEST

/*
 * The counter moves behind the data, also between two QPs of one daemon and into memory that it reaches by system calls,
 * where it makes one of many small copies.
 */
START_TEST(behind_data)
{
	enum { ROUNDS = 300, BATCH = 16, LEN = 256 };
	struct ibv_send_wr *bad, wr[BATCH];
	struct newer_cntr *got, *theirs;
	struct ibv_sge sge[BATCH];
	struct ibv_qp_init_attr init;
	struct ibv_qp *a, *b;
	struct fix f;

	cntr_open(&f);
	init = (struct ibv_qp_init_attr){
		.send_cq = f.cq, .recv_cq = f.cq, .qp_type = IBV_QPT_RC, .cap = { 2 * BATCH, 1, 1, 1, LEN }
	};
	a = ibv_create_qp(f.pd, &init);
	ck_assert(a != NULL);
	b = fix_qp(&f, IBV_QPT_RC, BATCH, NULL);
	got = cntr_of(&f, 0);
	theirs = cntr_of(&f, 0);
	ck_assert_int_eq(attach(b, got, 1u << CNTR_RECV), 0);
	ck_assert_int_eq(attach(b, theirs, 1u << CNTR_REMOTE_WRITE), 0);
	fix_connect(&f, a, b);
	for (unsigned round = 0; round < ROUNDS; round++) {
		const unsigned len = 8u << round % 6;
		const bool write = round / 6 % 2;
		struct newer_cntr *c = write ? theirs : got;
		uint64_t base, v;
		time_t end = time(NULL) + PATIENCE_S;

		ck_assert_int_eq(cntr_read(c, &base), 0);
		for (unsigned i = 0; i < BATCH; i++) {
			sge[i] = (struct ibv_sge){ (uintptr_t)f.buf, len, 0 };
			wr[i] = (struct ibv_send_wr){ .next = i + 1 < BATCH ? &wr[i + 1] : NULL,
						      .sg_list = &sge[i],
						      .num_sge = 1,
						      .opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
						      .send_flags = IBV_SEND_INLINE |
								    (i + 1 < BATCH ? 0 : IBV_SEND_SIGNALED) };
			wr[i].wr.rdma.remote_addr = (uintptr_t)f.buf + 4096 + i * LEN;
			wr[i].wr.rdma.rkey = f.mr->rkey;
			if (!write)
				ck_assert_int_eq(fix_recv(&f, b, i, 4096 + i * LEN, LEN), 0);
		}
		fix_fill(f.buf, len, round);
		ck_assert_int_eq(ibv_post_send(a, wr, &bad), 0);
		do {
			ck_assert_int_eq(cntr_read(c, &v), 0);
			for (unsigned i = 0; i < v - base; i++)
				ck_assert_msg(fix_filled(f.buf + 4096 + i * LEN, len, round),
					      "round %u: %u bytes of message %u are missing", round, len, i);
			ck_assert(time(NULL) <= end);
		} while (v - base < BATCH);
		for (unsigned i = 0; i < (write ? 1 : BATCH + 1); i++)
			fix_wait_ok(f.cq);
	}
	fix_pair_end(a, b);
	ck_assert_int_eq(cntr_destroy(theirs), 0);
	ck_assert_int_eq(cntr_destroy(got), 0);
	fix_close(&f);
}
END_TEST

START_TEST(attach_wrong)
{
	struct newer_cntr_attach mask = { .comp_mask = 1, .ops = 1 };
	static struct newer_cntr *other; /* never destroyed by itself: no leak while it is known */
	struct newer_cntr *c, *d;
	struct ibv_context *ctx;
	struct ibv_qp *a, *b;
	struct fix f;

	cntr_open(&f);
	a = fix_qp(&f, IBV_QPT_RC, DEPTH, NULL);
	b = fix_qp(&f, IBV_QPT_RC, DEPTH, NULL);
	c = cntr_of(&f, 0);
	d = cntr_of(&f, 0);
	ck_assert_int_eq(attach(a, c, 0), EINVAL);
	ck_assert_int_eq(cntr_attach(a, c, &mask), EINVAL);
	ck_assert_int_eq(attach(a, c, 1u << CNTR_REMOTE_READ), ENOTSUP);
	ck_assert_int_eq(attach(a, c, 1u << CNTR_SEND | 1u << CNTR_OPS), ENOTSUP);
	ck_assert_int_eq(attach(a, c, 1u << CNTR_SEND | 1u << CNTR_RECV), 0);
	ck_assert_int_eq(attach(a, d, 1u << CNTR_WRITE | 1u << CNTR_RECV), EBUSY);
	ck_assert_int_eq(attach(a, d, 1u << CNTR_WRITE), 0);
	ck_assert_int_eq(attach(a, c, 1u << CNTR_SEND), EBUSY);
	ctx = ibv_open_device(f.ctx->device);
	ck_assert(ctx != NULL);
	other = cntr_create(ctx, &(struct newer_cntr_attr){ 0 });
	ck_assert(other != NULL);
	ck_assert_int_eq(attach(b, other, 1), EINVAL);
	ck_assert_int_eq(ibv_close_device(ctx), 0); /* the counter goes with it */
	fix_connect(&f, a, b);
	ck_assert_int_eq(attach(b, d, 1), EINVAL);
	ck_assert_int_eq(cntr_destroy(c), EBUSY);
	ck_assert_int_eq(cntr_destroy(d), EBUSY);
	fix_pair_end(a, b);
	ck_assert_int_eq(cntr_destroy(c), 0);
	ck_assert_int_eq(cntr_destroy(d), 0);
	fix_close(&f);
}
END_TEST

/* A forked child sees its parent's numbers, and may take none of the places between them. */
START_TEST(child_cntr)
{
	struct newer_cntr *c, *own;
	struct ibv_qp *a, *b;
	struct fix f;
	uint64_t v;
	int status;
	pid_t pid;

	cntr_open(&f);
	a = fix_qp(&f, IBV_QPT_RC, DEPTH, NULL);
	b = fix_qp(&f, IBV_QPT_RC, DEPTH, NULL);
	fix_connect(&f, a, b);
	c = cntr_of(&f, 0);
	ck_assert_int_eq(cntr_set(c, 7), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct ibv_alloc_dm_attr one = { .length = 4096 };

		for (unsigned i = 0; i < 2; i++) {
			own = cntr_create(f.ctx, &(struct newer_cntr_attr){ 0 });
			if (own || errno != EIO || attach(a, c, 1u << CNTR_SEND) != EIO)
				_exit(1);
			if (!i && !ibv_alloc_dm(f.ctx, &one)) /* it has a connection of its own now */
				_exit(2);
		}
		_exit(cntr_read(c, &v) || v != 7 || cntr_destroy(c) || ibv_destroy_qp(a) ? 3 : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(cntr_read(c, &v), 0);
	ck_assert_uint_eq(v, 7);
	ck_assert_int_eq(cntr_destroy(c), 0);
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

/* Without a descriptor for it there is none, and nothing is left in the daemon. */
START_TEST(no_descriptor)
{
	struct ibv_alloc_dm_attr all = { 0 };
	struct ibv_device_attr_ex attr;
	struct rlimit old, few;
	struct ibv_dm *dm;
	struct fix f;
	int fd;

	cntr_open(&f);
	ck_assert_int_eq(ibv_query_device_ex(f.ctx, NULL, &attr), 0);
	all.length = attr.max_dm_size;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	fd = dup(0);
	ck_assert_int_ge(fd, 0);
	close(fd);
	few.rlim_cur = (rlim_t)fd;
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
		ck_assert_ptr_eq(cntr_create(f.ctx, &(struct newer_cntr_attr){ 0 }), NULL);
		ck_assert_int_eq(errno, EMFILE);
	}
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	dm = ibv_alloc_dm(f.ctx, &all);
	ck_assert(dm != NULL);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	fix_close(&f);
}
END_TEST

void api_cntr(Suite *s)
{
	SUITE_ADD(s, numbers, counts_rc, counts_uc, behind_data, attach_wrong, child_cntr, no_descriptor);
}
