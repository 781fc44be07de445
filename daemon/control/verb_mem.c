/* SPDX-License-Identifier: MIT */
/*
 * verb_mem.c - memory regions, device memory, and those of them that a family of contexts shares.
 *
 *	MR_MEM		region_new(), or _lazy() where the program asks for paging on demand, _segment() for a SysV segment
 *	MR_NULL		region_new_null()
 *	MR_DM		region_new_held() on the mapping of the device memory
 *	MR_DMABUF	region_new_fd() on the descriptor that came with the request
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "../base/log.h"
#include "call.h"
#include "why.h"
#include "../shard/ctx_obj.h"
#include "../shard/inbox.h"

/* ---- the memory --------------------------------------------------------------------- */

/* If it cannot be had the memory is reached as any other. */
static int region_of_segment(const struct msg_req *req, struct peer *peer, int fd, const struct map_part *part,
			     struct ctx_mr *mr)
{
	int err = region_new_segment(&mr->region, peer, req->mr.addr, req->mr.len, fd, (int)(req->mr.seg - 1), part);

	if (!err || err == EINPROGRESS)
		return err;
	quota_refused(NULL, 0); /* it was not asked for */
	return region_new(&mr->region, peer, req->mr.addr, req->mr.len, -1, NULL);
}

static int region_of_program(struct call *call, struct ctx_mr *mr)
{
	const struct msg_req *req = call->req;
	const struct map_part part = { req->mr.map_addr, req->mr.map_len, req->mr.map_off };
	struct peer *peer = call->s->ctx->peer;
	int err;

	if (req->mr.addr + req->mr.len < req->mr.addr)
		return EINVAL;
	if (req->mr.access & ACC_ON_DEMAND)
		err = region_new_lazy(&mr->region, peer, req->mr.addr, req->mr.len);
	else if (req->mr.seg)
		err = region_of_segment(req, peer, call->fd_in, &part, mr);
	else
		err = region_new(&mr->region, peer, req->mr.addr, req->mr.len, call->fd_in, &part);
	if (err == EPERM)
		log_warn("%s (pid %d, user %u) could not open its own /proc/self/mem (a set-user-ID program, "
			 "not dumpable, or without /proc): memory that it cannot share is out of reach",
			 call->s->prog, (int)call->s->pid, (unsigned)call->s->uid);
	if (!err)
		mr->peer = peer_take(peer);
	return err;
}

static int dm_find_job(struct job *j)
{
	j->obj = obj_get(j->call->s->ctx, OBJ_DM, j->call->req->mr.dm);
	return j->obj ? 0 : EINVAL;
}

/* Requests are served one by one, so it stays while this one is. */
static int region_of_dm(struct call *call, struct ctx_mr *mr)
{
	const struct msg_req *req = call->req;
	struct job j = { .call = call };
	int err = job_run(&j, dm_find_job);
	struct dm *dm = j.obj;

	if (err || req->mr.map_off > dm->shm.len || req->mr.len > dm->shm.len - req->mr.map_off)
		return EINVAL;
	mr->dm = dm;
	if (!req->mr.len)
		return region_new_null(&mr->region); /* no byte of it can be reached */
	return region_new_held(&mr->region, req->mr.map_off, req->mr.len, dm->shm.held, req->mr.map_off);
}

static int region_of_dmabuf(struct call *call, struct ctx_mr *mr)
{
	const struct msg_req *req = call->req;
	struct peer *peer = call->s->ctx->peer;
	int err = region_new_fd(&mr->region, peer, req->mr.map_off, req->mr.len, call->fd_in, req->mr.map_off);

	if (!err)
		mr->peer = peer_take(peer);
	return err;
}

/* The memory that MSG_MR_REG and MSG_MR_REREG name. */
static int mr_memory(struct call *call, struct ctx_mr *mr)
{
	const struct msg_req *req = call->req;

	if (req->mr.iova + req->mr.len < req->mr.iova)
		return EINVAL;
	switch (req->mr.kind) {
	case MR_MEM: return region_of_program(call, mr);
	case MR_NULL: return region_new_null(&mr->region);
	case MR_DM: return region_of_dm(call, mr);
	case MR_DMABUF: return region_of_dmabuf(call, mr);
	}
	return EINVAL;
}

static void mr_drop(struct ctx_mr *mr)
{
	region_free(mr->region);
	peer_drop(mr->peer);
	obj_drop(&mr->obj);
}

/* ---- mr ----------------------------------------------------------------------------- */

static int mr_reg_job(struct job *j) { return mr_make(j->call->s->ctx, j->obj, j->call->req); }

static void keys_reply(struct call *call, uint32_t key)
{
	call->rep->obj.handle = call->rep->obj.lkey = call->rep->obj.rkey = key;
}

/* Without its mapping, which has a bill of its own. */
static struct ctx_mr *mr_new(struct call *call, int *err)
{
	const struct cost cost = { { [QUOTA_MRS] = 1, [QUOTA_HEAP] = REGION_LEN } };

	return obj_new(call, sizeof(struct ctx_mr), &cost, err);
}

int verb_mr_reg(struct call *call)
{
	int err;
	struct ctx_mr *mr = mr_new(call, &err);
	struct job j = { .call = call, .obj = mr };

	if (!mr)
		return err;
	err = mr_memory(call, mr);
	if (!err)
		err = job_run(&j, mr_reg_job);
	if (err)
		mr_drop(mr);
	else
		keys_reply(call, mr->obj.number);
	return err;
}

static int mr_rereg_job(struct job *j) { return mr_change(j->call->s->ctx, j->call->req, j->obj); }

int verb_mr_rereg(struct call *call)
{
	struct job j = { .call = call };
	struct ctx_mr *mr;
	int err;

	if (call->req->mr.kind != MR_MEM)
		return EINVAL;
	mr = j.obj = mr_new(call, &err);
	if (!mr)
		return err;
	err = mr_memory(call, mr);
	if (!err)
		err = job_run(&j, mr_rereg_job);
	mr_drop(mr); /* with the memory that is not used: the old one, or after a refusal the new one */
	if (!err)
		keys_reply(call, call->req->mr.handle);
	return err;
}

/* ---- device memory ---------------------------------------------------------------------- */

static int dm_make_job(struct job *j) { return dm_make(j->call->s->ctx, j->obj); }

static int fd_reply(struct call *call, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return errno;
	call->fds[call->fd_n++] = copy;
	return 0;
}

/* Any power of two up to a page is kept as alignment: the memory begins with one. */
int verb_dm_alloc(struct call *call)
{
	uint64_t len = call->req->dm.len;
	struct job j = { .call = call };
	struct dm *dm;
	int err;

	if (!len || call->req->dm.log_align > 12)
		return EINVAL;
	if (len > RD_MAX_DM)
		return ENOMEM;
	dm = j.obj = obj_new(call, sizeof(*dm),
			     &(struct cost){ { [QUOTA_FDS] = 1, [QUOTA_MAPS] = HELD_MAPS, [QUOTA_QUEUE_LEN] = len } },
			     &err);
	if (!dm)
		return err;
	err = shmem_make(&dm->shm, "rdmad-dm", len);
	if (!err)
		err = fd_reply(call, dm->shm.fd);
	if (!err)
		err = job_run(&j, dm_make_job);
	if (err) {
		while (call->fd_n)
			close(call->fds[--call->fd_n]);
		shmem_free(&dm->shm);
		obj_drop(&dm->obj);
		return err;
	}
	call->rep->dm.handle = dm->obj.number;
	call->rep->dm.len = len;
	return 0;
}

/* ---- what another context of the family has -------------------------------------------------- */

static int import_job(struct job *j)
{
	struct call *call = j->call;
	uint32_t op = call->req->op, handle = call->req->id.handle;
	enum obj_kind kind = op == MSG_PD_IMPORT ? OBJ_PD : op == MSG_MR_IMPORT ? OBJ_MR : OBJ_DM;
	struct obj *o = obj_get(call->s->ctx, kind, handle);

	if (!o)
		return EINVAL;
	if (kind == OBJ_DM) {
		call->rep->dm.handle = handle;
		call->rep->dm.len = ((struct dm *)o)->shm.len;
		j->obj = o;
	} else {
		keys_reply(call, handle);
	}
	return 0;
}

/* The memory of a DM goes with the reply. */
int verb_obj_import(struct call *call)
{
	struct job j = { .call = call };
	int err = job_run(&j, import_job);

	return err || !j.obj ? err : fd_reply(call, ((struct dm *)j.obj)->shm.fd);
}
