/* SPDX-License-Identifier: MIT */
/*
 * verb.c - the table of handlers; the session's own ones, PDs, channels, and destruction.
 *
 * A handler runs in the control thread.  It makes memory and descriptors, then goes to the context's shard for
 * the rest, and undoes the first if the second fails.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "config.h"
#include "ctl.h"
#include "ends.h"
#include "fault_verb.h"
#include "log.h"
#include "session.h"
#include "why.h"

/* ---- hello, hold, open ------------------------------------------------------------ */

static int verb_hello(struct call *call)
{
	struct session *s = call->s;
	const char *prog = call->req->hello.prog;

	/* Another version is told ours, and that is all it can ask. */
	call->rep->hello.abi = RDMAD_ABI;
	call->rep->hello.pid = (uint32_t)getpid();
	snprintf(call->rep->hello.version, sizeof(call->rep->hello.version), "%s", PACKAGE_VERSION);
	if (call->req->hello.abi != RDMAD_ABI) {
		log_warn("a program of user %u (pid %d) was started with the libraries of another version of rdmad "
			 "(ABI %u, here %u): it is refused; restart the daemon or the program after an update",
			 (unsigned)s->uid, (int)s->pid, call->req->hello.abi, RDMAD_ABI);
		return 0;
	}
	for (unsigned i = 0; i < sizeof(call->req->hello.prog) && prog[i]; i++)
		s->prog[i] = isgraph((unsigned char)prog[i]) ? prog[i] : '?';
	s->run = call->req->hello.run & INT64_MAX;	/* JSON has no more */
	s->hello = true;
	return 0;
}

static int verb_hold(struct call *call)
{
	if (!call->s->hold)
		holds_n++;
	call->s->hold = true;
	return 0;
}

static void device_reply(struct msg_device *m, const struct device *d)
{
	memcpy(m->name, d->name, sizeof(m->name));
	m->guid = d->guid;
	m->index = d->index;
	m->ports = 1;
}

static int verb_device_list(struct call *call)
{
	for (unsigned i = 0; i < devices_n; i++)
		device_reply(&call->rep->devices.dev[i], &devices[i]);
	call->rep->devices.n = devices_n;
	return 0;
}

static int fd_dup(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 3); }

/* The descriptors of a new context, with the reply. */
static int ctx_reply(struct call *call, int event_fd, int token_fd)
{
	struct ctx *c = call->s->ctx;
	int kick = fd_dup(c->shard->kick_fd);

	if (kick < 0) {
		int err = errno;

		close(event_fd);
		close(token_fd);
		ctx_close(c);
		call->s->ctx = NULL;
		return err;
	}
	call->rep->open.bell_len = (uint32_t)c->bell_shm.len;
	call->rep->open.ctx = c->id;
	call->fds[0] = c->bell_shm.fd;
	call->fds[1] = kick;
	call->fds[2] = event_fd;
	call->fds[3] = token_fd;
	call->fd_n = 4;
	c->bell_shm.fd = -1;
	device_reply(&call->rep->open.dev, c->dev);
	log_info("context %u on %s for %s (pid %d, user %u)", c->id, c->dev->name, c->prog, (int)c->pid, (unsigned)c->uid);
	return 0;
}

static int ctx_begin(struct call *call, struct device *dev, struct ctx *like)
{
	struct session *s = call->s;
	int err, event, token;

	if (s->ctx || s->cma || s->capture)
		return EBUSY;
	err = ctx_open(&s->ctx, dev, like, &(struct ucred){ s->pid, s->uid, s->gid }, s->prog, &event, &token);
	if (err == EPERM)
		log_warn("%s (pid %d, user %u): its user may not reach into its memory (a set-user-ID program, or not dumpable)",
			 s->prog, (int)s->pid, (unsigned)s->uid);
	if (err)
		return err;
	s->ctx->run = s->run;
	return ctx_reply(call, event, token);
}

static int verb_open(struct call *call)
{
	char name[RDMAD_NAME_LEN];
	struct device *dev;

	memcpy(name, call->req->open.name, sizeof(name));
	name[sizeof(name) - 1] = 0;
	dev = device_find(name);
	return dev ? ctx_begin(call, dev, NULL) : ENODEV;
}

static int verb_import(struct call *call)
{
	const struct msg_token *t = &call->req->import.token;

	for (struct session *s = sessions; s; s = s->next)
		if (s->ctx && !CRYPTO_memcmp(t, &s->ctx->family->token, sizeof(*t)))
			return ctx_begin(call, s->ctx->dev, s->ctx);
	return EINVAL;
}

static int verb_bye(struct call *call)
{
	call->s->ctx->bye = true;
	return 0;
}

/* ---- pd, channel ----------------------------------------------------------------- */

/* What a function in the shard's thread needs and says. */
struct job {
	struct call *call;
	void *obj;
	struct obj *dead;
	uint32_t key;
	int err;
};

static void pd_alloc_job(struct shard *s, void *arg)
{
	struct job *j = arg;

	j->err = pd_make(j->call->s->ctx, j->obj);
}

static int verb_pd_alloc(struct call *call)
{
	struct pd *pd = calloc(1, sizeof(*pd));
	struct job j = { .call = call, .obj = pd };

	if (!pd)
		return ENOMEM;
	shard_call(call->s->ctx->shard, pd_alloc_job, &j);
	if (j.err) {
		free(pd);
		return j.err;
	}
	call->rep->obj.handle = pd->obj.number;
	return 0;
}

static void mw_alloc_job(struct shard *s, void *arg)
{
	struct job *j = arg;

	j->err = mw_make(j->call->s->ctx, j->obj, j->call->req, &j->key);
}

static int verb_mw_alloc(struct call *call)
{
	struct mw *mw = calloc(1, sizeof(*mw));
	struct job j = { .call = call, .obj = mw };

	if (!mw)
		return ENOMEM;
	shard_call(call->s->ctx->shard, mw_alloc_job, &j);
	if (j.err) {
		free(mw);
		return j.err;
	}
	call->rep->obj.handle = mw->obj.number;
	call->rep->obj.rkey = j.key;
	return 0;
}

static void channel_job(struct shard *s, void *arg)
{
	struct job *j = arg;

	j->err = channel_make(j->call->s->ctx, j->obj);
}

static int verb_channel_create(struct call *call)
{
	struct channel *ch = calloc(1, sizeof(*ch));
	struct job j = { .call = call, .obj = ch };
	int fds[2];

	if (!ch)
		return ENOMEM;
	if (pipe2(fds, O_CLOEXEC)) {
		free(ch);
		return errno;
	}
	/* The client's end waits until the client asks otherwise. */
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	ch->out.fd = fds[1];
	shard_call(call->s->ctx->shard, channel_job, &j);
	if (j.err) {
		close(fds[0]);
		close(fds[1]);
		free(ch);
		return j.err;
	}
	call->rep->obj.handle = ch->obj.number;
	call->fds[call->fd_n++] = fds[0];
	return 0;
}

/* ---- destruction -------------------------------------------------------------------------- */

static void destroy_job(struct shard *s, void *arg)
{
	static const enum obj_kind kinds[MSG_OPS] = {
		[MSG_PD_FREE] = OBJ_PD, [MSG_MR_DEREG] = OBJ_MR, [MSG_CHANNEL_DESTROY] = OBJ_CHANNEL,
		[MSG_CQ_DESTROY] = OBJ_CQ, [MSG_SRQ_DESTROY] = OBJ_SRQ, [MSG_QP_DESTROY] = OBJ_QP, [MSG_DM_FREE] = OBJ_DM,
		[MSG_MW_FREE] = OBJ_MW, [MSG_XRCD_CLOSE] = OBJ_XRCD,
	};
	struct job *j = arg;
	const struct msg_req *req = j->call->req;
	struct obj *o = obj_get(j->call->s->ctx, kinds[req->op], req->id.handle);
	struct qp_row row;

	if (!o) {
		j->err = EINVAL;
		return;
	}
	if (o->kind == OBJ_QP)
		qp_row_fill(&row, s, o->ctx->dev->index, o->number);
	j->err = obj_destroy(o);
	if (j->err)
		return;
	j->dead = o;
	if (o->kind == OBJ_QP)
		ends_qp(&row);
}

static int verb_destroy(struct call *call)
{
	struct job j = { .call = call };

	shard_call(call->s->ctx->shard, destroy_job, &j);
	if (j.err)
		return j.err;
	if (j.dead->kind == OBJ_CHANNEL)
		ctl_outlet_going(&((struct channel *)j.dead)->out);
	obj_release(j.dead);
	return 0;
}

/* ---- the table ----------------------------------------------------------------------------- */

static const struct verb {
	int (*fn)(struct call *);
	bool ctx;		/* only after MSG_OPEN */
} verbs[MSG_OPS] = {
	[MSG_HELLO] = { verb_hello, false },
	[MSG_HOLD] = { verb_hold, false },
	[MSG_DEVICE_LIST] = { verb_device_list, false },
	[MSG_OPEN] = { verb_open, false },
	[MSG_QUERY_DEVICE] = { verb_query_device, true },
	[MSG_QUERY_PORT] = { verb_query_port, true },
	[MSG_QUERY_GID] = { verb_query_gid, true },
	[MSG_PD_ALLOC] = { verb_pd_alloc, true },
	[MSG_PD_FREE] = { verb_destroy, true },
	[MSG_MR_REG] = { verb_mr_reg, true },
	[MSG_MR_DEREG] = { verb_destroy, true },
	[MSG_MR_REREG] = { verb_mr_rereg, true },
	[MSG_CHANNEL_CREATE] = { verb_channel_create, true },
	[MSG_CHANNEL_DESTROY] = { verb_destroy, true },
	[MSG_CQ_CREATE] = { verb_cq_create, true },
	[MSG_CQ_RESIZE] = { verb_cq_resize, true },
	[MSG_CQ_DESTROY] = { verb_destroy, true },
	[MSG_SRQ_CREATE] = { verb_srq_create, true },
	[MSG_SRQ_MODIFY] = { verb_srq_modify, true },
	[MSG_SRQ_QUERY] = { verb_srq_query, true },
	[MSG_SRQ_DESTROY] = { verb_destroy, true },
	[MSG_QP_CREATE] = { verb_qp_create, true },
	[MSG_QP_MODIFY] = { verb_qp_modify, true },
	[MSG_QP_QUERY] = { verb_qp_query, true },
	[MSG_QP_DESTROY] = { verb_destroy, true },
	[MSG_MCAST_ATTACH] = { verb_mcast, true },
	[MSG_MCAST_DETACH] = { verb_mcast, true },
	[MSG_DUMP] = { verb_dump, false },
	[MSG_REFUSED] = { verb_refused, true },
	[MSG_MW_ALLOC] = { verb_mw_alloc, true },
	[MSG_MW_FREE] = { verb_destroy, true },
	[MSG_IMPORT] = { verb_import, false },
	[MSG_PD_IMPORT] = { verb_obj_import, true },
	[MSG_MR_IMPORT] = { verb_obj_import, true },
	[MSG_DM_ALLOC] = { verb_dm_alloc, true },
	[MSG_DM_IMPORT] = { verb_obj_import, true },
	[MSG_DM_FREE] = { verb_destroy, true },
	[MSG_CQ_MODERATE] = { verb_cq_moderate, true },
	[MSG_BYE] = { verb_bye, true },
	[MSG_XRCD_OPEN] = { verb_xrcd_open, true },
	[MSG_XRCD_CLOSE] = { verb_destroy, true },
	[MSG_QP_OPEN] = { verb_qp_open, true },
	[MSG_FAULT] = { verb_fault, false },
	[MSG_QP_RATE] = { verb_qp_rate, true },
	[MSG_CAPTURE] = { verb_capture, false },
	[MSG_RAW_RULES] = { verb_raw_rules, true },
};

int verb_call(struct ev_loop *loop, struct call *call)
{
	uint32_t op = call->req->op;
	bool had_ctx = call->s->ctx;
	int err;

	if (op >= MSG_OPS || !verbs[op].fn || (op != MSG_HELLO && !call->s->hello) || (verbs[op].ctx && !had_ctx))
		return EINVAL;
	err = verbs[op].fn(call);
	if (err)
		why_verb(call, err);
	if (!had_ctx && call->s->ctx)
		session_watch_pid(loop, call->s);
	return err;
}
