/* SPDX-License-Identifier: MIT */
/*
 * xrcd.c - XRC domains, and receiving QPs that several programs hold.
 *
 *	program 1   struct ctx_xrcd --+                       +-- struct ctx_qp    program 1 (created it)
 *	program 2   struct ctx_xrcd --+-- domain (an inode)   +-- struct ctx_qp    program 2 (opened it)
 *	                          |                       |
 *	                     the HCA's domain       the HCA's QP
 *
 * Programs that open the same file share a domain.  It lives in the HCA of one shard, and so do its users: a context
 * is put where its user has such a domain already, and if that came too late, the domain cannot be opened (EXDEV).
 * The HCA's object goes with the last program that holds it.
 *
 * The list of shared domains is changed by the control thread, or while it waits for a shard.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "../base/foreign.h"
#include "../base/log.h"
#include "call.h"
#include "../shard/ctx_obj.h"
#include "../shard/inbox.h"

struct domain {
	struct domain *next;
	dev_t dev;
	ino_t ino;
	int fd;    /* keeps the inode's number from being given to another file */
	uid_t uid; /* who opened it first */
	const struct device *device;
	struct shard *shard;
	uint32_t number;
	unsigned users; /* struct ctx_xrcd */
};

static struct domain *domains;

struct shard *xrcd_shard(uid_t uid, const struct device *device)
{
	for (const struct domain *d = domains; d; d = d->next)
		if (d->uid == uid && d->device == device)
			return d->shard;
	return NULL;
}

static struct domain *domain_find(dev_t dev, ino_t ino, const struct device *device)
{
	for (struct domain *d = domains; d; d = d->next)
		if (d->dev == dev && d->ino == ino && d->device == device)
			return d;
	return NULL;
}

/* Of one who has paid for its file: the last one's share is his until that is closed. */
static void domain_put(struct domain *d, struct bill *bill)
{
	struct bill share;
	struct domain **p = &domains;

	if (--d->users)
		return;
	while (*p != d)
		p = &(*p)->next;
	*p = d->next;
	bill_split(&share, bill, QUOTA_FDS, 1);
	foreign_close_billed(d->fd, d->uid, &share);
	free(d);
}

/* ---- opening and closing ----------------------------------------------------------- */

static int xrcd_open_job(struct job *j)
{
	struct ctx *c = j->call->s->ctx;
	struct ctx_xrcd *x = j->obj;
	struct domain *d = x->domain;
	uint32_t number = d ? d->number : 0;
	bool fresh = !number;
	int err = fresh ? hca_xrcd_alloc(c->hca, &number) : 0;
	const struct ctx_xrcd *other = err ? NULL : (struct ctx_xrcd *)obj_get(c, OBJ_XRCD, number);

	if (!err)
		err = obj_add(c, &x->obj, OBJ_XRCD, number);
	if (err && fresh && number)
		hca_xrcd_free(c->hca, number);
	if (err)
		return err;
	if (other) {
		free(x->part);
		x->part = other->part;
	}
	x->part->handles++;
	if (d) {
		d->number = number;
		d->users++;
	}
	return 0;
}

/* The domain of the file, found or made; it has no user yet. */
static int domain_open(struct call *call, struct domain **out)
{
	const struct ctx *c = call->s->ctx;
	int flags = (int)call->req->xrcd.oflags;
	struct domain *d;
	dev_t dev;
	ino_t ino;

	/* (O_PATH needs no right on the file.) */
	if (call->fd_in < 0 || fcntl(call->fd_in, F_GETFL) & O_PATH || foreign_inode(call->fd_in, &dev, &ino))
		return EBADF;
	d = domain_find(dev, ino, c->dev);
	*out = d;
	if (d && d->shard != c->shard) {
		log_warn("context %u (%s, pid %d): an XRC domain that it wants to share is served by another thread; "
			 "start rdmad with --shards 1, or open it before the device is opened by others",
			 c->id, c->prog, (int)c->pid);
		return EXDEV;
	}
	if (d)
		return flags & O_EXCL ? EINVAL : 0;
	if (!(flags & O_CREAT))
		return EAGAIN;
	d = calloc(1, sizeof(*d));
	if (!d)
		return ENOMEM;
	*d = (struct domain){ .next = domains,
			      .fd = call->fd_in,
			      .dev = dev,
			      .ino = ino,
			      .uid = c->uid,
			      .device = c->dev,
			      .shard = c->shard };
	call->fd_in = -1;
	domains = *out = d;
	return 0;
}

int verb_xrcd_open(struct call *call)
{
	/* A file of its own, and the domain; in truth they are the first one's only. */
	struct cost cost = { { [QUOTA_FDS] = !!call->req->xrcd.shared,
			       [QUOTA_XRCDS] = 1,
			       [QUOTA_HEAP] = sizeof(struct domain) + sizeof(struct xrcd_part) } };
	int err;
	struct ctx_xrcd *x = obj_new(call, sizeof(*x), &cost, &err);
	struct job j = { .call = call, .obj = x };

	if (!x)
		return err;
	x->part = calloc(1, sizeof(*x->part));
	err = x->part ? 0 : ENOMEM;
	if (!err && call->req->xrcd.shared)
		err = domain_open(call, &x->domain);
	if (!err)
		err = job_run(&j, xrcd_open_job);
	if (!err) {
		call->rep->obj.handle = x->obj.number;
		return 0;
	}
	free(x->part);
	if (x->domain && !x->domain->users) {
		x->domain->users = 1;
		domain_put(x->domain, &x->obj.bill);
	}
	obj_drop(&x->obj);
	return err;
}

int xrcd_drop(struct ctx_xrcd *x)
{
	struct ctx *c = x->obj.ctx;
	int err = 0;

	if (x->part->users && x->part->handles == 1) /* something here needs the handle */
		return EBUSY;
	if (!x->domain || x->domain->users == 1)
		err = hca_xrcd_free(c->hca, x->obj.number);
	if (err)
		return err;
	if (!--x->part->handles)
		free(x->part);
	if (x->domain)
		domain_put(x->domain, &x->obj.bill);
	return 0;
}

/* ---- receiving QPs of others ---------------------------------------------------------- */

static int qp_open_job(struct job *j)
{
	struct ctx *c = j->call->s->ctx;
	const struct msg_req *req = j->call->req;
	struct ctx_qp *qp = j->obj;
	struct qp_attr attr;
	struct qp_init init;
	int err;

	if (!obj_get(c, OBJ_XRCD, req->qp_open.xrcd) || hca_qp_query(c->hca, req->qp_open.qpn, &attr, &init))
		return EINVAL;
	if (init.type != QPT_XRC_RECV || init.xrcdn != req->qp_open.xrcd || obj_get(c, OBJ_QP, req->qp_open.qpn))
		return EINVAL;
	qp->xrcd = init.xrcdn;
	qp->cookie = req->qp_open.cookie;
	err = obj_add(c, &qp->obj, OBJ_QP, req->qp_open.qpn);
	if (err)
		return err;
	xrcd_use(c, qp->xrcd, 1);
	qp_hint(qp);
	return 0;
}

int verb_qp_open(struct call *call)
{
	int err;
	struct ctx_qp *qp = obj_new(call, sizeof(*qp), &(struct cost){ { [QUOTA_QPS] = 1 } }, &err);
	struct job j = { .call = call, .obj = qp };

	if (!qp)
		return err;
	qp->shm.fd = -1;
	err = job_run(&j, qp_open_job);
	if (err)
		obj_drop(&qp->obj);
	else
		call->rep->qp.qpn = qp->obj.number;
	return err;
}
