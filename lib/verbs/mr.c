/* SPDX-License-Identifier: MIT */
/*
 * mr.c - memory regions.
 *
 * The daemon keeps the rights; the library remembers the bounds, so that it may copy a small send into
 * its queue slot (mr_bytes) without reading what the program may not send.
 */
#include "mr.h"
#include "pd.h"

#include <rdmad/keep.h>

#include <stdlib.h>
#include <unistd.h>

#define SHOW_TRIES 8u /* another process that has the segment, or a thread's first question, may come between */

#define ACCESS_KNOWN                                                                                            \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND |               \
	 ACC_FLUSH_GLOBAL /* IBV_ACCESS_FLUSH_GLOBAL of rdma-core 45 */)

int mr_access_check(unsigned int access)
{
	access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE; /* hints */
	if (access & ACC_FLUSH_PERSISTENT)
		return EOPNOTSUPP; /* what a flush does reaches memory, not a medium */
	if (access & ~(unsigned int)ACCESS_KNOWN)
		return EINVAL;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

static const char *access_why(unsigned int access)
{
	switch (mr_access_check(access)) {
	case 0: return "the range is empty, or runs over the end of the address space";
	case EOPNOTSUPP: return "there is no persistent memory";
	}
	return access & ~(unsigned int)(ACCESS_KNOWN | IBV_ACCESS_OPTIONAL_RANGE)
		       ? "a flag that is not known"
		       : "remote write and atomics need IBV_ACCESS_LOCAL_WRITE";
}

/* ---- the table by lkey --------------------------------------------------------- */

static void mr_insert(struct rd_ctx *c, struct rd_mr *mr)
{
	pthread_mutex_lock(&c->map_lock);
	hash_add(&c->mrs, &mr->hash, mr->key);
	pthread_mutex_unlock(&c->map_lock);
}

static void mr_remove(struct rd_ctx *c, struct rd_mr *mr)
{
	pthread_mutex_lock(&c->map_lock);
	hash_del(&c->mrs, &mr->hash);
	__atomic_fetch_add(&c->mr_gen, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&c->map_lock);
}

struct rd_mr *mr_find(struct rd_ctx *c, uint32_t lkey)
{
	struct hash_node *n = hash_find(&c->mrs, lkey);

	return n ? (struct rd_mr *)((char *)n - offsetof(struct rd_mr, hash)) : NULL;
}

/* The program's memory is there to be read here: other kinds, and pages that may be missing, are left to the daemon. */
static bool is_plain(const struct rd_mr *mr) { return mr->kind == MR_MEM && !(mr->access & IBV_ACCESS_ON_DEMAND); }

static bool cache_load(struct rd_ctx *c, struct mr_cache *cache, uint32_t lkey)
{
	const struct rd_mr *mr;

	pthread_mutex_lock(&c->map_lock);
	mr = mr_find(c, lkey);
	if (mr && !is_plain(mr))
		mr = NULL;
	if (mr)
		*cache = (struct mr_cache){ lkey, c->mr_gen, mr->iova, mr->mr.length, mr->mr.addr };
	pthread_mutex_unlock(&c->map_lock);
	return mr;
}

const void *mr_bytes(struct rd_ctx *c, struct mr_cache *cache, const struct sge *s)
{
	uint64_t off;

	if ((cache->lkey != s->lkey || !cache->addr || cache->gen != __atomic_load_n(&c->mr_gen, __ATOMIC_ACQUIRE)) &&
	    !cache_load(c, cache, s->lkey))
		return NULL;
	off = s->addr - cache->iova;
	return off <= cache->len && s->len <= cache->len - off ? cache->addr + off : NULL;
}

/* ---- registering --------------------------------------------------------------- */

static const struct mr_src src_mem = { .kind = MR_MEM, .fd = -1 };

/* With what may be mapped of it; if the daemon does not want that, without. */
static int reg_call(struct rd_ctx *c, struct msg_req *req, struct msg_rep *rep, const struct map_pass *map)
{
	int err;

	req->mr.map_addr = map->addr;
	req->mr.map_len = map->len;
	req->mr.map_off = map->off;
	req->mr.seg = (uint32_t)map->seg;
	err = conn_call(&c->conn, req, rep, map->fd, NULL, 0);
	if (err == EINPROGRESS) {
		pthread_mutex_lock(&c->show_lock);
		for (unsigned i = 0; err == EINPROGRESS && i < SHOW_TRIES && map_show(map); i++)
			err = conn_call(&c->conn, req, rep, -1, NULL, 0);
		pthread_mutex_unlock(&c->show_lock);
	}
	if (map->once && map->fd >= 0)
		close(map->fd);
	if (!err || !map->len)
		return err;
	req->mr.map_addr = req->mr.map_len = req->mr.map_off = req->mr.seg = 0;
	return conn_call(&c->conn, req, rep, -1, NULL, 0);
}

/*
 * MSG_MR_REG or _REREG for what mr already says (addr, length, iova, access, pd); fills in its keys.  Its
 * range is entered, if it is plain memory; after an error it is not.
 */
static int reg_do(struct rd_mr *mr, enum msg_op op, const struct mr_src *src)
{
	struct rd_ctx *c = to_ctx(mr->mr.context);
	struct map_pass map = { .fd = src->fd, .off = src->off };
	struct msg_req req = { .op = op };
	struct msg_rep rep;
	const bool write = mr->access & IBV_ACCESS_LOCAL_WRITE;
	enum vma_fit fit = VMA_FITS;
	bool maps;
	int err;

	mr->kind = src->kind;
	maps = is_plain(mr) && mr->mr.length;
	/* The daemon can read and write any page.  A driver could not pin what is not there, or is not the program's to write. */
	if (maps)
		fit = map_reg(&mr->range, mr->mr.addr, mr->mr.length, write, &map);
	if (fit != VMA_FITS)
		return refuse(c, 0, "ibv_reg_mr", EFAULT, "some of the %zu bytes at %p are %s", mr->mr.length,
			      mr->mr.addr,
			      fit == VMA_GAP ? "not mapped"
			      : write        ? "read-only: leave out IBV_ACCESS_LOCAL_WRITE"
					     : "not to be read");
	if (mr->kind == MR_MEM && !maps)
		map_reg_lazy(&mr->range, mr->mr.addr, mr->mr.length);
	req.mr.pd = mr->pd;
	req.mr.access = mr->access;
	req.mr.addr = (uintptr_t)mr->mr.addr;
	req.mr.len = mr->mr.length;
	req.mr.iova = mr->iova;
	req.mr.handle = mr->mr.handle;
	req.mr.kind = src->kind;
	req.mr.dm = src->dm;
	err = reg_call(c, &req, &rep, &map);
	if (err) {
		if (mr->kind == MR_MEM)
			map_dereg(&mr->range);
		return err;
	}
	mr->mr.handle = rep.obj.handle;
	mr->key = mr->mr.lkey = rep.obj.lkey;
	mr->mr.rkey = rep.obj.rkey;
	return 0;
}

/* No cancellation point, as with a kernel. */
static int mr_reg(struct rd_mr *mr, enum msg_op op, const struct mr_src *src)
{
	int err, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = reg_do(mr, op, src);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

struct ibv_mr *mr_make(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned int access,
		       const struct mr_src *src)
{
	struct rd_mr *mr;
	int err;

	/* A forked child may have joined for device memory; regions are of its parent's. */
	if (ctx_inherited(to_ctx(pd->context)))
		return err_null(EIO);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return err_null(ENOMEM);
	mr->mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = len };
	mr->pd = pd->handle;
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	mr->access = access & ACCESS_KNOWN;
	err = mr_reg(mr, MSG_MR_REG, src);
	if (err) {
		free(mr);
		return err_null(err);
	}
	mr_insert(to_ctx(pd->context), mr);
	mr->listed = true;
	return &mr->mr;
}

/* As the kernel has it: it pins the page that the address is in, also if none of its bytes are wanted. */
static bool is_nowhere(const void *addr, size_t length)
{
	return !length && !((uintptr_t)addr % (uintptr_t)sysconf(_SC_PAGESIZE));
}

/* The whole address space, which only paging on demand can have. */
static bool is_implicit(const void *addr, size_t length) { return !addr && length == SIZE_MAX; }

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	int err = mr_access_check(access);

	if (!err && (is_nowhere(addr, length) || (uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova))
		err = EINVAL;
	if (!err && is_implicit(addr, length) && (!(access & IBV_ACCESS_ON_DEMAND) || iova))
		err = EINVAL;
	if (err)
		return err_null(refuse(to_ctx(pd->context), 0, "ibv_reg_mr", err,
				       "%zu bytes at %p with access flags 0x%x: %s", length, addr, access,
				       access_why(access)));
	return mr_make(pd, addr, length, iova, access, &src_mem);
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
	if (mr->listed)
		mr_remove(to_ctx(ibmr->context), mr);
	if (mr->listed && mr->kind == MR_MEM)
		map_dereg(&mr->range);
	if (mr->dmah)
		__atomic_fetch_sub(&mr->dmah->users, 1, __ATOMIC_RELEASE);
	keep_free(mr);
	return 0;
}

/* Applies the changes that the flags ask for, in a copy of the MR.  0 or an errno. */
static int rereg_prepare(struct rd_mr *now, int flags, struct ibv_pd *pd, void *addr, size_t length,
			 unsigned int access)
{
	const bool was_zero = now->access & IBV_ACCESS_ZERO_BASED;
	int err;

	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)) ||
	    (flags & IBV_REREG_MR_CHANGE_TRANSLATION &&
	     (!addr || !length || (uintptr_t)addr + length < (uintptr_t)addr)) ||
	    (flags & IBV_REREG_MR_CHANGE_PD && (!pd || pd->context != now->mr.context)))
		return EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
		err = mr_access_check(access);
		if (err)
			return err;
		now->access = access & ACCESS_KNOWN;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		now->mr.pd = pd;
		now->pd = pd->handle;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		now->mr.addr = addr;
		now->mr.length = length;
	}
	/* Rule 6.1; one of another base keeps that as long as its memory is the same. */
	if (now->access & IBV_ACCESS_ZERO_BASED)
		now->iova = 0;
	else if (was_zero || flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		now->iova = (uintptr_t)now->mr.addr;
	return 0;
}

/* A failure leaves the MR as it was.  A second struct holds the new range until the old one may go. */
EXPORT int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct rd_mr *mr = (struct rd_mr *)ibmr, *now = calloc(1, sizeof(*now));
	struct rd_ctx *c = to_ctx(ibmr->context);
	int err = now ? 0 : ENOMEM;

	if (now) {
		now->mr = mr->mr;
		now->iova = mr->iova;
		now->access = mr->access;
		now->pd = mr->pd;
		err = mr->kind != MR_MEM || !mr->listed
			      ? EINVAL
			      : rereg_prepare(now, flags, pd, addr, length, (unsigned int)access);
	}
	if (!err)
		err = mr_reg(now, MSG_MR_REREG, &src_mem);
	if (err) {
		free(now);
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	mr_remove(c, mr);
	map_dereg(&mr->range);
	mr->mr = now->mr;
	mr->key = now->key;
	mr->iova = now->iova;
	mr->access = now->access;
	mr->pd = now->pd;
	map_move(&mr->range, &now->range);
	mr_insert(c, mr);
	free(now);
	return 0;
}
