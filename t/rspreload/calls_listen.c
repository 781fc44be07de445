/* SPDX-License-Identifier: MIT */
/* calls_listen.c - listeners: what a child by fork() has of its parent's. */
#include "calls.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "t/interrupt.h"

static int call_accept(int fd) { return accept(fd, NULL, NULL); }

/* A client without rsockets. */
static void tcp_connect(void *arg)
{
	int *fd = arg;

	*fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	ok(syscall(SYS_connect, *fd, &addr, sizeof(addr)));
}

static bool blocks(int fd) { return !(fcntl(fd, F_GETFL) & O_NONBLOCK); }

/* As the parent left it, and as the child wants it; of the file that is the parent's as well O_NONBLOCK stays. */
static void child_accepts(int l)
{
	struct timeval t = { 0, 1000 }, ever = { 0 };
	int c, s, d, on = 1, off = 0;

	ck_assert(blocks(l));
	s = interrupted(SA_RESTART, call_accept, l, tcp_connect, &c);
	ck_assert_int_ge(s, 0);
	ck_assert_int_eq(syscall(SYS_write, c, "by tcp", 6), 6);
	hear(s, "by tcp");
	ck_assert_int_eq(interrupted(0, call_accept, l, tcp_connect, &c), -EINTR);
	ok(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
	fails(call_accept(l), EAGAIN);
	ok(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &ever, sizeof(ever)));
	ok(fcntl(l, F_SETFL, fcntl(l, F_GETFL) | O_NONBLOCK));
	ck_assert(!blocks(l));
	fails(call_accept(l), EAGAIN);
	ok(ioctl(l, FIONBIO, &off));
	d = fcntl(l, F_DUPFD, 0);
	ck_assert_int_eq(dup2(l, 201), 201);
	close(l);
	ck_assert(blocks(d) && blocks(201));
	s = interrupted(SA_RESTART, call_accept, 201, tcp_connect, &c);
	ck_assert_int_ge(s, 0);
	ck_assert(syscall(SYS_fcntl, d, F_GETFL) & O_NONBLOCK);
	ok(ioctl(d, FIONBIO, &on));
	fails(call_accept(d), EAGAIN);
	/* The number of another file. */
	ok(syscall(SYS_close, d));
	ck_assert_int_eq(syscall(SYS_fcntl, s, F_DUPFD, d), d);
	ck_assert(blocks(d));
	ok(fcntl(d, F_SETFL, O_NONBLOCK));
	ck_assert(!blocks(d));
	_exit(0);
}

START_TEST(listener_of_parent)
{
	int l = listener(0), nonblock, c, s, status;
	pid_t pid = fork();

	if (!pid)
		child_accepts(l);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	pair_open(l, &c, &s); /* the parent's is as it was */
	nonblock = listener(SOCK_NONBLOCK);
	pid = fork();
	if (!pid)
		_exit(!blocks(nonblock) && accept(nonblock, NULL, NULL) == -1 && errno == EAGAIN ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	close(nonblock);
	close(c);
	close(s);
	close(l);
}
END_TEST

void calls_listen(Suite *s) { SUITE_ADD(s, listener_of_parent); }
