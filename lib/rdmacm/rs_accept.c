/* SPDX-License-Identifier: MIT */
/*
 * rs_accept.c - from a client's request to the socket that raccept() returns.
 *
 * A client's connect() does not wait for its server's accept(): that may be busy with another client, or be the same thread.  So
 * requests that no call has taken for EARLY_MS are accepted by the library's own thread (rs_svc.c), and wait in the listener's queue, as
 * many as its backlog says.  Beside TCP a listener that the program has not waited for yet may be another process', or the program waits
 * for something that its client says when it is connected, as a server of FTP does: what is asked of it for LEAVE_MS is refused, and
 * comes by TCP.
 */
#include "rs.h"

#include <fcntl.h>
#include <unistd.h>

#include <rdmad/own.h>

enum { EARLY_MS = 2, FULL_MS = 50, LOOK_MS = 50, LEAVE_MS = 1000, QUEUE_MAX = 4096 };

/* ---- the queue; locked ------------------------------------------------------------------------------------- */

static void queue_put_at(struct rsock *listen, struct rsock **at, struct rsock *rs)
{
	rs->queue.next = *at;
	*at = rs;
	listen->queue.n++;
	listen->came++;
	rs_wake(listen);
}

static void queue_put(struct rsock *listen, struct rsock *rs)
{
	struct rsock **p = &listen->queue.first;

	while (*p)
		p = &(*p)->queue.next;
	queue_put_at(listen, p, rs);
}

struct rsock *rs_accept_queued(struct rsock *listen)
{
	struct rs_queue *q = &listen->queue;
	struct rsock *rs = q->first;

	if (!rs)
		return NULL;
	q->first = rs->queue.next;
	rs->queue.next = NULL;
	q->n--;
	return rs;
}

/* ---- requests ---------------------------------------------------------------------------------------------- */

/* The request's id moves to a socket of its own.  NULL: it is refused. */
static struct rsock *accept_one(const struct rsock *listen, struct rdma_cm_id *id, const void *data, size_t len)
{
	struct rsock *rs = rs_new(listen->domain, SOCK_STREAM, listen->beside_tcp);
	struct rdma_conn_param p;
	struct rs_hello h;

	if (!rs) {
		rdma_destroy_id(id);
		return NULL;
	}
	rs->id = id;
	rs->opts = listen->opts;
	if (rdma_migrate_id(id, rs->ch) || rs_link_open(rs) || rs_link_peer(rs, data, len))
		goto refuse;
	rs_link_hello(rs, &h);
	p = rs_conn_param(&h);
	rs->state = RS_ACCEPTING;
	if (rdma_accept(id, &p) || rs_add(rs))
		goto refuse;
	if (rs->opts.keepalive)
		rs_keep_update(rs);
	return rs;
refuse:
	rdma_reject(id, NULL, 0);
	rs_put(rs);
	return NULL;
}

/* Descriptors for one more: its own, and librspreload's.  Another thread may have them before us: then it is refused. */
static int accept_room(const struct rsock *listen)
{
	int fd[RS_FDS + 2], n = 0, err = 0;

	while (n < RS_FDS + 2 && (fd[n] = fcntl(listen->fd, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	if (n < RS_FDS + 2)
		err = errno;
	while (n)
		close(fd[--n]);
	return err;
}

struct request {
	struct rdma_cm_id *id; /* NULL: it was something else */
	uint8_t data[sizeof(struct rs_hello)];
	size_t len;
};

static bool has_come(const struct rsock *listen) { return poll(&(struct pollfd){ listen->fd, POLLIN, 0 }, 1, 0) == 1; }

/* Something has come. */
static int request_take(struct rsock *listen, struct request *r)
{
	struct rdma_cm_event *e;

	*r = (struct request){ 0 };
	if (rdma_get_cm_event(listen->ch, &e))
		return errno;
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		r->id = e->id;
		r->len = e->param.conn.private_data_len;
		r->len = r->len < sizeof(r->data) ? r->len : sizeof(r->data);
		if (r->len)
			memcpy(r->data, e->param.conn.private_data, r->len);
	}
	rdma_ack_cm_event(e);
	return 0;
}

static int accept_take(struct rsock *listen, struct rsock **out)
{
	struct request r;
	int full, err;

	if (!has_come(listen))
		return EAGAIN;
	full = accept_room(listen);
	if (full && !listen->beside_tcp)
		return full; /* it waits, as by TCP */
	err = request_take(listen, &r);
	if (r.id && full)
		rdma_destroy_id(r.id);
	else if (r.id)
		*out = accept_one(listen, r.id, r.data, r.len);
	return err;
}

static int accept_next(struct rsock *listen, struct rsock **out)
{
	*out = rs_accept_queued(listen);
	return *out ? 0 : accept_take(listen, out);
}

EXPORT int raccept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct rsock *rs, *new = NULL;
	int err = 0;

	pthread_testcancel();
	rs = rs_lock(fd);
	if (!rs)
		return -1;
	while (!err && !new) {
		err = rs->ds ? EOPNOTSUPP : rs->state == RS_LISTEN ? accept_next(rs, &new) : EINVAL;
		if (err == EAGAIN && !rs->nonblock)
			err = rs_wait(rs);
	}
	rs_unlock_put(rs);
	if (err)
		return fail(err);
	if (addr)
		rgetpeername(new->fd, addr, len);
	return new->fd;
}

EXPORT void rdmad_rs_unaccept(int fd, int accepted)
{
	struct rsock *rs = rs_lock(fd), *back = rs ? rs_get(accepted) : NULL;

	if (back) {
		queue_put_at(rs, &rs->queue.first, back);
		rs_put(back);
	}
	if (rs)
		rs_unlock_put(rs);
}

EXPORT int rdmad_rs_queued(int fd)
{
	struct rsock *rs = rs_lock(fd), *new;

	if (!rs)
		return -1;
	rs->queue.most = 0; /* no others come */
	new = rs_accept_queued(rs);
	rs_unlock_put(rs);
	return new ? new->fd : fail(EAGAIN);
}

/* ---- before the program asks --------------------------------------------------------------------------------- */

/* Locked.  All that have come: 0, or why one has to wait. */
static int accept_all(struct rsock *listen)
{
	int err = 0;

	while (!err && listen->state == RS_LISTEN) {
		struct rsock *new = NULL;

		err = listen->queue.n < listen->queue.most ? accept_take(listen, &new) : EBUSY;
		if (new)
			queue_put(listen, new);
	}
	return err == EAGAIN ? 0 : err;
}

static void refuse_all(struct rsock *listen)
{
	struct request r;

	while (listen->state == RS_LISTEN && has_come(listen) && !request_take(listen, &r))
		if (r.id)
			rdma_destroy_id(r.id);
}

/* The same as early(), for a listener that is not awaited. */
static int64_t leave(struct rsock *listen)
{
	int64_t now = rs_now_ms();

	if (!listen->leave_at)
		listen->leave_at = now + LEAVE_MS;
	if (now < listen->leave_at)
		return now + LOOK_MS;
	listen->leave_at = 0;
	pthread_mutex_lock(&listen->lock);
	refuse_all(listen);
	pthread_mutex_unlock(&listen->lock);
	return 0;
}

/* By the thread, when something has come; again at the time that is returned, of rs_now_ms(), or 0: when something has come again. */
static int64_t early(struct rsock *listen, bool waited)
{
	int err;

	if (!waited)
		return rs_now_ms() + EARLY_MS;
	if (!__atomic_load_n(&listen->awaited, __ATOMIC_RELAXED))
		return leave(listen);
	pthread_mutex_lock(&listen->lock);
	err = accept_all(listen);
	pthread_mutex_unlock(&listen->lock);
	return err ? rs_now_ms() + FULL_MS : 0;
}

/* As Linux has it, TCP takes one more than the backlog; and as many as may be if that is negative. */
static uint32_t queue_most(int backlog, bool tcp)
{
	uint32_t n = backlog < 0 ? tcp ? QUEUE_MAX : 1 : (uint32_t)backlog + tcp;

	return n < 1 ? 1 : n < QUEUE_MAX ? n : QUEUE_MAX;
}

void rs_accept_begin(struct rsock *listen, int backlog)
{
	listen->state = RS_LISTEN;
	listen->queue.most = queue_most(backlog, listen->beside_tcp);
	if (!listen->beside_tcp)
		listen->awaited = true;
	rs_svc_listen(listen, early);
}

EXPORT int rdmad_rs_early(int fd)
{
	struct rsock *rs = rs_lock(fd);

	if (!rs)
		return -1;
	__atomic_store_n(&rs->awaited, true, __ATOMIC_RELAXED);
	rs_unlock_put(rs);
	return 0;
}
