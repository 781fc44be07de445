/* SPDX-License-Identifier: MIT */
/*
 * api_order.c - what comes before what.
 *
 * The last byte of a WRITE is the last that its target sees.  No specification says so, but adapters do it, and programs wait for
 * it instead of a completion (dtest -W, perftest's write_lat, MPI libraries).
 *
 * What was posted before its program brings the queue pair to ERR is sent, once: programs disconnect right behind their last SEND.
 *
 * What several queue pairs send is served in the order in which it was posted.
 *
 * A fenced request sends what the READs and atomics before it have brought (protocol.md, 4.8), however short it is.
 */
#include "fixture.h"

#include <sched.h>
#include <time.h>

#include "t/xorshift.h"

#define LEN    4096u
#define ROUNDS 200u

static void wait_last(volatile unsigned char *p, unsigned char v)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (unsigned i = 1; *p != v; i++)
		if (i % 256 == 0) {
			sched_yield();
			clock_gettime(CLOCK_MONOTONIC, &now);
			ck_assert_msg(now.tv_sec - from.tv_sec < 20, "the last byte did not come");
		}
}

/* buf_len from 64 KiB on: memory that the daemon maps. */
static void order(size_t buf_len)
{
	unsigned char *to = aligned_alloc(4096, buf_len);
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	struct fix f;

	ck_assert(to != NULL);
	memset(to, 0, buf_len);
	fix_open(&f);
	fix_pair(&f, &a, &b);
	mr = ibv_reg_mr(f.pd, to, buf_len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ck_assert(mr != NULL);
	for (unsigned i = 1; i <= ROUNDS; i++) {
		memset(f.buf, (int)(i & 255), LEN);
		ck_assert_int_eq(fix_write_to(&f, a, 0, (uintptr_t)to, mr->rkey, LEN), 0);
		wait_last(to + LEN - 1, (unsigned char)i);
		for (unsigned k = 0; k < LEN; k++) {
			unsigned char v = ((volatile unsigned char *)to)[k];

			ck_assert_msg(v == (i & 255), "round %u: byte %u came behind the last one: %u, then %u", i, k,
				      v, ((volatile unsigned char *)to)[k]);
		}
		fix_wait_ok(f.cq);
	}
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	fix_pair_end(a, b);
	fix_close(&f);
	free(to);
}

START_TEST(last_byte) { order(8192); }
END_TEST

START_TEST(last_byte_mapped) { order(1 << 17); }
END_TEST

/* ---- fence ------------------------------------------------------------------------ */

#define OLD   0xaa
#define FAR   0x55
#define THERE (BUF_LEN / 2) /* the peer's half of the buffer: what is read, and behind it what is written */

struct fenced {
	struct fix f;
	struct ibv_qp *a, *b;
};

/* A list of a READ, or for 8 bytes an atomic, and a fenced WRITE of the same bytes. */
static void fence_post(struct fenced *e, enum ibv_wr_opcode first, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)e->f.buf, len, e->f.mr->lkey };
	uint64_t there = (uintptr_t)e->f.buf + THERE;
	struct ibv_send_wr *bad, wr[2] = {
		{ .next = &wr[1], .sg_list = &sge, .num_sge = 1, .opcode = first },
		{ .sg_list = &sge,
		  .num_sge = 1,
		  .opcode = IBV_WR_RDMA_WRITE,
		  .send_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED },
	};

	if (first == IBV_WR_RDMA_READ) {
		wr[0].wr.rdma.remote_addr = there;
		wr[0].wr.rdma.rkey = e->f.mr->rkey;
	} else {
		wr[0].wr.atomic.remote_addr = there;
		wr[0].wr.atomic.rkey = e->f.mr->rkey;
	}
	wr[1].wr.rdma.remote_addr = there + len;
	wr[1].wr.rdma.rkey = e->f.mr->rkey;
	ck_assert_int_eq(ibv_post_send(e->a, wr, &bad), 0);
}

static void fence_post_ex(struct fenced *e, enum ibv_wr_opcode first, uint32_t len)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(e->a);
	uint64_t there = (uintptr_t)e->f.buf + THERE;

	ck_assert(x != NULL);
	ibv_wr_start(x);
	x->wr_flags = 0;
	if (first == IBV_WR_RDMA_READ)
		ibv_wr_rdma_read(x, e->f.mr->rkey, there);
	else
		ibv_wr_atomic_fetch_add(x, e->f.mr->rkey, there, 0);
	ibv_wr_set_sge(x, e->f.mr->lkey, (uintptr_t)e->f.buf, len);
	x->wr_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(x, e->f.mr->rkey, there + len);
	ibv_wr_set_sge(x, e->f.mr->lkey, (uintptr_t)e->f.buf, len);
	ck_assert_int_eq(ibv_wr_complete(x), 0);
}

static void fence_round(struct fenced *e, void (*post)(struct fenced *, enum ibv_wr_opcode, uint32_t),
			enum ibv_wr_opcode first, uint32_t len)
{
	memset(e->f.buf, OLD, THERE);
	memset(e->f.buf + THERE, FAR, len);
	memset(e->f.buf + THERE + len, 0, len);
	post(e, first, len);
	fix_wait_ok(e->f.cq);
	for (uint32_t i = 0; i < len; i++)
		ck_assert_msg(e->f.buf[THERE + len + i] == FAR, "%u bytes: byte %u is %#x", len, i,
			      e->f.buf[THERE + len + i]);
}

static struct ibv_qp *fence_qp(struct fix *f)
{
	struct ibv_qp_init_attr_ex i = {
		.qp_type = IBV_QPT_RC,
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.pd = f->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->ctx, &i);

	ck_assert(qp != NULL);
	return qp;
}

/* A list of a READ, a request that waits for it, and one without a fence, which goes behind that. */
static void behind_post(struct fenced *e, const struct ibv_mw *mw, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)e->f.buf, len, e->f.mr->lkey };
	uint64_t there = (uintptr_t)e->f.buf + THERE;
	struct ibv_send_wr *bad, wr[3] = {
		{ .next = &wr[1],
		  .sg_list = &sge,
		  .num_sge = 1,
		  .opcode = IBV_WR_RDMA_READ,
		  .wr.rdma = { there, e->f.mr->rkey } },
		{ .next = &wr[2], .opcode = mw ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND },
		{ .sg_list = &sge,
		  .num_sge = 1,
		  .opcode = IBV_WR_RDMA_WRITE,
		  .send_flags = IBV_SEND_SIGNALED,
		  .wr.rdma = { there + len, e->f.mr->rkey } },
	};

	if (mw)
		wr[1].invalidate_rkey = mw->rkey;
	else
		wr[1].send_flags = IBV_SEND_FENCE;
	ck_assert_int_eq(ibv_post_send(e->a, wr, &bad), 0);
}

static void behind_round(struct fenced *e, const struct ibv_mw *mw, uint32_t len)
{
	unsigned char *out = e->f.buf + THERE + len;

	memset(e->f.buf, OLD, THERE);
	memset(e->f.buf + THERE, FAR, len);
	memset(out, 0, len);
	ck_assert_int_eq(fix_recv(&e->f, e->b, 9, BUF_LEN - 64, 64), 0);
	behind_post(e, mw, len);
	fix_wait_ok(e->f.cq);
	fix_wait_ok(e->f.cq);
	for (uint32_t i = 0; i < len; i++)
		ck_assert_msg(out[i] == FAR, "%u bytes: byte %u is %#x", len, i, out[i]);
}

static void bind_all(struct fenced *e, struct ibv_mw *mw, struct ibv_mr *mr)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { mw, ibv_inc_rkey(mw->rkey), { mr, (uintptr_t)e->f.buf, BUF_LEN, IBV_ACCESS_REMOTE_READ } },
	};

	ck_assert_int_eq(ibv_post_send(e->b, &wr, &bad), 0);
	mw->rkey = wr.bind_mw.rkey;
	fix_wait_ok(e->f.cq);
}

START_TEST(behind_fence)
{
	static const uint32_t lens[] = { 1, 64, 176 };
	struct fenced e;
	struct ibv_mr *mr;
	struct ibv_mw *mw;

	fix_open(&e.f);
	e.a = fence_qp(&e.f);
	e.b = fence_qp(&e.f);
	fix_connect(&e.f, e.a, e.b);
	mr = ibv_reg_mr(e.f.pd, e.f.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(e.f.pd, IBV_MW_TYPE_2);
	ck_assert(mr && mw);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		behind_round(&e, NULL, lens[i]);
		bind_all(&e, mw, mr);
		behind_round(&e, mw, lens[i]);
	}
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	fix_pair_end(e.a, e.b);
	fix_close(&e.f);
}
END_TEST

START_TEST(fence)
{
	static const uint32_t lens[] = { 1, 8, 64, 176, 1000 };
	struct fenced e;

	fix_open(&e.f);
	e.a = fence_qp(&e.f);
	e.b = fence_qp(&e.f);
	fix_connect(&e.f, e.a, e.b);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		fence_round(&e, fence_post, IBV_WR_RDMA_READ, lens[i]);
		fence_round(&e, fence_post_ex, IBV_WR_RDMA_READ, lens[i]);
	}
	fence_round(&e, fence_post, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	fence_round(&e, fence_post_ex, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	fix_pair_end(e.a, e.b);
	fix_close(&e.f);
}
END_TEST

/* Whether the sender hears of it is another matter. */
START_TEST(sent_before_err)
{
	struct ibv_qp *a, *b;
	struct ibv_wc wc;
	struct fix f;

	fix_open(&f);
	for (unsigned i = 0; i < ROUNDS; i++) {
		fix_pair(&f, &a, &b);
		ck_assert_int_eq(fix_recv(&f, b, 2, LEN, 64), 0);
		ck_assert_int_eq(fix_send(&f, a, 1, 0, 64, IBV_SEND_SIGNALED), 0);
		ck_assert_int_eq(fix_state(a, IBV_QPS_ERR), 0);
		for (unsigned k = 0; k < 2; k++) {
			wc = fix_wait(f.cq);
			ck_assert_msg(wc.wr_id == 1 || wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		}
		fix_pair_end(a, b);
	}
	fix_close(&f);
}
END_TEST

/* ---- receives, for which a daemon that sleeps is not woken ------------------------------ */

/* It falls asleep. */
static void silence(void) { nanosleep(&(struct timespec){ 0, 300000 }, NULL); }

/* It forgets a context that is silent for that long, when it has something else to do. */
static void long_silence(struct fix *f, struct ibv_qp *qp, const struct fix *of)
{
	nanosleep(&(struct timespec){ 0, 6000000 }, NULL);
	ck_assert_int_eq(fix_write_to(f, qp, 0, (uintptr_t)of->buf, of->mr->rkey, 64), 0);
	fix_wait_ok(f->cq);
	silence();
}

/* UC drops what it has no receive for; the two sides are of two contexts. */
START_TEST(recv_in_silence)
{
	struct fix f, g;
	struct ibv_qp *a, *b;

	fix_open(&f);
	fix_open(&g);
	a = fix_qp(&f, IBV_QPT_UC, 4, NULL);
	b = fix_qp(&g, IBV_QPT_UC, 4, NULL);
	fix_connect(&f, a, b);
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (i % 8)
			silence();
		else
			long_silence(&f, a, &g);
		ck_assert_int_eq(fix_recv(&g, b, i, 0, 64), 0);
		if (i & 1)
			silence();
		ck_assert_int_eq(fix_send(&f, a, i, 0, 64, IBV_SEND_SIGNALED), 0);
		ck_assert_uint_eq(fix_wait_ok(g.cq).wr_id, i);
		fix_wait_ok(f.cq);
	}
	fix_pair_end(a, b);
	fix_close(&g);
	fix_close(&f);
}
END_TEST

/* Whoever brought it there, and without a send that the daemon would wake for. */
START_TEST(flush_in_silence)
{
	struct ibv_qp *a, *b;
	struct ibv_wc wc;
	struct fix f;

	fix_open(&f);
	for (unsigned by_peer = 0; by_peer < 2; by_peer++) {
		fix_pair(&f, &a, &b);
		if (by_peer) {
			ck_assert_int_eq(fix_write_to(&f, a, 0, 0, 0, 64), 0);
			ck_assert_int_eq(fix_wait(f.cq).status, IBV_WC_REM_ACCESS_ERR);
		} else {
			ck_assert_int_eq(fix_state(b, IBV_QPS_ERR), 0);
		}
		for (unsigned i = 0; i < ROUNDS / 4; i++) {
			silence();
			ck_assert_int_eq(fix_recv(&f, b, i, 0, 64), 0);
			wc = fix_wait(f.cq);
			ck_assert(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i);
		}
		fix_pair_end(a, b);
	}
	fix_close(&f);
}
END_TEST

/* ---- of several queue pairs ------------------------------------------------------- */

enum { PAIRS = 6 };

/* A program that says something by one queue pair, and then something by the next, is heard in that order. */
START_TEST(pairs_in_order)
{
	struct ibv_qp *a[PAIRS], *b[PAIRS];
	uint64_t dice = 7;
	struct fix f;

	fix_open(&f);
	for (unsigned i = 0; i < PAIRS; i++)
		fix_pair(&f, &a[i], &b[i]);
	for (unsigned round = 0; round < 2 * ROUNDS; round++) {
		unsigned first = (unsigned)(xorshift(&dice) % PAIRS), step = round & 1 ? 1 : PAIRS - 1, heard = 0;

		for (unsigned i = 0; i < PAIRS; i++)
			ck_assert_int_eq(fix_recv(&f, b[i], i, 64 * i, 64), 0);
		for (unsigned i = 0; i < PAIRS; i++)
			ck_assert_int_eq(
				fix_send(&f, a[(first + i * step) % PAIRS], PAIRS, BUF_LEN - 64, 8, IBV_SEND_SIGNALED),
				0);
		for (unsigned n = 0; n < 2 * PAIRS; n++) {
			struct ibv_wc wc = fix_wait_ok(f.cq);

			if (wc.wr_id == PAIRS)
				continue;
			ck_assert_uint_eq(wc.wr_id, (first + heard * step) % PAIRS);
			heard++;
		}
		ck_assert_uint_eq(heard, PAIRS);
	}
	for (unsigned i = 0; i < PAIRS; i++)
		fix_pair_end(a[i], b[i]);
	fix_close(&f);
}
END_TEST

void api_order(Suite *s)
{
	SUITE_ADD(s, last_byte, last_byte_mapped, fence, behind_fence, sent_before_err, recv_in_silence,
		  flush_in_silence, pairs_in_order);
}
