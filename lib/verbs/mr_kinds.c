/* SPDX-License-Identifier: MIT */
/*
 * mr_kinds.c - memory regions that are not simply the program's memory: the null MR and dma-bufs; and advice about
 * regions that are paged on demand.
 *
 * The daemon reaches memory by its address at the time of use, so every MR could be called paged on demand.
 * IBV_ACCESS_ON_DEMAND makes this difference: the memory may come, go and change under the MR, so the daemon does not map
 * it, and the library does not read it when a request is posted.
 */
#include "mr.h"
#include "pd.h"
#include "slots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct ibv_mr *mr_null(struct ibv_pd *pd)
{
	static const struct mr_src src = { .kind = MR_NULL, .fd = -1 };
	struct ibv_mr *mr = mr_make(pd, NULL, 0, 0, IBV_ACCESS_LOCAL_WRITE, &src);

	if (mr)
		mr->length = SIZE_MAX;
	return mr;
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd,
					int access)
{
	struct mr_src src = { .kind = MR_DMABUF, .fd = fd, .off = offset };
	int err = mr_access_check((unsigned int)access);
	struct ibv_mr *mr;

	/*
	 * Without a descriptor it is a question: can all dma-bufs be registered, a GPU's too?  Who is told EBADF or EINVAL, as by
	 * a kernel, takes that for yes.
	 */
	if (!err && (access & IBV_ACCESS_ON_DEMAND || fd < 0))
		err = EOPNOTSUPP;
	if (!err && fcntl(fd, F_GETFD) < 0)
		err = EBADF;
	if (!err && (!len || offset + len < offset || iova + len < iova))
		err = EINVAL;
	mr = err ? err_null(err) : mr_make(pd, NULL, len, iova, (unsigned int)access, &src);
	if (mr)
		mr->addr = (void *)(uintptr_t)offset; /* there is no address; so does rdma-core */
	return mr;
}

/* ---- advice ---------------------------------------------------------------------------- */

/* The bytes that an sge names, with PREFETCH_WRITE's question answered; 0 or an errno. */
static int advice_range(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, const struct ibv_sge *s, uintptr_t *start)
{
	struct rd_ctx *c = to_ctx(pd->context);
	const struct rd_mr *mr;
	int err = 0;

	pthread_mutex_lock(&c->map_lock);
	mr = mr_find(c, s->lkey);
	if (!mr || !(mr->access & IBV_ACCESS_ON_DEMAND))
		err = ENOENT;
	else if (mr->pd != pd->handle)
		err = EPERM;
	else if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		err = EPERM;
	else if (s->addr < mr->iova || s->addr - mr->iova > mr->mr.length ||
		 s->length > mr->mr.length - (s->addr - mr->iova))
		err = EFAULT;
	else
		*start = (uintptr_t)mr->mr.addr + (s->addr - mr->iova);
	pthread_mutex_unlock(&c->map_lock);
	return err;
}

/* Where the kernel is too old to bring pages in on request they come when they are used. */
static int pages_bring(uintptr_t start, size_t len, int how)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = start & ~(page - 1);

	if (!len || !madvise((void *)from, start + len - from, how))
		return 0;
	return errno == EINVAL || errno == EAGAIN ? 0 : EFAULT;
}

int mr_advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sge, uint32_t n)
{
	uintptr_t start = 0;
	int err;

	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return ENOTSUP;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n)
		return EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		err = advice_range(pd, advice, &sge[i], &start);
		if (!err && advice == IBV_ADVISE_MR_ADVICE_PREFETCH)
			err = pages_bring(start, sge[i].length, MADV_POPULATE_READ);
		if (!err && advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE)
			err = pages_bring(start, sge[i].length, MADV_POPULATE_WRITE);
		if (err)
			return err;
	}
	return 0;
}
