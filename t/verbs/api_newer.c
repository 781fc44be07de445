/* SPDX-License-Identifier: MIT */
/* api_newer.c - verbs of rdma-core 59 to 65, by their symbols: the library that this is linked with has none of them. */
#include "fixture.h"

#include <dlfcn.h>

#include "../../lib/verbs/newer.h"

static struct newer_dmah *(*dmah_alloc)(struct ibv_context *, const struct newer_dmah_attr *);
static int (*dmah_dealloc)(struct newer_dmah *);
static struct ibv_mr *(*mr_reg_ex)(struct ibv_pd *, const struct newer_mr_attr *);
static void *(*buf_alloc)(struct ibv_pd *, size_t, struct rd_buf **);
static void (*buf_free)(struct rd_buf *);
static struct ibv_mr *(*buf_reg)(struct ibv_pd *, struct rd_buf *, void *, size_t, int);
static int (*buf_export)(struct rd_buf *);
static const char *(*opcode_name)(unsigned int);

static void find(void *fn, const char *name, const char *node)
{
	void *sym = dlvsym(RTLD_DEFAULT, name, node);

	ck_assert_msg(sym != NULL, "no %s@%s", name, node);
	memcpy(fn, &sym, sizeof(sym));
}

static void newer_open(struct fix *f)
{
	fix_open(f);
	find(&dmah_alloc, "ibv_alloc_dmah", "IBVERBS_1.15");
	find(&dmah_dealloc, "ibv_dealloc_dmah", "IBVERBS_1.15");
	find(&mr_reg_ex, "ibv_reg_mr_ex", "IBVERBS_1.15");
	find(&buf_alloc, "ibv_alloc_buf", "IBVERBS_1.17");
	find(&buf_free, "ibv_free_buf", "IBVERBS_1.17");
	find(&buf_reg, "ibv_reg_buf_mr", "IBVERBS_1.17");
	find(&buf_export, "ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
	find(&opcode_name, "ibv_wr_opcode_str", "IBVERBS_PRIVATE_65");
}

/* It sends what lies at its addr, so the registration is one. */
static void sends(struct fix *f, struct ibv_mr *mr, const unsigned char *bytes)
{
	struct ibv_sge sge = { (uintptr_t)bytes, 64, mr->lkey };
	struct ibv_send_wr *bad,
		wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_qp *a, *b;

	fix_pair(f, &a, &b);
	memset(f->buf, 0, 64);
	ck_assert_int_eq(fix_recv(f, b, 1, 0, 64), 0);
	ck_assert_int_eq(ibv_post_send(a, &wr, &bad), 0);
	fix_wait_ok(f->cq);
	fix_wait_ok(f->cq);
	ck_assert_int_eq(memcmp(f->buf, bytes, 64), 0);
	fix_pair_end(a, b);
}

#define REFUSED(call, err)                    \
	do {                                  \
		errno = 0;                    \
		ck_assert((call) == NULL);    \
		ck_assert_int_eq(errno, err); \
	} while (0)

START_TEST(mr_ex)
{
	unsigned char mem[128];
	struct newer_mr_attr a = {
		.length = 128, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = MR_MASK_ADDR, .addr = mem
	};
	struct newer_dmah_attr hint = { .comp_mask = DMAH_MASK_PH, .ph = 1 };
	struct newer_dmah *d;
	struct ibv_mr *mr;
	struct fix f;

	newer_open(&f);
	fix_fill(mem, 128, 7);
	mr = mr_reg_ex(f.pd, &a);
	ck_assert(mr && mr->addr == mem && mr->length == 128);
	sends(&f, mr, mem);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	a.comp_mask = 0;
	REFUSED(mr_reg_ex(f.pd, &a), EINVAL);
	a.comp_mask = MR_MASK_ADDR | MR_MASK_FD;
	REFUSED(mr_reg_ex(f.pd, &a), EINVAL);
	a.comp_mask = MR_MASK_ADDR | 1u << 20;
	REFUSED(mr_reg_ex(f.pd, &a), EOPNOTSUPP);

	d = dmah_alloc(f.ctx, &hint);
	ck_assert(d && d->context == f.ctx);
	a.comp_mask = MR_MASK_ADDR | MR_MASK_DMAH;
	a.dmah = d;
	mr = mr_reg_ex(f.pd, &a);
	ck_assert(mr != NULL);
	ck_assert_int_eq(dmah_dealloc(d), EBUSY);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	a.access |= IBV_ACCESS_ON_DEMAND;
	REFUSED(mr_reg_ex(f.pd, &a), EOPNOTSUPP);
	ck_assert_int_eq(dmah_dealloc(d), 0);
	fix_close(&f);
}
END_TEST

START_TEST(dmah_wrong)
{
	struct newer_dmah_attr ph = { .comp_mask = DMAH_MASK_PH, .ph = DMAH_PH_MAX + 1 };
	struct newer_dmah_attr type = { .comp_mask = DMAH_MASK_MEM_TYPE, .mem_type = 0xfe };
	struct newer_dmah_attr cpu = { .comp_mask = DMAH_MASK_CPU, .cpu_id = 0xffffff };
	struct newer_dmah_attr mask = { .comp_mask = 1u << 9 };
	struct fix f;

	newer_open(&f);
	REFUSED(dmah_alloc(f.ctx, &ph), EINVAL);
	REFUSED(dmah_alloc(f.ctx, &type), EINVAL);
	REFUSED(dmah_alloc(f.ctx, &cpu), EINVAL);
	REFUSED(dmah_alloc(f.ctx, &mask), EOPNOTSUPP);
	fix_close(&f);
}
END_TEST

START_TEST(buffer)
{
	struct rd_buf *buf = NULL;
	struct ibv_pd *other;
	struct ibv_mr *mr;
	unsigned char *p;
	struct fix f;

	newer_open(&f);
	p = buf_alloc(f.pd, 8192, &buf);
	ck_assert(p && buf && (uintptr_t)p % 4096 == 0);
	fix_fill(p, 8192, 3);
	mr = buf_reg(f.pd, buf, p + 4096, 4096, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(mr != NULL);
	sends(&f, mr, p + 4096);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	REFUSED(buf_reg(f.pd, buf, p + 4096, 4097, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	REFUSED(buf_reg(f.pd, buf, p - 1, 1, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	other = ibv_alloc_pd(f.ctx);
	REFUSED(buf_reg(other, buf, p, 8192, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	ck_assert_int_eq(ibv_dealloc_pd(other), 0);
	ck_assert_int_eq(buf_export(buf), -1);
	ck_assert_int_eq(errno, ENODATA);
	buf_free(buf);
	fix_close(&f);
}
END_TEST

/* A domain that allows memory which is shared with a confidential guest's host: here it is memory like any other. */
START_TEST(buffer_cc)
{
	struct ibv_parent_domain_init_attr init = { .comp_mask = PARENT_DOMAIN_CC };
	struct rd_buf *buf = NULL;
	struct ibv_pd *cc;
	struct ibv_mr *mr;
	unsigned char *p;
	struct fix f;

	newer_open(&f);
	init.pd = f.pd;
	cc = ibv_alloc_parent_domain(f.ctx, &init);
	ck_assert(cc != NULL);
	p = buf_alloc(cc, 4096, &buf);
	ck_assert(p != NULL);
	fix_fill(p, 4096, 5);
	REFUSED(buf_reg(f.pd, buf, p, 4096, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	mr = buf_reg(cc, buf, p, 4096, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(mr != NULL);
	sends(&f, mr, p);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	buf_free(buf);
	ck_assert_int_eq(ibv_dealloc_pd(cc), 0);
	init.comp_mask |= PARENT_DOMAIN_CC << 1;
	REFUSED(ibv_alloc_parent_domain(f.ctx, &init), EOPNOTSUPP);
	fix_close(&f);
}
END_TEST

START_TEST(opcode_names)
{
	struct fix f;

	newer_open(&f);
	ck_assert_str_eq(opcode_name(IBV_WR_RDMA_READ), "rdma-read");
	ck_assert_str_eq(opcode_name(IBV_WR_DRIVER1), "driver1");
	ck_assert_str_eq(opcode_name(15), "atomic-write");
	ck_assert_str_eq(opcode_name(12), "unknown"); /* between two rows */
	ck_assert_str_eq(opcode_name(99), "unknown");
	fix_close(&f);
}
END_TEST

void api_newer(Suite *s) { SUITE_ADD(s, mr_ex, dmah_wrong, buffer, buffer_cc, opcode_names); }
