/* SPDX-License-Identifier: MIT */
/*
 * conn.c - the control connection.
 *
 *	connect to	$RDMAD_SOCKET, nothing else if it is set
 *			RDMAD_SYSTEM_SOCKET
 *			RDMAD_PRIVATE_SOCKET
 *	check		SO_PEERCRED: root's daemon or our own
 *	MSG_HELLO	same RDMAD_ABI
 */
#include "base.h"
#include "conn.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/clock.h>
#include <rdmad/high.h>
#include <rdmad/mail.h>
#include <rdmad/sock.h>

#define FDS_MAX  4u
#define LOOK_NS  20000u
#define LONG_NS  1000000u
#define SPELL_NS 64000000u

/*
 * Servers such as nginx clear their environment once they have read it, and make connections later: what it was when the library
 * was loaded holds where it says nothing now.
 */
static char *socket_kept, *run_kept;

static char *env_keep(const char *name)
{
	const char *env = secure_getenv(name);

	return env ? strdup(env) : NULL;
}

__attribute__((constructor)) static void envs_keep(void)
{
	socket_kept = env_keep("RDMAD_SOCKET");
	run_kept = env_keep("RDMAD_RUN");
}

static const char *env_get(const char *name, const char *kept)
{
	const char *env = secure_getenv(name);

	return env ? env : kept;
}

/* A connected socket, or -errno. */
static int name_connect(const char *name, pid_t *pid)
{
	struct ucred who;
	int fd;

	/* Of signals of the program's no call of ours ends. */
	while ((fd = sock_connect(name, 0, &who)) == -EINTR)
		;
	if (fd >= 0 && (fd = fd_high(fd)) < 0)
		return -errno;
	if (fd >= 0)
		*pid = who.uid == geteuid() ? who.pid : 0;
	return fd == -ENAMETOOLONG ? -EINVAL : fd;
}

static int daemon_connect(pid_t *pid)
{
	const char *env = env_get("RDMAD_SOCKET", socket_kept);
	char own[64];
	int fd;

	if (env && *env)
		return name_connect(env, pid);
	fd = name_connect(RDMAD_SYSTEM_SOCKET, pid);
	if (fd >= 0)
		return fd;
	snprintf(own, sizeof(own), RDMAD_PRIVATE_SOCKET, (unsigned)geteuid());
	return name_connect(own, pid);
}

/* Numbers with commas between. */
static void runs_read(struct msg_runs *runs)
{
	const char *at = env_get("RDMAD_RUN", run_kept);
	char *end;

	for (unsigned i = 0; at && *at && i < MSG_RUNS; i++) {
		runs->id[i] = strtoull(at, &end, 16);
		at = *end == ',' ? end + 1 : NULL;
	}
}

static int open_hello(struct conn *c)
{
	struct msg_req req = { .op = MSG_HELLO };
	struct msg_rep rep;
	int err;

	memset(c, 0, sizeof(*c));
	c->fd = daemon_connect(&c->daemon);
	if (c->fd < 0)
		return c->fd == -ENOENT || c->fd == -ECONNREFUSED ? ENOSYS : -c->fd;
	c->owner = getpid();
	pthread_mutex_init(&c->lock, NULL);
	req.hello.abi = RDMAD_ABI;
	req.hello.pid = (uint32_t)c->owner;
	runs_read(&req.hello.runs);
	snprintf(req.hello.prog, sizeof(req.hello.prog), "%.31s", program_invocation_short_name);
	err = conn_call(c, &req, &rep, -1, NULL, 0);
	if (!err && rep.hello.abi != RDMAD_ABI)
		err = EPROTONOSUPPORT;
	if (!err && c->daemon == c->owner) /* gVisor tells everybody's pid as that of the one who asks */
		c->daemon = (pid_t)rep.hello.pid;
	if (err)
		conn_close(c);
	return err;
}

void conn_tell(void)
{
	const char *env = env_get("RDMAD_SOCKET", socket_kept);
	static atomic_flag told;

	if (env && *env && !atomic_flag_test_and_set(&told))
		fprintf(stderr, "libibverbs (rdmad): no daemon answers at %s (RDMAD_SOCKET): it has ended, or %s\n",
			env,
			*env == '@' ? "is in another network namespace, where a name with @ does not reach it"
				    : "this is another root or container, where that path is not its socket");
}

int conn_open(struct conn *c)
{
	int err, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = open_hello(c);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

void conn_close(struct conn *c)
{
	close(c->fd);
	if (c->mail)
		munmap(c->mail, sizeof(*c->mail));
	pthread_mutex_destroy(&c->lock);
}

bool conn_mine(const struct conn *c) { return c->owner == getpid(); }

bool conn_gone(const struct conn *c)
{
	struct pollfd p = { .fd = c->fd };

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

/* 0 or errno; EPIPE or ECONNRESET: it is over, but something may be there to be read. */
static int send_req(struct conn *c, const void *req, size_t req_len, int send_fd)
{
	struct iovec iov = { .iov_base = (void *)req, .iov_len = req_len };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl = { 0 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (send_fd >= 0) {
		struct cmsghdr *cm;

		mh.msg_control = ctl.buf;
		mh.msg_controllen = sizeof(ctl.buf);
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &send_fd, sizeof(int));
	}
	if (sock_say(c->fd, &mh) == (ssize_t)iov.iov_len)
		return 0;
	return sock_is_over(errno) ? errno : EIO;
}

/*
 * The daemon has most answers within some microseconds: to sleep until then costs two changes of threads, and it a wake-up.  So for as
 * long as that takes the core is given away and the socket looked at; not beside a neighbour that keeps the core.  false: sleep.
 */
static bool look(uint64_t *since)
{
	static _Thread_local uint64_t none_until;
	uint64_t before = clock_ns(CLOCK_MONOTONIC);

	if (!*since)
		*since = before;
	if (before < none_until || before - *since >= LOOK_NS)
		return false;
	sched_yield();
	if (clock_ns(CLOCK_MONOTONIC) - before >= LONG_NS)
		none_until = before + SPELL_NS;
	return true;
}

/* A thread that has the connection waits for an answer, so for as short a time. */
static void take_turn(struct conn *c)
{
	uint64_t since = 0;

	while (pthread_mutex_trylock(&c->lock))
		if (!look(&since)) {
			pthread_mutex_lock(&c->lock);
			return;
		}
}

/* The descriptors that came with a reply. */
struct got {
	int fds[FDS_MAX];
	unsigned n;
	bool lost; /* some were, as there is no room for them */
};

static void fds_close(struct got *got)
{
	while (got->n)
		close(got->fds[--got->n]);
}

static int recv_rep(struct conn *c, void *rep, size_t rep_len, struct got *got)
{
	struct iovec iov = { .iov_base = rep, .iov_len = rep_len };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} ctl;
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	struct cmsghdr *cm;
	uint64_t since = 0;
	unsigned over = 0; /* which the kernel says once, before what is left to be read */
	ssize_t len;

	do
		len = recvmsg(c->fd, &mh, MSG_CMSG_CLOEXEC | (look(&since) ? MSG_DONTWAIT : 0));
	while (len < 0 && (errno == EINTR || errno == EAGAIN || (sock_is_over(errno) && !over++)));
	for (cm = len > 0 ? CMSG_FIRSTHDR(&mh) : NULL; cm; cm = CMSG_NXTHDR(&mh, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		got->n = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(got->fds, CMSG_DATA(cm), got->n * sizeof(int));
	}
	got->lost = len > 0 && mh.msg_flags & MSG_CTRUNC;
	return len == (ssize_t)rep_len ? 0 : EIO;
}

struct swap {
	void *req;
	size_t req_len;
	int send_fd; /* -1: none */
	void *rep;
	size_t rep_len;
	int *fds; /* for the fd_n that must come back, */
	unsigned fd_n;
	bool may; /* or none */
};

static int by_socket(struct conn *c, const struct swap *w, struct got *got)
{
	int err = send_req(c, w->req, w->req_len, w->send_fd);

	return err && !sock_is_over(err) ? err : recv_rep(c, w->rep, w->rep_len, got);
}

/* ---- the mailbox ------------------------------------------------------------------- */

#define MAIL_AFTER 32u /* requests: most connections have fewer */

static void mail_open(struct conn *c)
{
	struct msg_req req = { .op = MSG_MAIL, .seq = ++c->seq };
	struct msg_rep rep;
	const struct swap w = {
		.req = &req, .req_len = msg_req_len(req.op), .send_fd = -1, .rep = &rep, .rep_len = sizeof(rep)
	};
	struct got got = { .n = 0 };
	void *m = MAP_FAILED;

	if (!by_socket(c, &w, &got) && !rep.err && got.n == 1)
		m = mmap(NULL, sizeof(struct mail), PROT_READ | PROT_WRITE, MAP_SHARED, got.fds[0], 0);
	fds_close(&got);
	c->mail = m == MAP_FAILED ? NULL : m;
}

/*
 * The daemon looks there, and it is a request and its reply alone, or with a descriptor that seldom comes: that, too, is found in
 * the socket.  Then it is asked, and *err is the outcome.
 */
static bool by_mail(struct conn *c, const struct swap *w, struct got *got, int *err)
{
	struct mail *m = c->mail;
	uint64_t since = 0;
	bool sleeps = false;

	if (!m || w->send_fd >= 0 || (w->fd_n && !w->may) || !mail_is_looked_at(m))
		return false;
	memcpy(m->req, w->req, w->req_len);
	if (!mail_ask(m))
		return false;
	while (!mail_is_done(m) && !sleeps)
		sleeps = !look(&since) && mail_sleep(m);
	if (!sleeps)
		memcpy(w->rep, m->rep, w->rep_len);
	*err = sleeps ? recv_rep(c, w->rep, w->rep_len, got) : 0;
	mail_clear(m);
	return true;
}

static int ask(struct conn *c, const struct swap *w, struct got *got)
{
	int err;

	if (c->calls <= MAIL_AFTER && c->calls++ == MAIL_AFTER)
		mail_open(c);
	return by_mail(c, w, got, &err) ? err : by_socket(c, w, got);
}

static int swap_whole(struct conn *c, const struct swap *w)
{
	struct {
		uint32_t op, seq;
		int32_t err;
	} head;
	struct got got = { .n = 0 };
	bool turned_away;
	uint32_t seq;
	int err;

	if (!conn_mine(c))
		return EIO;
	take_turn(c);
	seq = ++c->seq;
	memcpy((char *)w->req + offsetof(struct msg_req, seq), &seq, sizeof(seq));
	err = ask(c, w, &got);
	pthread_mutex_unlock(&c->lock);
	if (!err) {
		memcpy(&head, w->rep, sizeof(head));
		turned_away = head.op == MSG_NONE && head.err > 0;
		err = (head.seq != seq && !turned_away) || head.err < 0 ? EIO : head.err;
	}
	if (!err && (got.n == w->fd_n || (w->may && !got.n))) {
		if (got.n)
			memcpy(w->fds, got.fds, got.n * sizeof(int));
		return 0;
	}
	fds_close(&got);
	return err ? err : got.lost ? EMFILE : EIO;
}

/* No cancellation point, as a kernel's ioctl is none: the lock would stay held, and what the reply brings would be nobody's. */
static int swap(struct conn *c, const struct swap *w)
{
	int err, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = swap_whole(c, w);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

int conn_swap(struct conn *c, void *req, size_t req_len, void *rep, size_t rep_len, int *fd)
{
	const struct swap w = { req, req_len, -1, rep, rep_len, fd, fd ? 1 : 0, false };

	return swap(c, &w);
}

int conn_call_may(struct conn *c, struct msg_req *req, struct msg_rep *rep, int send_fd, int *fd)
{
	const struct swap w = { req, msg_req_len(req->op), send_fd, rep, sizeof(*rep), fd, 1, true };

	*fd = -1;
	return err_set(swap(c, &w));
}

int conn_call(struct conn *c, struct msg_req *req, struct msg_rep *rep, int send_fd, int *fds, unsigned fd_n)
{
	const struct swap w = { req, msg_req_len(req->op), send_fd, rep, sizeof(*rep), fds, fd_n, false };

	return err_set(swap(c, &w));
}
