/* SPDX-License-Identifier: MIT */
/*
 * cma.c - event channels and the table of their requests.
 */
#include "cma.h"
#include "neigh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cma_agent.h"
#include "cma_refuse.h"
#include "../base/rights.h"
#include "../shard/ctx.h"

#define EVENTS_TURN 32u

#define REJ_VENDOR 35u /* vendor option not supported: what rdma_reject_ece() says */

struct cma_count cma_count;

static struct ev_loop *cma_loop;
static ev_async agents_spoke;

/* ---- the agents ----------------------------------------------------------------- */

/* A few at a time: strangers make events, and those who make requests want their turn. */
static void on_agents(struct ev_loop *loop, ev_async *w, int)
{
	struct cm_event ev;
	struct device *dev;

	for (unsigned i = 0; i < EVENTS_TURN; i++) {
		if (!agent_event(&dev, &ev))
			return;
		cma_event_from_agent(dev, &ev);
	}
	ev_async_send(loop, w);
}

static void wake(void) { ev_async_send(cma_loop, &agents_spoke); }

int cma_start(struct ev_loop *loop)
{
	int err;

	cma_loop = loop;
	neigh_begin();
	cma_ask_start(loop);
	ev_async_init(&agents_spoke, on_agents);
	ev_async_start(loop, &agents_spoke);
	err = agents_start(wake);
	if (err) {
		neigh_end();
		ev_async_stop(loop, &agents_spoke);
	}
	return err;
}

void cma_stop(struct ev_loop *loop)
{
	agents_stop();
	cma_ask_end();
	neigh_end();
	ev_async_stop(loop, &agents_spoke);
}

/* ---- channels ---------------------------------------------------------------------- */

struct cma_call {
	struct cma_channel **at; /* the session's */
	struct cma_channel *ch;
	const struct cma_who *who;
	struct cma_id *id;
	const struct cmm_req *req;
	struct cmm_rep *rep;
	int *fd;
};

/*
 * A pipe, as a kernel's descriptor is no socket either.  It is locked as long as its reader's memory makes that wait: whom we do not
 * wait for has a socket.
 */
static int ends_make(uid_t uid, int *near, int *theirs)
{
	int ends[2];

	if (!rights_trusted(uid))
		return client_pair(near, theirs);
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	*near = ends[1];
	*theirs = ends[0];
	return 0;
}

static int call_open(struct cma_call *c)
{
	/* An end, a pidfd. */
	struct cost cost = { { [QUOTA_FDS] = 2, [QUOTA_HEAP] = sizeof(struct cma_channel) } };
	struct cma_channel *ch;
	int err;

	if (c->ch)
		return EBUSY;
	if (!rights_trusted(c->who->uid))
		cost.n[QUOTA_HEAP] += CLIENT_UNREAD;
	ch = calloc(1, sizeof(*ch));
	err = ch ? bill_open(&ch->bill, c->who->uid, &cost) : ENOMEM;
	if (!err)
		err = getentropy(&ch->key, sizeof(ch->key)) ? EIO : 0;
	if (!err)
		err = ends_make(c->who->uid, &ch->near, c->fd);
	if (err) {
		if (ch)
			bill_close(&ch->bill);
		free(ch);
		return err;
	}
	ch->who = *c->who;
	link_init(&ch->records);
	link_init(&ch->ids);
	*c->at = ch;
	c->rep->open.key = ch->key;
	cma_count.channels++;
	return 0;
}

void cma_channel_end(struct cma_channel *ch)
{
	while (!link_empty(&ch->ids))
		cma_id_destroy(LINK_OF(ch->ids.next, struct cma_id, in_channel));
	cma_channel_say(ch); /* a pipe whose writer is gone hangs up, but is not readable */
	close(ch->near);
	cma_count.channels--;
	bill_close(&ch->bill);
	free(ch);
}

/* ---- requests ------------------------------------------------------------------------ */

static int call_create(struct cma_call *c)
{
	uint32_t ps = c->req->create.ps, type = c->req->create.qp_type;
	struct cma_id *id;

	switch (ps) {
	case CM_PS_TCP: type = QPT_RC; break;
	case CM_PS_UDP:
	case CM_PS_IPOIB: type = QPT_UD; break;
	case CM_PS_IB: break;
	default: return EINVAL;
	}
	if (type != QPT_RC && type != QPT_UC && type != QPT_UD && type != QPT_XRC_SEND && type != QPT_XRC_RECV)
		return EINVAL;
	id = cma_id_new(c->ch, (uint16_t)ps, (uint8_t)type);
	if (!id)
		return ENOMEM;
	id->cookie = c->req->create.cookie;
	c->rep->create.id = id->number;
	return 0;
}

static int call_destroy(struct cma_call *c)
{
	c->rep->gone.events = c->id->told;
	cma_id_destroy(c->id);
	return 0;
}

static int info(struct cma_call *c, int err)
{
	if (!err)
		cma_id_info(c->id, &c->rep->info);
	return err;
}

static int call_bind(struct cma_call *c) { return info(c, cma_bind(c->id, &c->req->bind.addr)); }
static int call_query(struct cma_call *c) { return info(c, 0); }
static int call_listen(struct cma_call *c) { return info(c, cma_listen(c->id, c->req->listen.backlog)); }
static int call_route(struct cma_call *c) { return cma_resolve_route(c->id); }
static int call_notify(struct cma_call *c) { return cma_notify(c->id, c->req->notify.event); }
static int call_get_event(struct cma_call *c) { return cma_event_get(c->ch, &c->rep->event); }

static int call_resolve(struct cma_call *c)
{
	return cma_resolve_addr(c->id, &c->req->resolve.src, &c->req->resolve.dst, c->req->resolve.timeout_ms);
}

/*
 * The QP is ready before the peer may send.  Events may come as soon as the REP is out: they need the cookie.  What cannot be
 * accepted so is refused, as by kernels.
 */
static int call_accept(struct cma_call *c)
{
	uint64_t before = c->id->cookie;
	int err = cma_qp_connect(c->id, &c->req->conn.qp, &c->req->conn.conn);

	if (err)
		return err;
	if (c->id->passive)
		c->id->cookie = c->req->conn.cookie;
	err = cma_accept(c->id, &c->req->conn.conn);
	if (!err)
		return 0;
	c->id->cookie = before;
	cma_qp_end(c->id, &c->req->conn.qp);
	if (c->id->passive)
		cma_reject(c->id, REJ_CONSUMER, (const uint8_t[1]){ 0 }, 0);
	return err;
}

static int call_connect(struct cma_call *c)
{
	int err = cma_connect(c->id, &c->req->conn.conn);

	if (!err)
		c->id->qp = c->req->conn.qp;
	return err;
}

static int call_establish(struct cma_call *c) { return cma_establish(c->id, &c->req->own); }

static int call_disconnect(struct cma_call *c)
{
	c->rep->end.qp_err = cma_qp_end(c->id, &c->req->own);
	return cma_disconnect(c->id);
}

static int call_reject(struct cma_call *c)
{
	uint8_t reason = c->req->reject.reason;

	if (reason && reason != REJ_CONSUMER && reason != REJ_VENDOR)
		return EINVAL;
	return cma_reject(c->id, reason ? reason : REJ_CONSUMER, c->req->reject.data, c->req->reject.data_len);
}

static int call_qp(struct cma_call *c)
{
	if (c->req->qp.state > QPS_ERR)
		return EINVAL;
	return cma_qp_attrs(c->id, &(uint8_t){ (uint8_t)c->req->qp.state }, 1, &c->rep->qp);
}

/* rdma_set_option(); level 0, RDMA_OPTION_ID.  A path (level 1) is the host's here, not the program's. */
static int call_option(struct cma_call *c)
{
	enum { TOS, REUSEADDR, AFONLY, ACK_TIMEOUT };
	const uint8_t *v = c->req->option.value;
	uint32_t name = c->req->option.name, len = c->req->option.len;
	struct cma_id *id = c->id;
	int on;

	if (c->req->option.level != 0)
		return ENOSYS;
	memcpy(&on, v, sizeof(on));
	if (name > ACK_TIMEOUT)
		return ENOSYS;
	if (len != (name == TOS || name == ACK_TIMEOUT ? 1 : sizeof(int)))
		return EINVAL;
	switch (name) {
	case TOS: id->tos = v[0]; return 0;
	case REUSEADDR:
		if (id->state != CMA_IDLE && (!on || id->state == CMA_LISTEN))
			return EINVAL;
		id->reuse = on;
		return 0;
	case AFONLY:
		if (id->state != CMA_IDLE && id->state != CMA_BOUND)
			return EINVAL;
		id->afonly = on;
		id->afonly_set = true;
		return 0;
	default:
		if (id->qp_type == QPT_UD || id->qp_type == QPT_UC || v[0] > 31)
			return EINVAL;
		id->timeout = v[0];
		id->timeout_set = true;
		return 0;
	}
}

static int call_join(struct cma_call *c)
{
	return cma_join(c->id, &c->req->join.addr, c->req->join.flags, c->req->join.cookie, &c->rep->join.group);
}

static int call_leave(struct cma_call *c) { return cma_leave(c->id, c->req->leave.group, &c->rep->gone.events); }

/* From another channel of the same process, which knows its key: pids of other namespaces are all 0, and numbers can be guessed. */
static int call_migrate(struct cma_call *c)
{
	struct cma_id *id = cma_id_get(c->req->id);

	if (!id || id->request || id->ch->who.uid != c->who->uid || id->ch->key != c->req->migrate.key)
		return ENOENT;
	c->rep->gone.events = id->told;
	cma_id_move(id, c->ch);
	return 0;
}

static int call_put_event(struct cma_call *c)
{
	uint32_t type = c->req->put.type;
	struct cma_record *r;

	if (type < CMA_EV_ADDRINFO_RESOLVED || type > CMA_EV_USER)
		return EINVAL;
	if (c->ch->record_n >= CMA_OWN_EVENTS)
		return ENOBUFS;
	r = cma_event_put(c->id, type, c->req->put.status);
	if (!r)
		return c->id->cookie ? ENOMEM : EINVAL;
	r->ev.arg = c->req->put.arg;
	return 0;
}

/* ---- the table ------------------------------------------------------------------------- */

enum needs { NEEDS_NONE, NEEDS_CHANNEL, NEEDS_ID };

static const struct {
	int (*fn)(struct cma_call *);
	enum needs needs;
} calls[CMM_OPS] = {
#define CMM(name, row, needs, handler, call) [CMM_##name] = { call_##handler, NEEDS_##needs },
#include <rdmad/cmmsg.def>
#undef CMM
};

static int answer(struct cma_channel **ch, const struct cma_who *who, const struct cmm_req *req, struct cmm_rep *rep,
		  int *fd)
{
	struct cma_call c = { .at = ch, .ch = *ch, .who = who, .req = req, .rep = rep, .fd = fd };
	uint32_t op = req->op;
	int err;

	quota_refused(NULL, 0); /* of what nobody called for */
	cma_reason_new();
	if (!calls[op].fn || (calls[op].needs != NEEDS_NONE && !c.ch))
		return EINVAL;
	if (calls[op].needs == NEEDS_ID) {
		c.id = cma_id_get(req->id);
		if (!c.id || c.id->request || c.id->ch != c.ch)
			return ENOENT;
	}
	err = quota_errno(calls[op].fn(&c));
	if (err)
		cma_hooks.refused(who->session, op, err, cma_reason());
	return err;
}

int cma_call(struct cma_channel **ch, const struct cma_who *who, const struct cmm_req *req, struct cmm_rep *rep,
	     int *fd)
{
	int err = answer(ch, who, req, rep, fd);

	if (*ch) {
		rep->over = (*ch)->over;
		(*ch)->over = 0;
	}
	return err;
}
