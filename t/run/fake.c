/* SPDX-License-Identifier: MIT */
/*
 * fake.c - a daemon that answers HELLO, HOLD and DUMP, with {}, and nothing else, for the tests of rdmad-run; also one that misbehaves.
 *
 * $FAKE is what it does: unset - as rdmad --private; silent - takes connections and never answers; version - is
 * of another version; fail - says why and ends with status 3; killed - a signal ends it; hangup - ends on the first request, and
 * behaves from the second start on (the file $FAKE_MARK remembers); stop - stops each client that waits for the
 * answer to its HELLO, or for what is in its dump, and lets it go on, before it answers.  It appends its arguments to the file $FAKE_ARGS,
 * its configuration to $FAKE_CONF, and its process id to $FAKE_UP once it listens.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/msg.h>
#include <rdmad/sock.h>

#include "t/proc_state.h"

#define CONNS 64

static const char *mode;

static bool is(const char *what) { return !strcmp(mode, what); }

static FILE *file_of(const char *variable, const char *how)
{
	const char *path = getenv(variable);

	return path ? fopen(path, how) : NULL;
}

static void arguments_write(int argc, char **argv)
{
	FILE *f = file_of("FAKE_ARGS", "a");

	if (!f)
		return;
	for (int i = 1; i < argc; i++)
		fprintf(f, "%s%c", argv[i], i + 1 < argc ? ' ' : '\n');
	fclose(f);
}

/* A --config of standard input, copied to the file $FAKE_CONF. */
static void config_write(int argc, char **argv)
{
	FILE *f = file_of("FAKE_CONF", "w");
	int c;

	for (int i = 1; f && i + 1 < argc; i++)
		if (!strcmp(argv[i], "--config") && !strcmp(argv[i + 1], "/proc/self/fd/0"))
			while ((c = getchar()) != EOF)
				fputc(c, f);
	if (f)
		fclose(f);
}

static const char *socket_arg(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], "--socket"))
			return argv[i + 1];
	fprintf(stderr, "fake: no --socket\n");
	exit(2);
}

static int socket_listen(const char *addr)
{
	struct sockaddr_un sun;
	socklen_t len = sock_addr(addr, &sun);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	FILE *f;

	if (!len || bind(fd, (struct sockaddr *)&sun, len))
		exit(errno == EADDRINUSE ? 0 : 2); /* as rdmad --private: another one has it */
	if (listen(fd, CONNS))
		exit(2);
	if ((f = file_of("FAKE_UP", "a"))) {
		fprintf(f, "%d\n", (int)getpid());
		fclose(f);
	}
	return fd;
}

/* The first time only, over all processes that share the mark. */
static bool first_time(void)
{
	FILE *f = file_of("FAKE_MARK", "wx");

	if (f)
		fclose(f);
	return f != NULL;
}

static void state_await(pid_t pid, char state)
{
	char now;

	for (int i = 0; (now = proc_state(pid)) != state; i++) {
		if (now == '?' || i == 8000) /* ms */
			exit(5);
		poll(NULL, 0, 1);
	}
}

/* As Ctrl-Z and fg would, in the midst of its wait for our answer. */
static void client_stop(pid_t pid)
{
	state_await(pid, 'S');
	kill(pid, SIGSTOP);
	state_await(pid, 'T');
	kill(pid, SIGCONT);
}

/* The answer, with a descriptor of the text. */
static void dump(int fd, const struct msg_rep *rep)
{
	struct iovec iov = { (void *)(uintptr_t)rep, sizeof(*rep) };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl = { .align = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	struct ucred who;
	socklen_t len = sizeof(who);
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len))
		exit(6);
	memcpy(CMSG_DATA(&ctl.align), &sv[0], sizeof(int));
	sendmsg(fd, &mh, MSG_NOSIGNAL);
	close(sv[0]);
	if (is("stop"))
		client_stop(who.pid);
	send(sv[1], "{}", 2, MSG_NOSIGNAL);
	close(sv[1]);
}

/* False: the connection is gone. */
static bool serve(int fd, unsigned *holds, bool *holding)
{
	struct msg_req req;
	struct msg_rep rep = { 0 };
	ssize_t n = recv(fd, &req, sizeof(req), 0);

	if (n <= 0) {
		*holds -= *holding;
		return false;
	}
	if (is("silent"))
		return true;
	if (is("hangup") && first_time())
		exit(0);
	rep.op = req.op;
	rep.seq = req.seq;
	rep.err = (size_t)n == msg_req_len(req.op) ? 0 : EINVAL;
	if (req.op == MSG_HELLO) {
		if (is("stop"))
			client_stop((pid_t)req.hello.pid);
		rep.hello.abi = is("version") ? RDMAD_ABI + 1 : RDMAD_ABI;
	} else if (req.op == MSG_HOLD) {
		*holds += !*holding;
		*holding = true;
	} else if (req.op == MSG_DUMP && !rep.err) {
		dump(fd, &rep);
		return true;
	}
	send(fd, &rep, sizeof(rep), MSG_NOSIGNAL);
	return true;
}

int main(int argc, char **argv)
{
	struct pollfd p[CONNS + 1];
	bool holding[CONNS + 1] = { false }, held = false;
	unsigned n = 1, holds = 0;

	mode = getenv("FAKE") ? getenv("FAKE") : "";
	arguments_write(argc, argv);
	config_write(argc, argv);
	if (is("fail")) {
		fprintf(stderr, "fake: the reason\n");
		return 3;
	}
	if (is("killed"))
		raise(SIGKILL);
	p[0] = (struct pollfd){ .fd = socket_listen(socket_arg(argc, argv)), .events = POLLIN };
	fprintf(stderr, "fake: listening\n");
	while (!held || holds || is("silent") || is("version")) {
		if (poll(p, n, 30000) <= 0)
			return 4; /* a test that has forgotten us */
		if (p[0].revents && n <= CONNS) {
			p[n] = (struct pollfd){ .fd = accept(p[0].fd, NULL, NULL), .events = POLLIN };
			holding[n++] = false;
			continue;
		}
		for (unsigned i = 1; i < n; i++) {
			if (p[i].revents && !serve(p[i].fd, &holds, &holding[i])) {
				close(p[i].fd);
				n--;
				p[i] = p[n];
				holding[i] = holding[n];
				break;
			}
		}
		held |= holds > 0;
	}
	return 0;
}
