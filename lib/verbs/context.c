/* SPDX-License-Identifier: MIT */
/*
 * context.c - opens and closes a device: its connection, its bell page.
 *
 *	| ... ours ... | NULLs | ops, newest first | sz | struct ibv_context |
 *	                                                  ^ the program's pointer
 *
 * Programs look for an operation at a negative offset from their pointer and compare sz, which is the size
 * in the header that we were built with, to know how far up they may look.
 */
#include "cntr.h"
#include "ctx.h"
#include "hold.h"
#include "mem_map.h"

#include <rdmad/keep.h>

#include <rdmad/feature.h>
#include <rdmad/high.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Our own daemon may have a faster way to our memory than by the descriptor that it gets.  Yama (ptrace_scope 1) lets
 * it only if we name it.
 */
static void ptracer_set(pid_t daemon)
{
	FILE *f = daemon > 0 ? fopen("/proc/sys/kernel/yama/ptrace_scope", "re") : NULL;
	int scope = 0;

	if (!f)
		return;
	if (fscanf(f, "%d", &scope) == 1 && scope == 1)
		hold_tracer(daemon);
	fclose(f);
}

/* A program that may not be looked into (set-user-ID) has no such file, and shares what memory it can. */
int ctx_ask(struct conn *conn, struct msg_req *req, struct msg_rep *rep, int *fds)
{
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC), err;

	ptracer_set(conn->daemon);
	err = conn_call(conn, req, rep, mem, fds, 4);
	if (mem >= 0)
		close(mem);
	if (err)
		return err;
	fds[1] = fd_high(fds[1]);
	if (fds[1] >= 0)
		return 0;
	err = errno;
	close(fds[0]);
	close(fds[2]);
	close(fds[3]);
	return err;
}

static void ctx_fill(struct rd_ctx *c, struct ibv_device *dev, int async_fd, int cmd_fd)
{
	struct verbs_context *v = &c->v;

	v->sz = sizeof(*v);
	ops_fill(v);
	v->context.device = dev;
	v->context.cmd_fd = cmd_fd;
	v->context.async_fd = async_fd;
	c->opener = getpid();
	v->context.num_comp_vectors = c->attr.comp_vectors ? (int)c->attr.comp_vectors : 1;
	pthread_mutex_init(&v->context.mutex, NULL);
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&c->map_lock, NULL);
	pthread_mutex_init(&c->show_lock, NULL);
	pthread_mutex_init(&c->slab_turn, NULL);
	cntr_begin(c);
}

int ctx_begin(struct rd_ctx *c, struct ibv_device *dev, const struct msg_rep *opened, const int *fds)
{
	struct msg_req ask = { .op = MSG_QUERY_DEVICE };
	struct msg_rep rep;
	int err;

	c->bell_len = opened->open.bell_len;
	c->key = opened->open.key;
	c->kick_fd = fds[1];
	c->bell = c->bell_len < sizeof(struct bell) ? err_null(EPROTO) : ctx_map(fds[0], c->bell_len);
	err = c->bell ? ctx_call(c, &ask, &rep) : errno;
	if (!err) {
		c->attr = rep.device;
		c->attr.profile[sizeof(c->attr.profile) - 1] = 0;
		for (unsigned f = 0; f < FEATURES; f++)
			c->no_ops |= c->attr.no >> f & 1 ? feature_row(f)->ops : 0;
		ctx_fill(c, dev, fds[2], fds[3]);
		bye_add(c);
		return 0;
	}
	if (c->bell)
		munmap(c->bell, c->bell_len);
	for (unsigned i = 1; i < 4; i++)
		close(fds[i]);
	return err;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	struct msg_req req = { .op = MSG_OPEN };
	struct rd_ctx *c = calloc(1, sizeof(*c));
	struct msg_rep rep;
	int fds[4], err;

	if (!c)
		return err_null(ENOMEM);
	err = conn_open(&c->conn);
	if (err) {
		free(c);
		return err_null(err);
	}
	snprintf(req.open.name, sizeof(req.open.name), "%.*s", RDMAD_NAME_LEN - 1, dev->name);
	err = ctx_ask(&c->conn, &req, &rep, fds);
	if (!err)
		err = ctx_begin(c, dev, &rep, fds);
	if (err) {
		conn_close(&c->conn);
		free(c);
		return err_null(err);
	}
	return &c->v.context;
}

/* Objects that the program did not destroy go with the connection. */
EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct rd_ctx *c = to_ctx(context);

	bye_del(c);
	map_forget();
	munmap(c->bell, c->bell_len);
	close(context->async_fd); /* before the daemon closes its end, as a channel's */
	close(context->cmd_fd);
	close(c->kick_fd);
	conn_close(&c->conn);
	hash_free(&c->map);
	hash_free(&c->mrs);
	slabs_end(c);
	cntr_end(c);
	pthread_mutex_destroy(&c->slab_turn);
	pthread_mutex_destroy(&c->map_lock);
	pthread_mutex_destroy(&c->show_lock);
	pthread_mutex_destroy(&context->mutex);
	keep_free(c);
	return 0;
}
