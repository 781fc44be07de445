/* SPDX-License-Identifier: MIT */
/* rs_io.c - sending and receiving data. */
#include "rs.h"

#include <limits.h>
#include <sys/uio.h>
#include <time.h>

#include <rdmad/clock.h>
#include <rdmad/own.h>

/* Of the kernel's last tick, some milliseconds old: a call can ask for it each time. */
static int64_t tick_ms(void) { return (int64_t)(clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000); }

static void channel_look(struct rsock *rs, int64_t now)
{
	struct pollfd p = { .fd = rs->fd, .events = POLLIN };

	rs->looked_ms = now;
	if (ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0)
		rs_events(rs);
}

/* News that a program learns which never polls.  While there is a connection, its events may wait for a moment. */
static void look(struct rsock *rs)
{
	int64_t now = tick_ms();

	if (!rs_progress_busy(rs) && (rs->state != RS_CONNECTED || now != rs->looked_ms))
		channel_look(rs, now);
}

/* The same for a program that does nothing but write: it may have room for hundreds of messages that nobody reads any more. */
static void look_sending(struct rsock *rs)
{
	int64_t now = tick_ms();

	if (!rs_sends(rs) || now == rs->looked_ms)
		return;
	rs_progress(rs);
	channel_look(rs, now);
}

/* 0: something may have come.  A call that does not wait looks once. */
static int wait_or_look(struct rsock *rs, int flags, bool *looked)
{
	if (rs_waits(rs, flags))
		return rs_wait(rs);
	if (*looked)
		return EAGAIN;
	look(rs);
	*looked = true;
	return 0;
}

static int err_or(const struct rsock *rs, int other) { return rs->err ? rs->err : other; }

/* The call returns.  The error of a stream is told once, and not by a call that has moved something. */
static ssize_t told(struct rsock *rs, size_t done, int err)
{
	if (!done && err && err == rs->err)
		rs->err = 0;
	rs_unlock_put(rs);
	return done || !err ? (ssize_t)done : fail(err);
}

static size_t iov_len(const struct iovec *iov, int n)
{
	size_t len = 0;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

static bool pieces_fit(int n) { return n >= 0 && n <= IOV_MAX; }

/* For a call that the thread may be cancelled in. */
static struct rsock *io_lock(int fd)
{
	pthread_testcancel();
	return rs_lock(fd);
}

/* ---- send ------------------------------------------------------------------------------- */

/* 0: it can be sent now. */
static int send_ready(struct rsock *rs, int flags)
{
	bool looked = false;

	look_sending(rs);
	for (;;) {
		int err;

		if (rs->wr_shut)
			return EPIPE;
		if (rs_can_send(rs))
			return 0;
		rs_progress(rs);
		if (rs_can_send(rs))
			return 0;
		if (!rs->end_said && (rs->state == RS_CLOSED || rs->state == RS_FAILED))
			return err_or(rs, EPIPE);
		if (rs->state < RS_ADDR)
			return ENOTCONN;
		err = wait_or_look(rs, flags, &looked);
		if (err)
			return err;
	}
}

/* A message to a name: of datagrams. */
static ssize_t sendm(int fd, const struct msghdr *m, int flags)
{
	struct rsock *rs = io_lock(fd);
	ssize_t n;

	if (!rs)
		return -1;
	n = rs->ds ? ds_send(rs, m, flags) : fail(EISCONN);
	rs_unlock_put(rs);
	return n;
}

/* Sent to a peer that has closed: how many of so many bytes.  As much as a buffer takes, as a kernel's would. */
static size_t spills(struct rsock *rs, int err, size_t len)
{
	const size_t room = rs->opts.sndbuf;

	if (err != EPIPE || !rs_half(rs))
		return 0;
	rs->spilt = true;
	rs_wake(rs);
	return len < room ? len : room;
}

/* Of no bytes, as TCP has it: whether some could be sent, sooner or later. */
static int send_nothing(const struct rsock *rs)
{
	if (rs->wr_shut)
		return EPIPE;
	if (rs->state == RS_CLOSED || rs->state == RS_FAILED)
		return rs_half(rs) ? 0 : err_or(rs, EPIPE);
	return rs->state < RS_ADDR ? ENOTCONN : 0;
}

static ssize_t sent(struct rsock *rs, size_t done, int err)
{
	if (rs->held)
		rs_svc_connect(rs); /* the program may not come back to learn of the RTU */
	return told(rs, done, err);
}

static ssize_t sendv(int fd, const struct iovec *iov, int n, int flags)
{
	struct rsock *rs = io_lock(fd);
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
	size_t len = iov_len(iov, n), done = 0, skip = 0;
	ssize_t part;
	int err = 0;

	if (!rs)
		return -1;
	if (rs->ds) {
		part = ds_send(rs, &m, flags);
		rs_unlock_put(rs);
		return part;
	}
	if (!len && rs->beside_tcp) {
		look_sending(rs);
		err = send_nothing(rs);
	}
	while (done < len) {
		err = send_ready(rs, flags);
		if (err) {
			done += spills(rs, err, len - done);
			break;
		}
		while (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			iov++;
		}
		part = rs_push(rs, iov, skip, len - done);
		if (part < 0) {
			err = errno;
			break;
		}
		done += (size_t)part;
		skip += (size_t)part;
	}
	return sent(rs, done, err);
}

EXPORT ssize_t rsend(int fd, const void *buf, size_t len, int flags)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return sendv(fd, &iov, 1, flags);
}

EXPORT ssize_t rsendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr m = {
		.msg_name = (void *)(uintptr_t)to, .msg_namelen = to_len, .msg_iov = &iov, .msg_iovlen = 1
	};

	if (to || to_len)
		return sendm(fd, &m, flags);
	return rsend(fd, buf, len, flags);
}

EXPORT ssize_t rsendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (msg->msg_controllen)
		return fail(ENOTSUP);
	if (msg->msg_name)
		return sendm(fd, msg, flags);
	return sendv(fd, msg->msg_iov, (int)msg->msg_iovlen, flags);
}

EXPORT ssize_t rwrite(int fd, const void *buf, size_t len) { return rsend(fd, buf, len, 0); }

EXPORT ssize_t rwritev(int fd, const struct iovec *iov, int n)
{
	return pieces_fit(n) ? sendv(fd, iov, n, 0) : fail(EINVAL);
}

/* Until all is sent, the file ends, or what does not wait would. */
EXPORT ssize_t rdmad_rs_sendfile(int fd, int file, off_t at, size_t len, int flags)
{
	struct rsock *rs = io_lock(fd);
	size_t done = 0;
	ssize_t part = 1;
	int err = 0;

	if (!rs)
		return -1;
	while (done < len && part && !err) {
		err = send_ready(rs, flags);
		part = err ? 0 : rs_push_file(rs, file, at < 0 ? at : at + (off_t)done, len - done);
		if (part < 0)
			err = errno;
		else
			done += (size_t)part;
	}
	return sent(rs, done, err);
}

/* ---- receive -------------------------------------------------------------------------------- */

/* Of datagrams.  -2: it is a stream. */
static ssize_t recvm(int fd, struct msghdr *m, int flags)
{
	struct rsock *rs = io_lock(fd);
	ssize_t n;

	if (!rs)
		return -1;
	n = rs->ds ? ds_recv(rs, m, flags) : -2;
	rs_unlock_put(rs);
	return n;
}

/* 0: there are so many bytes, or the end. */
static int recv_wait(struct rsock *rs, int flags, size_t want)
{
	bool looked = false;

	for (;;) {
		int err;

		if (rs->link.recv.used >= want)
			return 0;
		if (rs_progress(rs) > 0)
			continue;
		if (rs->rd_shut)
			return 0;
		if (rs->state == RS_CLOSED || rs->state == RS_FAILED)
			return err_or(rs, rs->state == RS_FAILED ? ENOTCONN : 0);
		if (rs->peer_shut)
			return 0;
		if (rs->state < RS_ADDR)
			return ENOTCONN;
		err = wait_or_look(rs, flags, &looked);
		if (err)
			return err;
	}
}

/* The peer sends no more than half of the buffer before some of it is read. */
static size_t peek_max(const struct rsock *rs, size_t len)
{
	size_t half = rs->linked ? rs->link.recv.size / 2 : 1;

	len = len ? len : 1;
	return len < half ? len : half;
}

/* 0: there are data, if possible so many bytes, or the end. */
static int recv_ready(struct rsock *rs, int flags, size_t want)
{
	int err = recv_wait(rs, flags, want);

	return rs->link.recv.used ? 0 : err;
}

static size_t ring_read(const struct rs_ring *r, uint8_t *to, uint32_t skip, size_t len)
{
	uint32_t at = (r->tail + skip) % r->size;
	size_t n = r->used - skip, first;

	n = n < len ? n : len;
	first = r->size - at < n ? r->size - at : n;
	memcpy(to, r->mem + at, first);
	memcpy(to + first, r->mem, n - first);
	return n;
}

static void ring_eat(struct rsock *rs, uint32_t n)
{
	struct rs_ring *r = &rs->link.recv;

	r->tail = (r->tail + n) % r->size;
	r->used -= n;
	rs->link.freed += n;
	rs_grant(rs);
}

/* From byte skip of iov on; how many. */
static size_t recv_take(struct rsock *rs, const struct iovec *iov, int n, size_t skip, bool peek)
{
	size_t got = 0;

	for (int i = 0; i < n && rs->link.recv.used > got; i++) {
		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		got += ring_read(&rs->link.recv, (uint8_t *)iov[i].iov_base + skip, (uint32_t)got,
				 iov[i].iov_len - skip);
		skip = 0;
	}
	if (!peek && got)
		ring_eat(rs, (uint32_t)got);
	return got;
}

static ssize_t recvv(int fd, const struct iovec *iov, int n, int flags)
{
	struct rsock *rs = io_lock(fd);
	size_t len = iov_len(iov, n), done = 0, part;
	bool peek = flags & MSG_PEEK, all = flags & MSG_WAITALL && !peek;
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
	int err = 0;

	if (!rs)
		return -1;
	if (rs->ds) {
		ssize_t got = ds_recv(rs, &m, flags);

		rs_unlock_put(rs);
		return got;
	}
	/* More may have come: a program may peek until all that it waits for is there. */
	if (rs->link.recv.used && rs->link.recv.used < len)
		rs_progress(rs);
	/* Of no bytes, too: then it says when there are some, or the end. */
	do {
		err = recv_ready(rs, flags, peek && flags & MSG_WAITALL ? peek_max(rs, len) : 1);
		if (err)
			break;
		part = rs->linked ? recv_take(rs, iov, n, done, peek) : 0;
		done += part;
	} while (part && all && done < len);
	return told(rs, done, err);
}

EXPORT ssize_t rrecv(int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = { buf, len };

	return recvv(fd, &iov, 1, flags);
}

EXPORT ssize_t rrecvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	struct iovec iov = { buf, len };
	struct msghdr m = { .msg_name = from, .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	m.msg_namelen = from && from_len ? *from_len : 0;
	n = recvm(fd, &m, flags);

	if (n >= 0 && from && from_len)
		*from_len = m.msg_namelen;
	if (n != -2)
		return n;
	n = rrecv(fd, buf, len, flags);
	if (n >= 0 && from && from_len)
		rgetpeername(fd, from, from_len);
	return n;
}

EXPORT ssize_t rrecvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n = recvm(fd, msg, flags);

	if (n != -2)
		return n;
	n = recvv(fd, msg->msg_iov, (int)msg->msg_iovlen, flags);
	if (n < 0)
		return -1;
	msg->msg_controllen = 0;
	msg->msg_flags = 0;
	if (msg->msg_name)
		rgetpeername(fd, msg->msg_name, &msg->msg_namelen);
	return n;
}

EXPORT ssize_t rread(int fd, void *buf, size_t len) { return rrecv(fd, buf, len, 0); }

EXPORT ssize_t rreadv(int fd, const struct iovec *iov, int n)
{
	return pieces_fit(n) ? recvv(fd, iov, n, 0) : fail(EINVAL);
}

EXPORT int rdmad_rs_unread(int fd)
{
	struct rsock *rs = rs_lock(fd);
	int n;

	if (!rs)
		return -1;
	rs_progress(rs);
	n = (int)rs->link.recv.used;
	rs_unlock_put(rs);
	return n;
}

/* The last ones ask for no completion: an empty message behind them does. */
EXPORT int rdmad_rs_unacked(int fd)
{
	struct rsock *rs = rs_lock(fd);
	int n;

	if (!rs)
		return -1;
	rs_progress(rs);
	if (rs->state == RS_CONNECTED && rs->link.quiet.msgs && rs->link.ctl_free >= 2)
		rs_push_alive(rs);
	n = (int)rs->link.send.used;
	rs_unlock_put(rs);
	return n;
}
