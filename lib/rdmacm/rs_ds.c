/* SPDX-License-Identifier: MIT */
/* rs_ds.c - the calls on a datagram socket. */
#include "rs_ds.h"

#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rdmad/high.h>

int ds_open(struct rsock *rs)
{
	rs->ds = calloc(1, sizeof(*rs->ds));
	if (!rs->ds)
		return ENOMEM;
	rs->ds->last = &rs->ds->first;
	rs->ds->ep = fd_high(epoll_create1(EPOLL_CLOEXEC));
	rs->fd = rs->ds->ep < 0 ? -1 : socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return rs->fd < 0 ? errno : 0;
}

void ds_close(struct rsock *rs)
{
	ds_progress(rs);
	/* Datagrams that were sent shall leave; nobody has to be there to take them. */
	for (struct ds_qp *qp = rs->ds->qps; qp; qp = qp->next)
		while (!rs->ds->gone && qp->free_n != rs->ds->out_n && !rs_wait(rs))
			;
	rs->state = RS_CLOSED;
	rs_wake(rs);
}

void ds_free(struct rsock *rs)
{
	struct ds *ds = rs->ds;

	while (ds->first)
		ds_in_drop(rs);
	ds_dests_free(ds);
	ds_qps_free(ds);
	if (ds->ep >= 0)
		close(ds->ep);
	if (rs->fd >= 0)
		close(rs->fd);
	free(ds);
	rs->ds = NULL;
}

void ds_close_fds(const struct rsock *rs)
{
	for (const struct ds_qp *qp = rs->ds->qps; qp; qp = qp->next)
		close(qp->cc->fd);
	close(rs->ds->ep);
	close(rs->fd);
}

static int addr_in(union ds_addr *a, const void *sa, socklen_t len)
{
	const struct sockaddr *from = sa;

	memset(a, 0, sizeof(*a));
	if (len < sizeof(from->sa_family))
		return EINVAL;
	if (from->sa_family != AF_INET && from->sa_family != AF_INET6)
		return EAFNOSUPPORT;
	if (len < (from->sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6)))
		return EINVAL;
	memcpy(a, sa, from->sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6));
	return 0;
}

int ds_connect(struct rsock *rs, const struct sockaddr *addr, socklen_t len)
{
	union ds_addr to;
	int err;

	if (len >= sizeof(addr->sa_family) && addr->sa_family == AF_UNSPEC) {
		rs->ds->peer = NULL;
		return connect(rs->fd, addr, len) ? errno : 0;
	}
	err = addr_in(&to, addr, len);
	if (!err && connect(rs->fd, addr, len))
		err = errno;
	return err ? err : ds_dest_get(rs, &to, &rs->ds->peer);
}

/* ---- send ------------------------------------------------------------------------------------------ */

/* Waits once for something to happen: 0, or why not. */
static int wait_once(struct rsock *rs, int flags)
{
	if (rs->state == RS_CLOSED)
		return EBADF;
	if (rs->ds->gone)
		return EIO;
	return rs_waits(rs, flags) ? rs_wait(rs) : EAGAIN;
}

static int slot_wait(struct rsock *rs, const struct ds_qp *qp, int flags)
{
	int err = 0;

	if (!qp->free_n)
		ds_progress(rs);
	while (!qp->free_n && !err)
		err = wait_once(rs, flags);
	return err;
}

/* By the QP if the peer's is known and the path takes so much, else by UDP. */
static int send_to(struct rsock *rs, struct ds_dest *d, const struct msghdr *m, size_t len, int flags)
{
	int err;

	if (d->qp->hdr_len + len > d->qp->mtu || !d->ah)
		return ds_udp_send(rs, d, DS_UDP_DATA, m->msg_iov, m->msg_iovlen,
				   rs_waits(rs, flags) ? 0 : MSG_DONTWAIT);
	err = slot_wait(rs, d->qp, flags);
	if (err)
		return err;
	if (!d->ah) /* meanwhile */
		return send_to(rs, d, m, len, flags);
	return ds_qp_send(rs, d, m->msg_iov, len);
}

ssize_t ds_send(struct rsock *rs, const struct msghdr *m, int flags)
{
	struct ds_dest *d = rs->ds->peer;
	union ds_addr to;
	size_t len = 0;
	int err = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		len += m->msg_iov[i].iov_len;
	if (rs->wr_shut)
		return fail(EPIPE);
	if (m->msg_name) {
		err = addr_in(&to, m->msg_name, m->msg_namelen);
		if (!err)
			err = ds_dest_get(rs, &to, &d);
	} else if (!d) {
		err = EDESTADDRREQ;
	}
	if (!err && len > DS_MSG_MAX - (d->addr.sa.sa_family == AF_INET ? 16 : DS_UDP_HDR_MAX))
		err = EMSGSIZE;
	if (!err)
		err = send_to(rs, d, m, len, flags);
	return err ? fail(err) : (ssize_t)len;
}

/* ---- receive ---------------------------------------------------------------------------------------------
 */

static int recv_wait(struct rsock *rs, int flags)
{
	int err = 0;

	if (!rs->ds->first)
		ds_progress(rs);
	while (!rs->ds->first && !rs->rd_shut && !err)
		err = wait_once(rs, flags);
	return err;
}

static void name_give(struct msghdr *m, const union ds_addr *from)
{
	socklen_t n = ds_addr_len(from);

	if (m->msg_name)
		memcpy(m->msg_name, from, m->msg_namelen < n ? m->msg_namelen : n);
	m->msg_namelen = n;
}

ssize_t ds_recv(struct rsock *rs, struct msghdr *m, int flags)
{
	int err = recv_wait(rs, flags);
	struct ds_in *in = rs->ds->first;
	size_t done = 0, len;

	if (err)
		return fail(err);
	m->msg_flags = 0;
	m->msg_controllen = 0;
	if (!in) { /* rshutdown() */
		m->msg_namelen = 0;
		return 0;
	}
	for (size_t i = 0; i < m->msg_iovlen && done < in->len; i++) {
		size_t n = in->len - done < m->msg_iov[i].iov_len ? in->len - done : m->msg_iov[i].iov_len;

		memcpy(m->msg_iov[i].iov_base, in->data + done, n);
		done += n;
	}
	len = in->len;
	if (done < len)
		m->msg_flags = MSG_TRUNC;
	name_give(m, &in->from);
	if (!(flags & MSG_PEEK))
		ds_in_drop(rs);
	return (ssize_t)(flags & MSG_TRUNC ? len : done);
}

/* ---- poll ---------------------------------------------------------------------------------------- */

static bool can_send(const struct ds *ds)
{
	if (ds->peer)
		return ds->peer->qp->free_n;
	for (const struct ds_qp *qp = ds->qps; qp; qp = qp->next)
		if (!qp->free_n)
			return false;
	return true;
}

short ds_ready(struct rsock *rs, short events)
{
	short r = 0;

	ds_progress(rs);
	if (rs->ds->first || rs->rd_shut)
		r |= POLLIN | POLLRDNORM;
	if (rs->wr_shut || can_send(rs->ds))
		r |= POLLOUT | POLLWRNORM;
	r &= events;
	return rs->ds->gone ? (short)(r | POLLERR | POLLHUP) : r;
}

bool ds_has_qp(const struct rsock *rs) { return rs->ds->qps; }
