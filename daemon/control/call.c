/* SPDX-License-Identifier: MIT */
/* call.c - the way of a call into its shard's thread and back. */
#include "call.h"

struct run {
	struct job *job;
	int (*fn)(struct job *);
	int err;
};

static void run(struct shard *, void *arg)
{
	struct run *r = arg;

	r->err = r->fn(r->job);
}

int job_run(struct job *j, int (*fn)(struct job *))
{
	struct run r = { j, fn, 0 };

	shard_call(j->call->s->ctx->shard, run, &r);
	return r.err;
}
