/* SPDX-License-Identifier: MIT */
/*
 * bridge.c - a connection that goes to another process, too: its descriptor becomes a TCP socket with its other end in this process,
 * and a thread carries the data between that and the rsocket.
 *
 * A socket may be inherited and passed on; an rsocket's queue pair and memory are one process'.  A server that does so once does it
 * with each client: its listener is one of TCP from then on, whose connections need no bridge.
 */
#include "pre.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <time.h>

#include <rdmad/apart.h>
#include <rdmad/high.h>
#include <rdmad/loopback.h>
#include <rdmad/own.h>

enum { PART = 65536, TRIES = 16, OTHERS_MS = 10, EXIT_MS = 10000, LOOK_NS = 100000 };

struct way {
	char buf[PART];
	size_t at, len;
	bool ended; /* where it comes from */
	bool done;  /* and this was said where it goes to */
};

struct bridge {
	struct bridge *next;
	struct conn *c; /* held */
	int inner;      /* our end; -1: it is still to be connected, to */
	struct sockaddr_storage to;
	socklen_t to_len;
	struct known *known;
	pthread_mutex_t lock;
	struct way in, out; /* from the peer, and to it */
};

static pthread_mutex_t bridges_lock = PTHREAD_MUTEX_INITIALIZER;
static struct bridge *bridges;

/* ---- what a thread carries ----------------------------------------------------------------------------- */

/* Of a call that does not wait: whether the connection goes on. */
static bool goes_on(ssize_t n) { return n >= 0 || errno == EAGAIN || errno == EINTR; }

static void filled(struct way *w, ssize_t n)
{
	w->at = 0;
	w->len = n > 0 ? (size_t)n : 0;
	w->ended = !n;
}

static void drained(struct way *w, ssize_t n)
{
	w->at += n > 0 ? (size_t)n : 0;
	w->len -= n > 0 ? (size_t)n : 0;
}

static bool to_fill(const struct way *w) { return !w->len && !w->ended; }

static bool at_end(const struct way *w) { return !w->len && w->ended && !w->done; }

/* A call that began before has the rsocket, and takes what comes first. */
static bool may_take(struct bridge *b) { return to_fill(&b->in) && conn_alone(b->c); }

static bool carry_in(struct bridge *b, bool take)
{
	struct way *w = &b->in;
	ssize_t n = 0;

	if (take) {
		n = rrecv(conn_rfd(b->c), w->buf, sizeof(w->buf), MSG_DONTWAIT);
		filled(w, n);
	}
	if (goes_on(n) && w->len) {
		n = real()->send(b->inner, w->buf + w->at, w->len, MSG_DONTWAIT | MSG_NOSIGNAL);
		drained(w, n);
	}
	if (at_end(w)) {
		real()->shutdown(b->inner, SHUT_WR);
		w->done = true;
	}
	return goes_on(n);
}

static bool carry_out(struct bridge *b)
{
	struct way *w = &b->out;
	ssize_t n = 0;

	if (to_fill(w)) {
		n = real()->recv(b->inner, w->buf, sizeof(w->buf), MSG_DONTWAIT);
		filled(w, n);
	}
	if (goes_on(n) && w->len) {
		n = rsend(conn_rfd(b->c), w->buf + w->at, w->len, MSG_DONTWAIT);
		drained(w, n);
	}
	if (at_end(w)) {
		rshutdown(conn_rfd(b->c), SHUT_WR);
		w->done = true;
	}
	return goes_on(n);
}

static void await(struct bridge *b, bool take)
{
	short rdma = (short)((take ? POLLIN : 0) | (b->out.len ? POLLOUT : 0));
	short tcp = (short)((to_fill(&b->out) ? POLLIN : 0) | (b->in.len ? POLLOUT : 0));
	struct pollfd p[] = { { rdma ? conn_rfd(b->c) : -1, rdma, 0 }, { tcp ? b->inner : -1, tcp, 0 } };

	rs_poll(p, ARRAY_N(p), to_fill(&b->in) && !take ? OTHERS_MS : -1, NULL);
}

static void carry(struct bridge *b)
{
	static const struct linger hard = { 1, 0 };
	bool lives = true;

	while (lives && !(b->in.done && b->out.done)) {
		bool take = may_take(b);

		await(b, take);
		pthread_mutex_lock(&b->lock);
		lives = carry_in(b, take) && carry_out(b);
		pthread_mutex_unlock(&b->lock);
	}
	if (lives) {
		real()->shutdown(b->inner, SHUT_RDWR); /* children may have it, too */
		return;
	}
	/* A break at one end is one at the other. */
	real()->setsockopt(b->inner, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	rsetsockopt(conn_rfd(b->c), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)); /* of rclose() */
}

/* (It is too large for a stack.) */
static struct bridge *bridge_new(struct conn *c)
{
	struct bridge *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->c = c;
	b->inner = -1;
	pthread_mutex_init(&b->lock, NULL);
	return b;
}

static void bridge_free(struct bridge *b)
{
	names_forget(b->known);
	if (b->inner >= 0)
		heir_close(b->inner);
	conn_put(b->c);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static void bridge_add(struct bridge *b)
{
	pthread_mutex_lock(&bridges_lock);
	b->next = bridges;
	bridges = b;
	pthread_mutex_unlock(&bridges_lock);
}

static void bridge_take(struct bridge *b)
{
	struct bridge **p;

	pthread_mutex_lock(&bridges_lock);
	for (p = &bridges; *p != b; p = &(*p)->next)
		;
	*p = b->next;
	pthread_mutex_unlock(&bridges_lock);
}

static int tcp_socket(int domain) { return fd_away(real()->socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0), 0); }

static void limit_set(int fd, int name, int ms)
{
	struct timeval t = { ms / 1000, ms % 1000 * 1000 };

	real()->setsockopt(fd, SOL_SOCKET, name, &t, sizeof(t));
}

static bool names_get(const struct conn *c, struct names *n)
{
	socklen_t self = sizeof(n->self), peer = sizeof(n->peer);

	*n = (struct names){ .domain = c->domain };
	if (rgetsockname(conn_rfd(c), (struct sockaddr *)&n->self, &self) ||
	    rgetpeername(conn_rfd(c), (struct sockaddr *)&n->peer, &peer))
		return false;
	name_local6(c, &n->self);
	name_local6(c, &n->peer);
	return true;
}

/* The listener's own address, or localhost, and a port that nobody else has there. */
static bool inner_bind(const struct bridge *b, int fd)
{
	struct sockaddr_storage a = b->to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a;
	struct sockaddr_in *in = (struct sockaddr_in *)&a;

	if (a.ss_family == AF_INET && in->sin_addr.s_addr == htonl(INADDR_ANY))
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (a.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr))
		in6->sin6_addr = in6addr_loopback;
	in->sin_port = 0; /* at the same place in both */
	return !real()->bind(fd, (struct sockaddr *)&a, b->to_len);
}

/*
 * A listener that has no room lets it wait.  Its program hears whose connection it is: under an address of this host it might be
 * served what others are not.
 */
static bool meet(struct bridge *b)
{
	int fd = tcp_socket(b->c->domain);
	struct names n;

	if (fd < 0)
		return false;
	limit_set(fd, SO_SNDTIMEO, EXIT_MS);
	if (names_get(b->c, &n) && inner_bind(b, fd))
		b->known = names_expect(&b->to, fd, &n);
	if (!b->known || real()->connect(fd, (struct sockaddr *)&b->to, b->to_len)) {
		real()->close(fd);
		return false;
	}
	limit_set(fd, SO_SNDTIMEO, 0);
	pthread_mutex_lock(&bridges_lock);
	b->inner = heir_keep(fd);
	pthread_mutex_unlock(&bridges_lock);
	return true;
}

static void *bridge_run(void *arg)
{
	struct bridge *b = arg;

	pthread_mutex_lock(&b->c->lock); /* it is being made */
	pthread_mutex_unlock(&b->c->lock);
	if (b->inner >= 0 || meet(b))
		carry(b);
	bridge_take(b);
	bridge_free(b);
	return NULL;
}

/* ---- to make one ------------------------------------------------------------------------------------------ */

/* Anybody may connect to a port; ours is the one with this address. */
static int accept_from(int listen, const struct sockaddr_storage *want, socklen_t len)
{
	struct sockaddr_storage from;

	for (unsigned i = 0; i < TRIES; i++) {
		socklen_t n = sizeof(from);
		int fd = fd_away(real()->accept4(listen, (struct sockaddr *)&from, &n, SOCK_CLOEXEC), 0);

		if (fd < 0 || (n == len && !memcmp(&from, want, n)))
			return fd;
		real()->close(fd);
	}
	return fail(EADDRINUSE);
}

/* Both ends of a connection to the listener, which has no address yet: 0, or -1 and none is open. */
static int tcp_meet(int listen, int domain, int pair[2])
{
	struct sockaddr_storage a = { .ss_family = (sa_family_t)domain };
	socklen_t len = domain == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	if (domain == AF_INET6)
		((struct sockaddr_in6 *)&a)->sin6_addr = in6addr_loopback;
	else
		((struct sockaddr_in *)&a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pair[0] = tcp_socket(domain);
	pair[1] = -1;
	if (pair[0] >= 0 && !real()->bind(listen, (struct sockaddr *)&a, len) && !real()->listen(listen, TRIES) &&
	    !real()->getsockname(listen, (struct sockaddr *)&a, &len) &&
	    !real()->connect(pair[0], (struct sockaddr *)&a, len) &&
	    !real()->getsockname(pair[0], (struct sockaddr *)&a, &len))
		pair[1] = accept_from(listen, &a, len);
	if (pair[1] >= 0)
		return 0;
	if (pair[0] >= 0)
		real()->close(pair[0]);
	return -1;
}

static int tcp_pair(int domain, int pair[2])
{
	int listen = tcp_socket(domain), ret = listen < 0 ? -1 : tcp_meet(listen, domain, pair), err = errno;

	if (listen >= 0)
		real()->close(listen);
	errno = err;
	return ret;
}

/* As the program has set the other one. */
static void end_set_up(int end, int inner, const struct conn *c)
{
	int on = 1;

	real()->setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	real()->setsockopt(inner, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	limit_set(end, SO_RCVTIMEO, c->recv_ms);
	limit_set(end, SO_SNDTIMEO, c->send_ms);
	if (c->nonblock)
		real()->fcntl(end, F_SETFL, O_RDWR | O_NONBLOCK);
}

/* Locked by c->lock, which the thread waits for. */
static int build(struct conn *c)
{
	struct bridge *b = bridge_new(c);
	struct names n;
	int pair[2], err;

	if (!b)
		return ENOMEM;
	/* Without ::1 one of IPv4 will do: what the program is told its addresses are is another matter (names.c). */
	if (tcp_pair(c->domain, pair) && (c->domain == AF_INET || tcp_pair(AF_INET, pair))) {
		err = errno;
		free(b);
		return err;
	}
	b->inner = heir_keep(pair[1]);
	conn_hold(c);
	bridge_add(b);
	err = apart_run(bridge_run, b);
	if (err) {
		bridge_take(b);
		bridge_free(b);
		real()->close(pair[0]);
		return err;
	}
	if (names_get(c, &n))
		b->known = names_add(pair[0], &n);
	end_set_up(pair[0], pair[1], c);
	conn_bridged(c, heir_keep(pair[0]));
	return 0;
}

int bridge_open(struct conn *c)
{
	struct sockaddr_storage self = { 0 };
	socklen_t len = sizeof(self);
	int err = 0, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&c->lock);
	if (c->state == CONN_RDMA)
		err = build(c);
	else if (c->end < 0)
		err = ENOTCONN;
	pthread_mutex_unlock(&c->lock);
	if (!err && c->accepted && !rgetsockname(conn_rfd(c), (struct sockaddr *)&self, &len))
		listeners_end(&self);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

void bridge_to(int fd, int rfd, int domain)
{
	struct conn *c = conn_new(rfd, domain, CONN_TCP);
	struct bridge *b = c ? bridge_new(c) : NULL;

	if (!c)
		rclose(rfd);
	else if (!b)
		conn_put(c);
	if (!b)
		return;
	b->to_len = sizeof(b->to);
	real()->getsockname(fd, (struct sockaddr *)&b->to, &b->to_len);
	c->local6 = addr_is_local6((struct sockaddr *)&b->to) || rdmad_rs_local6(rfd) > 0;
	bridge_add(b);
	if (!apart_run(bridge_run, b))
		return;
	bridge_take(b);
	bridge_free(b);
}

/* ---- the end of the process ------------------------------------------------------------------------------- */

static bool carries(struct bridge *b)
{
	int unread = 0;
	bool does;

	pthread_mutex_lock(&b->lock);
	does = b->out.len || (b->inner >= 0 && !real()->ioctl(b->inner, FIONREAD, &unread) && unread);
	pthread_mutex_unlock(&b->lock);
	return does;
}

/* All that the other processes have sent by now goes as far as the rsockets, which have an end of their own (rs_exit.c). */
__attribute__((destructor)) static void bridges_end(void)
{
	int64_t until = now_ms() + EXIT_MS;
	bool left;

	do {
		left = false;
		pthread_mutex_lock(&bridges_lock);
		for (struct bridge *b = bridges; b; b = b->next)
			left |= carries(b);
		pthread_mutex_unlock(&bridges_lock);
		if (left)
			nanosleep(&(struct timespec){ 0, LOOK_NS }, NULL);
	} while (left && now_ms() < until);
}

void bridges_forget(void)
{
	bridges = NULL;
	pthread_mutex_init(&bridges_lock, NULL);
}
