/* SPDX-License-Identifier: MIT */
/*
 * rs_conn.c - from rsocket() to rclose(): the calls.
 *
 * A connection is made by events (rs_event.c).
 */
#include "rs.h"
#include "rs_epoll.h"

#include <unistd.h>

#include <rdmad/own.h>

/* ---- the calls ----------------------------------------------------------------------------------- */

static bool protocol_fits(int type, int protocol)
{
	if (type == SOCK_STREAM)
		return !protocol || protocol == IPPROTO_TCP;
	return type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP);
}

EXPORT int rsocket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC | RDMAD_BESIDE_TCP), err = 0;
	struct rsock *rs;

	if (domain != PF_INET && domain != PF_INET6)
		return fail(EAFNOSUPPORT);
	if (!protocol_fits(kind, protocol))
		return fail(EPROTONOSUPPORT);
	rs = rs_new(domain, kind, type & RDMAD_BESIDE_TCP);
	if (!rs)
		return -1;
	rs->nonblock = type & SOCK_NONBLOCK;
	if (!rs->ds)
		err = rdma_create_id(rs->ch, &rs->id, rs, RDMA_PS_TCP) ? errno : 0;
	if (!err)
		err = rs_add(rs);
	if (!err && rs->ds) {
		err = rs_svc_add(rs, INT64_MAX);
		if (err) {
			rs_svc_del(rs);
			rs_del(rs); /* which drops it */
			return fail(err);
		}
	}
	if (!err)
		return rs->fd;
	rs_put(rs);
	return fail(err);
}

static int stream_bind(struct rsock *rs, const struct sockaddr *addr)
{
	if (rs->state != RS_NEW)
		return fail(EINVAL);
	if (rdma_bind_addr(rs->id, (struct sockaddr *)(uintptr_t)addr))
		return -1;
	rs->localhost = addr_is_loopback(addr);
	return rs_keeps_name(rs, rdma_get_local_addr(rs->id)) ? 0 : fail(ENODEV);
}

EXPORT int rbind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct rsock *rs = rs_lock(fd);
	int ret;

	if (!rs)
		return -1;
	if (rs->ds)
		ret = bind(fd, addr, len);
	else
		ret = stream_bind(rs, addr);
	rs_unlock_put(rs);
	return ret;
}

EXPORT int rlisten(int fd, int backlog)
{
	struct rsock *rs = rs_lock(fd);
	int ret = 0;

	if (!rs)
		return -1;
	if (rs->ds)
		ret = fail(EOPNOTSUPP);
	else if (rs->state == RS_NEW)
		ret = rdma_listen(rs->id, backlog);
	else if (rs->state != RS_LISTEN)
		ret = fail(EINVAL);
	if (!ret)
		rs_accept_begin(rs, backlog);
	rs_unlock_put(rs);
	return ret;
}

static int connect_start(struct rsock *rs, const struct sockaddr *addr)
{
	if (rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)(uintptr_t)addr, RS_RESOLVE_MS))
		return errno;
	rs->localhost = addr_is_loopback(addr);
	rs->to_local6 = addr_is_local6(addr);
	rs->state = RS_ADDR;
	return rs->nonblock ? EINPROGRESS : 0;
}

static int connect_end(struct rsock *rs)
{
	int err = 0;

	while (!err && rs_connects(rs))
		err = rs_wait(rs);
	if (err || rs->state == RS_CONNECTED)
		return err;
	err = rs->err;
	rs->err = 0;
	return err ? err : ECONNABORTED;
}

EXPORT int rconnect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct rsock *rs = rs_lock(fd);
	int err = 0;

	if (!rs)
		return -1;
	if (rs->ds) {
		err = ds_connect(rs, addr, len);
		rs_unlock_put(rs);
		return result(err);
	}
	if (rs->nonblock && rs_connects(rs))
		rs_events(rs);
	switch (rs->state) {
	case RS_NEW: err = connect_start(rs, addr); break;
	case RS_ADDR:
	case RS_ROUTE:
	case RS_CONNECTING: err = rs->nonblock ? EALREADY : 0; break;
	case RS_FAILED: break;
	default: err = EISCONN;
	}
	if (!err)
		err = connect_end(rs);
	if (rs_connects(rs))
		rs_svc_connect(rs);
	rs_unlock_put(rs);
	return result(err);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* For a peer that takes nothing any more: since the last that it has taken, or, with SO_LINGER, in all. */
struct patience {
	int64_t until;
	bool fixed;
	uint32_t left;
};

enum { PATIENCE_S = 10 };

static int64_t seconds_on(int s) { return rs_now_ns() + s * INT64_C(1000000000); }

static struct patience patience_of(const struct rsock *rs, bool lingers)
{
	if (lingers)
		return (struct patience){ seconds_on(rs->opts.linger.l_linger), true, 0 };
	return (struct patience){ seconds_on(PATIENCE_S), false, 0 };
}

/* Neither signals nor O_NONBLOCK end this: what was sent shall arrive. */
static void sent_wait(struct rsock *rs, struct patience *p)
{
	uint32_t left = rs->opts.sq_size - rs->link.sq_free + RS_CTL_N - rs->link.ctl_free;
	int err;

	if (left < p->left && !p->fixed)
		p->until = seconds_on(PATIENCE_S);
	p->left = left;
	err = rs_now_ns() < p->until ? rs_wait_until(rs, p->until) : ETIMEDOUT;
	if (err && err != EINTR)
		rs_break(rs, err);
}

static void shut_send(struct rsock *rs, enum rs_ctl ctl, struct patience p)
{
	while (rs_sends(rs) && !rs->link.ctl_free)
		sent_wait(rs, &p);
	if (rs_sends(rs))
		rs_push_ctl(rs, rs_msg(RS_OP_CTL, ctl), NULL, 0, 0, 0);
	while (rs_sends(rs) && !rs_sent_all(rs))
		sent_wait(rs, &p);
	if (ctl == RS_CTL_DISCONNECT)
		rs_break(rs, 0);
}

static void shut(struct rsock *rs, bool rd, bool wr, bool lingers)
{
	struct patience p = patience_of(rs, lingers);
	bool wrote = !rs->wr_shut, had = !rs->rd_shut || !rs->wr_shut;

	rs->rd_shut |= rd;
	rs->wr_shut |= wr;
	rs->came += rd;
	if (rs->rd_shut && rs->wr_shut && had)
		shut_send(rs, RS_CTL_DISCONNECT, p);
	else if (wr && wrote)
		shut_send(rs, RS_CTL_SHUTDOWN, p);
	rs_wake(rs);
}

static void ds_shut(struct rsock *rs, bool rd, bool wr)
{
	rs->rd_shut |= rd;
	rs->wr_shut |= wr;
	rs_wake(rs);
}

/* The thread is not cancelled while it waits, either.  What rs->cancel shall be in the end. */
static int cancel_off(struct rsock *rs)
{
	int cancel = rs->cancel;

	rs->cancel = PTHREAD_CANCEL_DISABLE;
	return cancel;
}

EXPORT int rshutdown(int fd, int how)
{
	struct rsock *rs = rs_lock(fd);
	int err = 0, cancel;

	if (!rs)
		return -1;
	cancel = cancel_off(rs);
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		err = EINVAL;
	else if (rs->ds)
		ds_shut(rs, how != SHUT_WR, how != SHUT_RD);
	else if (rs->state == RS_LISTEN || (!rs_sends(rs) && rs->state != RS_CLOSED))
		err = ENOTCONN;
	else
		shut(rs, how != SHUT_WR, how != SHUT_RD, false);
	rs->cancel = cancel;
	rs_unlock_put(rs);
	return result(err);
}

static void close_stream(struct rsock *rs)
{
	const struct linger *l = &rs->opts.linger;

	if (l->l_onoff && l->l_linger <= 0) /* the peer sees no end, but ECONNRESET */
		rs_break(rs, 0);
	else
		shut(rs, true, true, l->l_onoff);
}

/* The peers see ECONNRESET, as those of TCP. */
static void queue_close(struct rsock *listen)
{
	struct rsock *rs;

	while ((rs = rs_accept_queued(listen))) {
		rs->opts.linger = (struct linger){ 1, 0 };
		rclose(rs->fd);
	}
}

EXPORT int rclose(int fd)
{
	struct rsock *rs = rs_lock(fd);
	int cancel;

	if (!rs)
		return rs_epoll_close(fd) || rs_close_inherited(fd) ? 0 : fail(EBADF);
	cancel = cancel_off(rs);
	if (rs_sends(rs))
		close_stream(rs);
	if (rs->ds)
		ds_close(rs);
	if (rs->linked) {
		rs->linked = false;
		rdma_destroy_qp(rs->id); /* in ERR it would have to tell of each receive */
		rdma_disconnect(rs->id);
	}
	rs->state = RS_CLOSED; /* for threads that sleep on it */
	rs_wake(rs);
	pthread_mutex_unlock(&rs->lock);
	rs_svc_del(rs);
	queue_close(rs);
	rs_epoll_forget(fd);
	rs_del(rs);
	rs_put(rs);
	pthread_setcancelstate(cancel, NULL);
	return 0;
}
