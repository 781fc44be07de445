/* SPDX-License-Identifier: MIT */
/*
 * dm.c - device memory: the daemon's, mapped here as well.
 *
 * The rules of adapters hold: what is copied to and from it begins and ends at a multiple of four bytes, and
 * an MR on it is zero-based.
 */
#include "dm.h"
#include "mr.h"
#include "slots.h"

#include <rdmad/keep.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define DM_UNIT 4u

struct rd_dm {
	struct ibv_dm dm;
	uint8_t *mem;
	size_t len;
	pid_t owner; /* the process that has made it */
};

static struct rd_dm *to_dm(struct ibv_dm *dm) { return (struct rd_dm *)dm; }

static int range_check(const struct rd_dm *dm, uint64_t off, size_t len)
{
	if (off % DM_UNIT || len % DM_UNIT)
		return EINVAL;
	return off > dm->len || len > dm->len - off ? EFAULT : 0;
}

static int copy_to(struct ibv_dm *ibdm, uint64_t off, const void *from, size_t len)
{
	struct rd_dm *dm = to_dm(ibdm);
	int err = range_check(dm, off, len);

	if (!err)
		memcpy(dm->mem + off, from, len);
	return err;
}

static int copy_from(void *to, struct ibv_dm *ibdm, uint64_t off, size_t len)
{
	struct rd_dm *dm = to_dm(ibdm);
	int err = range_check(dm, off, len);

	if (!err)
		memcpy(to, dm->mem + off, len);
	return err;
}

/* Takes over the answer to MSG_DM_ALLOC or MSG_DM_IMPORT. */
static struct rd_dm *dm_begin(struct ibv_context *context, const struct msg_rep *rep, int fd)
{
	struct rd_dm *dm = calloc(1, sizeof(*dm));

	if (!dm) {
		close(fd);
		return err_null(ENOMEM);
	}
	dm->len = rep->dm.len;
	dm->mem = ctx_map(fd, dm->len);
	if (!dm->mem) {
		free(dm);
		return err_null(ENOMEM);
	}
	dm->owner = getpid();
	dm->dm = (struct ibv_dm){
		.context = context, .memcpy_to_dm = copy_to, .memcpy_from_dm = copy_from, .handle = rep->dm.handle
	};
	return dm;
}

/* A forked child may use the context for this much. */
struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *a)
{
	struct msg_req req = { .op = MSG_DM_ALLOC };
	struct rd_ctx *c = to_ctx(context);
	struct msg_rep rep;
	struct rd_dm *dm;
	int fd, err;

	if (a->comp_mask)
		return err_null(EINVAL);
	req.dm.len = a->length;
	req.dm.log_align = a->log_align_req;
	err = ctx_rejoin(c);
	if (!err)
		err = ctx_call_fd(c, &req, &rep, &fd, MSG_DM_FREE);
	if (err)
		return err_null(err);
	dm = dm_begin(context, &rep, fd);
	if (!dm) {
		err = errno;
		ctx_call_id(c, MSG_DM_FREE, rep.dm.handle);
		return err_null(err);
	}
	return &dm->dm;
}

static void dm_end(struct rd_dm *dm)
{
	munmap(dm->mem, dm->len);
	keep_free(dm);
}

int dm_free(struct ibv_dm *ibdm)
{
	struct msg_req req = { .op = MSG_DM_FREE, .id.handle = ibdm->handle };
	struct rd_ctx *c = to_ctx(ibdm->context);
	struct rd_dm *dm = to_dm(ibdm);
	struct msg_rep rep;
	int err = 0;

	if (dm->owner == getpid()) {
		err = ctx_call(c, &req, &rep);
		if (err == EIO && conn_gone(&c->conn))
			err = 0;
	}
	if (!err)
		dm_end(dm);
	return err;
}

struct ibv_mr *dm_reg_mr(struct ibv_pd *pd, struct ibv_dm *ibdm, uint64_t off, size_t len, unsigned int access)
{
	struct rd_dm *dm = to_dm(ibdm);
	struct mr_src src = { .kind = MR_DM, .fd = -1, .dm = ibdm->handle, .off = off };
	int err = mr_access_check(access);

	if (!err && (!(access & IBV_ACCESS_ZERO_BASED) || access & IBV_ACCESS_ON_DEMAND ||
		     pd->context->device != ibdm->context->device || off > dm->len || len > dm->len - off))
		err = EINVAL;
	return err ? err_null(err) : mr_make(pd, NULL, len, 0, access, &src);
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct msg_req req = { .op = MSG_DM_IMPORT, .id.handle = handle };
	struct msg_rep rep;
	struct rd_dm *dm;
	int fd, err = conn_call(&to_ctx(context)->conn, &req, &rep, -1, &fd, 1);

	if (err)
		return err_null(err);
	dm = dm_begin(context, &rep, fd);
	return dm ? &dm->dm : NULL;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm) { dm_end(to_dm(dm)); }

/* verbs.h of rdma-core 59 and later declares it.  The memory stays as long as the descriptor, the DM need not. */
EXPORT int dm_export(struct ibv_dm *) __asm__("ibv_dm_export_dmabuf_fd");
int dm_export(struct ibv_dm *ibdm)
{
	struct msg_req req = { .op = MSG_DM_IMPORT, .id.handle = ibdm->handle };
	struct rd_ctx *c = to_ctx(ibdm->context);
	struct msg_rep rep;
	int fd, err = ctx_rejoin(c);

	if (!err)
		err = conn_call(&c->conn, &req, &rep, -1, &fd, 1);
	if (!err)
		return fd;
	errno = err;
	return -1;
}
