/* SPDX-License-Identifier: MIT */
/*
 * mr.c - memory regions.
 *
 * The daemon keeps the rights; the library remembers the bounds, so that it may copy a small send into
 * its queue slot (mr_bytes) without reading what the program may not send.
 */
#include "objects.h"

#include <stdlib.h>

#define ACCESS_KNOWN (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB)

static int access_check(unsigned int access)
{
	access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;	/* hints */
	if (access & IBV_ACCESS_ON_DEMAND)
		return EOPNOTSUPP;
	if (access & ~(unsigned int)ACCESS_KNOWN)
		return EINVAL;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

/* ---- the table by lkey --------------------------------------------------------- */

static struct rd_mr **mr_head(struct rd_ctx *c, uint32_t lkey)
{
	return &c->mrs[(lkey >> 8 ^ lkey) % MAP_BUCKETS];
}

static void mr_insert(struct rd_ctx *c, struct rd_mr *mr)
{
	struct rd_mr **head = mr_head(c, mr->mr.lkey);

	pthread_mutex_lock(&c->map_lock);
	mr->next = *head;
	*head = mr;
	pthread_mutex_unlock(&c->map_lock);
}

static void mr_remove(struct rd_ctx *c, struct rd_mr *mr)
{
	struct rd_mr **p;

	pthread_mutex_lock(&c->map_lock);
	for (p = mr_head(c, mr->mr.lkey); *p && *p != mr; p = &(*p)->next)
		;
	if (*p)
		*p = mr->next;
	__atomic_fetch_add(&c->mr_gen, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&c->map_lock);
}

static bool cache_load(struct rd_ctx *c, struct mr_cache *cache, uint32_t lkey)
{
	const struct rd_mr *mr;

	pthread_mutex_lock(&c->map_lock);
	for (mr = *mr_head(c, lkey); mr && mr->mr.lkey != lkey; mr = mr->next)
		;
	if (mr)
		*cache = (struct mr_cache){ lkey, c->mr_gen, mr->iova, mr->mr.length, mr->mr.addr };
	pthread_mutex_unlock(&c->map_lock);
	return mr;
}

const void *mr_bytes(struct rd_ctx *c, struct mr_cache *cache, const struct sge *s)
{
	uint64_t off;

	if ((cache->lkey != s->lkey || !cache->addr ||
	     cache->gen != __atomic_load_n(&c->mr_gen, __ATOMIC_ACQUIRE)) && !cache_load(c, cache, s->lkey))
		return NULL;
	off = s->addr - cache->iova;
	return off <= cache->len && s->len <= cache->len - off ? cache->addr + off : NULL;
}

/* ---- registering --------------------------------------------------------------- */

/* MSG_MR_REG for what mr already says (addr, length, iova, access, pd); fills in its keys. */
static int mr_reg(struct rd_mr *mr)
{
	struct rd_ctx *c = to_ctx(mr->mr.context);
	struct msg_req req = { .op = MSG_MR_REG };
	struct msg_rep rep;
	int err;

	req.mr.pd = mr->mr.pd->handle;
	req.mr.access = mr->access;
	req.mr.addr = (uintptr_t)mr->mr.addr;
	req.mr.len = mr->mr.length;
	req.mr.iova = mr->iova;
	err = ctx_call(c, &req, &rep);
	if (err)
		return err;
	mr->mr.handle = rep.obj.handle;
	mr->mr.lkey = rep.obj.lkey;
	mr->mr.rkey = rep.obj.rkey;
	return 0;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct rd_mr *mr;
	int err = access_check(access);

	if (!err && (!length || (uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova))
		err = EINVAL;
	if (err)
		return err_null(err);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return err_null(ENOMEM);
	mr->mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = length };
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	mr->access = access & ACCESS_KNOWN;
	err = mr_reg(mr);
	if (err) {
		free(mr);
		return err_null(err);
	}
	mr_insert(to_ctx(pd->context), mr);
	return &mr->mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct rd_mr *mr = (struct rd_mr *)ibmr;
	int err = ctx_call_id(to_ctx(ibmr->context), MSG_MR_DEREG, ibmr->handle);

	if (err)
		return err;
	mr_remove(to_ctx(ibmr->context), mr);
	free(mr);
	return 0;
}

/* The new registration is made before the old one goes, so a failure leaves the MR as it was.  The keys change. */
EXPORT int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct rd_mr *mr = (struct rd_mr *)ibmr, now = *mr;
	struct rd_ctx *c = to_ctx(ibmr->context);
	int err = 0;

	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
	    (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length)) ||
	    (flags & IBV_REREG_MR_CHANGE_PD && (!pd || pd->context != ibmr->context)))
		err = EINVAL;
	if (!err && flags & IBV_REREG_MR_CHANGE_ACCESS) {
		err = access_check((unsigned int)access);
		now.access = (unsigned int)access & ACCESS_KNOWN;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		now.mr.pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		now.mr.addr = addr;
		now.mr.length = length;
		now.iova = (uintptr_t)addr;
	}
	if (!err)
		err = mr_reg(&now);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	mr_remove(c, mr);
	ctx_call_id(c, MSG_MR_DEREG, ibmr->handle);
	*mr = now;
	mr_insert(c, mr);
	return 0;
}
