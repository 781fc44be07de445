/* SPDX-License-Identifier: MIT */
/*
 * event.c - completion events and async events.
 *
 * Both come through descriptors that the program may poll: a socket with cookies, a socket with struct
 * msg_event.  An event for an object that was destroyed is passed over.  Events that were handed out are
 * counted in the object; destroying it waits until all of them have been acknowledged.
 */
#include "cq.h"
#include "flow.h"
#include "qp.h"
#include "srq.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Under map_lock, so that no event is handed out for an object after map_del(). */
static struct map_node *map_find(struct rd_ctx *c, uint64_t cookie)
{
	return (struct map_node *)hash_find(&c->map, cookie); /* its first member */
}

#define OBJ(n, type) ((type *)((char *)(n)-offsetof(type, node)))

/* ---- events of CQs that are gone ---------------------------------------------------- */

/* 0: it is gone. */
static uint32_t cq_handle(struct rd_ctx *c, uint64_t cookie)
{
	struct map_node *n;
	uint32_t handle = 0;

	pthread_mutex_lock(&c->map_lock);
	n = map_find(c, cookie);
	if (n && n->kind == MAP_CQ)
		handle = OBJ(n, struct rd_cq)->cq.handle;
	pthread_mutex_unlock(&c->map_lock);
	return handle;
}

/* No cancellation point. */
static bool cookie_look(const struct ibv_comp_channel *ch, uint64_t *cookie, int flags)
{
	return syscall(SYS_recvfrom, ch->fd, cookie, sizeof(*cookie), MSG_DONTWAIT | flags, NULL, NULL) ==
	       sizeof(*cookie);
}

/* An event of that CQ comes, unless it is gone. */
static void event_send(struct rd_ctx *c, uint64_t cookie)
{
	struct msg_req req = { .op = MSG_CQ_EVENT, .cq_event = { .handle = cq_handle(c, cookie), .cookie = cookie } };
	struct msg_rep rep;

	if (req.cq_event.handle)
		ctx_call(c, &req, &rep);
}

void cq_event_due(struct rd_ctx *c, uint64_t cookie, enum due due)
{
	if (due == DUE_SEND)
		event_send(c, cookie);
	else if (due == DUE_LOOK)
		ctx_ring(c, 0);
}

/*
 * As with a kernel: a program that polls the descriptor must find something there.  So the first event that waits is of a CQ that is
 * there; those behind it are looked at when it has been read.  A thread that reads at the same time may have taken the one that was
 * looked at: then what is read is the next one, which is sent once more.
 */
static void channel_tidy(struct ibv_comp_channel *ch)
{
	struct rd_ctx *c = to_ctx(ch->context);
	bool *stale = &to_channel(ch)->stale;
	uint64_t cookie;

	__atomic_store_n(stale, false, __ATOMIC_SEQ_CST);
	while (cookie_look(ch, &cookie, MSG_PEEK)) {
		if (cq_handle(c, cookie)) {
			__atomic_store_n(stale, true, __ATOMIC_SEQ_CST);
			return;
		}
		if (cookie_look(ch, &cookie, 0)) /* it was read for another purpose */
			event_send(c, cookie);
	}
}

/* Behind an unplug nothing can be sent, and nobody waits. */
void channel_forget(struct ibv_comp_channel *ch)
{
	struct rd_ctx *c = ch ? to_ctx(ch->context) : NULL;

	if (c && !ctx_inherited(c) && !RING_LOAD(&c->bell->dead))
		channel_tidy(ch);
}

/* ---- completion events -------------------------------------------------------------- */

/*
 * Before the program sleeps: the CQ whose event was the last may have been armed and polled since, but not to its end.  Adapters
 * had an event of that when it was armed.
 */
static void channel_left(struct rd_ctx *c, struct rd_channel *ch)
{
	enum due due = DUE_NONE;
	struct map_node *n;
	uint64_t cookie;

	if (ctx_inherited(c))
		return;
	pthread_mutex_lock(&c->map_lock);
	cookie = ch->last_of;
	ch->last_of = 0;
	n = cookie ? map_find(c, cookie) : NULL;
	if (n)
		due = cq_left(OBJ(n, struct rd_cq));
	pthread_mutex_unlock(&c->map_lock);
	cq_event_due(c, cookie, due);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct rd_ctx *c = to_ctx(channel->context);
	struct map_node *n;
	uint64_t cookie;
	ssize_t len;

	channel_left(c, to_channel(channel));
	do {
		len = read(channel->fd, &cookie, sizeof(cookie));
		if (len != sizeof(cookie)) {
			if (len >= 0)
				errno = EIO; /* the daemon is gone, or the device */
			return -1;
		}
		pthread_mutex_lock(&c->map_lock);
		n = map_find(c, cookie);
		if (n && n->kind == MAP_CQ) {
			n->comp_got++;
			__atomic_store_n(&OBJ(n, struct rd_cq)->heard, true, __ATOMIC_RELAXED);
			to_channel(channel)->last_of = cookie;
			*cq = &OBJ(n, struct rd_cq)->cq;
			*cq_context = (*cq)->cq_context;
		}
		pthread_mutex_unlock(&c->map_lock);
	} while (!n || n->kind != MAP_CQ);
	if (__atomic_load_n(&to_channel(channel)->stale, __ATOMIC_SEQ_CST))
		channel_forget(channel);
	return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* ---- async ---------------------------------------------------------------------- */

static bool is_port_event(uint32_t type)
{
	return type == EV_PORT_ACTIVE || type == EV_PORT_ERR || type == EV_GID_CHANGE || type == EV_DEVICE_FATAL;
}

static enum map_kind kind_of(uint32_t type)
{
	return type == EV_CQ_ERR ? MAP_CQ : type == EV_SRQ_ERR || type == EV_SRQ_LIMIT ? MAP_SRQ : MAP_QP;
}

static void qp_event(struct ibv_async_event *e, struct rd_qp *qp)
{
	if (!qp->wq) {
		e->element.qp = &qp->qp;
		return;
	}
	e->event_type = IBV_EVENT_WQ_FATAL;
	e->element.wq = qp->wq;
}

/* false: the object is gone. */
static bool event_fill(struct rd_ctx *c, const struct msg_event *m, struct ibv_async_event *e)
{
	struct map_node *n;

	e->event_type = m->type;
	if (is_port_event(m->type)) {
		e->element.port_num = (int)m->port;
		return true;
	}
	pthread_mutex_lock(&c->map_lock);
	n = map_find(c, m->cookie);
	if (n && n->kind != kind_of(m->type))
		n = NULL;
	if (n) {
		n->async_got++;
		if (n->kind == MAP_CQ)
			e->element.cq = &OBJ(n, struct rd_cq)->cq;
		else if (n->kind == MAP_SRQ)
			e->element.srq = &OBJ(n, struct rd_srq)->srq;
		else
			qp_event(e, OBJ(n, struct rd_qp));
	}
	pthread_mutex_unlock(&c->map_lock);
	return n;
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct rd_ctx *c = to_ctx(context);
	struct msg_event m;
	ssize_t len;

	do {
		len = read(context->async_fd, &m, sizeof(m));
		if (len < 0 && (errno == EAGAIN || errno == EINTR))
			return -1;
		if (len != sizeof(m)) /* the daemon is gone, or the device */
			m = (struct msg_event){ .type = EV_DEVICE_FATAL, .port = 1 };
		if (m.type == EV_DEVICE_FATAL && __atomic_exchange_n(&c->fatal_told, true, __ATOMIC_RELAXED) &&
		    len != sizeof(m)) /* said once */
			return errno = EIO, -1;
	} while (!event_fill(c, &m, event));
	return 0;
}

static void ack(pthread_mutex_t *lock, pthread_cond_t *cond, uint32_t *count)
{
	pthread_mutex_lock(lock);
	++*count;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(lock);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *e)
{
	struct ibv_cq *cq = e->element.cq;
	struct ibv_qp *qp = e->element.qp;
	struct ibv_srq *srq = e->element.srq;

	if (is_port_event(e->event_type))
		return;
	if (e->event_type == IBV_EVENT_WQ_FATAL) {
		struct ibv_wq *wq = e->element.wq;

		ack(&wq->mutex, &wq->cond, &wq->events_completed);
		qp = &wq_qp(wq)->qp;
	}
	switch (kind_of(e->event_type)) {
	case MAP_CQ: ack(&cq->mutex, &cq->cond, &cq->async_events_completed); break;
	case MAP_SRQ: ack(&srq->mutex, &srq->cond, &srq->events_completed); break;
	case MAP_QP: ack(&qp->mutex, &qp->cond, &qp->events_completed); break;
	}
}
