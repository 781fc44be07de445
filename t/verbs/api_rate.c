/* SPDX-License-Identifier: MIT */
/* api_rate.c - QPs with a rate limit: real time passes; and ECE, which has nothing to say. */
#include "fixture.h"

#include <time.h>

#define KBPS   80000u /* 10 bytes a microsecond */
#define WRITES 100u

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

struct pair {
	struct fix f;
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
};

static void pair_open(struct pair *p, enum ibv_qp_type type)
{
	fix_open(&p->f);
	p->a = fix_qp(&p->f, type, 8, NULL);
	p->b = fix_qp(&p->f, type, 8, NULL);
	fix_connect(&p->f, p->a, p->b);
	p->mr = ibv_reg_mr(p->f.pd, p->f.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ck_assert(p->mr != NULL);
}

static void pair_close(struct pair *p)
{
	ck_assert_int_eq(ibv_dereg_mr(p->mr), 0);
	ck_assert_int_eq(ibv_destroy_qp(p->a), 0);
	ck_assert_int_eq(ibv_destroy_qp(p->b), 0);
	fix_close(&p->f);
}

/* Milliseconds for WRITES times the buffer. */
static double writes_ms(struct pair *p)
{
	double from = now_ms();

	for (unsigned i = 0; i < WRITES; i++) {
		ck_assert_int_eq(fix_write_to(&p->f, p->a, 0, (uintptr_t)p->f.buf, p->mr->rkey, BUF_LEN), 0);
		fix_wait_ok(p->f.cq);
	}
	return now_ms() - from;
}

static void limited(enum ibv_qp_type type)
{
	const double least = WRITES * BUF_LEN / 10000.0 - 2; /* 2 ms: what went at once */
	struct ibv_qp_rate_limit_attr a = { .rate_limit = KBPS, .max_burst_sz = 10000, .typical_pkt_sz = 1000 };
	struct ibv_qp_attr q = { .rate_limit = KBPS };
	struct ibv_qp_init_attr init;
	struct pair p;
	double ms;

	pair_open(&p, type);
	ck_assert_int_eq(ibv_modify_qp_rate_limit(p.a, &a), 0);
	ms = writes_ms(&p);
	ck_assert_msg(ms >= least, "%.1f ms are less than %.1f", ms, least);
	memset(&q, 0, sizeof(q));
	ck_assert_int_eq(ibv_query_qp(p.a, &q, IBV_QP_RATE_LIMIT, &init), 0);
	ck_assert_uint_eq(q.rate_limit, KBPS);
	/* None, and the same by ibv_modify_qp(). */
	a = (struct ibv_qp_rate_limit_attr){ 0 };
	ck_assert_int_eq(ibv_modify_qp_rate_limit(p.a, &a), 0);
	ck_assert_int_eq(ibv_modify_qp(p.a, &q, IBV_QP_RATE_LIMIT), 0);
	ck_assert(writes_ms(&p) >= least);
	pair_close(&p);
}

START_TEST(rate)
{
	limited(IBV_QPT_RC);
	limited(IBV_QPT_UC);
}
END_TEST

START_TEST(rate_refused)
{
	struct ibv_qp_rate_limit_attr a = { .rate_limit = 1 };
	struct ibv_device_attr_ex d;
	struct ibv_qp *q;
	struct pair p;

	pair_open(&p, IBV_QPT_RC);
	ck_assert_int_eq(ibv_query_device_ex(p.f.ctx, NULL, &d), 0);
	ck_assert_uint_eq(d.packet_pacing_caps.supported_qpts >> IBV_QPT_RC & 1, 1);
	ck_assert_uint_eq(d.packet_pacing_caps.supported_qpts >> IBV_QPT_XRC_RECV & 1, 0);
	ck_assert_int_eq(ibv_modify_qp_rate_limit(p.a, &a), EINVAL); /* too little */
	a.rate_limit = d.packet_pacing_caps.qp_rate_limit_min;
	ck_assert_int_eq(ibv_modify_qp_rate_limit(p.a, &a), 0);
	a.rate_limit = d.packet_pacing_caps.qp_rate_limit_max;
	ck_assert_int_eq(ibv_modify_qp_rate_limit(p.a, &a), 0);
	a = (struct ibv_qp_rate_limit_attr){ .max_burst_sz = 1000 };
	ck_assert_int_eq(ibv_modify_qp_rate_limit(p.a, &a), EINVAL); /* a burst of what? */
	a = (struct ibv_qp_rate_limit_attr){ .rate_limit = KBPS, .comp_mask = 1 };
	ck_assert_int_eq(ibv_modify_qp_rate_limit(p.a, &a), EINVAL);
	a.comp_mask = 0;
	q = fix_qp(&p.f, IBV_QPT_RC, 4, NULL);
	ck_assert_int_eq(ibv_modify_qp_rate_limit(q, &a), EINVAL); /* it does not send yet */
	ck_assert_int_eq(ibv_destroy_qp(q), 0);
	pair_close(&p);
}
END_TEST

START_TEST(ece)
{
	struct ibv_ece e = { 1, 2, 3 };
	struct pair p;

	pair_open(&p, IBV_QPT_RC);
	ck_assert_int_eq(ibv_query_ece(p.a, &e), 0);
	ck_assert(e.vendor_id == p.f.attr.vendor_id && !e.options && !e.comp_mask);
	ck_assert_int_eq(ibv_set_ece(p.b, &e), 0);
	e.options = 5;
	ck_assert_int_eq(ibv_set_ece(p.b, &e), 0);
	ck_assert_uint_eq(e.options, 0); /* what was accepted */
	e = (struct ibv_ece){ 0 };
	ck_assert_int_eq(ibv_set_ece(p.b, &e), 0);
	e.options = 1;
	ck_assert_int_eq(ibv_set_ece(p.b, &e), EINVAL);
	e = (struct ibv_ece){ .vendor_id = 0x15b3 };
	ck_assert_int_eq(ibv_set_ece(p.b, &e), EINVAL);
	e = (struct ibv_ece){ .vendor_id = p.f.attr.vendor_id, .comp_mask = 1 };
	ck_assert_int_eq(ibv_set_ece(p.b, &e), EINVAL);
	pair_close(&p);
}
END_TEST

void api_rate(Suite *s) { SUITE_ADD(s, rate, rate_refused, ece); }
