/* SPDX-License-Identifier: MIT */
/*
 * xrc.c - XRC domains, and receiving QPs of other processes.
 *
 * A domain is named by a file: processes that open the same file share its SRQs and receiving QPs, through the daemon.
 */
#include "ctx.h"
#include "xrc.h"
#include "slots.h"

#include <rdmad/keep.h>

#include <fcntl.h>
#include <stdlib.h>

/* By one who has a right on it, which O_PATH needs none for. */
static bool is_open(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_PATH);
}

struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *a)
{
	const uint32_t need = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct msg_req req = { .op = MSG_XRCD_OPEN };
	struct rd_xrcd *x;
	struct msg_rep rep;
	int err;

	if (a->comp_mask & ~need)
		return err_null(EOPNOTSUPP);
	if ((a->comp_mask & need) != need || a->oflags & ~(O_CREAT | O_EXCL))
		return err_null(EINVAL);
	x = calloc(1, sizeof(*x));
	if (!x)
		return err_null(ENOMEM);
	req.xrcd.shared = a->fd != -1;
	req.xrcd.oflags = (uint32_t)a->oflags;
	err = a->fd != -1 && !is_open(a->fd) ? EBADF : 0;
	if (!err)
		err = conn_call(&to_ctx(context)->conn, &req, &rep, a->fd, NULL, 0);
	if (err) {
		free(x);
		return err_null(err);
	}
	x->xrcd.context = context;
	x->handle = rep.obj.handle;
	return &x->xrcd;
}

int xrcd_close(struct ibv_xrcd *xrcd)
{
	int err = ctx_call_id(to_ctx(xrcd->context), MSG_XRCD_CLOSE, to_xrcd(xrcd)->handle);

	if (!err)
		keep_free(to_xrcd(xrcd));
	return err;
}
