/* SPDX-License-Identifier: MIT */
/* conn.c - from socket() to shutdown(), but for accept() (accept.c). */
#include "pre.h"

#include <fcntl.h>
#include <netinet/in.h>

#include <rdmad/loopback.h>
#include <rdmad/own.h>

/* How long a peer may take to answer before the connection is tried by TCP: a request is repeated after 4.6 s. */
enum { CONNECT_MS = 6000 };

/* A refusal that comes later is a listener's that its program has not waited for (rs_accept.c). */
#define LATE_NS 500000000

/* A thread that is cancelled in a call would have the lock for ever.  What lock_end() wants. */
static int lock_begin(struct conn *c)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&c->lock);
	return cancel;
}

static void lock_end(struct conn *c, int cancel)
{
	pthread_mutex_unlock(&c->lock);
	pthread_setcancelstate(cancel, NULL);
}

/* ---- socket, bind, listen --------------------------------------------------------------------------------- */

EXPORT int socket(int domain, int type, int protocol)
{
	int fd = real()->socket(domain, type, protocol), kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), err;
	struct conn *c;

	conn_forget(fd);
	if (fd < 0 || (domain != AF_INET && domain != AF_INET6) || kind != SOCK_STREAM ||
	    (protocol && protocol != IPPROTO_TCP))
		return fd;
	err = errno;
	c = conn_add(fd, -1, domain, CONN_OPEN);
	if (c)
		c->nonblock = type & SOCK_NONBLOCK;
	errno = err;
	return fd;
}

/* Locked.  It is not made before it is needed: a connection may go by TCP. */
static bool rsocket_make(struct conn *c)
{
	int rfd;

	if (conn_rfd(c) >= 0)
		return true;
	rfd = c->state == CONN_OPEN ? rsocket(c->domain, SOCK_STREAM | RDMAD_BESIDE_TCP, 0) : -1;
	if (rfd < 0)
		return false;
	for (unsigned i = 0; i < c->opts_n; i++)
		rsetsockopt(rfd, c->opts[i].level, c->opts[i].name, c->opts[i].val, c->opts[i].len);
	__atomic_store_n(&c->rfd, rfd, __ATOMIC_RELEASE);
	return true;
}

static bool rsocket_have(struct conn *c)
{
	bool have;

	pthread_mutex_lock(&c->lock);
	have = rsocket_make(c);
	pthread_mutex_unlock(&c->lock);
	return have;
}

static bool port_shared(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return !real()->getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, &len) && on;
}

/*
 * A port that is free for TCP may be taken for RDMA, where no two listeners share one; an address that no RDMA device has is
 * for TCP only, and so is a port that TCP has chosen and a client of RDMA has: the socket cannot be given another one.
 */
static int bind_too(int fd, struct conn *c, bool any)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	if (real()->getsockname(fd, (struct sockaddr *)&a, &len))
		return -1;
	c->local6 = addr_is_local6((struct sockaddr *)&a);
	if (rsocket_have(c) && !rbind(conn_rfd(c), (struct sockaddr *)&a, len))
		return 0;
	if (conn_rfd(c) >= 0 && errno == EADDRINUSE && !any && !port_shared(fd))
		return fail(EADDRINUSE);
	conn_drop(c);
	return 0;
}

/* The TCP socket does not know of that. */
static bool is_linked(const struct conn *c) { return conn_state(c) == CONN_CONNECTING || conn_state(c) == CONN_RDMA; }

EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct conn *c = conn_get(fd);
	int ret = c && is_linked(c) ? fail(EINVAL) : real()->bind(fd, addr, len);

	if (!ret && c)
		ret = bind_too(fd, c, port_any(addr));
	if (c)
		conn_put(c);
	return ret;
}

/* Numbers that were listeners; some may be something else by now. */
enum { HEARD = 64 };
static int heard[HEARD];
static unsigned heard_n; /* atomic */
static pthread_mutex_t heard_lock = PTHREAD_MUTEX_INITIALIZER;

static void listener_note(int fd)
{
	unsigned i = 0;

	pthread_mutex_lock(&heard_lock);
	while (i < heard_n && heard[i] != fd)
		i++;
	if (i < HEARD && i == heard_n) {
		__atomic_store_n(&heard[i], fd, __ATOMIC_RELAXED);
		__atomic_store_n(&heard_n, i + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&heard_lock);
}

EXPORT int listen(int fd, int backlog)
{
	struct conn *c = conn_get(fd);
	int ret = c && is_linked(c) ? fail(EINVAL) : real()->listen(fd, backlog);

	if (!c || ret) {
		if (c)
			conn_put(c);
		return ret;
	}
	if (rsocket_have(c) && !rlisten(conn_rfd(c), backlog)) {
		__atomic_store_n(&c->state, CONN_LISTEN, __ATOMIC_RELEASE);
		rfcntl(conn_rfd(c), F_SETFL, O_NONBLOCK);
		real()->fcntl(fd, F_SETFL, real()->fcntl(fd, F_GETFL) | O_NONBLOCK);
		reg_dropped(c);                                     /* TCP is watched, too */
		if (__atomic_load_n(&c->awaited, __ATOMIC_RELAXED)) /* as of a socket that was registered before */
			rdmad_rs_early(conn_rfd(c));
		listener_note(fd);
	} else {
		conn_drop(c);
	}
	conn_put(c);
	return ret;
}

/* Locked.  The TCP socket waits by itself from now on. */
static void listener_drop(int fd, struct conn *c)
{
	if (!c->nonblock)
		real()->fcntl(fd, F_SETFL, real()->fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	conn_drop(c);
}

/* Locked.  Clients that are connected already come by TCP, too. */
static void listener_end(int fd, struct conn *c)
{
	int rfd;

	while ((rfd = rdmad_rs_queued(conn_rfd(c))) >= 0)
		bridge_to(fd, rfd, c->domain);
	listener_drop(fd, c);
}

void listener_broken(int fd, struct conn *c)
{
	int cancel = lock_begin(c);

	if (c->state == CONN_LISTEN)
		listener_end(fd, c);
	lock_end(c, cancel);
}

/*
 * A server that forks before it has looked at its listener mostly leaves it to the children, who have the TCP side.  Then nobody
 * would answer a client's request, and only the client's patience would end it; without a listener it is refused.
 */
void listener_leave(int fd, struct conn *c)
{
	/* Whoever connects or accepts may have the lock for long. */
	if (conn_state(c) != CONN_LISTEN || __atomic_load_n(&c->awaited, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&c->lock);
	if (c->state == CONN_LISTEN && !c->awaited)
		listener_end(fd, c);
	pthread_mutex_unlock(&c->lock);
}

void conn_share(int fd, struct conn *c)
{
	pthread_mutex_lock(&c->lock);
	if (c->state == CONN_OPEN)
		conn_drop(c);
	pthread_mutex_unlock(&c->lock);
	listener_leave(fd, c);
}

static bool listens_at(const struct conn *c, in_port_t port)
{
	struct sockaddr_storage a = { 0 };
	socklen_t len = sizeof(a);

	return conn_state(c) == CONN_LISTEN && !rgetsockname(conn_rfd(c), (struct sockaddr *)&a, &len) &&
	       port_of(&a) == port;
}

void listeners_end(const struct sockaddr_storage *at)
{
	for (int fd = 0; fd < conn_top(); fd++) {
		struct conn *c = conn_own(fd);

		if (!c)
			continue;
		pthread_mutex_lock(&c->lock);
		if (listens_at(c, port_of(at)))
			listener_end(fd, c);
		pthread_mutex_unlock(&c->lock);
		conn_put(c);
	}
}

/* Another process may be the one that accepts, as one that has the TCP side only: then a client would be connected in vain. */
void listener_await(struct conn *c)
{
	if (__atomic_load_n(&c->awaited, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&c->lock);
	__atomic_store_n(&c->awaited, true, __ATOMIC_RELAXED);
	if (c->state == CONN_LISTEN)
		rdmad_rs_early(conn_rfd(c));
	pthread_mutex_unlock(&c->lock);
}

/* A program that connects to itself, maybe in the thread that is to accept. */
static void listener_meet(const struct sockaddr *to)
{
	in_port_t port = port_of((const struct sockaddr_storage *)(const void *)to);
	unsigned n = __atomic_load_n(&heard_n, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < n; i++) {
		struct conn *c = conn_get(__atomic_load_n(&heard[i], __ATOMIC_RELAXED));

		if (c && listens_at(c, port))
			rdmad_rs_early(conn_rfd(c));
		if (c)
			conn_put(c);
	}
}

/* ---- connect ---------------------------------------------------------------------------------------------- */

/* Locked.  A thread that waits for a connection has to hear of a failure, which the TCP socket reports only once. */
static int connect_tcp(int fd, struct conn *c)
{
	int ret = real()->connect(fd, (struct sockaddr *)&c->peer, c->peer_len), err = errno;

	if (!ret || err == EINPROGRESS) {
		conn_drop(c);
		errno = err;
		return ret;
	}
	c->err = err;
	__atomic_store_n(&c->state, CONN_FAILED, __ATOMIC_RELEASE);
	return -1;
}

int conn_err_take(struct conn *c) { return __atomic_exchange_n(&c->err, 0, __ATOMIC_RELAXED); }

/* Locked.  The state of the rsocket: 0, EINPROGRESS, or why not. */
static int connect_ask(struct conn *c)
{
	int err = 0;
	socklen_t len = sizeof(err);
	struct pollfd p = { conn_rfd(c), POLLOUT | POLLRDHUP, 0 };

	if (rs_poll(&p, 1, 0, NULL) <= 0)
		return c->deadline > now_ms() ? EINPROGRESS : ETIMEDOUT;
	if (!(p.revents & POLLERR) || p.revents & POLLRDHUP) /* it was there, and was reset: who reads hears of it */
		return 0;
	rgetsockopt(conn_rfd(c), SOL_SOCKET, SO_ERROR, &err, &len);
	return err ? err : ECONNREFUSED;
}

static void unlock(void *lock) { pthread_mutex_unlock(lock); }

static void progress(int fd, struct conn *c)
{
	int err;

	pthread_mutex_lock(&c->lock);
	pthread_cleanup_push(unlock, &c->lock);
	err = c->state == CONN_CONNECTING ? connect_ask(c) : EINPROGRESS;
	if (err == ETIMEDOUT || (err && err != EINPROGRESS && now_ns() - c->asked_ns > LATE_NS))
		peer_silent((struct sockaddr *)&c->peer, err != ETIMEDOUT);
	if (!err) {
		c->there_ns = now_ns();
		__atomic_store_n(&c->state, CONN_RDMA, __ATOMIC_RELEASE);
		rfcntl(conn_rfd(c), F_SETFL, c->nonblock ? O_NONBLOCK : 0);
	} else if (err != EINPROGRESS) {
		connect_tcp(fd, c);
	}
	pthread_cleanup_pop(1);
}

void conn_progress(int fd, struct conn *c)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	progress(fd, c);
	pthread_setcancelstate(cancel, NULL);
}

static int connect_wait(int fd, struct conn *c)
{
	while (conn_state(c) == CONN_CONNECTING) {
		int64_t left = c->deadline - now_ms();

		if (rs_wait_for(conn_rfd(c), POLLOUT, left < 0 ? 0 : (int)left) < 0 && !heed_goes_on(c->send_ms))
			return -1;
		if (conn_state(c) != CONN_CONNECTING)
			break;
		progress(fd, c);
	}
	return 0;
}

static int connect_start(int fd, struct conn *c, const struct sockaddr *addr, socklen_t len)
{
	int ret;

	memcpy(&c->peer, addr, len);
	c->local6 = addr_is_local6(addr);
	c->peer_len = len;
	c->deadline = now_ms() + CONNECT_MS;
	c->asked_ns = now_ns();
	ret = -1;
	errno = ETIMEDOUT;
	if (!peer_by_tcp(addr) && rsocket_make(c)) {
		rfcntl(conn_rfd(c), F_SETFL, O_NONBLOCK);
		listener_meet(addr);
		ret = rconnect(conn_rfd(c), addr, len);
	}
	if (ret && errno != EINPROGRESS) {
		ret = connect_tcp(fd, c);
		if (conn_state(c) == CONN_FAILED) { /* it hears it now */
			c->err = 0;
			__atomic_store_n(&c->state, CONN_OPEN, __ATOMIC_RELEASE);
		}
		return ret;
	}
	__atomic_store_n(&c->state, CONN_CONNECTING, __ATOMIC_RELEASE);
	reg_seen(c, UINT32_MAX); /* it was told of as one that is not connected */
	return fail(EINPROGRESS);
}

/* One that has failed can be tried again.  If it is bound it is TCP's from then on: the rsocket's port is not to be had twice. */
static void renew(int fd, struct conn *c)
{
	struct sockaddr_storage a = { 0 };
	socklen_t len = sizeof(a);
	int rfd, cancel = lock_begin(c);

	if (c->state == CONN_FAILED && !real()->getsockname(fd, (struct sockaddr *)&a, &len) && port_of(&a)) {
		conn_drop(c);
	} else if (c->state == CONN_FAILED) {
		rfd = __atomic_exchange_n(&c->rfd, -1, __ATOMIC_ACQ_REL);
		c->err = 0;
		__atomic_store_n(&c->state, CONN_OPEN, __ATOMIC_RELEASE);
		reg_seen(c, UINT32_MAX);
		rclose(rfd);
	}
	lock_end(c, cancel);
}

static int connect_end(int fd, struct conn *c)
{
	struct heed before = heed_begin();
	int err = connect_wait(fd, c);

	heed_end(&before);
	if (err)
		return -1;
	err = conn_err_take(c);
	if (!err && conn_state(c) != CONN_FAILED) {
		__atomic_store_n(&c->told, true, __ATOMIC_RELAXED);
		return 0;
	}
	renew(fd, c);
	return fail(err);
}

int conn_settle(int fd, struct conn *c, bool wait)
{
	int ret = 0, err;

	if (conn_state(c) == CONN_CONNECTING)
		conn_progress(fd, c);
	if (conn_state(c) == CONN_CONNECTING) {
		pthread_cleanup_push(conn_cancelled, c);
		ret = wait ? connect_wait(fd, c) : fail(EAGAIN);
		pthread_cleanup_pop(0);
	}
	err = conn_state(c) == CONN_FAILED ? conn_err_take(c) : 0;
	return err ? fail(err) : ret;
}

/* AF_UNSPEC: it is not connected any more, nor listens; the peer is reset. */
static void unconnect(int fd, struct conn *c)
{
	const struct linger none = { 1, 0 };
	int cancel = lock_begin(c);

	switch (c->state) {
	case CONN_CONNECTING:
	case CONN_RDMA:
		rsetsockopt(conn_rfd(c), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
		c->err = ECONNABORTED;
		conn_drop(c);
		break;
	case CONN_LISTEN: listener_drop(fd, c); break;
	default: break;
	}
	lock_end(c, cancel);
}

/* As Linux has it, the first call that finds the connection there has made it. */
static int connect_found(struct conn *c)
{
	bool told = c->accepted || __atomic_exchange_n(&c->told, true, __ATOMIC_RELAXED);

	return told ? fail(EISCONN) : 0;
}

static bool has_family(const struct conn *c, const struct sockaddr *addr, socklen_t len)
{
	return addr->sa_family == c->domain &&
	       len >= (c->domain == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

static int connect_any(int fd, struct conn *c, const struct sockaddr *addr, socklen_t len)
{
	int ret;

	if (conn_state(c) == CONN_CONNECTING)
		conn_progress(fd, c);
	if (conn_state(c) == CONN_FAILED)
		renew(fd, c);
	if (len >= sizeof(addr->sa_family) && addr->sa_family == AF_UNSPEC)
		unconnect(fd, c);
	if (conn_state(c) == CONN_OPEN && len <= sizeof(c->peer) && has_family(c, addr, len)) {
		pthread_mutex_lock(&c->lock);
		pthread_cleanup_push(unlock, &c->lock);
		ret = connect_start(fd, c, addr, len);
		pthread_cleanup_pop(1);
	} else {
		ret = conn_state(c) == CONN_CONNECTING ? fail(EALREADY)
		      : conn_state(c) == CONN_RDMA     ? connect_found(c)
						       : real()->connect(fd, addr, len);
	}
	if (ret && errno == EINPROGRESS && !c->nonblock && conn_state(c) == CONN_CONNECTING)
		ret = connect_end(fd, c);
	return ret;
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct conn *c = conn_get(fd);
	int ret;

	if (!c)
		return real()->connect(fd, addr, len);
	pthread_cleanup_push(conn_cancelled, c);
	ret = connect_any(fd, c, addr, len);
	pthread_cleanup_pop(1);
	return ret;
}

/* ---- names, the end ------------------------------------------------------------------------------------- */

/* While it connects it has a name, and no peer. */
static int name(int fd, struct sockaddr *addr, socklen_t *len, bool peer)
{
	struct conn *c = conn_get(fd);
	struct sockaddr_storage a = { 0 };
	struct names names;
	socklen_t n = sizeof(a);
	int ret;

	if (c && conn_state(c) == CONN_CONNECTING)
		conn_progress(fd, c);
	if (!c && names_of(fd, &names)) {
		name_give(names.domain, peer ? &names.peer : &names.self, addr, len);
		ret = 0;
	} else if (c && (conn_state(c) == CONN_RDMA || (conn_state(c) == CONN_CONNECTING && !peer))) {
		ret = (peer ? rgetpeername : rgetsockname)(conn_rfd(c), (struct sockaddr *)&a, &n);
		name_local6(c, &a);
		if (!ret)
			name_give(c->domain, &a, addr, len);
	} else {
		ret = (peer ? real()->getpeername : real()->getsockname)(fd, addr, len);
	}
	if (c)
		conn_put(c);
	return ret;
}

EXPORT int getsockname(int fd, struct sockaddr *addr, socklen_t *len) { return name(fd, addr, len, false); }

EXPORT int getpeername(int fd, struct sockaddr *addr, socklen_t *len) { return name(fd, addr, len, true); }

/* As TCP ends one that is not there yet, and a thread that waits for it hears that.  While that tries TCP, it is TCP's. */
static bool connect_abort(struct conn *c)
{
	bool is;
	int cancel;

	if (pthread_mutex_trylock(&c->lock))
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	is = c->state == CONN_CONNECTING;
	if (is) {
		c->err = ECONNABORTED;
		conn_drop(c);
	}
	pthread_setcancelstate(cancel, NULL);
	pthread_mutex_unlock(&c->lock);
	return is;
}

static void listener_stop(int fd, struct conn *c)
{
	int cancel = lock_begin(c);

	if (c->state == CONN_LISTEN)
		listener_drop(fd, c);
	lock_end(c, cancel);
}

EXPORT int shutdown(int fd, int how)
{
	struct conn *c = conn_get(fd);
	int ret = 0;

	if (c && conn_state(c) == CONN_CONNECTING && c->nonblock)
		conn_progress(fd, c);
	if (c && conn_state(c) == CONN_RDMA)
		ret = rshutdown(conn_rfd(c), how);
	else if (!c || conn_state(c) != CONN_CONNECTING || !connect_abort(c))
		ret = real()->shutdown(fd, how);
	/* It listens no more, until it is told to again. */
	if (c && !ret && conn_state(c) == CONN_LISTEN && how != SHUT_WR)
		listener_stop(fd, c);
	if (c)
		conn_put(c);
	return ret;
}
