/* SPDX-License-Identifier: MIT */
/* why_verb.c - refused verbs, refused calls and events of the CM, and programs that end without a word. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cma/cma.h"
#include "why.h"
#include "../shard/inbox.h"
#include "../base/clock.h"

#define STUCK_MAX 8u
#define CM_WAY_NS 60000000000u /* what a request is repeated for, mostly */

bool why_may_say(const struct session *s)
{
	return s->said_n < WHY_RATE || mono_since(clock_now(), s->said_since) > 1000000000u;
}

/* No program fills the log, and its user's slots of the store, with what it is refused. */
static bool may_say(struct session *s)
{
	mono_t now = clock_now();

	if (mono_since(now, s->said_since) > 1000000000u) {
		s->said_since = now;
		s->said_n = 0;
	}
	return s->said_n++ < WHY_RATE;
}

/* ---- verbs ------------------------------------------------------------------------ */

int refuse(struct call *call, unsigned cause, int err, const char *fmt, ...)
{
	va_list ap;

	call->cause = (uint8_t)cause;
	va_start(ap, fmt);
	vsnprintf(call->why, sizeof(call->why), fmt, ap);
	va_end(ap);
	return err;
}

/* The verb that a message stands for; empty: it is none, or only asks. */
static const char *const verb_of[MSG_OPS] = {
#define MSG(name, row, needs, handler, verb) [MSG_##name] = verb,
#define MSG_FREE(name, object, verb)         [MSG_##name] = verb,
#include <rdmad/msg.def>
#undef MSG
#undef MSG_FREE
};

static bool destroys(uint32_t op)
{
	switch (op) {
#define MSG(name, row, needs, handler, verb)
#define MSG_FREE(name, object, verb) case MSG_##name:
#include <rdmad/msg.def>
#undef MSG
#undef MSG_FREE
		return true;
	}
	return false;
}

static unsigned general(const struct call *call, int err)
{
	uint32_t op = call->req->op;

	switch (err) {
	case EBUSY: return WHY_VERB_BUSY;
	case ENFILE: return WHY_NO_FD;
	case ENOMEM: return WHY_VERB_LIMIT;
	case EOPNOTSUPP:
	case ENOSYS: return WHY_VERB_UNKNOWN;
	case EFAULT:
	case EPERM: return op == MSG_MR_REG || op == MSG_MR_REREG ? WHY_MEM_REACH : WHY_VERB_REFUSED;
	}
	return destroys(op) ? WHY_VERB_HANDLE : WHY_VERB_REFUSED;
}

/* Both rows begin with the QP's number. */
static bool modifies(uint32_t op) { return op == MSG_QP_MODIFY || op == MSG_QP_STEPS; }

void why_verb(struct call *call, int err)
{
	const struct msg_req *req = call->req;
	const char *verb = verb_of[req->op];
	const struct ctx *c = call->s->ctx;
	unsigned cause = call->cause ? call->cause : general(call, err);
	char about[96] = "";

	if (quota_refused(call->why, sizeof(call->why)))
		cause = WHY_QUOTA;
	/* The HCA itself explains what it refuses (why_modify()). */
	if (!*verb || (modifies(req->op) && !call->cause) || !may_say(call->s))
		return;
	if (req->op == MSG_MR_REG || req->op == MSG_MR_REREG)
		snprintf(about, sizeof(about), " of %llu bytes at 0x%llx", (unsigned long long)req->mr.len,
			 (unsigned long long)req->mr.addr);
	else if (destroys(req->op))
		snprintf(about, sizeof(about), " of 0x%x", (unsigned)req->id.handle);
	why_say(call->s, cause, c ? c->dev : NULL,
		modifies(req->op)           ? req->qp_mod.qpn
		: req->op == MSG_QP_DESTROY ? req->id.handle
					    : 0,
		"%s%s refused: %s%s%s", verb, about, strerror(err), *call->why ? ": " : "", call->why);
}

/* Text of a program's own, shown to its user only: made printable. */
static void printable(char *to, const char *from, size_t len)
{
	memcpy(to, from, len);
	to[len - 1] = 0;
	for (; *to; to++)
		*to = isprint((unsigned char)*to) ? *to : '?';
}

/* A refusal by the library.  Of no queue pair, and in the same words, it is one cause: programs try what they may ask for. */
int verb_refused(struct call *call)
{
	const struct msg_req *req = call->req;
	char verb[sizeof(req->refused.verb)], text[sizeof(req->refused.text)], all[sizeof(verb) + sizeof(text) + 96];
	const struct device *dev = call->s->ctx->dev;
	uint32_t err = req->refused.err, qpn = req->refused.qpn;
	unsigned cause = req->refused.profile                 ? WHY_PROFILE
			 : err == EOPNOTSUPP || err == ENOSYS ? WHY_VERB_UNKNOWN
							      : WHY_VERB_REFUSED;

	if (!may_say(call->s))
		return 0;
	printable(verb, req->refused.verb, sizeof(verb));
	printable(text, req->refused.text, sizeof(text));
	snprintf(all, sizeof(all), "%s refused: %s: %s", verb, strerror((int)(err & 0xfff)), text);
	if (qpn)
		why_say(call->s, cause, dev, qpn, "%s", all);
	else
		why_say_like(call->s, cause, dev, 0, all, "%s", all);
	return 0;
}

/* One of its threads waits; more than some are not told of. */
static int stuck_add(struct session *s, const struct msg_req *req)
{
	struct stuck *w;
	unsigned n = 0;

	for (w = s->stuck; w; w = w->next)
		n++;
	if (n == STUCK_MAX)
		return 0;
	w = malloc(sizeof(*w));
	if (!w)
		return ENOMEM;
	printable(w->verb, req->refused.verb, sizeof(w->verb));
	printable(w->text, req->refused.text, sizeof(w->text));
	w->since.ns = ns_since(clock_now().ns, WHY_WAIT_NS); /* it waits for so long before it says so */
	w->next = s->stuck;
	s->stuck = w;
	return 0;
}

/* One waits no longer: one that waited in this verb, of this object. */
static void stuck_del(struct session *s, const struct msg_req *req)
{
	char verb[sizeof(req->refused.verb)];
	struct stuck **at = &s->stuck, *w;

	printable(verb, req->refused.verb, sizeof(verb));
	while (*at && strcmp((*at)->verb, verb))
		at = &(*at)->next;
	w = *at;
	if (!w)
		return;
	*at = w->next;
	free(w);
}

int verb_waits(struct call *call)
{
	if (call->req->refused.err)
		return stuck_add(call->s, call->req);
	stuck_del(call->s, call->req);
	return 0;
}

void stuck_end(struct session *s)
{
	for (struct stuck *w; (w = s->stuck);) {
		s->stuck = w->next;
		free(w);
	}
}

/* ---- the connection manager ----------------------------------------------------------- */

/* clang-format off */
static const char *reject_name(int reason)
{
	static const struct { int reason; const char *name; } names[] = {
		{ REJ_NO_QP, "no queue pair" }, { REJ_NO_RESOURCES, "no resources" }, { REJ_TIMEOUT, "timeout" },
		{ REJ_UNSUPPORTED, "unsupported request" }, { REJ_COMM_ID, "invalid communication id" },
		{ REJ_COMM_INSTANCE, "invalid communication instance" }, { REJ_SERVICE_ID, "invalid service id" },
		{ REJ_TRANSPORT, "invalid transport" }, { REJ_STALE, "stale connection" }, { REJ_GID, "invalid GID" },
		{ REJ_MTU, "path MTU not supported" }, { REJ_CONSUMER, "consumer reject" }, { REJ_DUP_ID, "duplicate communication id" },
		{ 35, "vendor option not supported" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].reason == reason)
			return names[i].name;
	return "?";
}
/* clang-format on */

void addr_words(struct words *t, const union cmm_addr *a)
{
	uint8_t gid[16];

	if (!cma_addr_ok(a)) {
		words_put(t, "nowhere");
		return;
	}
	cma_addr_gid(a, gid);
	words_put(t, cma_family(a) == AF_INET ? "" : "[");
	gid_words(t, gid);
	words_put(t, "%s:%u", cma_family(a) == AF_INET ? "" : "]", (unsigned)cma_addr_port(a));
}

static unsigned cm_cause(const struct cma_id *id, unsigned type, int status)
{
	bool ud = id->qp_type == QPT_UD;

	if (type == CMA_EV_ADDR_ERROR || type == CMA_EV_ROUTE_ERROR || type == CMA_EV_MULTICAST_ERROR)
		return WHY_CM_ADDR;
	if (type == CMA_EV_REJECTED)
		return status == REJ_CONSUMER     ? WHY_CM_REJECTED
		       : status == REJ_SERVICE_ID ? WHY_CM_NO_SERVICE
						  : WHY_CM_REJECTED_CM;
	if (status < 0)
		return WHY_CM_UNREACHABLE;
	return ud && status == 1 ? WHY_CM_NO_SERVICE : WHY_CM_REJECTED; /* of SIDR: not supported */
}

void why_cm_event(const struct cma_id *id, unsigned type, int status)
{
	unsigned cause = cm_cause(id, type, status);
	struct why_entry *e;
	char buf[WHY_TEXT], like[WHY_TEXT];
	struct words t = words_begin(buf, sizeof(buf)), l = words_begin(like, sizeof(like));

	if (type != CMA_EV_ADDR_ERROR && type != CMA_EV_ROUTE_ERROR && type != CMA_EV_CONNECT_ERROR &&
	    type != CMA_EV_UNREACHABLE && type != CMA_EV_REJECTED && type != CMA_EV_MULTICAST_ERROR)
		return;
	words_put(&t, type == CMA_EV_ADDR_ERROR ? "resolving " : id->passive ? "connection from " : "connection to ");
	addr_words(&t, &id->dst);
	words_put(&l, "%s %u %d %u", buf, type, status, (unsigned)id->qp_type); /* each try has a port of its own */
	if (cause != WHY_CM_ADDR) {
		words_put(&t, " (from ");
		addr_words(&t, &id->src);
		words_put(&t, ")");
	}
	words_put(&t, type == CMA_EV_REJECTED ? " rejected" : type == CMA_EV_UNREACHABLE ? " unreachable" : " failed");
	if (type == CMA_EV_REJECTED)
		words_put(&t, ": %s (%d)", reject_name(status), status);
	else if (status < 0)
		words_put(&t, ": %s", strerror(-status));
	else if (status)
		words_put(&t, ": SIDR status %d", status);
	if (id->sent && (type == CMA_EV_REJECTED || type == CMA_EV_UNREACHABLE))
		words_put(&t, "; our %s was sent %u time%s", id->passive ? "answer" : "request", (unsigned)id->sent,
			  id->sent == 1 ? "" : "s");
	e = why_say_like(id->ch->who.session, cause, id->dev, id->qpn, like, "%s", buf);
	if (cause == WHY_CM_UNREACHABLE) {
		why_cm_way(e, id, (mono_t){ ns_since(clock_now().ns, CM_WAY_NS) });
		why_peers_look(e, 1, e->owner.uid);
	}
}

void why_cm_call(struct session *s, unsigned op, int err, const char *reason)
{
	static const char *const names[CMM_OPS] = {
#define CMM(name, row, needs, handler, call) [CMM_##name] = call,
#include <rdmad/cmmsg.def>
#undef CMM
	};

	char text[128] = "";
	bool quota = quota_refused(text, sizeof(text));

	if (quota)
		reason = text;
	if (*names[op] && may_say(s))
		why_say(s,
			quota           ? WHY_QUOTA
			: err == ENFILE ? WHY_NO_FD
					: WHY_CM_CALL,
			NULL, 0, "%s refused: %s%s%s", names[op], strerror(err), *reason ? ": " : "", reason);
}

/* ---- the end ------------------------------------------------------------------------------ */

struct left {
	const struct ctx *c;
	struct words t;
	unsigned n;
};

static void left_job(struct shard *, void *arg)
{
	struct left *l = arg;
	struct qp_info i;

	for (const struct obj *o = l->c->objs[OBJ_QP]; o; o = o->next) {
		if (!hca_qp_info(l->c->hca, o->number, &i) || i.type == QPT_UD || i.type == QPT_RAW ||
		    i.state < QPS_RTR || i.state == QPS_ERR)
			continue;
		if (l->n++ >= 8)
			continue;
		words_put(&l->t, "%s0x%x to ", l->n > 1 ? ", " : "", (unsigned)i.qpn);
		gid_words(&l->t, i.attr.av.dgid);
		words_put(&l->t, " QP 0x%x", (unsigned)i.attr.dest_qpn);
	}
}

void why_ctx_end(const struct session *s)
{
	char buf[WHY_TEXT - 96];
	struct left l = { .c = s->ctx, .t = words_begin(buf, sizeof(buf)) };

	if (s->ctx->bye)
		return;
	shard_call(s->ctx->shard, left_job, &l);
	if (l.n)
		why_say(s, WHY_KILLED, s->ctx->dev, 0, "ended without a word, with connected QPs: %s%s", buf,
			l.n > 8 ? ", and more" : "");
}
