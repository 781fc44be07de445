/* SPDX-License-Identifier: MIT */
/*
 * api_handle.c - handles that lie, and what devices claim of themselves: the errno that a kernel gives, no crash where
 * rdma-core has none, and numbers that hold.
 */
#include "fixture.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define NONE 0x7fffff0u /* no object of any kind has this handle */

/* A verb of an object whose handle is for this moment another one. */
#define WITH(obj, verb)                        \
	({                                     \
		uint32_t was_ = (obj)->handle; \
		int err_;                      \
		(obj)->handle = NONE;          \
		errno = 0;                     \
		err_ = (verb);                 \
		(obj)->handle = was_;          \
		err_;                          \
	})
#define UNKNOWN(obj, verb)                                 \
	do {                                               \
		ck_assert_int_eq(WITH(obj, verb), ENOENT); \
		ck_assert_int_eq(errno, ENOENT);           \
	} while (0)
#define REFUSED(obj, verb) ck_assert_int_eq(WITH(obj, verb), EINVAL)

/* Destroying what is not there is ENOENT, using it EINVAL.  The objects live on. */
START_TEST(corrupted)
{
	struct ibv_srq_init_attr si = { .attr = { 4, 1, 0 } };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_qp_attr qa = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init;
	struct ibv_qp *a, *b;
	struct ibv_srq *srq;
	struct ibv_mw *mw;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct fix f;

	fix_open(&f);
	pd = ibv_alloc_pd(f.ctx);
	mr = ibv_reg_mr(f.pd, f.buf, 64, 0);
	mw = ibv_alloc_mw(f.pd, IBV_MW_TYPE_2);
	cq = ibv_create_cq(f.ctx, 4, NULL, NULL, 0);
	srq = ibv_create_srq(f.pd, &si);
	ck_assert(pd && mr && mw && cq && srq);
	a = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	b = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	fix_connect(&f, a, b);
	UNKNOWN(pd, ibv_dealloc_pd(pd));
	UNKNOWN(mr, ibv_dereg_mr(mr));
	UNKNOWN(mw, ibv_dealloc_mw(mw));
	UNKNOWN(cq, ibv_destroy_cq(cq));
	UNKNOWN(srq, ibv_destroy_srq(srq));
	UNKNOWN(a, ibv_destroy_qp(a));
	REFUSED(cq, ibv_resize_cq(cq, 8));
	REFUSED(srq, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	REFUSED(srq, ibv_query_srq(srq, &limit));
	REFUSED(a, ibv_query_qp(a, &qa, IBV_QP_STATE, &init));
	qa.qp_state = IBV_QPS_ERR;
	REFUSED(a, ibv_modify_qp(a, &qa, IBV_QP_STATE));
	ck_assert_int_eq(WITH(pd, !ibv_reg_mr(pd, f.buf, 64, 0)), 1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(WITH(pd, !ibv_alloc_mw(pd, IBV_MW_TYPE_1)), 1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(WITH(mr, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0)),
			 IBV_REREG_MR_ERR_INPUT);
	/* Neither needs the handle. */
	ck_assert_int_eq(WITH(cq, ibv_req_notify_cq(cq, 0)), 0);
	ck_assert_int_eq(WITH(f.cq, ibv_poll_cq(f.cq, 1, &(struct ibv_wc){ 0 })), 0);
	/* All is as it was. */
	ck_assert_int_eq(fix_recv(&f, b, 1, 4096, 64), 0);
	ck_assert_int_eq(fix_send(&f, a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(f.cq);
	fix_wait_ok(f.cq);
	fix_pair_end(a, b);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fix_close(&f);
}
END_TEST

/* The numbers that programs may write to are not those that the library finds its objects by. */
START_TEST(numbers)
{
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	mr = ibv_reg_mr(f.pd, f.buf, 64, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(mr != NULL);
	mr->lkey ^= 0x5500;
	mr->rkey = 0;
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, f.buf, 128, 0), 0);
	mr->lkey ^= 0x5500;
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	a->qp_num ^= 1;
	ck_assert_int_eq(fix_recv(&f, b, 1, 4096, 64), 0);
	ck_assert_int_eq(fix_send(&f, a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(f.cq);
	fix_wait_ok(f.cq);
	ck_assert_int_eq(fix_send(&f, b, 3, 0, 64, IBV_SEND_SIGNALED), 0); /* a has no receive: it stays */
	b->qp_num = 0;
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	ck_assert_int_eq(ibv_poll_cq(f.cq, 1, &(struct ibv_wc){ 0 }), 0); /* nothing of them is left in it */
	fix_close(&f);
}
END_TEST

/* A CQ without a channel can be armed: nothing comes of it. */
START_TEST(no_channel)
{
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	for (int solicited = 0; solicited < 2; solicited++) {
		ck_assert_int_eq(ibv_req_notify_cq(f.cq, solicited), 0);
		ck_assert_int_eq(fix_recv(&f, b, 1, 4096, 64), 0);
		ck_assert_int_eq(fix_send(&f, a, 2, 0, 64, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
		fix_wait_ok(f.cq);
		fix_wait_ok(f.cq);
	}
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

/* A change that is refused leaves rights, place and domain. */
START_TEST(rereg_refused)
{
	static const struct {
		int flags, access;
	} t[] = {
		{ IBV_REREG_MR_CHANGE_ACCESS, IBV_ACCESS_REMOTE_WRITE }, /* without LOCAL_WRITE */
		{ IBV_REREG_MR_CHANGE_ACCESS, 1 << 15 },
		{ IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, IBV_ACCESS_REMOTE_ATOMIC },
		{ IBV_REREG_MR_CHANGE_TRANSLATION, 0 }, /* of no memory: addr 8 */
		{ IBV_REREG_MR_CHANGE_PD, 0 },          /* to none */
		{ 0, 0 },
		{ 1 << 5, 0 },
	};
	struct ibv_qp *a, *b;
	struct ibv_mr *mr, was;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	mr = ibv_reg_mr(f.pd, f.buf + 4096, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ck_assert(mr != NULL);
	was = *mr;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		ck_assert_int_eq(ibv_rereg_mr(mr, t[i].flags, NULL, (void *)8, 64, t[i].access),
				 IBV_REREG_MR_ERR_INPUT);
		ck_assert(!memcmp(&was, mr, sizeof(was)));
		fix_fill(f.buf, 64, (unsigned)i + 1);
		ck_assert_int_eq(fix_write_to(&f, a, 0, (uintptr_t)f.buf + 4096, mr->rkey, 64), 0);
		fix_wait_ok(f.cq);
		ck_assert(fix_filled(f.buf + 4096, 64, (unsigned)i + 1));
	}
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

/* ---- what a device says of itself ------------------------------------------------------- */

/* "rdm", and locally administered, so that it is nobody's OUI. */
START_TEST(identity)
{
	struct fix f;

	fix_open(&f);
	ck_assert_uint_eq(f.attr.vendor_id, 0x72646d);
	ck_assert_uint_eq(f.attr.vendor_part_id, 0x6164);
	ck_assert_uint_eq(f.attr.vendor_id >> 16 & 3, 2);
	ck_assert_uint_eq(f.attr.max_mr_size, UINT64_MAX);
	ck_assert_uint_eq(f.attr.page_size_cap, ~0xfffull);
	ck_assert_int_eq(f.attr.max_ah, INT_MAX);
	ck_assert_int_eq(f.attr.atomic_cap, IBV_ATOMIC_HCA);
	ck_assert(f.attr.device_cap_flags & IBV_DEVICE_BAD_PKEY_CNTR &&
		  f.attr.device_cap_flags & IBV_DEVICE_BAD_QKEY_CNTR &&
		  f.attr.device_cap_flags & IBV_DEVICE_UD_AV_PORT_ENFORCE);
	ck_assert(!(f.attr.device_cap_flags &
		    (IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_RAW_MULTI | IBV_DEVICE_MEM_WINDOW_TYPE_2A)));
	fix_close(&f);
}
END_TEST

/* To the daemon's own user it claims all that an HCA has: api_many.c makes as many. */
START_TEST(claims)
{
	struct fix f;

	fix_open(&f);
	ck_assert_int_eq(f.attr.max_qp, 65536);
	ck_assert_int_eq(f.attr.max_cq, 65536);
	ck_assert_int_eq(f.attr.max_srq, 65536);
	ck_assert_int_eq(f.attr.max_mr, 524287);
	fix_close(&f);
}
END_TEST

/* A descriptor that is none, and what programs ask with: are dma-bufs of GPUs taken? */
START_TEST(dmabuf_probe)
{
	int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct fix f;

	fix_open(&f);
	for (size_t len = 0; len <= 4096; len += 4096) {
		errno = 0;
		ck_assert_ptr_null(ibv_reg_dmabuf_mr(f.pd, 0, len, 0, -1, 0));
		ck_assert_int_eq(errno, EOPNOTSUPP);
	}
	ck_assert_ptr_null(ibv_reg_dmabuf_mr(f.pd, 0, 4096, 0, none, 0));
	ck_assert_int_eq(errno, EINVAL); /* no dma-buf */
	close(none);
	ck_assert_ptr_null(ibv_reg_dmabuf_mr(f.pd, 0, 4096, 0, none, 0));
	ck_assert_int_eq(errno, EBADF);
	fix_close(&f);
}
END_TEST

void api_handle(Suite *s)
{
	SUITE_ADD(s, corrupted, numbers, no_channel, rereg_refused, identity, claims, dmabuf_probe);
}
