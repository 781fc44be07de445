/* SPDX-License-Identifier: MIT */
/*
 * import.c - contexts that share their PDs, MRs and device memory.
 *
 * A context's cmd_fd is a socket with one record in it, a token that is peeked at and never read.  Any process that has
 * a copy of the descriptor - the same process, a child, or one that got it by SCM_RIGHTS - shows the token to the
 * daemon on a connection of its own, and so gets a context of the same family.
 */
#include "ctx.h"
#include "device.h"
#include "mr.h"
#include "pd.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Opens *conn and has it made a context of the family; fds: four. */
static int family_join(int cmd_fd, struct conn *conn, struct msg_rep *rep, int *fds)
{
	struct msg_req req = { .op = MSG_IMPORT };
	struct msg_token *t = &req.import.token;
	int err;

	if (recv(cmd_fd, t, sizeof(*t), MSG_PEEK | MSG_DONTWAIT) != (ssize_t)sizeof(*t))
		return EINVAL;
	err = conn_open(conn);
	if (err)
		return err;
	err = ctx_ask(conn, &req, rep, fds);
	if (err)
		conn_close(conn);
	return err;
}

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct rd_ctx *c = calloc(1, sizeof(*c));
	struct rd_device *dev;
	struct msg_rep rep;
	int fds[4], err;

	if (!c)
		return err_null(ENOMEM);
	err = family_join(cmd_fd, &c->conn, &rep, fds);
	if (err)
		goto fail;
	dev = device_intern(&rep.open.dev);
	if (dev) {
		err = ctx_begin(c, &dev->dev, &rep, fds);
	} else {
		err = ENOMEM;
		for (unsigned i = 0; i < ARRAY_N(fds); i++)
			close(fds[i]);
	}
	if (err) {
		conn_close(&c->conn);
		goto fail;
	}
	close(cmd_fd); /* it was given away; the context has one of its own */
	return &c->v.context;
fail:
	free(c);
	return err_null(err);
}

int ctx_rejoin(struct rd_ctx *c)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct msg_rep rep;
	struct conn fresh;
	int fds[4], err = 0;

	if (conn_mine(&c->conn))
		return 0;
	pthread_mutex_lock(&lock);
	if (!conn_mine(&c->conn)) {
		err = family_join(c->v.context.cmd_fd, &fresh, &rep, fds);
		if (!err) {
			/* The queues are still the parent's: of the new context only its place in the family is used. */
			for (unsigned i = 0; i < ARRAY_N(fds); i++)
				close(fds[i]);
			close(c->conn.fd);
			c->conn = fresh;
			pthread_mutex_init(&c->conn.lock, NULL);
		}
	}
	pthread_mutex_unlock(&lock);
	return err;
}

/* ---- objects --------------------------------------------------------------------------- */

static int obj_import(struct ibv_context *context, enum msg_op op, uint32_t handle, struct msg_rep *rep)
{
	struct msg_req req = { .op = op, .id.handle = handle };

	return ctx_call(to_ctx(context), &req, rep);
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct rd_pd *pd = calloc(1, sizeof(*pd));
	struct msg_rep rep;
	int err = pd ? obj_import(context, MSG_PD_IMPORT, handle, &rep) : ENOMEM;

	if (err) {
		free(pd);
		return err_null(err);
	}
	pd->pd.context = context;
	pd->pd.handle = handle;
	return &pd->pd;
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd) { free(to_pd(pd)); }

/* Its address means something to who has registered it: as with the kernel, it is not told. */
EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct rd_mr *mr = calloc(1, sizeof(*mr));
	struct msg_rep rep;
	int err = mr ? obj_import(pd->context, MSG_MR_IMPORT, handle, &rep) : ENOMEM;

	if (err) {
		free(mr);
		return err_null(err);
	}
	mr->mr = (struct ibv_mr){
		.context = pd->context, .pd = pd, .handle = handle, .lkey = rep.obj.lkey, .rkey = rep.obj.rkey
	};
	return &mr->mr;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr) { free(mr); }
