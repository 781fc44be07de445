/* SPDX-License-Identifier: MIT */
/* call.c - the way of a call into its shard's thread and back. */
#include "call.h"

#include <errno.h>
#include <stdlib.h>

#include "../base/clock.h"
#include "../shard/drain.h"
#include "../shard/guest.h"
#include "../shard/idle.h"
#include "../shard/inbox.h"

struct run {
	struct job *job;
	int (*fn)(struct job *);
	int err;
	bool turn_first; /* if something is posted that no turn has taken; then it is not done */
};

static void run(struct shard *s, void *arg)
{
	struct run *r = arg;

	idle_stir(r->job->call->s->ctx, clock_now());
	r->turn_first &= ctx_any_rung(s);
	if (!r->turn_first)
		r->err = r->fn(r->job);
}

void *obj_new(struct call *call, size_t len, const struct cost *cost, int *err)
{
	struct cost all = cost ? *cost : (struct cost){ 0 };
	struct obj *o = calloc(1, len);

	all.n[QUOTA_HEAP] += len + HCA_OBJ_LEN;
	*err = o ? bill_open(&o->bill, call->s->uid, &all) : ENOMEM;
	if (*err) {
		free(o);
		return NULL;
	}
	return o;
}

/*
 * May a guest do it (guest.h)?  A packet socket is one of the files that the shard waits for.  What the program has posted is to be
 * carried out before, and by the shard, which sees what others have posted.  (Receives that lie there since the shard sleeps are
 * nobody's before a message comes; a verb that changes the state of their QP takes them itself: drain_qp().)
 */
static bool is_light(const struct ctx *c, const struct msg_req *req)
{
	return !c->shard->raw_n && !(req->op == MSG_QP_CREATE && req->qp.type == QPT_RAW) && !ctx_rung(c);
}

/* A queue pair that its program brings to ERR: an adapter has sent by then, once, what was posted before. */
static bool is_end(const struct msg_req *req)
{
	return req->op == MSG_QP_MODIFY && req->qp_mod.mask & QPA_STATE && req->qp_mod.attr.state == QPS_ERR;
}

int job_run(struct job *j, int (*fn)(struct job *))
{
	struct ctx *c = j->call->s->ctx;
	struct run r = { j, fn, 0, is_end(j->call->req) };

	if (is_light(c, j->call->req))
		guest_call(c->shard, run, &r);
	else
		shard_call(c->shard, run, &r);
	if (r.turn_first) { /* the one that began with it */
		r.turn_first = false;
		shard_call(c->shard, run, &r);
	}
	return r.err;
}
