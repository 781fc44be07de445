/* SPDX-License-Identifier: MIT */
/*
 * mr_ex.c - ibv_reg_mr_ex, the registration that can say what all others say; and the library's buffers, which are ordinary
 * memory: only adapters that cannot reach all of a guest's memory need another one.
 */
#include "dmah.h"
#include "mr.h"

#include <stdlib.h>
#include <unistd.h>

struct rd_buf {
	struct ibv_pd *pd;
	void *addr;
	size_t len;
};

EXPORT void *buf_alloc(struct ibv_pd *, size_t, struct rd_buf **) __asm__("ibv_alloc_buf");
void *buf_alloc(struct ibv_pd *pd, size_t len, struct rd_buf **buf)
{
	struct rd_buf *b = calloc(1, sizeof(*b));
	int err = b ? posix_memalign(&b->addr, (size_t)sysconf(_SC_PAGESIZE), len) : ENOMEM;

	if (err) {
		free(b);
		return err_null(err);
	}
	b->pd = pd;
	b->len = len;
	*buf = b;
	return b->addr;
}

EXPORT void buf_free(struct rd_buf *) __asm__("ibv_free_buf");
void buf_free(struct rd_buf *b)
{
	free(b->addr);
	free(b);
}

/* There is no dma-buf behind it. */
EXPORT int buf_export(struct rd_buf *) __asm__("ibv_export_buf_dmabuf_fd");
int buf_export(struct rd_buf *)
{
	errno = ENODATA;
	return -1;
}

static bool buf_covers(const struct rd_buf *b, const struct ibv_pd *pd, const void *addr, size_t len)
{
	uintptr_t off = (uintptr_t)addr - (uintptr_t)b->addr;

	return b->pd == pd && off <= b->len && len <= b->len - off;
}

/* 0, or an errno: what does not go together. */
static int attr_check(struct ibv_pd *pd, const struct newer_mr_attr *a)
{
	uint64_t m = a->comp_mask;

	if (m & ~(uint64_t)(MR_MASK_IOVA | MR_MASK_ADDR | MR_MASK_FD | MR_MASK_FD_OFFSET | MR_MASK_DMAH | MR_MASK_BUF))
		return EOPNOTSUPP;
	if (m & MR_MASK_BUF && (!(m & MR_MASK_ADDR) || !buf_covers(a->buf, pd, a->addr, a->length)))
		return EINVAL;
	if (m & MR_MASK_FD)
		return m & MR_MASK_ADDR || !(m & MR_MASK_FD_OFFSET) || !(m & MR_MASK_IOVA) ? EINVAL : 0;
	if (!(m & MR_MASK_ADDR) || m & MR_MASK_FD_OFFSET)
		return EINVAL;
	return m & MR_MASK_DMAH && a->access & IBV_ACCESS_ON_DEMAND ? EOPNOTSUPP : 0;
}

static struct ibv_mr *reg(struct ibv_pd *pd, const struct newer_mr_attr *a)
{
	if (a->comp_mask & MR_MASK_FD)
		return ibv_reg_dmabuf_mr(pd, a->fd_offset, a->length, a->iova, a->fd, a->access);
	return ibv_reg_mr_iova2(pd, a->addr, a->length, a->comp_mask & MR_MASK_IOVA ? a->iova : (uintptr_t)a->addr,
				(unsigned int)a->access);
}

EXPORT struct ibv_mr *mr_reg_ex(struct ibv_pd *, const struct newer_mr_attr *) __asm__("ibv_reg_mr_ex");
struct ibv_mr *mr_reg_ex(struct ibv_pd *pd, const struct newer_mr_attr *a)
{
	int err = attr_check(pd, a);
	struct rd_dmah *d = !err && a->comp_mask & MR_MASK_DMAH ? to_dmah(a->dmah) : NULL;
	struct ibv_mr *mr = err ? err_null(err) : reg(pd, a);

	if (mr && d) {
		__atomic_fetch_add(&d->users, 1, __ATOMIC_RELAXED);
		((struct rd_mr *)mr)->dmah = d;
	}
	return mr;
}

EXPORT struct ibv_mr *buf_reg(struct ibv_pd *, struct rd_buf *, void *, size_t, int) __asm__("ibv_reg_buf_mr");
struct ibv_mr *buf_reg(struct ibv_pd *pd, struct rd_buf *buf, void *addr, size_t len, int access)
{
	struct newer_mr_attr a = {
		.length = len, .access = access, .comp_mask = MR_MASK_BUF | MR_MASK_ADDR, .addr = addr, .buf = buf
	};

	return mr_reg_ex(pd, &a);
}
