/* SPDX-License-Identifier: MIT */
/*
 * event.c - what the daemon reports becomes the program's events, once the library has done its share:
 *
 *	ADDR_, ROUTE_RESOLVED	the id learns its device, addresses and path
 *	CONNECT_REQUEST		a new id is made
 *	CONNECT_RESPONSE	the id's QP to RTR and RTS, then the RTU is sent: ESTABLISHED.  No QP: as it is
 *	REJECTED		the id's QP to ERR
 *	MULTICAST_JOIN		the id's QP is attached
 *
 * When the daemon is gone each id that was bound to a device has one more event, DEVICE_REMOVAL; then there is EIO.
 *
 * The descriptor of a channel is readable while an event is queued, but the event itself comes as the reply to
 * a request.  It is a pipe's, as a kernel's is no socket either: nfs-ganesha calls shutdown(2) on it.  Only of a daemon of another
 * user's, for who is not root, it is a socket's.
 */
#include "cma.h"
#include "../verbs/attr.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <rdmad/restart.h>

/* A thread that waits for an event, and what it holds. */
struct waiter {
	struct chan *c;
	struct cma_event *e;
	struct pollfd p;
};

/*
 * Waits as a read would: not with O_NONBLOCK, and interrupted by signals whose handlers say so.  Here the thread may be cancelled: what
 * the call looks at lies with who clears up, as AddressSanitizer takes what a cancelled thread left on its stack for in use.
 */
static int readable_wait(struct waiter *w, int cancel)
{
	static const struct timespec at_once;
	const struct timespec *most = fcntl(w->c->ch.fd, F_GETFL) & O_NONBLOCK ? &at_once : NULL;
	int n, err;

	w->p = (struct pollfd){ .fd = w->c->ch.fd, .events = POLLIN };
	pthread_setcancelstate(cancel, NULL);
	do
		n = ppoll(&w->p, 1, most, NULL);
	while (n < 0 && errno == EINTR && restart_after_signal());
	err = n < 0 ? errno : n ? EIO : EAGAIN; /* EIO: the daemon is gone */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return n > 0 && w->p.revents & POLLIN ? 0 : err;
}

/* To ask in vain costs more than to look. */
static int event_due(struct waiter *w, int cancel)
{
	if (!conn_mine(&w->c->conn))
		return EIO;
	return __atomic_exchange_n(&w->c->more, false, __ATOMIC_RELAXED) ? 0 : readable_wait(w, cancel);
}

static int event_fetch(struct chan *c, struct cmm_rep *rep)
{
	struct cmm_req req = { .op = CMM_GET_EVENT };
	int err = chan_call(c, &req, rep);

	if (!err && rep->event.left)
		__atomic_store_n(&c->more, true, __ATOMIC_RELAXED);
	return err;
}

/* Lets go of the channel.  A thread that waits for an event of a channel that another thread destroys waits for ever, as with a kernel. */
static int get_end(struct chan *c, int err)
{
	bool never = err && __atomic_load_n(&c->destroyed, __ATOMIC_ACQUIRE);

	chan_drop(c);
	while (never)
		pause();
	return result(err);
}

/* ---- the program's view of a message -------------------------------------------------- */

static void param_fill(struct cma_event *e, const struct cmm_event *m)
{
	struct rdma_ud_param *ud = &e->event.param.ud;
	struct rdma_conn_param *conn = &e->event.param.conn;
	const void *data = m->conn.data_len ? e->data : NULL;

	if (m->type > RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		memcpy(&e->event.param, &m->arg, sizeof(m->arg)); /* param.arg of newer headers */
		return;
	}
	memcpy(e->data, m->conn.data, m->conn.data_len);
	if (m->ud) {
		ud->private_data = data;
		ud->private_data_len = m->conn.data_len;
		ud->qp_num = m->conn.qp_num;
		ud->qkey = m->conn.qkey;
		av_to_attr(&m->av, m->info.port, &ud->ah_attr);
		return;
	}
	*conn = (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = m->conn.data_len,
		.responder_resources = m->conn.responder_resources,
		.initiator_depth = m->conn.initiator_depth,
		.flow_control = m->conn.flow_control,
		.retry_count = m->conn.retry_count,
		.rnr_retry_count = m->conn.rnr_retry_count,
		.srq = m->conn.srq,
		.qp_num = m->conn.qp_num,
	};
}

static void event_fail(struct cma_event *e, enum rdma_cm_event_type type, int err)
{
	e->event.event = type;
	e->event.status = -err;
}

/* ---- what the library does -------------------------------------------------------------- */

static void ece_learn(struct cma_id *id, const struct cmm_event *m)
{
	id->remote_ece = (struct ibv_ece){ .vendor_id = m->conn.ece_vendor, .options = m->conn.ece_options };
}

/* A request for a listener that waits synchronously: so does the new id. */
static int request_id(struct cma_id *listen, struct chan *from, const struct cmm_event *m, struct rdma_cm_id **out)
{
	struct cma_id *id = id_new(&from->ch, listen->id.context, listen->id.ps, listen->id.qp_type);
	int err;

	if (!id)
		return ENOMEM;
	id->handle = m->id;
	id->resp = m->conn.responder_resources;
	id->init = m->conn.initiator_depth;
	init_learn(id, &m->init);
	ece_learn(id, m);
	err = id_update(id, &m->info);
	if (!err && listen->sync && rdma_migrate_id(&id->id, NULL))
		err = errno;
	if (!err) {
		*out = &id->id;
		return 0;
	}
	id_retire(id);
	id_free(id);
	return err;
}

/* The new id is in the channel that told of it, wherever the listener is by now. */
static bool on_request(struct cma_event *e, struct chan *from, const struct cmm_event *m)
{
	e->event.listen_id = &e->owner->id;
	if (!request_id(e->owner, from, m, &e->event.id))
		return true;
	handle_drop(from, m->id);
	return false;
}

/* To RTS, and the RTU.  Options of a QP of ours: it has none, and the peer must not think that some were agreed on. */
static int qp_follow(struct cma_id *id, const struct cmm_event *m)
{
	struct cmm_req req = { .op = CMM_ESTABLISH, .own = qp_name(id) };

	if (m->conn.ece_vendor && m->conn.ece_vendor != id->ece.vendor_id)
		return EINVAL;
	return m->qp.tried ? m->qp.err : id_call(id, &req, NULL);
}

static void on_response(struct cma_event *e, const struct cmm_event *m)
{
	struct cma_id *id = e->owner;
	struct cmm_req rej = { .op = CMM_REJECT };
	int err;

	ece_learn(id, m);
	if (!id->id.qp)
		return;
	err = qp_follow(id, m);
	if (!err) {
		qp_moved(id, IBV_QPS_RTS, 0);
		e->event.event = RDMA_CM_EVENT_ESTABLISHED;
		return;
	}
	id->broken = true;
	event_fail(e, RDMA_CM_EVENT_CONNECT_ERROR, err);
	qp_to_err(id);
	id_call(id, &rej, NULL);
}

static void on_update(struct cma_event *e, const struct cmm_event *m, enum rdma_cm_event_type bad)
{
	int err = id_update(e->owner, &m->info);

	init_learn(e->owner, &m->init);
	if (err)
		event_fail(e, bad, err);
}

static void on_join(struct cma_event *e, const struct cmm_event *m)
{
	int err;

	if (!e->group)
		return;
	e->event.param.ud.private_data = e->group->context;
	e->group->handle = m->group;
	err = m->status ? 0 : group_joined(e->owner, e->group, m->av.dgid);
	if (err)
		event_fail(e, RDMA_CM_EVENT_MULTICAST_ERROR, err);
}

/* Whether the program shall see the event. */
static bool event_process(struct cma_event *e, struct chan *from, const struct cmm_event *m)
{
	struct cma_id *id = e->owner;

	e->event.id = &id->id;
	e->event.event = m->type;
	e->event.status = m->status;
	param_fill(e, m);
	switch (m->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED: on_update(e, m, RDMA_CM_EVENT_ADDR_ERROR); return true;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: on_update(e, m, RDMA_CM_EVENT_ROUTE_ERROR); return true;
	case RDMA_CM_EVENT_CONNECT_REQUEST: return on_request(e, from, m);
	case RDMA_CM_EVENT_CONNECT_RESPONSE: on_response(e, m); return true;
	case RDMA_CM_EVENT_REJECTED:
		if (id->broken)
			return false;
		qp_to_err(id);
		return true;
	case RDMA_CM_EVENT_DISCONNECTED: return !id->broken;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR: on_join(e, m); return true;
	}
	return true;
}

/* Instead of an event of a daemon that is gone.  0 or EIO. */
static int removal(struct chan *c, struct cma_event *e)
{
	if (__atomic_load_n(&c->destroyed, __ATOMIC_ACQUIRE) || !conn_mine(&c->conn))
		return EIO;
	e->owner = id_find_removed(&c->ch);
	if (!e->owner)
		return EIO;
	e->event.id = &e->owner->id;
	e->event.event = RDMA_CM_EVENT_DEVICE_REMOVAL;
	return 0;
}

/* ---- get and give back ------------------------------------------------------------------- */

static void waiter_cancelled(void *arg)
{
	struct waiter *w = arg;

	free(w->e);
	chan_drop(w->c);
}

/* The next event.  EAGAIN: there is none, or it is not the program's business. */
static int event_next(struct chan *c, struct cma_event *e)
{
	struct cmm_rep rep;
	int err = event_fetch(c, &rep);

	if (err)
		return err;
	e->owner = id_find_got(rep.event.cookie, rep.event.group_cookie, &e->group);
	if (!e->owner) {
		if (rep.event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			handle_drop(c, rep.event.id);
		return EAGAIN;
	}
	if (event_process(e, c, &rep.event))
		return 0;
	id_acked(e->owner, e->group);
	return EAGAIN;
}

/* 0 or an errno. */
static int event_wait(struct waiter *w, int cancel)
{
	int err;

	do {
		memset(w->e, 0, sizeof(*w->e));
		err = event_due(w, cancel);
		if (err)
			break;
		err = event_next(w->c, w->e);
	} while (err == EAGAIN);
	return err == EIO ? removal(w->c, w->e) : err;
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct waiter w = { .c = to_chan(channel) };
	int err, cancel;

	if (!event)
		return fail(EINVAL);
	w.e = calloc(1, sizeof(*w.e));
	if (!w.e)
		return fail(ENOMEM);
	chan_hold(w.c);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_cleanup_push(waiter_cancelled, &w);
	err = event_wait(&w, cancel);
	pthread_cleanup_pop(0);
	pthread_setcancelstate(cancel, NULL);
	if (err)
		free(w.e);
	else
		*event = &w.e->event;
	return get_end(w.c, err);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cma_event *e = (struct cma_event *)event;

	if (!event)
		return fail(EINVAL);
	id_acked(e->owner, e->group);
	free(e);
	return 0;
}
