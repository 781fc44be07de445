/* SPDX-License-Identifier: MIT */
/*
 * session.c - connections: a request in, its reply out, descriptors with both; or both by the connection's mailbox (mail.h).
 *
 * The daemon never waits for a client.  If a reply does not fit into the socket, or one with descriptors was not read before the next
 * request, the client sends requests without reading replies, which the protocol does not allow: the connection ends.
 */
#include "call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/sockios.h>

#include <rdmad/mail.h>

#include "capture.h"
#include "closing.h"
#include "../cma/cma.h"
#include "ctl.h"
#include "dump.h"
#include "impair_verb.h"
#include "../base/clock.h"
#include "../base/foreign.h"
#include "linger.h"
#include "mail.h"
#include "../base/log.h"
#include "sessions.h"
#include "why.h"
#include "../shard/ctx.h"

#define SESSION_LEN   (sizeof(struct session) + 8192u) /* with what it is in the middle of reading */
#define USER_PER_TURN 64u                              /* of all sessions of one user */
#define WAIT_NS       UINT64_C(5000000000)             /* for room for descriptors */
#define FDS_IN_MAX    253u /* SCM_MAX_FD: the kernel would close what there is no room for here, and wait */

static void session_readable(struct ev_loop *loop, ev_io *w, int revents);

/* ---- records --------------------------------------------------------------------- */

/* With all descriptors that there can be: the kernel would close what it does not hand over, and wait. */
static ssize_t record_read(const struct session *s, void *p, size_t len, struct msghdr *mh)
{
	static union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(FDS_IN_MAX * sizeof(int))];
	} ctl;
	static struct iovec iov;
	ssize_t n;

	iov = (struct iovec){ p, len };
	*mh = (struct msghdr){
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	n = recvmsg(s->fd, mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		mh->msg_controllen = 0;
	return n;
}

/*
 * The first descriptor that came, or -1.  *err: EINVAL, more than one came, or ENFILE, there was none left for what came, as there is
 * room for all that can be in one message (record_read()); then it is closed.
 */
static int fds_take(struct msghdr *mh, uid_t uid, int *err)
{
	int fd = -1;

	*err = mh->msg_flags & MSG_CTRUNC ? ENFILE : 0;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(mh); cm; cm = CMSG_NXTHDR(mh, cm)) {
		size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int got;

			memcpy(&got, CMSG_DATA(cm) + i * sizeof(int), sizeof(got));
			if (fd < 0) {
				fd = got;
			} else {
				*err = EINVAL;
				foreign_close(got, uid);
			}
		}
	}
	if (*err && fd >= 0) {
		foreign_close(fd, uid);
		fd = -1;
	}
	return fd;
}

static void fds_drop(struct msghdr *mh, uid_t uid)
{
	int err, fd = fds_take(mh, uid, &err);

	if (fd >= 0)
		foreign_close(fd, uid);
}

/* ---- sessions -------------------------------------------------------------------- */

struct session *session_new(struct ev_loop *loop, int fd, const struct ucred *who, int *err)
{
	/* Its socket, and that of a dump: whoever has all that he may can still ask why. */
	struct cost cost = { { [QUOTA_SESSIONS] = 1, [QUOTA_FDS] = 3, [QUOTA_HEAP] = SESSION_LEN + CLIENT_UNREAD } };
	struct session *s = calloc(1, sizeof(*s));

	if (s)
		s->refused = bill_open(&s->bill, who->uid, &cost);
	if (!s || (s->refused && (sessions_refused >= SESSIONS_REFUSED || !foreign_room(who->uid)))) {
		*err = s ? EMFILE : ENOMEM;
		free(s);
		return NULL;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ CLIENT_ROOM }, sizeof(int));
	s->fd = fd;
	s->pidfd = -1;
	s->pid = who->pid;
	s->uid = who->uid;
	s->gid = who->gid;
	sessions_add(s);
	ev_io_init(&s->io, session_readable, fd, EV_READ);
	s->io.data = s;
	ev_io_start(loop, &s->io);
	return s;
}

/* That the client is gone may be known before its last request was read.  Nothing but a farewell is of use now. */
static void last_words(struct session *s)
{
	struct msghdr mh;
	uint32_t op;
	bool more = true;

	shutdown(s->fd, SHUT_RD); /* no more than there is */
	while (more && foreign_room(s->uid)) {
		more = record_read(s, &op, sizeof(op), &mh) == (ssize_t)sizeof(op);
		fds_drop(&mh, s->uid);
		s->ctx->bye |= more && op == MSG_BYE;
	}
}

/* Its socket counts until it is closed. */
static void hang_up(struct session *s)
{
	if (!s->refused) {
		bill_set(&s->bill, QUOTA_SESSIONS, 0);
		bill_set(&s->bill, QUOTA_HEAP, 0);
		bill_set(&s->bill, QUOTA_FDS, 1);
	}
	foreign_hang_up(s->fd, s->uid, &s->bill);
}

void session_end(struct ev_loop *loop, struct session *s)
{
	bool used = s->hold || s->ctx || s->cma;

	ev_io_stop(loop, &s->io);
	if (s->pidfd >= 0) {
		ev_io_stop(loop, &s->gone);
		close(s->pidfd);
	}
	if (s->cma)
		cma_channel_end(s->cma);
	capture_end(s->capture);
	dump_end(s);
	if (s->ctx) {
		last_words(s);
		log_info("context %u of %s (pid %d) ends", s->ctx->id, s->prog, (int)s->pid);
		why_catch_up();
		why_ctx_end(s);
		ctl_ctx_going(s->ctx);
		ctx_close(s->ctx);
	}
	trace_end(s);
	impair_session_end((uintptr_t)s);
	mail_end(s);
	hang_up(s);
	sessions_del(s);
	stuck_end(s);
	free(s);
	ctl_session_ended(used);
}

static void session_pid_gone(struct ev_loop *loop, ev_io *w, int) { session_end(loop, w->data); }

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Of the process that connected: it may be over, and its number another one's.  Before Linux 6.5 the number is all there is. */
static int client_pidfd(const struct session *s)
{
	socklen_t len = sizeof(int);
	int fd;

	if (!getsockopt(s->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
		return fd;
	if (errno != ENOPROTOOPT)
		return errno == EINVAL ? -ESRCH : -errno;
	if (s->pid <= 0)
		return -ENOSYS;
	fd = (int)syscall(SYS_pidfd_open, s->pid, 0);
	return fd < 0 ? -errno : fd;
}

int session_watch_pid(struct ev_loop *loop, struct session *s)
{
	int fd = s->pidfd < 0 ? client_pidfd(s) : -EALREADY;

	if (fd < 0)
		return fd == -ESRCH ? ESRCH : 0;
	s->pidfd = fd;
	ev_io_init(&s->gone, session_pid_gone, fd, EV_READ);
	s->gone.data = s;
	ev_io_start(loop, &s->gone);
	return 0;
}

/* ---- messages ------------------------------------------------------------------ */

static bool reply_send(struct session *s, void *rep, size_t len, const int *fds, unsigned fd_n)
{
	struct iovec iov = { .iov_base = rep, .iov_len = len };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(REPLY_FDS * sizeof(int))];
	} ctl = { 0 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (s->by_mail && !fd_n && mail_reply(s, rep, len))
		return true;
	if (fd_n) {
		struct cmsghdr *cm;

		mh.msg_control = ctl.buf;
		mh.msg_controllen = CMSG_SPACE(fd_n * sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(fd_n * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, fd_n * sizeof(int));
	}
	for (;;) {
		if (sendmsg(s->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
			s->gave |= fd_n > 0;
			return true;
		}
		if (errno == EINTR)
			continue;
		if (errno != EPIPE && errno != ECONNRESET)
			log_info("%s (pid %d) does not read its replies: %s; its connection ends", s->prog, (int)s->pid,
				 strerror(errno));
		return false;
	}
}

/* The messages that a descriptor may come with. */
static bool takes_fd(uint32_t op)
{
	return op == MSG_OPEN || op == MSG_IMPORT || op == MSG_MR_REG || op == MSG_MR_REREG || op == MSG_QP_CREATE ||
	       op == MSG_XRCD_OPEN || op == MSG_RAW_STEER || op == MSG_IMPAIR;
}

/* fd_err: what was wrong with the descriptors that came with it (fds_take()). */
static bool request_serve(struct ev_loop *loop, struct session *s, const struct msg_req *req, size_t len, int fd_in,
			  int fd_err)
{
	struct msg_rep rep = { 0 };
	struct call call = { .loop = loop, .s = s, .req = req, .rep = &rep, .fd_in = fd_in, .fd_err = fd_err };
	bool ok, bad = fd_err == EINVAL;

	if (len >= offsetof(struct msg_req, hello)) {
		rep.op = req->op;
		rep.seq = req->seq;
	} else {
		bad = true;
	}
	bad |= (fd_in >= 0 || fd_err) && !takes_fd(rep.op);
	rep.err = bad || len != msg_req_len(req->op) ? EINVAL : verb_call(loop, &call);
	if (rep.err) {
		int32_t err = rep.err;
		uint32_t op = rep.op, seq = rep.seq;

		/* Nothing half made is told. */
		memset(&rep, 0, sizeof(rep));
		rep.op = op;
		rep.seq = seq;
		rep.err = err;
	}
	rep.fd_n = call.fd_n;
	log_debug("%s (pid %d): op %u, %zu bytes: %s", s->prog, (int)s->pid, rep.op, len,
		  rep.err ? strerror(rep.err) : "done");
	ok = reply_send(s, &rep, sizeof(rep), call.fds, call.fd_n);
	for (unsigned i = 0; i < call.fd_n; i++)
		close(call.fds[i]);
	if (call.fd_in >= 0)
		foreign_close(call.fd_in, s->uid);
	return ok && !s->refused;
}

/* The CM's part of it.  A session is a context, a capture or an event channel. */
static int cm_call(struct ev_loop *loop, struct session *s, const struct cmm_req *req, struct cmm_rep *rep, int *fd)
{
	const struct cma_who who = { .session = s, .uid = s->uid };
	int err;

	if (!s->hello)
		return EINVAL;
	if (req->op == CMM_OPEN && (s->ctx || s->capture)) {
		why_cm_call(s, req->op, EBUSY, "");
		return EBUSY;
	}
	err = cma_call(&s->cma, &who, req, rep, fd);
	if (!err && req->op == CMM_OPEN)
		session_watch_pid(loop, s);
	return err;
}

/* The same for the requests of cmmsg.h. */
static bool cm_request_serve(struct ev_loop *loop, struct session *s, const struct cmm_req *req, size_t len, int fd_in,
			     int fd_err)
{
	struct cmm_rep rep = { 0 };
	int fd = -1, err;
	bool ok;

	err = fd_err || fd_in >= 0 || len != cmm_req_len(req->op) ? EINVAL : cm_call(loop, s, req, &rep, &fd);
	if (err)
		rep = (struct cmm_rep){ .over = rep.over };
	rep.op = req->op;
	rep.seq = req->seq;
	rep.err = err;
	rep.fd_n = fd >= 0;
	log_debug("%s (pid %d): CM op %u, id %u: %s", s->prog, (int)s->pid, rep.op, req->id,
		  err ? strerror(err) : "done");
	ok = reply_send(s, &rep, sizeof(rep), &fd, rep.fd_n);
	if (fd >= 0)
		close(fd);
	if (fd_in >= 0)
		foreign_close(fd_in, s->uid);
	return ok;
}

/*
 * Descriptors that nobody has read yet are few for all users together.  A reply is read before the next request is made, but for a
 * farewell, which another thread may say.
 */
static bool hoards(struct session *s, uint32_t op)
{
	int left;

	if (s->gave && !ioctl(s->fd, SIOCOUTQ, &left) && !left)
		s->gave = false;
	return s->gave && op != MSG_BYE;
}

/* Does the next record come with descriptors?  They stay where they are. */
static bool carries(const struct session *s)
{
	char c;
	struct iovec iov = { &c, sizeof(c) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	return recvmsg(s->fd, &mh, MSG_PEEK | MSG_DONTWAIT) >= 0 && mh.msg_flags & MSG_CTRUNC;
}

/* They could not be closed.  false: there is no end of it, and for the program an error is better than to wait. */
static bool wait_for_room(struct ev_loop *loop, struct session *s)
{
	mono_t now = clock_now();

	if (!s->waits)
		s->waits_since = now;
	s->waits = true;
	if (foreign_stuck(s->uid) || mono_since(now, s->waits_since) >= WAIT_NS) {
		log_warn("%s (pid %d): descriptors of user %u cannot be closed, as what they belong to (FUSE, NFS, a "
			 "peer of TCP) does not answer: this connection, which brings more of them, ends",
			 s->prog, (int)s->pid, (unsigned)s->uid);
		return false;
	}
	ev_io_stop(loop, &s->io);
	closing_later();
	return true;
}

static bool is_cm(uint32_t op) { return op >= CMM_OPEN && op < CMM_OPS; }

/* 1: served, -1: the connection is over. */
static int serve(struct ev_loop *loop, struct session *s, const union request *in, size_t len, int fd, int fd_err)
{
	if (hoards(s, in->req.op)) {
		log_info("%s (pid %d) does not read its replies; its connection ends", s->prog, (int)s->pid);
		if (fd >= 0)
			foreign_close(fd, s->uid);
		return -1;
	}
	if (len >= sizeof(in->req.op) && is_cm(in->req.op))
		return cm_request_serve(loop, s, &in->cm, len, fd, fd_err) ? 1 : -1;
	return request_serve(loop, s, &in->req, len, fd, fd_err) ? 1 : -1;
}

/* One request.  1: served, 0: none there, -1: the connection is over. */
static int session_turn(struct ev_loop *loop, struct session *s)
{
	union request in = { 0 };
	struct msghdr mh;
	int fd, fd_err;
	ssize_t n;

	if (!foreign_room(s->uid) && carries(s))
		return wait_for_room(loop, s) ? 0 : -1;
	s->waits = false;
	n = record_read(s, &in, sizeof(in.bytes), &mh);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	fd = fds_take(&mh, s->uid, &fd_err);
	if (n == 0) { /* the end; an empty record looks the same and is as good a reason */
		if (fd >= 0)
			foreign_close(fd, s->uid);
		return -1;
	}
	return serve(loop, s, &in, (size_t)n, fd, mh.msg_flags & MSG_TRUNC ? EINVAL : fd_err);
}

bool session_again(struct ev_loop *loop, struct session *s)
{
	if (ev_is_active(&s->io))
		return true;
	if (foreign_room(s->uid))
		ev_io_start(loop, &s->io);
	else if (!wait_for_room(loop, s))
		session_end(loop, s);
	else
		return false;
	return true;
}

/* One request a turn, as there is none before its reply; and of all sessions of a user not more than his share. */
static void session_readable(struct ev_loop *loop, ev_io *w, int)
{
	struct session *s = w->data;
	mono_t came = clock_now();
	int got;

	if (!bill_turn(&s->bill, ev_iteration(loop), USER_PER_TURN))
		return;
	got = session_turn(loop, s);
	bill_took(&s->bill, mono_since(clock_now(), came));
	if (got > 0 && linger(loop, came))
		mail_watch(s);
	if (got < 0)
		session_end(loop, s);
}

static int mail_serve(struct ev_loop *loop, struct session *s, const struct mail *m)
{
	union request in = { 0 };
	size_t len;
	int got;

	memcpy(&in, m->req, sizeof(in.bytes) - 1);
	len = is_cm(in.req.op) ? cmm_req_len(in.req.op) : msg_req_len(in.req.op);
	s->by_mail = true;
	got = serve(loop, s, &in, len ? len : sizeof(in.bytes), -1, 0);
	s->by_mail = false;
	return got;
}

bool session_mail(struct ev_loop *loop, struct session *s, struct mail *m)
{
	mono_t came = clock_now();
	int got;

	if (!bill_turn(&s->bill, ev_iteration(loop), USER_PER_TURN) || !mail_take(m))
		return false;
	got = mail_serve(loop, s, m);
	bill_took(&s->bill, mono_since(clock_now(), came));
	if (got < 0)
		session_end(loop, s);
	return true;
}
