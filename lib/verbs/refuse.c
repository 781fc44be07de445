/* SPDX-License-Identifier: MIT */
/*
 * refuse.c - the daemon is told of verbs that the library refuses without asking it, for `rdmactl why`.
 *
 * This happens only when a verb fails, and only so many times a second: a program that posts to a queue pair in a wrong
 * state in a loop is slowed down, not stopped.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctx.h"
#include "qp.h"

#include <rdmad/feature.h>
#include <rdmad/own.h>

#define REFUSALS_PER_S 32u

static bool may_say(struct rd_ctx *c)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (__atomic_load_n(&c->refused_s, __ATOMIC_RELAXED) != now.tv_sec) {
		__atomic_store_n(&c->refused_s, now.tv_sec, __ATOMIC_RELAXED);
		__atomic_store_n(&c->refused_n, 0, __ATOMIC_RELAXED);
	}
	return __atomic_fetch_add(&c->refused_n, 1, __ATOMIC_RELAXED) < REFUSALS_PER_S;
}

static int tell(struct rd_ctx *c, struct msg_req *req, const char *verb)
{
	struct msg_rep rep;
	int before = errno;

	snprintf(req->refused.verb, sizeof(req->refused.verb), "%s", verb);
	conn_call(&c->conn, req, &rep, -1, NULL, 0);
	errno = before;
	return (int)req->refused.err;
}

int refuse(struct rd_ctx *c, uint32_t qpn, const char *verb, int err, const char *fmt, ...)
{
	struct msg_req req = { .op = MSG_REFUSED, .refused = { .qpn = qpn, .err = (uint32_t)err } };
	va_list ap;

	if (!conn_mine(&c->conn) || !may_say(c))
		return err;
	va_start(ap, fmt);
	vsnprintf(req.refused.text, sizeof(req.refused.text), fmt, ap);
	va_end(ap);
	return tell(c, &req, verb);
}

EXPORT int rdmad_refused(struct ibv_context *v, const char *call, int err, const char *text)
{
	return refuse(to_ctx(v), 0, call, err, "%s", text);
}

int refuse_feature(struct rd_ctx *c, uint32_t qpn, const char *verb, int err, unsigned feature)
{
	struct msg_req req = { .op = MSG_REFUSED, .refused = { .qpn = qpn, .err = (uint32_t)err, .profile = 1 } };

	if (!conn_mine(&c->conn) || !may_say(c))
		return err;
	snprintf(req.refused.text, sizeof(req.refused.text), "profile %s has no %s", c->attr.profile,
		 feature_row(feature)->text);
	return tell(c, &req, verb);
}

const char *state_str(enum ibv_qp_state s)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return (unsigned)s < ARRAY_N(names) ? names[s] : "?";
}
