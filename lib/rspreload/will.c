/* SPDX-License-Identifier: MIT */
/*
 * will.c - the connections that a child by fork() has of its parent.
 *
 * Most children never use them, and their parents go on to; so nothing happens to a connection until the child calls something with
 * its descriptor.  Then it asks its parent, by a socket that the two have from the fork, and gets one end of a bridge (bridge.c).
 * Until the child has asked, closed it or ended, a connection that the parent closes stays open, as a TCP socket would.
 */
#include "pre.h"

#include <fcntl.h>

#include <rdmad/apart.h>
#include <rdmad/high.h>

enum { ANSWER_S = 10 };

/* To take it, with a socket for the answer; without, to leave it. */
struct will_msg {
	int fd;
	bool shared; /* others may ask for it, too */
};

struct will_answer {
	int err;
	struct names names;
};

/* ---- a descriptor beside a message ---------------------------------------------------------------------- */

union fd_space {
	char buf[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static bool send_with(int sock, void *data, size_t len, int fd)
{
	union fd_space space = { 0 };
	struct iovec v = { data, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = space.buf;
		m.msg_controllen = sizeof(space.buf);
		*CMSG_FIRSTHDR(&m) = (struct cmsghdr){ CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof(fd));
	}
	return real()->sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)len;
}

/* *fd: -1 if there is none. */
static bool recv_with(int sock, void *data, size_t len, int *fd)
{
	union fd_space space = { 0 };
	struct iovec v = { data, len };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = space.buf, .msg_controllen = sizeof(space.buf)
	};
	ssize_t n;

	*fd = -1;
	do
		n = real()->recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n > 0 && CMSG_FIRSTHDR(&m) && CMSG_FIRSTHDR(&m)->cmsg_type == SCM_RIGHTS) {
		memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(*fd));
		*fd = fd_away(*fd, 0);
	}
	return n == (ssize_t)len;
}

/* ---- the parent ------------------------------------------------------------------------------------------- */

struct gift {
	int fd;
	struct conn *c; /* held; NULL: the child has taken or closed it */
};

struct will {
	int fd;
	int n;
	struct gift gifts[];
};

/* Of the fork that goes on.  One that comes meanwhile of the same thread, as of a signal handler, has none. */
static pthread_mutex_t will_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool writes __attribute__((tls_model("initial-exec")));
static struct will *will;
static pthread_t writer;
static int child_fd;

static bool shared; /* of a child: it has children of its own, that may ask for the same */

static void answer(struct conn *c, int to)
{
	struct will_answer a = { .err = bridge_open(c) };

	if (!a.err)
		names_of(c->end, &a.names);
	send_with(to, &a, sizeof(a), a.err ? -1 : c->end);
}

static void will_do(struct will *w, const struct will_msg *m, int to)
{
	struct gift *g = w->gifts;

	while (g < w->gifts + w->n && g->fd != m->fd)
		g++;
	if (g == w->gifts + w->n || !g->c)
		return;
	if (to >= 0)
		answer(g->c, to);
	if (!m->shared) {
		conn_unwill(g->c);
		g->c = NULL;
	}
}

static void will_end(struct will *w)
{
	for (int i = 0; i < w->n; i++)
		if (w->gifts[i].c)
			conn_unwill(w->gifts[i].c);
	if (w->fd >= 0)
		heir_close(w->fd);
	free(w);
}

/* Until no process has the other end. */
static void *will_run(void *arg)
{
	struct will *w = arg;
	struct will_msg m;
	int to;

	while (recv_with(w->fd, &m, sizeof(m), &to)) {
		will_do(w, &m, to);
		if (to >= 0)
			real()->close(to);
	}
	will_end(w);
	return NULL;
}

static bool will_open(struct will *w)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	w->fd = heir_keep(fd_away(pair[0], 0));
	child_fd = fd_away(pair[1], 0);
	if (w->fd >= 0 && child_fd >= 0)
		return true;
	if (child_fd >= 0)
		real()->close(child_fd);
	return false;
}

static struct will *will_write(void)
{
	struct will *w;
	int n = 0;

	for (int fd = 0; fd < heir_top(); fd++)
		shared |= heir_kind(fd) == HEIR_STREAM;
	for (int fd = 0; fd < conn_top(); fd++)
		n += conn_at(fd) != NULL;
	w = n ? malloc(sizeof(*w) + (size_t)n * sizeof(w->gifts[0])) : NULL;
	if (!w)
		return NULL;
	*w = (struct will){ .fd = -1 };
	for (int fd = 0; fd < conn_top() && w->n < n; fd++) {
		struct conn *c = conn_will(fd);

		if (c)
			w->gifts[w->n++] = (struct gift){ fd, c };
	}
	if (w->n && will_open(w))
		return w;
	will_end(w);
	return NULL;
}

pid_t will_fork(void)
{
	struct will *w;
	pid_t pid;
	int err;

	if (writes)
		return real()->fork();
	writes = true;
	pthread_mutex_lock(&will_lock);
	writer = pthread_self();
	w = will = will_write();
	pid = real()->fork();
	err = errno;
	will = NULL;
	if (w && pid)
		real()->close(child_fd);
	if (w && !pid)
		free(w); /* the conns are the parent's */
	else if (w && apart_run(will_run, w))
		will_end(w);
	pthread_mutex_unlock(&will_lock);
	writes = false;
	errno = err;
	return pid;
}

/* ---- the child -------------------------------------------------------------------------------------------- */

static int wills[FD_MAX]; /* whom it asks: a socket; of these heir_kind() is HEIR_STREAM */
static pid_t child;       /* this one, and not one of its own by vfork() */
static pthread_mutex_t ask_lock = PTHREAD_MUTEX_INITIALIZER;

void will_child(void)
{
	pthread_mutex_init(&ask_lock, NULL);
	child = getpid();
	if (!will || !pthread_equal(writer, pthread_self())) {
		pthread_mutex_init(&will_lock, NULL);
		return;
	}
	heir_mark(child_fd, HEIR_WILL);
	for (int i = 0; i < will->n; i++) {
		int fd = will->gifts[i].fd;

		if (conn_at(fd) != will->gifts[i].c)
			continue;
		heir_mark(fd, HEIR_STREAM);
		wills[fd] = child_fd;
	}
}

void will_closed(int sock)
{
	for (int fd = 0; fd < heir_top(); fd++)
		if (heir_kind(fd) == HEIR_STREAM && wills[fd] == sock)
			heir_mark(fd, HEIR_NONE);
}

void will_leave(int fd)
{
	struct will_msg m = { fd, shared };

	if (!shared)
		send_with(wills[fd], &m, sizeof(m), -1);
}

/* The answer goes where nobody else reads, as the socket may be several processes'. */
static bool ask(int fd, struct will_answer *a, int *end)
{
	struct will_msg m = { fd, shared };
	struct timeval limit = { ANSWER_S, 0 };
	int pair[2];
	bool is;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	real()->setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	is = send_with(wills[fd], &m, sizeof(m), pair[1]);
	real()->close(pair[1]);
	is = is && recv_with(pair[0], a, sizeof(*a), end) && !a->err && *end >= 0;
	real()->close(pair[0]);
	return is;
}

static void name(int fd, const struct names *n)
{
	names_add(fd, n);
	names_export(fd, n);
}

static void take(int fd)
{
	int cloexec = real()->fcntl(fd, F_GETFD) & FD_CLOEXEC, end = -1;
	struct will_answer a;

	if (ask(fd, &a, &end) && real()->dup3(end, fd, cloexec ? O_CLOEXEC : 0) == fd)
		name(fd, &a.names);
	if (end >= 0)
		real()->close(end);
	heir_mark(fd, HEIR_NONE);
}

void will_take(int fd)
{
	int err = errno, cancel;

	if (heir_kind(fd) != HEIR_STREAM || getpid() != child)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&ask_lock);
	if (heir_kind(fd) == HEIR_STREAM)
		take(fd);
	pthread_mutex_unlock(&ask_lock);
	pthread_setcancelstate(cancel, NULL);
	errno = err;
}
