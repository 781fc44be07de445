/* SPDX-License-Identifier: MIT */
/* api_memory.c - memory that is not simply there: null MRs, paging on demand, device memory, dma-buf; rereg. */
#include "fixture.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/udmabuf.h>

#define LEN    65536u
#define ROOM   (256u << 20)
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct scene {
	struct fix f;
	struct ibv_qp *a, *b;
};

static void scene_open(struct scene *s)
{
	fix_open(&s->f);
	s->a = fix_qp(&s->f, IBV_QPT_RC, 16, NULL);
	s->b = fix_qp(&s->f, IBV_QPT_RC, 16, NULL);
	fix_connect(&s->f, s->a, s->b);
}

static void scene_close(struct scene *s)
{
	ck_assert_int_eq(ibv_destroy_qp(s->a), 0);
	ck_assert_int_eq(ibv_destroy_qp(s->b), 0);
	fix_close(&s->f);
}

/* One request of a, signaled; how it ended. */
static enum ibv_wc_status op(struct scene *s, enum ibv_wr_opcode code, uint32_t lkey, uint64_t addr, uint32_t len,
			     uint32_t rkey, uint64_t remote)
{
	struct ibv_sge sge = { .addr = addr, .length = len, .lkey = lkey };
	struct ibv_send_wr *bad,
		wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = code, .send_flags = IBV_SEND_SIGNALED };

	if (code == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	ck_assert_int_eq(ibv_post_send(s->a, &wr, &bad), 0);
	return fix_wait(s->f.cq).status;
}

START_TEST(null_mr)
{
	struct scene s;
	struct ibv_mr *null;

	scene_open(&s);
	null = ibv_alloc_null_mr(s.f.pd);
	ck_assert(null != NULL);
	fix_fill(s.f.buf, BUF_LEN, 1);
	/* Zeros are read, at any address; also more than one piece of them. */
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, null->lkey, 0xdead00000000u, 1000, s.f.mr->rkey, (uintptr_t)s.f.buf),
			 0);
	for (unsigned i = 0; i < 1000; i++)
		ck_assert_uint_eq(s.f.buf[i], 0);
	ck_assert(s.f.buf[1000] || s.f.buf[1001]);
	/* Written data goes nowhere. */
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_READ, null->lkey, 64, 4096, s.f.mr->rkey, (uintptr_t)s.f.buf), 0);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, null->lkey, 64, 4096, s.f.mr->rkey, (uintptr_t)s.f.buf), 0);
	for (unsigned i = 0; i < 4096; i++)
		ck_assert_uint_eq(s.f.buf[i], 0);
	/* It is nothing for others. */
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, s.f.mr->lkey, (uintptr_t)s.f.buf, 8, null->rkey, 0),
			 IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(null), 0);
	scene_close(&s);
}
END_TEST

/* Memory that comes after its registration, and goes before its end. */
START_TEST(on_demand)
{
	struct ibv_device_attr_ex ex;
	unsigned char *p = fix_blank(LEN);
	struct ibv_mr *m, *all;
	struct scene s;

	scene_open(&s);
	ck_assert_int_eq(ibv_query_device_ex(s.f.ctx, NULL, &ex), 0);
	ck_assert(ex.odp_caps.general_caps & IBV_ODP_SUPPORT && ex.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT);
	ck_assert_uint_eq(ex.odp_caps.per_transport_caps.rc_odp_caps,
			  0xff); /* FLUSH and atomic WRITE are 1 << 6 and 7 */
	ck_assert_uint_eq(ex.odp_caps.per_transport_caps.uc_odp_caps & 3u << 6, 0);
	ck_assert_int_eq(munmap(p, LEN), 0);
	m = ibv_reg_mr(s.f.pd, p, LEN, RIGHTS | IBV_ACCESS_ON_DEMAND);
	ck_assert(m != NULL);
	all = ibv_reg_mr(s.f.pd, NULL, SIZE_MAX, RIGHTS | IBV_ACCESS_ON_DEMAND);
	ck_assert(all != NULL);
	ck_assert(mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == p);
	fix_fill(p, LEN, 3);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, m->lkey, (uintptr_t)p + 100, 5000, s.f.mr->rkey, (uintptr_t)s.f.buf),
			 0);
	ck_assert_int_eq(memcmp(s.f.buf, p + 100, 5000), 0);
	/* Other pages in their place are seen. */
	ck_assert(mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	fix_fill(p, LEN, 4);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_READ, s.f.mr->lkey, (uintptr_t)s.f.buf, 5000, all->rkey, (uintptr_t)p), 0);
	ck_assert_int_eq(memcmp(s.f.buf, p, 5000), 0);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, all->lkey, (uintptr_t)s.f.buf, 64, m->rkey, (uintptr_t)p + 8), 0);
	ck_assert_int_eq(memcmp(s.f.buf, p + 8, 64), 0);
	/* A small send from pages that are gone must not kill the program that posts it. */
	ck_assert_int_eq(munmap(p, LEN), 0);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, m->lkey, (uintptr_t)p, 16, s.f.mr->rkey, (uintptr_t)s.f.buf),
			 IBV_WC_LOC_PROT_ERR);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(all), 0);
	errno = 0;
	ck_assert_ptr_eq(ibv_reg_mr(s.f.pd, NULL, SIZE_MAX, RIGHTS), NULL); /* only on demand */
	ck_assert_int_eq(errno, EINVAL);
	scene_close(&s);
}
END_TEST

START_TEST(advice)
{
	unsigned char *p = fix_blank(LEN), core[LEN / 4096];
	struct ibv_sge sge = { .addr = (uintptr_t)p + 5000, .length = 20000 };
	struct ibv_mr *m, *readable;
	struct ibv_pd *other;
	struct fix f;

	fix_open(&f);
	madvise(p, LEN, MADV_NOHUGEPAGE);
	other = ibv_alloc_pd(f.ctx);
	m = ibv_reg_mr(f.pd, p, LEN, RIGHTS | IBV_ACCESS_ON_DEMAND);
	readable = ibv_reg_mr(f.pd, p, LEN, IBV_ACCESS_ON_DEMAND);
	ck_assert(other && m && readable);
	sge.lkey = m->lkey;
	ck_assert_int_eq(mincore(p, LEN, core), 0);
	ck_assert(!(core[1] & 1));
	ck_assert_int_eq(ibv_advise_mr(f.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1), 0);
	ck_assert_int_eq(mincore(p, LEN, core), 0);
	ck_assert(!(core[1] & 1));
	ck_assert_int_eq(ibv_advise_mr(f.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 0);
	ck_assert_int_eq(mincore(p, LEN, core), 0);
	for (unsigned i = 1; i < LEN / 4096; i++) /* the first page has been looked at */
		ck_assert_int_eq(core[i] & 1, i <= 6);
	ck_assert_int_eq(ibv_advise_mr(f.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &sge, 1), EINVAL);
	ck_assert_int_eq(ibv_advise_mr(f.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0), EINVAL);
	ck_assert_int_eq(ibv_advise_mr(f.pd, 99, 0, &sge, 1), ENOTSUP);
	ck_assert_int_eq(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EPERM);
	sge.length = LEN;
	ck_assert_int_eq(ibv_advise_mr(f.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	sge.length = 4096;
	sge.lkey = readable->lkey;
	ck_assert_int_eq(ibv_advise_mr(f.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
	ck_assert_int_eq(ibv_advise_mr(f.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), EPERM);
	sge.lkey = f.mr->lkey;
	ck_assert_int_eq(ibv_advise_mr(f.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(readable), 0);
	ck_assert_int_eq(ibv_dealloc_pd(other), 0);
	munmap(p, LEN);
	fix_close(&f);
}
END_TEST

START_TEST(device_memory)
{
	struct ibv_alloc_dm_attr a = { .length = 8192, .log_align_req = 6 };
	struct ibv_device_attr_ex ex;
	uint64_t *word, sum = 0;
	struct ibv_dm *dm;
	struct ibv_mr *m;
	struct scene s;

	scene_open(&s);
	word = (uint64_t *)s.f.buf;
	ck_assert_int_eq(ibv_query_device_ex(s.f.ctx, NULL, &ex), 0);
	ck_assert_uint_ge(ex.max_dm_size, 65536);
	dm = ibv_alloc_dm(s.f.ctx, &a);
	ck_assert(dm != NULL);
	errno = 0;
	ck_assert_ptr_eq(ibv_reg_dm_mr(s.f.pd, dm, 4096, 4100, RIGHTS | IBV_ACCESS_ZERO_BASED), NULL);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_eq(ibv_reg_dm_mr(s.f.pd, dm, 0, 4096, RIGHTS), NULL); /* there is no address to begin at */
	m = ibv_reg_dm_mr(s.f.pd, dm, 4096, 4096, RIGHTS | IBV_ACCESS_ZERO_BASED);
	ck_assert(m != NULL);
	ck_assert_int_eq(ibv_free_dm(dm), EBUSY);
	errno = 0;
	ck_assert_int_eq(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS), IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(errno, EINVAL);

	fix_fill(s.f.buf, BUF_LEN, 9);
	ck_assert_int_eq(ibv_memcpy_to_dm(dm, 4096 + 64, s.f.buf, 128), 0);
	ck_assert_int_eq(ibv_memcpy_to_dm(dm, 2, s.f.buf, 4), EINVAL);
	ck_assert_int_eq(ibv_memcpy_from_dm(s.f.buf, dm, 8192, 4), EFAULT);
	/* Address 64 of the MR is offset 64 in it. */
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_READ, s.f.mr->lkey, (uintptr_t)s.f.buf + 4096, 128, m->rkey, 64), 0);
	ck_assert(fix_filled(s.f.buf + 4096, 128, 9));
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, m->lkey, 64, 128, s.f.mr->rkey, (uintptr_t)s.f.buf + 6000), 0);
	ck_assert(fix_filled(s.f.buf + 6000, 128, 9));
	ck_assert_int_eq(ibv_memcpy_to_dm(dm, 4096 + 256, &sum, 8), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(op(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, s.f.mr->lkey, (uintptr_t)word, 8, m->rkey, 256),
				 0);
		ck_assert_uint_eq(*word, 5 * i);
	}
	ck_assert_int_eq(ibv_memcpy_from_dm(&sum, dm, 4096 + 256, 8), 0);
	ck_assert_uint_eq(sum, 15);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, s.f.mr->lkey, (uintptr_t)s.f.buf, 8, m->rkey, 4089),
			 IBV_WC_REM_ACCESS_ERR);

	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	a.length = ex.max_dm_size + 1;
	errno = 0;
	ck_assert_ptr_eq(ibv_alloc_dm(s.f.ctx, &a), NULL);
	ck_assert_int_eq(errno, ENOMEM);
	scene_close(&s);
}
END_TEST

/* Writes what is behind the descriptor from the middle on, by RDMA; mem is the same memory. */
static void dmabuf_use(struct scene *s, int fd, unsigned char *mem)
{
	struct ibv_mr *m = ibv_reg_dmabuf_mr(s->f.pd, LEN / 2, LEN / 2, 0x70000000, fd, RIGHTS);

	ck_assert_msg(m != NULL, "ibv_reg_dmabuf_mr: %s", strerror(errno));
	ck_assert_uint_eq((uintptr_t)m->addr, LEN / 2);
	fix_fill(s->f.buf, BUF_LEN, 5);
	ck_assert_int_eq(op(s, IBV_WR_RDMA_WRITE, s->f.mr->lkey, (uintptr_t)s->f.buf, 6000, m->rkey, 0x70000000 + 100),
			 0);
	ck_assert_int_eq(memcmp(mem + LEN / 2 + 100, s->f.buf, 6000), 0);
	fix_fill(mem, LEN, 6);
	ck_assert_int_eq(op(s, IBV_WR_RDMA_WRITE, m->lkey, 0x70000000, 16, s->f.mr->rkey, (uintptr_t)s->f.buf), 0);
	ck_assert_int_eq(memcmp(mem + LEN / 2, s->f.buf, 16), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	errno = 0;
	ck_assert_ptr_eq(ibv_reg_dmabuf_mr(s->f.pd, LEN / 2, LEN / 2 + 1, 0, fd, RIGHTS), NULL);
	ck_assert_int_eq(errno, EINVAL);
}

START_TEST(dmabuf)
{
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING), dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC),
	    buf;
	struct udmabuf_create create = { .memfd = (uint32_t)fd, .size = LEN };
	unsigned char *mem;
	struct scene s;

	scene_open(&s);
	ck_assert(fd >= 0 && !ftruncate(fd, LEN));
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(mem != MAP_FAILED);
	errno = 0;
	ck_assert_ptr_eq(ibv_reg_dmabuf_mr(s.f.pd, 0, LEN, 0, fd, RIGHTS), NULL); /* it could shrink */
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	dmabuf_use(&s, fd, mem);
	if (dev >= 0) {
		buf = ioctl(dev, UDMABUF_CREATE, &create);
		ck_assert_int_ge(buf, 0);
		dmabuf_use(&s, buf, mem);
		close(buf);
		close(dev);
	}
	close(fd);
	munmap(mem, LEN);
	scene_close(&s);
}
END_TEST

/*
 * Device memory as a descriptor: for an MR, for mmap() and for whoever is given it, and good for longer than the DM.  The
 * headers of rdma-core 44 do not know the verb.
 */
START_TEST(dm_export)
{
	struct ibv_alloc_dm_attr a = { .length = LEN };
	int (*export)(struct ibv_dm *) = NULL;
	uint32_t word = 0x12345678;
	unsigned char *mem;
	struct ibv_dm *dm;
	struct scene s;
	int fd;

	*(void **)&export = dlsym(RTLD_DEFAULT, "ibv_dm_export_dmabuf_fd");
	ck_assert_msg(export != NULL, "%s", dlerror());
	scene_open(&s);
	dm = ibv_alloc_dm(s.f.ctx, &a);
	ck_assert(dm != NULL);
	fd = export(dm);
	ck_assert_msg(fd >= 0, "%s", strerror(errno));
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(mem != MAP_FAILED);
	ck_assert_int_eq(ibv_memcpy_to_dm(dm, 64, &word, sizeof(word)), 0);
	ck_assert_int_eq(memcmp(mem + 64, &word, sizeof(word)), 0);
	dmabuf_use(&s, fd, mem);
	ck_assert_int_eq(ibv_memcpy_from_dm(&word, dm, LEN / 2, sizeof(word)), 0);
	ck_assert_int_eq(memcmp(mem + LEN / 2, &word, sizeof(word)), 0);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	dmabuf_use(&s, fd, mem);
	munmap(mem, LEN);
	close(fd);
	scene_close(&s);
}
END_TEST

/* An object that the daemon does not know cannot be exported. */
START_TEST(dm_export_unknown)
{
	struct ibv_alloc_dm_attr a = { .length = LEN };
	int (*export)(struct ibv_dm *) = NULL;
	struct ibv_dm *dm;
	uint32_t handle;
	struct fix f;

	*(void **)&export = dlsym(RTLD_DEFAULT, "ibv_dm_export_dmabuf_fd");
	fix_open(&f);
	dm = ibv_alloc_dm(f.ctx, &a);
	ck_assert(export && dm);
	handle = dm->handle;
	dm->handle += 1000;
	errno = 0;
	ck_assert_int_eq(export(dm), -1);
	ck_assert_int_eq(errno, EINVAL);
	dm->handle = handle;
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	fix_close(&f);
}
END_TEST

/* A region that counts from 0 does so with other memory, too; another one counts from its address when it no longer does. */
START_TEST(rereg_zero_based) /* conf: rule 6.1 */
{
	unsigned char *p = fix_blank(LEN), *q = fix_blank(LEN);
	struct ibv_mr *m;
	struct scene s;

	scene_open(&s);
	m = ibv_reg_mr(s.f.pd, p, LEN, RIGHTS | IBV_ACCESS_ZERO_BASED);
	ck_assert(m != NULL);
	fix_fill(s.f.buf, BUF_LEN, 1);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, s.f.mr->lkey, (uintptr_t)s.f.buf, 64, m->rkey, 8), 0);
	ck_assert_int_eq(memcmp(p + 8, s.f.buf, 64), 0);
	ck_assert_int_eq(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, LEN, 0), 0);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, s.f.mr->lkey, (uintptr_t)s.f.buf, 64, m->rkey, 8), 0);
	ck_assert_int_eq(memcmp(q + 8, s.f.buf, 64), 0);
	ck_assert_int_eq(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS), 0);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, s.f.mr->lkey, (uintptr_t)s.f.buf, 64, m->rkey, (uintptr_t)q), 0);
	ck_assert_int_eq(memcmp(q, s.f.buf, 64), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	munmap(p, LEN);
	munmap(q, LEN);
	scene_close(&s);
}
END_TEST

/* Other bytes, another PD, other rights under the same keys. */
START_TEST(rereg)
{
	unsigned char *p = fix_blank(LEN), *q = fix_blank(LEN);
	struct ibv_pd *other;
	struct ibv_mr *m;
	struct scene s;
	uint32_t key;

	scene_open(&s);
	other = ibv_alloc_pd(s.f.ctx);
	m = ibv_reg_mr(s.f.pd, p, LEN, RIGHTS);
	ck_assert(other && m);
	key = m->rkey;
	fix_fill(s.f.buf, BUF_LEN, 1);
	ck_assert_int_eq(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, LEN, 0), 0);
	ck_assert(m->rkey == key && m->lkey == key && m->addr == q);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, s.f.mr->lkey, (uintptr_t)s.f.buf, 64, key, (uintptr_t)q), 0);
	ck_assert_int_eq(memcmp(q, s.f.buf, 64), 0);
	ck_assert_uint_eq(p[0] | p[1], 0);
	ck_assert_int_eq(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND),
			 0);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_READ, s.f.mr->lkey, (uintptr_t)s.f.buf, 64, key, (uintptr_t)q), 0);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_WRITE, s.f.mr->lkey, (uintptr_t)s.f.buf, 64, key, (uintptr_t)q),
			 IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(fix_state(s.a, IBV_QPS_RESET), 0);
	ck_assert_int_eq(fix_state(s.b, IBV_QPS_RESET), 0);
	fix_connect(&s.f, s.a, s.b);
	ck_assert_int_eq(
		ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION,
			     other, p, LEN / 2, RIGHTS),
		0);
	ck_assert_int_eq(ibv_dealloc_pd(other), EBUSY);
	ck_assert_int_eq(op(&s, IBV_WR_RDMA_READ, s.f.mr->lkey, (uintptr_t)s.f.buf, 64, key, (uintptr_t)p),
			 IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dealloc_pd(other), 0);
	munmap(p, LEN);
	munmap(q, LEN);
	scene_close(&s);
}
END_TEST

/* A region that goes on where nothing is mapped, or where nothing may be read, is none, unless it is paged on demand. */
START_TEST(gap)
{
	static const unsigned access[] = { 0, IBV_ACCESS_LOCAL_WRITE, RIGHTS };
	unsigned char *p;
	struct ibv_mr *m;
	struct scene s;

	scene_open(&s);
	/* Above it is room, where the kernel looks first for other maps: they do not come to fill the hole. */
	p = fix_blank(4 * LEN + ROOM);
	ck_assert_int_eq(munmap(p + 4 * LEN, ROOM), 0);
	ck_assert_int_eq(munmap(p + LEN, 4096), 0);
	ck_assert_int_eq(mprotect(p + 3 * LEN, LEN, PROT_NONE), 0);
	for (unsigned i = 0; i < 3; i++) {
		const struct {
			size_t from, len;
			bool ok;
		} t[] = { { 0, 2 * LEN, false },
			  { 64, LEN - 63, false },
			  { 64, LEN - 64, true },
			  { LEN, LEN, false },
			  { LEN + 4096, 2 * LEN - 4096, true },
			  { LEN + 4096, 2 * LEN - 4095, false } };

		for (unsigned j = 0; j < sizeof(t) / sizeof(*t); j++) {
			errno = 0;
			m = ibv_reg_mr(s.f.pd, p + t[j].from, t[j].len, access[i]);
			ck_assert_msg(!m == !t[j].ok && (m || errno == EFAULT), "access %x, row %u: errno %d",
				      access[i], j, errno);
			if (m)
				ck_assert_int_eq(ibv_dereg_mr(m), 0);
		}
	}
	m = ibv_reg_mr(s.f.pd, p, 4 * LEN, RIGHTS | IBV_ACCESS_ON_DEMAND);
	ck_assert_ptr_nonnull(m);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	m = ibv_reg_mr(s.f.pd, p, LEN, RIGHTS);
	ck_assert_ptr_nonnull(m);
	ck_assert_int_ne(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, LEN + 1, 0), 0);
	ck_assert_int_eq(errno, EFAULT);
	ck_assert(m->addr == p && m->length == LEN);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	munmap(p, 4 * LEN);
	scene_close(&s);
}
END_TEST

/* Memory that the program may not write is not registered for writing; nothing is touched to find out. */
START_TEST(read_only)
{
	static const unsigned writes[] = { IBV_ACCESS_LOCAL_WRITE, RIGHTS };
	const size_t huge = 1ul << 38;
	unsigned char *p, *q;
	struct rusage before, after;
	struct ibv_mr *m;
	struct scene s;

	scene_open(&s);
	p = fix_blank(3 * LEN);
	ck_assert_int_eq(mprotect(p + LEN, LEN, PROT_READ), 0);
	for (unsigned i = 0; i < 2; i++) {
		errno = 0;
		ck_assert_ptr_null(ibv_reg_mr(s.f.pd, p, 3 * LEN, writes[i]));
		ck_assert_int_eq(errno, EFAULT);
		ck_assert_ptr_null(ibv_reg_mr(s.f.pd, p + 2 * LEN - 1, 1, writes[i]));
		ck_assert_int_eq(errno, EFAULT);
		m = ibv_reg_mr(s.f.pd, p + 2 * LEN, LEN, writes[i]);
		ck_assert_ptr_nonnull(m);
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
	}
	m = ibv_reg_mr(s.f.pd, p, 3 * LEN, IBV_ACCESS_REMOTE_READ);
	ck_assert_ptr_nonnull(m);
	ck_assert_int_ne(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS), 0);
	ck_assert_int_eq(errno, EFAULT);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	q = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(q, MAP_FAILED);
	ck_assert_int_eq(getrusage(RUSAGE_SELF, &before), 0);
	m = ibv_reg_mr(s.f.pd, q, huge, RIGHTS);
	ck_assert_ptr_nonnull(m);
	ck_assert_int_eq(getrusage(RUSAGE_SELF, &after), 0);
	ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 65536);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	munmap(q, huge);
	munmap(p, 3 * LEN);
	scene_close(&s);
}
END_TEST

void api_memory(Suite *s)
{
	SUITE_ADD(s, null_mr, on_demand, advice, device_memory, dmabuf, dm_export, dm_export_unknown, rereg,
		  rereg_zero_based, gap, read_only);
}
