/* SPDX-License-Identifier: MIT */
/* capture.c - starts rdmactl capture, and waits until it has begun. */
#include "config.h"

#include "capture.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEGIN_MS 15000
#define END_MS   60000 /* much may be left to write, and the disk may be slow */
#define SOCK_FD  3

/* In the grandchild: a session of its own, so that the terminal's signals do not end it before the program. */
static void become(const struct install *in, const char *addr, const struct options *opt, int sock)
{
	const char *argv[12 + 2 * RUN_CAPTURE_ARGS] = { "rdmactl", "--socket", addr, "capture", "--quiet" };
	unsigned n = 5;
	char fd[12];
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, 0);
	dup2(2, 1);
	if (sock != SOCK_FD)
		dup2(sock, SOCK_FD);
	fcntl(SOCK_FD, F_SETFD, 0);
	syscall(SYS_close_range, SOCK_FD + 1u, ~0u, 0u);
	unsetenv("LD_PRELOAD"); /* it is for the program only */
	snprintf(fd, sizeof(fd), "%d", SOCK_FD);
	argv[n++] = "--write";
	argv[n++] = opt->capture;
	argv[n++] = "--ready";
	argv[n++] = fd;
	for (unsigned i = 0; i < opt->capture_arg_n; i++)
		argv[n++] = opt->capture_args[i];
	execv(in->ctl, (char **)argv);
	say("cannot run %s: %s", in->ctl, strerror(errno));
	_exit(RUN_FAILED);
}

/* A byte in time; false: the other side has ended, or time is up. */
static bool word(int sock, int patience_ms)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	char c;

	while (poll(&p, 1, patience_ms) < 0 && errno == EINTR)
		;
	return p.revents && read(sock, &c, 1) == 1;
}

int capture_begin(const struct install *in, const char *addr, const struct options *opt)
{
	const char *file = opt->capture;
	int sock[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) || (pid = fork()) < 0) {
		say("--capture %s: %s", file, strerror(errno));
		return -1;
	}
	if (pid == 0) {
		setsid();
		pid = fork();
		if (pid == 0)
			become(in, addr, opt, sock[1]);
		_exit(pid < 0);
	}
	close(sock[1]);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (word(sock[0], BEGIN_MS))
		return sock[0];
	say("--capture %s: %s capture has not begun", file, in->ctl);
	close(sock[0]);
	return -1;
}

void capture_end(int sock, const char *file)
{
	if (sock < 0)
		return;
	shutdown(sock, SHUT_WR);
	if (!word(sock, END_MS))
		say_lost("--capture %s: it is not complete", file);
	close(sock);
}
