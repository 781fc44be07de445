/* SPDX-License-Identifier: MIT */
/*
 * verb.c - the handlers of msg.def as a table; the session's own ones, PDs, channels, and destruction.
 *
 * A handler runs in the control thread.  It makes memory and descriptors, then goes to the context's shard for
 * the rest, and undoes the first if the second fails.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "config.h"
#include "ctl.h"
#include "ends.h"
#include "sessions.h"
#include "../base/log.h"
#include "../base/profile.h"
#include "busy.h"
#include "call.h"
#include "limits.h"
#include "why.h"
#include "../shard/ctx_obj.h"
#include "../shard/inbox.h"
#include "../shard/publish.h"
#include "../shard/ctx.h"

/* ---- hello, hold, open ------------------------------------------------------------ */

int verb_hello(struct call *call)
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
	for (unsigned i = 0; i < MSG_RUNS; i++)
		s->runs.id[i] = call->req->hello.runs.id[i] & INT64_MAX; /* JSON has no more */
	/* gVisor tells everybody's pid as that of the one who asks.  A client of our own user could do what its number lets us do. */
	if (s->pid == getpid())
		s->pid = s->uid == geteuid() ? (pid_t)call->req->hello.pid : 0;
	s->hello = true;
	return s->refused ? refuse(call, WHY_QUOTA, s->refused, "user %u has all the connections that he may",
				   (unsigned)s->uid)
			  : 0;
}

int verb_hold(struct call *call)
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
	m->node = profile_node(d->profile);
	m->transport = profile_transport(d->profile);
	memcpy(m->board, d->profile->board, sizeof(m->board));
	memcpy(m->hca_type, d->profile->hca_type, sizeof(m->hca_type));
}

int verb_device_list(struct call *call)
{
	for (unsigned i = 0; i < devices_n; i++)
		if (!devices[i].gone && call->rep->devices.n++ == call->req->id.handle)
			device_reply(call->rep->devices.dev, &devices[i]);
	return 0;
}

static int fd_dup(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 3); }

/* The descriptors of a new context, with the reply. */
static int ctx_reply(struct call *call, int event_fd, int token_fd)
{
	struct ctx *c = call->s->ctx;
	int kick = c->bell_slot ? c->kick_fd : fd_dup(c->kick_fd); /* here only who waits for it keeps one */

	if (kick < 0) {
		int err = errno;

		close(event_fd);
		close(token_fd);
		ctx_close(c);
		call->s->ctx = NULL;
		return err;
	}
	if (c->bell_slot)
		c->kick_fd = -1;
	call->rep->open.bell_len = (uint32_t)c->bell_shm.len;
	call->rep->open.ctx = c->id;
	call->rep->open.key = c->key;
	call->fds[0] = c->bell_shm.fd;
	call->fds[1] = kick;
	call->fds[2] = event_fd;
	call->fds[3] = token_fd;
	call->fd_n = 4;
	c->bell_shm.fd = -1;
	device_reply(&call->rep->open.dev, c->dev);
	log_info("context %u on %s for %s (pid %d, user %u)", c->id, c->dev->name, c->prog, (int)c->pid,
		 (unsigned)c->uid);
	return 0;
}

static int ctx_begin(struct call *call, struct device *dev, struct ctx *like)
{
	struct session *s = call->s;
	const struct ucred who = { s->pid, s->uid, s->gid };
	struct peer *peer;
	int err, event, token;

	if (s->ctx || s->cma || s->capture)
		return EBUSY;
	err = peer_make(&peer, &who, call->fd_in);
	if (err) {
		log_warn("%s (pid %d, user %u): the descriptor with which it opens a device is not its memory, or "
			 "cannot be seen to be: %s",
			 s->prog, (int)s->pid, (unsigned)s->uid, strerror(err));
		return err;
	}
	call->fd_in = -1;
	err = ctx_open(&s->ctx, dev, like, &who, peer, s->prog, &event, &token);
	if (err) {
		peer_drop(peer);
		return err;
	}
	s->ctx->runs = s->runs;
	s->ctx->session = s;
	return ctx_reply(call, event, token);
}

int verb_open(struct call *call)
{
	char name[RDMAD_NAME_LEN];
	struct device *dev;

	memcpy(name, call->req->open.name, sizeof(name));
	name[sizeof(name) - 1] = 0;
	dev = device_find(name);
	return dev && !dev->gone ? ctx_begin(call, dev, NULL) : ENODEV;
}

int verb_import(struct call *call)
{
	const struct msg_token *t = &call->req->import.token;

	for (struct session *s = sessions; s; s = s->next)
		if (s->ctx && !s->ctx->dead && !CRYPTO_memcmp(t, &s->ctx->family->token, sizeof(*t)))
			return ctx_begin(call, s->ctx->dev, s->ctx);
	return EINVAL;
}

int verb_bye(struct call *call)
{
	call->s->ctx->bye = true;
	return 0;
}

/* ---- pd, channel ----------------------------------------------------------------- */

/* An object that its shard alone has; made by fn. */
static int alloc(struct call *call, size_t len, const struct cost *cost, int (*fn)(struct job *))
{
	int err;
	struct obj *o = obj_new(call, len, cost, &err);
	struct job j = { .call = call, .obj = o };

	if (!o)
		return err;
	err = job_run(&j, fn);
	if (err)
		obj_drop(o);
	else
		call->rep->obj.handle = o->number;
	return err;
}

static int pd_alloc_job(struct job *j) { return pd_make(j->call->s->ctx, j->obj); }

int verb_pd_alloc(struct call *call)
{
	return alloc(call, sizeof(struct ctx_pd), &(struct cost){ { [QUOTA_PDS] = 1 } }, pd_alloc_job);
}

static int mw_alloc_job(struct job *j)
{
	return mw_make(j->call->s->ctx, j->obj, j->call->req, &j->call->rep->obj.rkey);
}

int verb_mw_alloc(struct call *call)
{
	return alloc(call, sizeof(struct ctx_mw), &(struct cost){ { [QUOTA_MWS] = 1 } }, mw_alloc_job);
}

static int channel_job(struct job *j) { return channel_make(j->call->s->ctx, j->obj); }

int verb_channel_create(struct call *call)
{
	int theirs, err;
	struct channel *ch = obj_new(call, sizeof(*ch),
				     &(struct cost){ { [QUOTA_FDS] = 1, [QUOTA_HEAP] = CLIENT_UNREAD } }, &err);
	struct job j = { .call = call, .obj = ch };

	if (!ch)
		return err;
	err = client_pair(&ch->out.fd, &theirs);
	if (err) {
		obj_drop(&ch->obj);
		return err;
	}
	err = job_run(&j, channel_job);
	if (err) {
		close(theirs);
		close(ch->out.fd);
		obj_drop(&ch->obj);
		return err;
	}
	call->rep->obj.handle = ch->obj.number;
	call->fds[call->fd_n++] = theirs;
	return 0;
}

/* ---- destruction -------------------------------------------------------------------------- */

static void busy_say(struct call *call, const struct obj *o)
{
	char text[sizeof(call->why)];
	struct words t = words_begin(text, sizeof(text));

	busy_words(&t, o);
	refuse(call, WHY_VERB_BUSY, EBUSY, "%s", text);
}

static int destroy_job(struct job *j)
{
	static const enum obj_kind kinds[MSG_OPS] = {
#define MSG(name, row, needs, handler, verb)
#define MSG_FREE(name, object, verb) [MSG_##name] = OBJ_##object,
#include <rdmad/msg.def>
#undef MSG
#undef MSG_FREE
	};
	const struct msg_req *req = j->call->req;
	struct ctx *c = j->call->s->ctx;
	struct obj *o = obj_get(c, kinds[req->op], req->id.handle);
	struct qp_row row;
	int err;

	if (!o)
		return ENOENT; /* as of the kernel, for what is to be destroyed */
	if (o->kind == OBJ_QP)
		qp_row_fill(&row, c->shard, o->ctx->dev->index, o->number);
	/* As of the kernel, which an adapter does not ask. */
	err = o->kind == OBJ_QP && ((struct ctx_qp *)o)->groups ? EBUSY : obj_destroy(o);
	if (err == EBUSY && why_may_say(j->call->s))
		busy_say(j->call, o);
	if (err)
		return err;
	events_forget(o);
	j->obj = o;
	if (o->kind == OBJ_QP)
		ends_qp(&row);
	return 0;
}

int verb_destroy(struct call *call)
{
	struct job j = { .call = call };
	struct obj *dead;
	int err;

	why_catch_up();
	err = job_run(&j, destroy_job);
	dead = j.obj;
	if (err)
		return err;
	if (dead->kind == OBJ_CHANNEL)
		ctl_outlet_going(dead->ctx, &((struct channel *)dead)->out);
	if (call->req->id.lost)
		obj_lost(dead);
	call->rep->gone.slab = obj_release(dead);
	return 0;
}

/* ---- the table ----------------------------------------------------------------------------- */

enum needs { NEEDS_NONE, NEEDS_CTX, NEEDS_SHARD };

static const struct {
	int (*fn)(struct call *);
	enum needs needs;
} verbs[MSG_OPS] = {
#define MSG(name, row, needs, handler, verb) [MSG_##name] = { verb_##handler, NEEDS_##needs },
#define MSG_FREE(name, object, verb)         [MSG_##name] = { verb_destroy, NEEDS_CTX },
#include <rdmad/msg.def>
#undef MSG
#undef MSG_FREE
};

static int verb_job(struct job *j) { return verbs[j->call->req->op].fn(j->call); }

/* With a device that is gone a program may only give up what it has. */
static bool is_end(const struct call *call)
{
	const uint32_t op = call->req->op;

	return verbs[op].fn == verb_destroy || verbs[op].needs == NEEDS_NONE || op == MSG_BYE ||
	       op == MSG_MCAST_DETACH || op == MSG_REFUSED || (op == MSG_RAW_STEER && call->fd_in < 0);
}

int verb_call(struct ev_loop *loop, struct call *call)
{
	uint32_t op = call->req->op;
	bool has_ctx = call->s->ctx;
	struct job j = { .call = call };
	int err = 0;

	quota_refused(NULL, 0); /* of what nobody called for */
	if (op >= MSG_OPS || !verbs[op].fn || (op != MSG_HELLO && !call->s->hello) ||
	    (verbs[op].needs != NEEDS_NONE && !has_ctx))
		return EINVAL;
	if (op == MSG_OPEN || op == MSG_IMPORT)
		err = session_watch_pid(loop, call->s); /* before anybody asks whose memory it is */
	if (!err && has_ctx && call->s->ctx->dead && !is_end(call))
		return EIO; /* why it is so was told when the device went */
	if (!err && verbs[op].needs != NEEDS_NONE)
		err = limits_check(call);
	if (!err)
		err = call->fd_err;
	if (!err)
		err = verbs[op].needs == NEEDS_SHARD ? job_run(&j, verb_job) : verbs[op].fn(call);
	if (call->cause != WHY_QUOTA) /* else that has been told already */
		err = quota_errno(err);
	if (err && err != EINPROGRESS) /* that is a question */
		why_verb(call, err);
	return err;
}

int verb_for(struct session *s, const struct msg_req *req)
{
	struct msg_rep rep = { 0 };
	struct call call = { .s = s, .req = req, .rep = &rep, .fd_in = -1 };

	return verb_call(NULL, &call);
}
