/* SPDX-License-Identifier: MIT */
/*
 * ctl.c - the control loop: who may connect, signals, full outlets, and the end of a private daemon.
 *
 *	private:	started -- first hold or context --> in use -- the last one gone --> grace -- none came --> end
 *			   `------------- START_GRACE_S without any ------------------------------------------^
 */
#include "ctl.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdmad/sock.h>

#include "../cma/cma.h"
#include "../base/foreign.h"
#include "../base/log.h"
#include "../base/rights.h"
#include "closing.h"
#include "session.h"
#include "sessions.h"
#include "../shard/publish.h"
#include "../shard/inbox.h"
#include "port.h"
#include "why.h"

#define START_GRACE_S 3.0
#define END_GRACE_S   0.5
#define ACCEPT_REST_S 0.1
#define TOLD_MAX      64u /* clients in a second */

static struct {
	struct ev_loop *loop;
	const struct conf *conf;
	bool private, made_dir;
	bool told; /* to end */
	int fd;
	char path[CONF_SOCKET_LEN]; /* to unlink; empty: abstract */
	int spare_fd;               /* given up to turn a client away when there are no descriptors left */
	int door_fd;                /* of a client who cannot even be turned away yet; nobody else comes in; -1: none */
	uid_t door_uid;
	ev_io accept;
	ev_timer rest; /* until clients are accepted again */
	ev_signal term, intr;
	ev_timer grace;
	ev_async stuck;
} ctl = { .fd = -1, .spare_fd = -1, .door_fd = -1 };

/* ---- listening ---------------------------------------------------------------- */

static bool is_socket(const char *name)
{
	struct stat st;

	return stat(name, &st) || S_ISSOCK(st.st_mode);
}

/* A socket file that nobody listens on any more, left by a daemon that was killed. */
static bool socket_stale(const struct sockaddr_un *sa, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)sa, len) && errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return stale;
}

static void parent_make(const char *path)
{
	char dir[CONF_SOCKET_LEN];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return;
	*slash = 0;
	ctl.made_dir = !mkdir(dir, 0755);
	if (!ctl.made_dir && errno != EEXIST)
		log_warn("cannot make the directory %s: %s", dir, strerror(errno));
}

/* 0, or an errno that has been logged - except that a private daemon found another one at its socket, which is no error. */
static int socket_bind(int fd, const char *name, const struct conf *conf)
{
	struct sockaddr_un sa;
	socklen_t len = sock_addr(name, &sa);
	bool file = name[0] != '@';
	mode_t mask;
	int err;

	if (file)
		parent_make(name);
	/* No moment in which the file has more rights than it should. */
	mask = umask(file ? 0777 & ~conf->mode : 077);
	err = bind(fd, (struct sockaddr *)&sa, len) ? errno : 0;
	if (err == EADDRINUSE && file && !is_socket(name))
		err = ENOTSOCK; /* a file of somebody's: to connect to it is refused as to a socket that is left */
	else if (err == EADDRINUSE && file && socket_stale(&sa, len))
		err = (unlink(name) && errno != ENOENT) || bind(fd, (struct sockaddr *)&sa, len) ? errno : 0;
	umask(mask);
	if (err == EADDRINUSE && ctl.private)
		log_info("%s is in use: another rdmad was faster", name);
	else if (err == EADDRINUSE)
		log_err("%s is in use: another rdmad listens there; stop it, or choose another name with --socket",
			name);
	else if (err == ENOTSOCK)
		log_err("%s is there, and no socket; choose another name with --socket", name);
	else if (err == EACCES || err == EROFS || err == ENOENT)
		log_err("cannot make the socket %s: %s; a daemon for one user is started with --private, or choose "
			"another socket with --socket",
			name, strerror(err));
	else if (err)
		log_err("cannot make the socket %s: %s; choose another name with --socket", name, strerror(err));
	if (err)
		return err;
	if (file && conf->group != (gid_t)-1 && chown(name, (uid_t)-1, conf->group))
		log_warn("cannot give %s to group %u: %s; its members may be turned away", name, (unsigned)conf->group,
			 strerror(errno));
	if (file)
		memcpy(ctl.path, name, strlen(name) + 1);
	return 0;
}

/* The user that could make that socket has been given the place by root. */
bool ctl_for_all(const struct conf *conf, bool private)
{
	if (private && !conf->users.n)
		return false;
	return rights_owner() == 0 || !conf->socket[0] || !strcmp(conf->socket, RDMAD_SYSTEM_SOCKET);
}

/* A daemon for all users serves whom the configuration names. */
static bool uid_allowed(uid_t uid)
{
	if (uid == 0 || uid == rights_owner())
		return true;
	if (!ctl_for_all(ctl.conf, ctl.private))
		return false;
	for (unsigned i = 0; i < ctl.conf->users.n; i++)
		if (ctl.conf->users.uid[i] == uid)
			return true;
	return ctl.conf->users.n == 0;
}

static void rest(struct ev_loop *loop)
{
	ev_io_stop(loop, &ctl.accept);
	ev_timer_set(&ctl.rest, ACCEPT_REST_S, 0);
	ev_timer_start(loop, &ctl.rest);
}

/*
 * As when its client may not, or cannot, be served: it may have sent something already.  Where its user has so much that cannot be
 * closed that this has no room either, whoever comes next waits outside: he may be the same, with one descriptor more.
 */
static void turn_away(struct ev_loop *loop, int fd)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	if (foreign_hang_up(fd, cred.uid, NULL))
		return;
	log_warn("descriptors of user %u cannot be closed, and he has all that he may: no client is let in until some "
		 "are",
		 (unsigned)cred.uid);
	ctl.door_fd = fd;
	ctl.door_uid = cred.uid;
	rest(loop);
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* Of a listening socket: of the connections that are made to it.  Before Linux 6.16 descriptors may always be sent. */
static void fds_allow(int fd, int may) { setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &may, sizeof(may)); }

static int spare_make(int listen_fd) { return fcntl(listen_fd, F_DUPFD_CLOEXEC, 0); }

static void rested(struct ev_loop *loop, ev_timer *, int)
{
	if (ctl.door_fd >= 0 && !foreign_hang_up(ctl.door_fd, ctl.door_uid, NULL)) {
		rest(loop);
		return;
	}
	ctl.door_fd = -1;
	if (ctl.spare_fd < 0)
		ctl.spare_fd = spare_make(ctl.fd);
	ev_io_start(loop, &ctl.accept);
}

/*
 * To who is served if there is a descriptor for it, and memory.  It may not have asked yet, or not listen, and for as long as it does
 * not this is the kernel's memory, which nobody is charged with.
 */
static void no_room_say(struct ev_loop *loop, int fd, int err)
{
	static ev_tstamp since;
	static unsigned told;
	const struct msg_rep rep = { .op = MSG_NONE, .err = err };
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (ev_now(loop) - since >= 1.) {
		since = ev_now(loop);
		told = 0;
	}
	if (told < TOLD_MAX && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) && uid_allowed(cred.uid)) {
		told++;
		send(fd, &rep, sizeof(rep), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

/*
 * Out of descriptors the listening socket would stay readable for ever: the client is taken in, told so and turned away.  Where
 * not even that can be done, since another thread was quicker to take the spare descriptor, clients wait a moment.
 */
static void client_turn_away(struct ev_loop *loop)
{
	int fd;

	log_warn("no descriptor left for a new client: it is turned away; raise LimitNOFILE (systemd) or ulimit -n");
	if (ctl.spare_fd >= 0)
		close(ctl.spare_fd);
	fd = accept4(ctl.fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0) {
		no_room_say(loop, fd, ENFILE);
		turn_away(loop, fd);
	}
	ctl.spare_fd = spare_make(ctl.fd);
	if (fd < 0 || ctl.spare_fd < 0)
		rest(loop);
}

static void client_accept(struct ev_loop *loop, ev_io *w, int)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	struct session *s;
	int err, fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			client_turn_away(loop);
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) || !uid_allowed(cred.uid)) {
		why_say_own(WHY_NOT_SERVED, "a client of user %u (pid %d) was turned away", (unsigned)cred.uid,
			    (int)cred.pid);
		turn_away(loop, fd);
		return;
	}
	s = session_new(loop, fd, &cred, &err);
	if (!s) {
		log_warn("no room for a new client of user %u: %s", (unsigned)cred.uid, strerror(err));
		if (err == ENOMEM)
			no_room_say(loop, fd, err);
		turn_away(loop, fd);
	} else if (!s->refused) {
		fds_allow(fd, 1);
	}
}

int ctl_listen(struct ev_loop *loop, const struct conf *conf, bool private)
{
	char name[CONF_SOCKET_LEN];
	int fd, err;

	ctl.loop = loop;
	ctl.conf = conf;
	ctl.private = private;
	if (conf->socket[0])
		memcpy(name, conf->socket, sizeof(name));
	else if (private)
		snprintf(name, sizeof(name), RDMAD_PRIVATE_SOCKET, (unsigned)geteuid());
	else
		snprintf(name, sizeof(name), "%s", RDMAD_SYSTEM_SOCKET);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		err = errno;
		log_err("cannot make a socket: %s", strerror(err));
		return err;
	}
	fds_allow(fd, 0); /* but by whom it serves */
	err = socket_bind(fd, name, conf);
	if (!err && listen(fd, 128)) {
		err = errno;
		log_err("cannot listen on %s: %s", name, strerror(err));
	}
	if (err) {
		close(fd);
		return err;
	}
	ctl.fd = fd;
	ctl.spare_fd = spare_make(fd);
	log_note("listening on %s", name);
	return 0;
}

/* ---- outlets ---------------------------------------------------------------------- */

struct retry {
	ev_io io;
	struct outlet *out;
	struct ctx *ctx;
};

static void retry_end(struct retry *r)
{
	r->out->retry = NULL;
	ev_io_stop(ctl.loop, &r->io);
	free(r);
}

static void retry_in_shard(struct shard *, void *arg)
{
	const struct retry *r = arg;

	outlet_retry(r->ctx, r->out);
}

static void outlet_writable(struct ev_loop *, ev_io *w, int)
{
	struct retry *r = w->data, was = *r;

	/* If it is stuck again, outlet_block() makes a new one. */
	retry_end(r);
	shard_call(was.ctx->shard, retry_in_shard, &was);
}

static void outlet_watch(struct ctx *c, struct outlet *o)
{
	struct retry *r = calloc(1, sizeof(*r));

	if (!r) {
		outlet_push(c, o); /* when the next one is stuck */
		return;
	}
	r->out = o;
	r->ctx = c;
	o->retry = r;
	ev_io_init(&r->io, outlet_writable, o->fd, EV_WRITE);
	r->io.data = r;
	ev_io_start(ctl.loop, &r->io);
}

static void outlets_watch(struct ctx *c)
{
	struct outlet *o = __atomic_exchange_n(&c->stuck, NULL, __ATOMIC_ACQUIRE), *next;

	for (; o; o = next) {
		next = o->stuck_next;
		outlet_watch(c, o);
	}
}

static void outlets_stuck(struct ev_loop *, ev_async *, int)
{
	for (struct session *s = sessions; s; s = s->next)
		if (s->ctx && __atomic_load_n(&s->ctx->stuck, __ATOMIC_RELAXED))
			outlets_watch(s->ctx);
}

void ctl_outlet_stuck(void) { ev_async_send(ctl.loop, &ctl.stuck); }

/* Nothing is written to it any more. */
void ctl_outlet_going(struct ctx *c, struct outlet *o)
{
	outlets_watch(c);
	if (o->retry)
		retry_end(o->retry);
}

/* If one of them is stuck once more, nobody looks for it. */
void ctl_ctx_going(struct ctx *c)
{
	if (c->event_out.retry)
		retry_end(c->event_out.retry);
	for (struct obj *o = c->objs[OBJ_CHANNEL]; o; o = o->next)
		if (((struct channel *)o)->out.retry)
			retry_end(((struct channel *)o)->out.retry);
}

/* ---- port events -------------------------------------------------------------------- */

struct port_event {
	struct device *dev;
	unsigned type;
};

static void port_event_in_shard(struct shard *s, void *arg)
{
	struct port_event *ev = arg;

	for (struct ctx *c = s->ctxs; c; c = c->next)
		if (c->dev == ev->dev && !c->dead)
			event_send(c, ev->type, 1, 0);
}

static void port_event(struct device *dev, unsigned type)
{
	struct port_event ev = { dev, type };

	for (unsigned i = 0; i < shards_n; i++)
		if (shards[i])
			shard_call(shards[i], port_event_in_shard, &ev);
}

/* ---- the end --------------------------------------------------------------------------- */

static void on_signal(struct ev_loop *loop, ev_signal *w, int)
{
	log_note("%s: shutting down", w->signum == SIGTERM ? "SIGTERM" : "SIGINT");
	ctl.told = true;
	ev_break(loop, EVBREAK_ALL);
}

static bool in_use(void) { return holds_n || ctx_n || cma_count.channels; }

static void on_grace(struct ev_loop *loop, ev_timer *, int)
{
	if (!in_use())
		ev_break(loop, EVBREAK_ALL);
}

void ctl_session_ended(bool used)
{
	if (!used || !ctl.private || in_use())
		return;
	ev_timer_stop(ctl.loop, &ctl.grace);
	ev_timer_set(&ctl.grace, END_GRACE_S, 0.);
	ev_timer_start(ctl.loop, &ctl.grace);
}

void ctl_run(struct ev_loop *loop, void (*signals_release)(void))
{
	signal(SIGPIPE, SIG_IGN);
	ev_signal_init(&ctl.term, on_signal, SIGTERM);
	ev_signal_start(loop, &ctl.term);
	ev_signal_init(&ctl.intr, on_signal, SIGINT);
	ev_signal_start(loop, &ctl.intr);
	ev_async_init(&ctl.stuck, outlets_stuck);
	ev_async_start(loop, &ctl.stuck);
	ev_init(&ctl.rest, rested);
	ev_io_init(&ctl.accept, client_accept, ctl.fd, EV_READ);
	ev_io_start(loop, &ctl.accept);
	ev_timer_init(&ctl.grace, on_grace, START_GRACE_S, 0.);
	if (ctl.private)
		ev_timer_start(loop, &ctl.grace);
	port_notify = port_event;
	closing_start(loop);
	signals_release();
	do {
		ev_run(loop, 0);
		if (!ctl.told) /* what had come by then: a stopped process may find its timer due before it looks at its sockets */
			ev_run(loop, EVRUN_NOWAIT);
	} while (!ctl.told && in_use());
	if (!ctl.told)
		log_note("private daemon: not used any more, shutting down");
	port_notify = NULL;
	ctl.private = false;
	while (sessions)
		session_end(loop, sessions);
	closing_stop();
	ev_io_stop(loop, &ctl.accept);
	ev_timer_stop(loop, &ctl.rest);
	ev_signal_stop(loop, &ctl.term);
	ev_signal_stop(loop, &ctl.intr);
	ev_async_stop(loop, &ctl.stuck);
}

void ctl_give(uid_t uid)
{
	const char *dir = ctl_dir();

	if (!dir)
		return;
	if (chown(ctl.path, uid, (gid_t)-1) || (ctl.made_dir && chown(dir, uid, (gid_t)-1)))
		log_info("%s cannot be given to user %u: %s", ctl.path, (unsigned)uid, strerror(errno));
}

const char *ctl_dir(void)
{
	static char dir[CONF_SOCKET_LEN];
	char *slash;

	memcpy(dir, ctl.path, sizeof(dir));
	slash = strrchr(dir, '/');
	if (!slash)
		return NULL;
	slash[slash == dir] = 0;
	return dir;
}

void ctl_close(void)
{
	if (ctl.fd >= 0)
		close(ctl.fd);
	if (ctl.spare_fd >= 0)
		close(ctl.spare_fd);
	if (ctl.path[0])
		unlink(ctl.path);
}
