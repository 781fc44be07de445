/* SPDX-License-Identifier: MIT */
/*
 * hold.c - finds the daemon, or starts a private one, and holds it.
 *
 * These addresses are asked, in this order: the one given ($RDMAD_SOCKET, --socket), which is then the only one;
 * the system's socket; the user's abstract socket, where a private daemon may run already.  If that is another user's,
 * a daemon at a name of its own is started.
 *
 *     rdmad-run --fork--> starter --fork--> rdmad --private      (process group and descriptors of its own)
 *         |  <-- pipe: messages until it answers ------'
 *         |  --- pipe: release (EOF) or stop -> starter, which waits for either that or rdmad's end
 *         `- exec: the program, with no child that it does not know
 *
 * Two of us may start a daemon at once: one binds the name, the other's daemon finds it taken and ends with
 * status 0, and both ask again.  The same happens if the daemon that we reached was just about to end.
 */
#include "config.h"

#include "run.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/clock.h>
#include <rdmad/msg.h>
#include <rdmad/sock.h>

#define OWN_CONFIG        "/proc/self/fd/0" /* of a private daemon: own_config() */
#define START_PATIENCE_MS 15000
#define LOOK_MS           100 /* where the kernel has no pidfds (gVisor) */
#define ANSWER_PATIENCE_S 10
#define BY_SIGNAL         128 /* more: the number of the signal that ended it */

enum ask { ASK_HELD, ASK_NOBODY, ASK_REFUSED };

struct asked {
	int fd;        /* ASK_HELD */
	char why[160]; /* ASK_REFUSED: a clause */
};

struct starter {
	pid_t pid;   /* 0: none runs */
	int release; /* closed: rdmad stays; a byte: rdmad is stopped */
	int out;     /* what rdmad says */
};

static int64_t now_ms(void) { return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000); }

/* ---- asking ----------------------------------------------------------------- */

static enum ask refused(struct asked *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static enum ask refused(struct asked *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->why, sizeof(a->why), fmt, ap);
	va_end(ap);
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	return ASK_REFUSED;
}

static enum ask nobody(struct asked *a)
{
	close(a->fd);
	a->fd = -1;
	return ASK_NOBODY;
}

/* One request and its reply.  0 or errno; a daemon that is ending counts as ECONNRESET. */
static int talk(int fd, const struct msg_req *req, struct msg_rep *rep)
{
	ssize_t n = sock_swap(fd, req, msg_req_len(req->op), rep, sizeof(*rep), NULL);

	if (n < 0)
		return errno == EPIPE ? ECONNRESET : errno;
	if (n == 0)
		return ECONNRESET;
	return n == sizeof(*rep) && (rep->op == req->op || (rep->op == MSG_NONE && rep->err)) ? 0 : EPROTO;
}

/* A connected socket in a->fd, or the reason why not. */
static enum ask ask_connect(const char *addr, struct asked *a)
{
	struct ucred who;

	a->fd = sock_connect(addr, ANSWER_PATIENCE_S, &who);
	switch (-a->fd) {
	case EINVAL: return refused(a, "name a path, or @NAME for an abstract socket");
	case ENAMETOOLONG:
		return refused(a, "its name is too long for a socket (%zu bytes at most)",
			       sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	case ENOENT:
	case ECONNREFUSED:
	case ENOTDIR: a->fd = -1; return ASK_NOBODY;
	case EPERM:
		return refused(a, "the process behind it belongs to user %u, not to you or root", (unsigned)who.uid);
	}
	return a->fd < 0 ? refused(a, "%s", strerror(-a->fd)) : ASK_HELD;
}

static enum ask ask(const char *addr, bool hold, struct asked *a)
{
	struct msg_req req = { .op = MSG_HELLO,
			       .hello = { .abi = RDMAD_ABI, .pid = (uint32_t)getpid(), .prog = "rdmad-run" } };
	struct msg_rep rep;
	enum ask r = ask_connect(addr, a);
	int err;

	if (r != ASK_HELD)
		return r;
	err = talk(a->fd, &req, &rep);
	if (!err && rep.err == ENFILE)
		return refused(a, "it has no descriptor left: " MSG_NO_FD_HINT);
	if (!err && rep.err == ENOMEM)
		return refused(a, "it has no memory left");
	if (!err && rep.err == EMFILE)
		return refused(a, "you have all the connections to it that you may (rdmactl users)");
	if (!err && (rep.err || rep.hello.abi != RDMAD_ABI))
		return refused(a, "the daemon there is of another version of rdmad: restart it; a private one ends "
				  "with the programs that use it, and --own starts another");
	if (!err && hold) {
		req = (struct msg_req){ .op = MSG_HOLD, .seq = 1 };
		err = talk(a->fd, &req, &rep); /* a system daemon may refuse: it needs no hold */
	}
	if (err == ECONNRESET)
		return nobody(a);
	if (err == EAGAIN)
		return refused(a, "it takes connections but has not answered for %d s", ANSWER_PATIENCE_S);
	if (err)
		return refused(a, "it does not answer as rdmad does: %s", strerror(err));
	return ASK_HELD;
}

int hold_look(const char *addr)
{
	struct asked a = { .fd = -1 };

	switch (ask(addr, false, &a)) {
	case ASK_HELD: return a.fd;
	case ASK_NOBODY: say("the daemon at %s has gone", addr); return -1;
	case ASK_REFUSED: say("%s: %s", addr, a.why);
	}
	return -1;
}

static size_t dump_read(void *buf, size_t len, void *from)
{
	struct iovec iov = { buf, len };
	ssize_t n = sock_hear(*(const int *)from, &(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 });

	return n < 0 ? (size_t)-1 : (size_t)n;
}

json_t *hold_dump(int fd, uint32_t what)
{
	struct msg_req req = { .op = MSG_DUMP, .dump.what = what };
	struct timeval patience = { .tv_sec = ANSWER_PATIENCE_S };
	struct msg_rep rep;
	json_t *j = NULL;
	int from = -1;

	if (sock_swap(fd, &req, msg_req_len(req.op), &rep, sizeof(rep), &from) != sizeof(rep))
		shutdown(fd, SHUT_RDWR); /* an answer that is late would be taken for that of the next question */
	else if (!rep.err && from >= 0 && !setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		j = json_load_callback(dump_read, &from, 0, NULL);
	if (from >= 0)
		close(from);
	return j;
}

/* ---- starting --------------------------------------------------------------- */

/* In the grandchild: becomes rdmad, tied to nothing of its starter's. */
static void daemon_exec(const char *path, char **argv, int in, int out, int log)
{
	sigset_t none;

	signal(SIGPIPE, SIG_IGN); /* nobody reads its messages once the program runs */
	signal(SIGHUP, SIG_IGN);
	signal(SIGTTOU, SIG_IGN); /* its log may be the terminal */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(in, 0);
	dup2(out, 1);
	dup2(log >= 0 ? log : out, 2);
	syscall(SYS_close_range, 3u, ~0u, 0u);
	execv(path, argv);
	dprintf(2, "rdmad-run: cannot run %s: %s\n", path, strerror(errno));
	_exit(RUN_NOT_EXECUTABLE);
}

/* The starter: waits for the end of rdmad, whose status it passes on, or for a word from rdmad-run. */
static void starter_wait(pid_t daemon, int release)
{
	struct pollfd p[2] = { { .fd = (int)syscall(SYS_pidfd_open, daemon, 0), .events = POLLIN },
			       { .fd = release, .events = POLLIN } };
	int status;
	char c;

	while (!p[1].revents) {
		poll(p, 2, p[0].fd < 0 ? LOOK_MS : -1);
		if (waitpid(daemon, &status, WNOHANG) == daemon)
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : BY_SIGNAL + WTERMSIG(status));
	}
	if (read(release, &c, 1) == 1)
		kill(daemon, SIGTERM);
	_exit(0);
}

/* A root without /dev, as of a chroot, has no /dev/null either. */
static int nothing(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	return fd >= 0 ? fd : memfd_create("null", MFD_CLOEXEC);
}

static bool starter_start(struct starter *s, const struct options *opt, char **argv, int log)
{
	int out[2] = { -1, -1 }, release[2] = { -1, -1 };
	int in = opt->own ? own_config(opt) : -1;
	pid_t starter, daemon;

	if (in < 0 && opt->own && errno == EFBIG) {
		say("its configuration cannot be written: %s; raise ulimit -f", strerror(errno));
		return false;
	}
	if (in < 0) /* why there is no configuration the daemon finds, too, and says */
		in = nothing();
	if (in < 0 || pipe2(out, O_CLOEXEC) || pipe2(release, O_CLOEXEC) || (starter = fork()) < 0) {
		say("cannot start %s: %s%s", argv[0], strerror(errno), errno == EAGAIN ? MSG_NO_TASK_HINT : "");
		return false;
	}
	if (starter == 0) {
		/* Not setsid(): a session may be a scheduling group by itself, and who waits gives its core away within that alone. */
		setpgid(0, 0);
		close(release[1]);
		daemon = fork();
		if (daemon == 0)
			daemon_exec(argv[0], argv, in, out[1], log);
		if (daemon < 0) {
			dprintf(out[1], "rdmad-run: cannot start %s: %s%s\n", argv[0], strerror(errno),
				errno == EAGAIN ? MSG_NO_TASK_HINT : "");
			_exit(RUN_FAILED);
		}
		close(out[0]);
		close(out[1]);
		starter_wait(daemon, release[0]);
	}
	close(in);
	close(out[1]);
	close(release[0]);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	*s = (struct starter){ .pid = starter, .out = out[0], .release = release[1] };
	return true;
}

/* Passes on what rdmad has said so far. */
static void starter_relay(const struct starter *s)
{
	char text[4096];
	ssize_t n;

	while ((n = read(s->out, text, sizeof(text))) > 0)
		fwrite(text, 1, (size_t)n, stderr);
}

/* Whether rdmad has ended, and how. */
static bool starter_ended(struct starter *s, int *status)
{
	int st;

	if (waitpid(s->pid, &st, WNOHANG) != s->pid)
		return false;
	starter_relay(s);
	close(s->out);
	close(s->release);
	s->pid = 0;
	*status = WIFEXITED(st) ? WEXITSTATUS(st) : RUN_FAILED;
	return true;
}

static void starter_finish(struct starter *s, bool stop)
{
	if (!s->pid)
		return;
	if (stop && write(s->release, "", 1) != 1)
		say("the private daemon could not be stopped: %s", strerror(errno));
	close(s->release);
	while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
	starter_relay(s);
	close(s->out);
	s->pid = 0;
}

/* rdmad --private --socket ADDR [--log-level warning] [--config (own_config())] [--daemon-arg's] */
static char **daemon_argv(const struct options *opt, const struct install *in, const char *addr)
{
	char **argv = calloc(opt->daemon_arg_n + 9, sizeof(*argv));
	unsigned n = 0;

	if (!argv)
		abort();
	argv[n++] = (char *)in->daemon;
	argv[n++] = (char *)"--private";
	argv[n++] = (char *)"--socket";
	argv[n++] = (char *)addr;
	if (!opt->log || opt->report) {
		argv[n++] = (char *)"--log-level";
		argv[n++] = (char *)(opt->report ? "info" : "warning");
	}
	if (opt->own) {
		argv[n++] = (char *)"--config";
		argv[n++] = (char *)OWN_CONFIG;
	}
	for (unsigned i = 0; i < opt->daemon_arg_n; i++)
		argv[n++] = opt->daemon_args[i];
	return argv;
}

static enum ask ended_at_once(struct asked *a, const struct options *opt, int status)
{
	char how[80];

	if (status > BY_SIGNAL)
		snprintf(how, sizeof(how), "by signal %d (%s)", status - BY_SIGNAL, strsignal(status - BY_SIGNAL));
	else
		snprintf(how, sizeof(how), "with status %d", status);
	return refused(a, "it ended at once %s%s%s%s", how,
		       opt->users || opt->profile_file ? "; " OWN_CONFIG " is what --users and --as ask for" : "",
		       opt->log ? "; see " : "", opt->log ? opt->log : "");
}

/* Asks, and starts a daemon if none answers, until one answers at addr. */
static enum ask start_and_ask(const struct options *opt, const struct install *in, const char *addr, int log,
			      struct asked *a)
{
	char **argv = daemon_argv(opt, in, addr);
	const int64_t end = now_ms() + START_PATIENCE_MS;
	struct timespec pause = { .tv_nsec = 1000000 };
	struct starter s = { 0 };
	enum ask r;
	int status;

	while ((r = ask(addr, true, a)) == ASK_NOBODY) {
		if (!s.pid && !starter_start(&s, opt, argv, log)) {
			refused(a, "it could not be started");
			break;
		}
		starter_relay(&s);
		if (starter_ended(&s, &status) && status) {
			r = ended_at_once(a, opt, status);
			break;
		}
		if (now_ms() > end) {
			r = refused(a, "it has not answered for %d s", START_PATIENCE_MS / 1000);
			break;
		}
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 50000000)
			pause.tv_nsec *= 2;
	}
	starter_finish(&s, r != ASK_HELD);
	free(argv);
	return r;
}

static int hold_private(const struct options *opt, const struct install *in, const char *addr, struct asked *a)
{
	int log = -1;
	enum ask r;

	if (!in->daemon[0]) {
		say("no rdmad daemon answers, and none can be started: there is no rdmad beside rdmad-run, nor in %s",
		    RUN_SBINDIR);
		return -1;
	}
	if (opt->log) {
		log = open(opt->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		if (log < 0) {
			say("--log %s: %s", opt->log, strerror(errno));
			return -1;
		}
	}
	r = start_and_ask(opt, in, addr, log, a);
	if (log >= 0)
		close(log);
	if (r != ASK_HELD)
		say("no private daemon (%s, socket %s): %s", in->daemon, addr, a->why);
	return r == ASK_HELD ? a->fd : -1;
}

/* The connection for the program to inherit. */
int hold_dup(int fd)
{
	int high = fcntl(fd, F_DUPFD, HOLD_FD_MIN);

	return high < 0 ? fcntl(fd, F_DUPFD, 3) : high; /* RLIMIT_NOFILE may not allow so high a number */
}

static int keep(int fd)
{
	int high = hold_dup(fd);

	if (high < 0)
		say("no descriptor left for the connection to the daemon: %s", strerror(errno));
	close(fd);
	return high;
}

/* A name at which nobody listens: a process of another PID namespace may have our number. */
static void own_socket(char addr[ADDR_LEN])
{
	struct asked a = { .fd = -1 };
	int len = snprintf(addr, ADDR_LEN, RDMAD_PRIVATE_SOCKET ".%u", (unsigned)geteuid(), (unsigned)getpid());

	for (unsigned i = 1; i < 100 && ask_connect(addr, &a) != ASK_NOBODY; i++) {
		if (a.fd >= 0)
			close(a.fd);
		snprintf(addr + len, ADDR_LEN - (size_t)len, ".%u", i);
	}
}

/* Whoever is in this network namespace can take the name of another user's daemon. */
static bool is_anothers(const char *addr)
{
	struct ucred who;
	int fd = sock_connect(addr, ANSWER_PATIENCE_S, &who);

	if (fd >= 0)
		close(fd);
	if (fd != -EPERM)
		return false;
	say("note: a process of user %u has the name of your daemon (%s); one of its own instead", (unsigned)who.uid,
	    addr);
	return true;
}

const char *hold_address(const char *name)
{
	char *full = strchr("/@", *name) ? NULL : path_absolute(name); /* "" stays, too */

	return full && strlen(full) < ADDR_LEN ? full : name;
}

int hold_get(const struct options *opt, const struct install *in, char addr[ADDR_LEN])
{
	struct asked a = { .fd = -1 };
	enum ask r;

	if (opt->socket) {
		snprintf(addr, ADDR_LEN, "%s", opt->socket);
		r = ask(opt->socket, true, &a);
		if (r == ASK_HELD)
			return keep(a.fd);
		say("%s %s: %s", opt->socket_from, opt->socket,
		    r == ASK_NOBODY ? "no daemon answers there. Start it, or "
				      "leave the address out for a private one"
				    : a.why);
		return -1;
	}
	if (opt->own) {
		own_socket(addr);
	} else {
		strcpy(addr, RDMAD_SYSTEM_SOCKET);
		r = ask(addr, true, &a);
		if (r == ASK_HELD)
			return keep(a.fd);
		if (r == ASK_REFUSED)
			say("note: not the system's daemon at %s (%s); a private one instead", addr, a.why);
		snprintf(addr, ADDR_LEN, RDMAD_PRIVATE_SOCKET, (unsigned)geteuid());
		if (is_anothers(addr))
			own_socket(addr);
	}
	a.fd = hold_private(opt, in, addr, &a);
	return a.fd < 0 ? -1 : keep(a.fd);
}
