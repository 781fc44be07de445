/* SPDX-License-Identifier: MIT */
/* io.c - sending and receiving, by all calls of the C library. */
#include "pre.h"

#include <limits.h>
#include <signal.h>

#include <rdmad/own.h>

/*
 * Held, with an rsocket that data go by, or with none yet: then errno says why, and that is the call's.  NULL: the TCP
 * socket's turn.
 */
static struct conn *io_get(int fd, int flags)
{
	struct conn *c = conn_get(fd);

	if (!c || conn_state(c) == CONN_RDMA)
		return c;
	if (conn_settle(fd, c, !c->nonblock && !(flags & MSG_DONTWAIT)) || conn_state(c) == CONN_RDMA)
		return c;
	conn_put(c);
	return NULL;
}

static int io_refuse(struct conn *c)
{
	conn_put(c);
	return -1;
}

/* Else the kernel says so, before it asks for the socket's kind. */
static bool iov_n_fits(int n) { return n >= 0 && n <= IOV_MAX; }

static bool timed(const struct conn *c, int ms, int flags) { return ms && !c->nonblock && !(flags & MSG_DONTWAIT); }

static size_t total(const struct msghdr *m)
{
	size_t len = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		len += m->msg_iov[i].iov_len;
	return len;
}

/* The rest of it behind done bytes, or the first part of that. */
static struct msghdr rest(const struct msghdr *m, size_t done, struct iovec *part)
{
	size_t i = 0;

	for (; i < m->msg_iovlen && done >= m->msg_iov[i].iov_len; i++)
		done -= m->msg_iov[i].iov_len;
	if (!done)
		return (struct msghdr){ .msg_iov = m->msg_iov + i, .msg_iovlen = m->msg_iovlen - i };
	*part = (struct iovec){ (char *)m->msg_iov[i].iov_base + done, m->msg_iov[i].iov_len - done };
	return (struct msghdr){ .msg_iov = part, .msg_iovlen = 1 };
}

/* Waits for ms in all, for all of it or, if that is enough, for some. */
static ssize_t move(const struct conn *c, const struct msghdr *m, int flags, short events, int ms, bool all)
{
	int64_t until = now_ms() + ms, left;
	size_t len = total(m), done = 0;
	int ready = 1;
	ssize_t n;

	do {
		struct iovec part;
		struct msghdr r = rest(m, done, &part);

		n = events & POLLOUT ? rsendmsg(conn_rfd(c), &r, flags) : rrecvmsg(conn_rfd(c), &r, flags);
		done += n > 0 ? (size_t)n : 0;
		if (n > 0 && all && done < len)
			continue;
		if (n >= 0 || errno != EAGAIN)
			break;
		left = until - now_ms();
		ready = left > 0 ? rs_wait_for(conn_rfd(c), events, (int)left) : 0;
		if (!ready)
			errno = EAGAIN;
	} while (ready > 0);
	return done ? (ssize_t)done : n;
}

/* ---- receive ----------------------------------------------------------------------------------------- */

/* Why there never is anything of that kind; 0: data are asked for. */
static int nothing_of(int flags) { return flags & MSG_OOB ? EINVAL : flags & MSG_ERRQUEUE ? EAGAIN : 0; }

static ssize_t recv_waste(struct conn *c, const struct msghdr *m, int flags);

static ssize_t recv_msg(struct conn *c, struct msghdr *m, int flags)
{
	bool all = flags & MSG_WAITALL && !(flags & MSG_PEEK);
	struct heed before;
	ssize_t n;

	if (conn_state(c) != CONN_RDMA)
		return io_refuse(c);
	if (nothing_of(flags)) {
		conn_put(c);
		return fail(nothing_of(flags));
	}
	if (flags & MSG_TRUNC)
		return recv_waste(c, m, flags & ~MSG_TRUNC);
	before = heed_begin();
	pthread_cleanup_push(conn_cancelled, c);
	if (timed(c, c->recv_ms, flags))
		n = move(c, m, (flags & MSG_PEEK) | MSG_DONTWAIT, POLLIN, c->recv_ms, all);
	else
		n = rrecvmsg(conn_rfd(c), m, flags & (MSG_PEEK | MSG_DONTWAIT | MSG_WAITALL));
	pthread_cleanup_pop(0);
	heed_end(&before);
	m->msg_controllen = 0;
	m->msg_namelen = 0; /* as TCP has it */
	m->msg_flags = 0;
	conn_put(c);
	return n;
}

/* The data are thrown away, as TCP does with MSG_TRUNC: the program's buffers may be none.  No more than 1 MB in a call. */
static ssize_t recv_waste(struct conn *c, const struct msghdr *m, int flags)
{
	char waste[16384];
	struct iovec v[64];
	struct msghdr w = { .msg_iov = v };

	for (size_t left = total(m), n; left && w.msg_iovlen < ARRAY_N(v); left -= n) {
		n = left < sizeof(waste) ? left : sizeof(waste);
		v[w.msg_iovlen++] = (struct iovec){ waste, n };
	}
	return recv_msg(c, &w, flags);
}

static ssize_t recv_buf(struct conn *c, void *buf, size_t len, int flags)
{
	struct iovec v = { buf, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return recv_msg(c, &m, flags);
}

/* (To read nothing is nothing, where to receive it waits for data.) */
EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	struct conn *c = len ? io_get(fd, 0) : NULL;

	return c ? recv_buf(c, buf, len, 0) : real()->read(fd, buf, len);
}

EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct conn *c = io_get(fd, flags);

	return c ? recv_buf(c, buf, len, flags) : real()->recv(fd, buf, len, flags);
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	struct conn *c = io_get(fd, flags);

	if (!c)
		return real()->recvfrom(fd, buf, len, flags, from, from_len);
	if (from && from_len)
		*from_len = 0;
	return recv_buf(c, buf, len, flags);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	struct conn *c = m->msg_iovlen <= IOV_MAX ? io_get(fd, flags) : NULL;
	struct msghdr copy = { 0 };
	ssize_t n;

	if (!c)
		return real()->recvmsg(fd, m, flags);
	copy.msg_iov = m->msg_iov;
	copy.msg_iovlen = m->msg_iovlen;
	n = recv_msg(c, &copy, flags);
	m->msg_namelen = 0;
	m->msg_controllen = 0;
	m->msg_flags = 0;
	return n;
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
	struct conn *c = iov_n_fits(n) && total(&m) ? io_get(fd, 0) : NULL;

	return c ? recv_msg(c, &m, 0) : real()->readv(fd, iov, n);
}

/* Called by programs that were compiled with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buf, size_t len, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags, struct sockaddr *from,
		       socklen_t *from_len);

EXPORT ssize_t __read_chk(int fd, void *buf, size_t len, size_t size)
{
	if (len > size)
		abort();
	return read(fd, buf, len);
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags)
{
	if (len > size)
		abort();
	return recv(fd, buf, len, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags, struct sockaddr *from,
			      socklen_t *from_len)
{
	if (len > size)
		abort();
	return recvfrom(fd, buf, len, flags, from, from_len);
}

/* ---- send ----------------------------------------------------------------------------------------------- */

static void send_count(struct conn *c)
{
	uint32_t n = __atomic_load_n(&c->sends, __ATOMIC_RELAXED) + 1;

	__atomic_store_n(&c->sends, n, __ATOMIC_RELAXED);
	if (c->there_ns)
		peer_sent(&c->peer, n);
}

/* Of len bytes n were sent; errno. */
static ssize_t sent(struct conn *c, ssize_t n, size_t len, int flags)
{
	int err = errno;

	if (n < (ssize_t)len)
		reg_seen(c, EPOLLOUT);
	conn_put(c);
	if (n < 0 && err == EPIPE && !(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	errno = err;
	return n;
}

static ssize_t send_msg(struct conn *c, const struct msghdr *m, int flags)
{
	struct msghdr bare = { .msg_iov = m->msg_iov, .msg_iovlen = m->msg_iovlen };
	struct heed before;
	ssize_t n;

	if (conn_state(c) != CONN_RDMA)
		return io_refuse(c);
	send_count(c);
	before = heed_begin();
	pthread_cleanup_push(conn_cancelled, c);
	if (timed(c, c->send_ms, flags))
		n = move(c, &bare, MSG_DONTWAIT, POLLOUT, c->send_ms, true);
	else
		n = rsendmsg(conn_rfd(c), &bare, flags & MSG_DONTWAIT);
	pthread_cleanup_pop(0);
	heed_end(&before);
	return sent(c, n, total(m), flags);
}

/* Until all is sent, the file ends, or the time is up. */
static ssize_t file_send(const struct conn *c, int in, off_t at, size_t len)
{
	bool limited = timed(c, c->send_ms, 0);
	int64_t until = now_ms() + c->send_ms, left;
	size_t done = 0;
	ssize_t n;

	for (;;) {
		n = rdmad_rs_sendfile(conn_rfd(c), in, at < 0 ? at : at + (off_t)done, len - done,
				      limited ? MSG_DONTWAIT : 0);
		done += n > 0 ? (size_t)n : 0;
		left = until - now_ms();
		if (!limited || !n || done == len || (n < 0 && errno != EAGAIN) || left <= 0)
			break;
		if (n < 0 && rs_wait_for(conn_rfd(c), POLLOUT, (int)left) < 0)
			break;
	}
	return done ? (ssize_t)done : n;
}

bool send_file(int out, int in, off_t at, size_t len, ssize_t *n)
{
	struct conn *c = io_get(out, 0);
	struct heed before;

	if (!c)
		return false;
	if (conn_state(c) != CONN_RDMA) {
		*n = io_refuse(c);
		return true;
	}
	send_count(c);
	before = heed_begin();
	pthread_cleanup_push(conn_cancelled, c);
	*n = file_send(c, in, at, len);
	pthread_cleanup_pop(0);
	heed_end(&before);
	*n = sent(c, *n, len, 0);
	return true;
}

static ssize_t send_buf(struct conn *c, const void *buf, size_t len, int flags)
{
	struct iovec v = { (void *)(uintptr_t)buf, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return send_msg(c, &m, flags);
}

EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	struct conn *c = io_get(fd, 0);

	return c ? send_buf(c, buf, len, 0) : real()->write(fd, buf, len);
}

EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct conn *c = io_get(fd, flags);

	return c ? send_buf(c, buf, len, flags) : real()->send(fd, buf, len, flags);
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	struct conn *c = io_get(fd, flags);

	return c ? send_buf(c, buf, len, flags) : real()->sendto(fd, buf, len, flags, to, to_len);
}

/* Descriptors in a message are another process' as well. */
static void pass_on(const struct msghdr *m)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR((struct msghdr *)(uintptr_t)m, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= h->cmsg_len; at += sizeof(int)) {
			int fd;

			memcpy(&fd, (const char *)h + at, sizeof(fd));
			conn_pass(fd);
		}
	}
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct conn *c = m->msg_iovlen <= IOV_MAX ? io_get(fd, flags) : NULL;

	if (!c && m->msg_controllen)
		pass_on(m);
	return c ? send_msg(c, m, flags) : real()->sendmsg(fd, m, flags);
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
	struct conn *c = iov_n_fits(n) && total(&m) ? io_get(fd, 0) : NULL;

	return c ? send_msg(c, &m, 0) : real()->writev(fd, iov, n);
}

/* ---- several messages, and places of files --------------------------------------------------------------- */

static bool has_conn(int fd)
{
	struct conn *c = conn_get(fd);

	if (c)
		conn_put(c);
	return c;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *v, unsigned n, int flags)
{
	unsigned done = 0;
	ssize_t len = 0;

	if (!has_conn(fd))
		return real()->sendmmsg(fd, v, n, flags);
	for (; done < n && (len = sendmsg(fd, &v[done].msg_hdr, flags)) >= 0; done++)
		v[done].msg_len = (unsigned)len;
	return done || len >= 0 ? (int)done : -1;
}

/* As Linux has it, the time is looked at behind each message. */
EXPORT int recvmmsg(int fd, struct mmsghdr *v, unsigned n, int flags, struct timespec *limit)
{
	int64_t until = limit ? now_ms() + limit->tv_sec * INT64_C(1000) + limit->tv_nsec / 1000000 : INT64_MAX;
	int next = flags & MSG_WAITFORONE ? MSG_DONTWAIT : 0;
	unsigned done = 0;
	ssize_t len = 0;

	if (!has_conn(fd))
		return real()->recvmmsg(fd, v, n, flags, limit);
	flags &= ~MSG_WAITFORONE;
	do {
		if (done == n || (len = recvmsg(fd, &v[done].msg_hdr, flags | (done ? next : 0))) < 0)
			break;
		v[done++].msg_len = (unsigned)len;
	} while (now_ms() < until);
	return done || len >= 0 ? (int)done : -1;
}

EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return at == -1 && has_conn(fd) ? readv(fd, iov, n) : real()->preadv2(fd, iov, n, at, flags);
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return at == -1 && has_conn(fd) ? writev(fd, iov, n) : real()->pwritev2(fd, iov, n, at, flags);
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	return preadv2(fd, iov, n, at, flags);
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	return pwritev2(fd, iov, n, at, flags);
}
