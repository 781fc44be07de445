/* SPDX-License-Identifier: MIT */
/* daemon.c - the daemon that rdmactl asks: where it is, hello, one MSG_DUMP as JSON. */
#include "daemon.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/sock.h>

#include "config.h"

#define PATIENCE_MS 10000 /* for hello: who knows the daemon already waits for it */

/* A connected socket of a daemon that may be trusted, or -errno. */
static int daemon_at(const char *name)
{
	struct ucred who;

	return sock_connect(name, 0, &who);
}

static int daemon_named(const char *name, const char *where)
{
	int fd = daemon_at(name);

	if (fd == -EPERM)
		fprintf(stderr,
			"rdmactl: %s (%s) belongs to another user; rdmactl talks to daemons of root and your "
			"own\n",
			name, where);
	else if (fd < 0)
		fprintf(stderr,
			"rdmactl: no rdmad answers at %s (%s): %s; start it, or name its socket with "
			"--socket\n",
			name, where, strerror(-fd));
	return fd;
}

int daemon_find(const char *name, bool quiet)
{
	const char *env = getenv("RDMAD_SOCKET");
	char own[64];
	int fd, sys;

	if (name)
		return daemon_named(name, strcmp(name, RDMAD_SYSTEM_SOCKET) ? "--socket" : "the system's");
	if (env && *env)
		return daemon_named(env, "$RDMAD_SOCKET");
	sys = daemon_at(RDMAD_SYSTEM_SOCKET);
	if (sys >= 0)
		return sys;
	snprintf(own, sizeof(own), RDMAD_PRIVATE_SOCKET, (unsigned)geteuid());
	fd = daemon_at(own);
	if (fd >= 0)
		return fd;
	if (quiet)
		return -1;
	fprintf(stderr,
		"rdmactl: no rdmad answers: %s: %s; %s (a private one of yours): %s\n"
		"rdmactl: start one (systemctl start rdmad, or rdmad --private), or run this inside "
		"rdmad-run\n",
		RDMAD_SYSTEM_SOCKET, strerror(-sys), own, strerror(-fd));
	return -1;
}

/* Those that there is no room for the kernel closes. */
static bool all_came(const struct msg_rep *rep, const int *fds, unsigned fd_n)
{
	unsigned n = fd_n < rep->fd_n ? fd_n : rep->fd_n;

	if (!n || fds[n - 1] >= 0)
		return true;
	fprintf(stderr, "rdmactl: no descriptor is left for the daemon's answer: raise ulimit -n\n");
	while (n--)
		if (fds[n] >= 0)
			close(fds[n]);
	return false;
}

/* A signal ends the wait, too, for who handles it. */
static bool answers(int fd, int ms)
{
	int n = poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, ms);

	if (!n)
		errno = ETIMEDOUT;
	return n > 0;
}

static bool ask(int fd, const struct msg_req *req, struct msg_rep *rep, int *fds, unsigned fd_n, int ms)
{
	ssize_t n = -1;

	if (sock_request(fd, req, msg_req_len(req->op)) && answers(fd, ms))
		n = sock_take_fds(fd, rep, sizeof(*rep), fds, fd_n);
	if (n < 0 && errno == ETIMEDOUT) {
		fprintf(stderr,
			"rdmactl: the daemon takes connections but has not answered for %d s: it is stopped or frozen "
			"(Ctrl-Z, a debugger, docker pause), or hangs\n",
			PATIENCE_MS / 1000);
		return false;
	}
	if (n != (ssize_t)sizeof(*rep)) {
		fprintf(stderr, "rdmactl: the daemon closed the connection%s%s; its log says why\n", n < 0 ? ": " : "",
			n < 0 ? strerror(errno) : "");
		return false;
	}
	if (rep->err == ENFILE)
		fprintf(stderr, "rdmactl: the daemon has no descriptor left: " MSG_NO_FD_HINT "\n");
	else if (rep->err == EPERM)
		fprintf(stderr,
			"rdmactl: only root and the user that the daemon runs as may do that; rdmad-run --own starts a "
			"daemon of your own\n");
	else if (rep->err)
		fprintf(stderr, "rdmactl: the daemon answered: %s\n", strerror(rep->err));
	return !rep->err && all_came(rep, fds, fd_n);
}

bool daemon_ask(int fd, const struct msg_req *req, struct msg_rep *rep, int *fds, unsigned fd_n)
{
	return ask(fd, req, rep, fds, fd_n, -1);
}

bool daemon_hello(int fd)
{
	struct msg_req req = { .op = MSG_HELLO,
			       .hello = { .abi = RDMAD_ABI, .pid = (uint32_t)getpid(), .prog = "rdmactl" } };
	struct msg_rep rep;

	if (!ask(fd, &req, &rep, NULL, 0, PATIENCE_MS))
		return false;
	if (rep.hello.abi == RDMAD_ABI)
		return true;
	rep.hello.version[sizeof(rep.hello.version) - 1] = 0;
	fprintf(stderr,
		"rdmactl: the daemon is of version %s (ABI %u), this is %s (ABI %u); restart it, or end the programs "
		"that use it, if it is a private one\n",
		rep.hello.version, rep.hello.abi, PACKAGE_VERSION, RDMAD_ABI);
	return false;
}

int daemon_open(const char *name)
{
	int fd = daemon_find(name, false);

	if (fd < 0 || daemon_hello(fd))
		return fd;
	close(fd);
	return -1;
}

json_t *daemon_dump(int fd, uint32_t what) { return daemon_dump_of(fd, what, 0, 0); }

json_t *daemon_dump_of(int fd, uint32_t what, uint32_t qpn, uint32_t flags)
{
	struct msg_req req = { .op = MSG_DUMP, .dump = { .what = what, .qpn = qpn, .flags = flags } };
	struct msg_rep rep;
	json_error_t err;
	int from = -1;
	json_t *j;
	FILE *f;

	if (!daemon_ask(fd, &req, &rep, &from, 1) || from < 0)
		return NULL;
	f = fdopen(from, "r");
	if (!f) {
		fprintf(stderr, "rdmactl: cannot read the answer: %s\n", strerror(errno));
		close(from);
		return NULL;
	}
	j = json_loadf(f, 0, &err);
	if (!j)
		fprintf(stderr, "rdmactl: the answer is not valid JSON: %s\n", err.text);
	fclose(f);
	return j;
}
