/* SPDX-License-Identifier: MIT */
/* calls_data.c - data, ends, descriptors, poll. */
#include "calls.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <sys/wait.h>

static void waiting(int fd, bool is)
{
	struct pollfd p = { fd, POLLIN, 0 };
	struct timeval t = { is ? 10 : 0, 0 };
	fd_set r;

	ck_assert_int_eq(poll(&p, 1, is ? PATIENCE_MS : 0), is);
	ck_assert_int_eq(p.revents & POLLIN, is ? POLLIN : 0); /* the end has POLLHUP as well */
	FD_ZERO(&r);
	FD_SET(fd, &r);
	ck_assert_int_eq(select(fd + 1, &r, NULL, NULL, &t), is);
	ck_assert_int_eq(!!FD_ISSET(fd, &r), is);
}

START_TEST(plain)
{
	int l = listener(0), c, s, n = 0;
	struct sockaddr_in a, b;
	socklen_t len = sizeof(a);
	struct iovec v[2] = { { (char[]){ 'o', 'n' }, 2 }, { (char[]){ 'e' }, 1 } };

	pair_open(l, &c, &s);
	say(c, "hello");
	hear(s, "hello");
	ck_assert_int_eq(writev(s, v, 2), 3);
	for (int i = 0; i < PATIENCE_MS && n < 3; i++) {
		ok(ioctl(c, FIONREAD, &n));
		usleep(n < 3 ? 1000 : 0);
	}
	ck_assert_int_eq(n, 3);
	hear(c, "one");
	ok(getpeername(c, (struct sockaddr *)&a, &len));
	ck_assert_uint_eq(a.sin_port, addr.sin_port);
	len = sizeof(a);
	ok(getsockname(c, (struct sockaddr *)&a, &len));
	len = sizeof(b);
	ok(getpeername(s, (struct sockaddr *)&b, &len));
	ck_assert_mem_eq(&a, &b, 8);
	ok(shutdown(c, SHUT_WR));
	ck_assert_int_eq(read(s, &n, 1), 0);
	say(s, "still");
	hear(c, "still");
	ok(close(s));
	ck_assert_int_eq(read(c, &n, 1), 0);
	ok(close(c));
	ok(close(l));
	fails(close(l), EBADF);
}
END_TEST

/* To receive nothing says whether there is something, and to send it whether that could be done; but read and readv do not ask. */
START_TEST(nothing)
{
	int l = listener(0), c, s;
	struct iovec v = { &l, 0 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	pair_open(l, &c, &s);
	fails(recv(s, NULL, 0, MSG_DONTWAIT), EAGAIN);
	fails(recvmsg(s, &m, MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL), EAGAIN);
	ok(read(s, NULL, 0));
	ok(readv(s, &v, 1));
	say_there(c, s);
	ok(recv(s, NULL, 0, 0));
	hear(s, "x");
	ok(write(c, NULL, 0));
	ok(shutdown(c, SHUT_WR));
	ok(recv(s, NULL, 0, 0));
	ok(send(s, NULL, 0, 0));
	fails(send(c, NULL, 0, MSG_NOSIGNAL), EPIPE);
	ok(writev(c, &v, 1));
	pair_close(l, c, s);
}
END_TEST

/* It is told what has not arrived yet, until all has. */
START_TEST(unsent)
{
	int l = listener(0), c, s, n = -1;

	pair_open(l, &c, &s);
	ok(ioctl(c, SIOCOUTQ, &n));
	ck_assert_int_eq(n, 0);
	say(c, "hello");
	ok(ioctl(c, SIOCOUTQ, &n));
	ck_assert_int_eq(n, 5);
	for (int i = 0; i < PATIENCE_MS && n; i++) {
		ok(ioctl(c, SIOCOUTQ, &n));
		usleep(1000);
	}
	ck_assert_int_eq(n, 0);
	hear(s, "hello");
	pair_close(l, c, s);
}
END_TEST

/* All that has come is there to be looked at. */
START_TEST(peeks)
{
	int l = listener(0), c, s;
	ssize_t n = 1;
	char buf[4];

	pair_open(l, &c, &s);
	say_there(c, s);
	ck_assert_int_eq(recv(s, buf, sizeof(buf), MSG_PEEK), 1);
	say(c, "yz");
	for (int i = 0; i < PATIENCE_MS && n == 1; i++) {
		n = recv(s, buf, sizeof(buf), MSG_PEEK);
		usleep(1000);
	}
	ck_assert_int_eq(n, 3);
	hear(s, "xyz");
	pair_close(l, c, s);
}
END_TEST

/* All that waits is told of, also where it has come in several messages. */
START_TEST(unread)
{
	static char data[100000];
	int l = listener(0), c, s, n = 0;

	pair_open(l, &c, &s);
	ck_assert_int_eq(write(c, data, sizeof(data)), sizeof(data));
	for (int i = 0; i < PATIENCE_MS && n < (int)sizeof(data); i++) {
		ok(ioctl(s, FIONREAD, &n));
		usleep(n < (int)sizeof(data) ? 1000 : 0);
	}
	ck_assert_int_eq(n, sizeof(data));
	ck_assert_int_eq(recv(s, data, sizeof(data), MSG_WAITALL), sizeof(data));
	ok(ioctl(s, FIONREAD, &n));
	ck_assert_int_eq(n, 0);
	close(c);
	close(s);
	close(l);
}
END_TEST

/* Kinds of data that no stream of ours has; text that the C library writes by itself. */
START_TEST(oddities)
{
	int l = listener(0), c, s, on = 1;
	char b;

	pair_open(l, &c, &s);
	fails(setsockopt(c, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), EOPNOTSUPP);
	ck_assert_int_eq(dprintf(c, "%s %d\n", "hello", 42), 9);
	waiting(s, true);
	fails((int)recv(s, &b, 1, MSG_OOB), EINVAL);
	fails((int)recv(s, &b, 1, MSG_ERRQUEUE), EAGAIN);
	hear(s, "hello 42\n");
	close(c);
	close(s);
	close(l);
}
END_TEST

START_TEST(timeouts)
{
	int l = listener(0), c, s;
	struct timeval t = { 0, 50000 };
	static char block[8 << 20];
	ssize_t sent = 0, n;
	char b, some[5];

	pair_open(l, &c, &s);
	ok(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
	fails((int)read(s, &b, 1), EAGAIN);
	say(c, "ab");
	ck_assert_int_eq(recv(s, some, sizeof(some), MSG_WAITALL), 2);
	fails((int)recv(s, some, sizeof(some), MSG_WAITALL), EAGAIN);
	ok(setsockopt(c, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)));
	while ((n = write(c, block, sizeof(block))) > 0)
		sent += n;
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_lt(sent, sizeof(block)); /* more than there is room for */
	for (; sent; sent -= n)
		ck_assert_int_gt(n = read(s, block, sizeof(block)), 0);
	ok(fcntl(c, F_SETFL, fcntl(c, F_GETFL) | O_NONBLOCK));
	ck_assert(fcntl(c, F_GETFL) & O_NONBLOCK);
	fails((int)recv(c, &b, 1, 0), EAGAIN);
	say(s, "x");
	ok(fcntl(c, F_SETFL, 0));
	hear(c, "x");
	close(c);
	close(s);
	close(l);
}
END_TEST

START_TEST(dups)
{
	int l = listener(0), c, s, d, status;
	FILE *f;
	char line[16];

	pair_open(l, &c, &s);
	d = dup(c);
	ok(close(c));
	say(d, "through the other");
	hear(s, "through the other");
	fails(dup2(999, s), EBADF); /* and s is what it was */
	ck_assert_int_eq(dup2(s, 200), 200);
	ok(close(s));
	say(200, "line\n");
	f = fdopen(d, "r+");
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	ck_assert_str_eq(line, "line\n");
	/* The child has it, too. */
	if (!fork()) {
		close(d);
		_exit(write(200, "child\n", 6) == 6 ? 0 : 1);
	}
	ck_assert_int_gt(wait(&status), 0);
	ck_assert_int_eq(status, 0);
	say(200, "again\n");
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	ck_assert_str_eq(line, "child\n");
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	ck_assert_str_eq(line, "again\n");
	fputs("back\n", f);
	fflush(f);
	hear(200, "back\n");
	fclose(f);
	ck_assert_int_eq(read(200, line, 1), 0);
	close(200);
	close(l);
}
END_TEST

/* A child by vfork() has this memory, and descriptors of its own. */
static int writes_mine(void *fds)
{
	const int *fd = fds; /* what it gets the number of, and what it writes to */

	close(fd[0]);
	dup2(fd[1], fd[0]);
	return write(fd[0], "mine", 4) == 4 ? 0 : 1;
}

START_TEST(vforked)
{
	static char stack[1 << 16] __attribute__((aligned(16)));
	int l = listener(0), c, s, p[2], status;
	char buf[8] = "";
	pid_t pid;

	pair_open(l, &c, &s);
	ok(pipe2(p, O_NONBLOCK));
	/* (vfork() itself is fork() here.) */
	pid = clone(writes_mine, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, (int[]){ c, p[1] });
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(read(p[0], buf, 4), 4);
	ck_assert_str_eq(buf, "mine");
	say(c, "still there");
	hear(s, "still there");
	close(p[0]);
	close(p[1]);
	close(c);
	close(s);
	close(l);
}
END_TEST

/* Where no large file may be made, buffers are none. */
START_TEST(no_files)
{
	struct rlimit old, few;
	int l = listener(0), c, s;

	ok(getrlimit(RLIMIT_FSIZE, &old));
	few = old;
	few.rlim_cur = 4096;
	ok(setrlimit(RLIMIT_FSIZE, &few));
	pair_open(l, &c, &s);
	say(c, "hello");
	hear(s, "hello");
	ok(setrlimit(RLIMIT_FSIZE, &old));
	close(c);
	close(s);
	close(l);
}
END_TEST

/* Counts that nobody can mean; data that are thrown away; a listener that is none. */
START_TEST(bounds)
{
	int l = listener(0), c, s;
	struct iovec v = { (char[]){ 'x' }, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = IOV_MAX + 1 };
	static char block[1000];
	volatile int less = -1, more = IOV_MAX + 1; /* the compiler knows better */

	pair_open(l, &c, &s);
	fails((int)writev(c, &v, less), EINVAL);
	fails((int)writev(c, &v, more), EINVAL);
	fails((int)readv(c, &v, less), EINVAL);
	fails((int)sendmsg(c, &m, 0), EMSGSIZE);
	fails((int)recvmsg(c, &m, 0), EMSGSIZE);
	ck_assert_int_eq(writev(c, &v, 0), 0);
	fails((int)recv(s, NULL, 4, MSG_TRUNC | MSG_DONTWAIT), EAGAIN);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(write(c, block, sizeof(block)), sizeof(block));
	say(c, "kept");
	ck_assert_int_eq(recv(s, NULL, 100 * sizeof(block), MSG_TRUNC | MSG_WAITALL), 100 * sizeof(block));
	hear(s, "kept");
	fails(listen(c, 1), EINVAL);
	say(s, "still");
	hear(c, "still");
	close(c);
	close(s);
	close(l);
}
END_TEST

/* Nobody there; somebody without rsockets, as server and as client. */
START_TEST(others)
{
	int l = listener(0), tcp = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), c, s, err = 0;
	struct sockaddr_in gone = addr;
	socklen_t len = sizeof(err);
	struct pollfd p;

	ok(syscall(SYS_connect, tcp, &addr, sizeof(addr)));
	s = accept(l, NULL, NULL);
	ck_assert_int_eq(syscall(SYS_write, tcp, "by tcp", 6), 6);
	hear(s, "by tcp");
	syscall(SYS_close, tcp);
	close(s);
	close(l);
	c = socket(AF_INET, SOCK_STREAM, 0);
	fails(connect(c, (struct sockaddr *)&gone, sizeof(gone)), ECONNREFUSED);
	close(c);
	c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	fails(connect(c, (struct sockaddr *)&gone, sizeof(gone)), EINPROGRESS);
	p = (struct pollfd){ c, POLLOUT, 0 };
	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	ok(getsockopt(c, SOL_SOCKET, SO_ERROR, &err, &len));
	ck_assert_int_eq(err, ECONNREFUSED);
	close(c);
	l = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	ok(syscall(SYS_bind, l, &gone, sizeof(gone)));
	ok(syscall(SYS_listen, l, 4));
	c = socket(AF_INET, SOCK_STREAM, 0);
	ok(connect(c, (struct sockaddr *)&gone, sizeof(gone)));
	say(c, "server");
	s = (int)syscall(SYS_accept, l, NULL, NULL);
	hear(s, "server");
	close(s);
	close(c);
	close(l);
}
END_TEST

/* Two listeners at a port: both are there, the second one by TCP only. */
START_TEST(port_shared)
{
	int fd[2], on = 1;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(any);

	for (int i = 0; i < 2; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		ok(setsockopt(fd[i], SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)));
		ok(bind(fd[i], (struct sockaddr *)&any, sizeof(any)));
		ok(listen(fd[i], 1));
		ok(getsockname(fd[i], (struct sockaddr *)&any, &len));
	}
	close(fd[0]);
	close(fd[1]);
}
END_TEST

/* One thread, nothing that blocks; the listener is polled, too. */
START_TEST(polling)
{
	int l = listener(SOCK_NONBLOCK), c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), s = -1, err = -1;
	socklen_t len = sizeof(err);
	struct pollfd p[2] = { { l, POLLIN, 0 }, { c, POLLOUT, 0 } };

	fails(accept(l, NULL, NULL), EAGAIN);
	waiting(l, false);
	fails(connect(c, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	while (s < 0) {
		ck_assert_int_ge(poll(p, 2, PATIENCE_MS), 1);
		s = accept4(l, NULL, NULL, SOCK_NONBLOCK);
		ck_assert(s >= 0 || errno == EAGAIN);
	}
	ck_assert_int_eq(poll(p + 1, 1, PATIENCE_MS), 1);
	ck_assert_int_eq(p[1].revents, POLLOUT);
	ok(getsockopt(c, SOL_SOCKET, SO_ERROR, &err, &len));
	ck_assert_int_eq(err, 0);
	waiting(s, false);
	say(c, "x");
	waiting(s, true);
	hear(s, "x");
	waiting(s, false);
	close(c);
	waiting(s, true);
	close(s);
	close(l);
}
END_TEST

static volatile sig_atomic_t broken;
static void on_pipe(int sig) { broken = sig; }

/* As by TCP a peer's close() is an end; who sends nevertheless hears it behind the first time. */
START_TEST(pipe_broken)
{
	int l = listener(0), c, s;
	struct pollfd p;
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	char b;

	signal(SIGPIPE, on_pipe);
	pair_open(l, &c, &s);
	close(s);
	ck_assert_int_eq(read(c, &b, 1), 0);
	p = (struct pollfd){ c, 0, 0 };
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ok(getpeername(c, (struct sockaddr *)&at, &len));
	say(c, "lost");
	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	ck_assert_int_eq(p.revents, POLLHUP);
	ck_assert_int_eq(broken, 0);
	fails(getpeername(c, (struct sockaddr *)&at, &len), ENOTCONN);
	fails((int)send(c, "x", 1, MSG_NOSIGNAL), EPIPE);
	ck_assert_int_eq(broken, 0);
	fails((int)send(c, "x", 1, 0), EPIPE);
	ck_assert_int_eq(broken, SIGPIPE);
	close(c);
	close(l);
}
END_TEST

/* Times that are none; sets longer than the headers'; both halves shut. */
START_TEST(waits_oddly)
{
	const int n = 4 * FD_SETSIZE;
	int l = listener(0), c, s;
	struct pollfd p;
	fd_set *set = calloc(4, sizeof(*set)), except;
	char byte;

	pair_open(l, &c, &s);
	p = (struct pollfd){ s, POLLIN, 0 };
	ck_assert_int_eq(ppoll(&p, 1, &(struct timespec){ 0, 2000000000 }, NULL), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ppoll(&p, 1, &(struct timespec){ 0, -1 }, NULL), -1);
	ck_assert_int_eq(errno, EINVAL);
	FD_SET(s, set);
	ck_assert_int_eq(select(n, set, NULL, NULL, &(struct timeval){ -1, 0 }), -1);
	ck_assert_int_eq(errno, EINVAL);
	say(c, "x");
	ck_assert_int_eq(select(n, set, NULL, NULL, &(struct timeval){ PATIENCE_MS / 1000, 0 }), 1);
	ck_assert(FD_ISSET(s, set));
	hear(s, "x");
	ok(shutdown(c, SHUT_WR));
	ck_assert_int_eq(read(s, &byte, 1), 0);
	FD_ZERO(&except);
	FD_SET(s, &except);
	ck_assert_int_eq(select(s + 1, NULL, NULL, &except, &(struct timeval){ 0, 1000 }), 0);
	p.events = 0;
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ok(shutdown(s, SHUT_WR));
	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	ck_assert_int_eq(p.revents, POLLHUP);
	free(set);
	pair_close(l, c, s);
}
END_TEST

/* Two messages in a call, and a place where a stream has none. */
START_TEST(several)
{
	int l = listener(0), c, s;
	char a[] = "ab", b[] = "cd", to[2][3] = { "" };
	struct iovec out[] = { { a, 2 }, { b, 2 } }, in[] = { { to[0], 2 }, { to[1], 2 } };
	struct mmsghdr m[] = { { .msg_hdr = { .msg_iov = &out[0], .msg_iovlen = 1 } },
			       { .msg_hdr = { .msg_iov = &out[1], .msg_iovlen = 1 } } };

	pair_open(l, &c, &s);
	ck_assert_int_eq(sendmmsg(c, m, 2, 0), 2);
	ck_assert(m[0].msg_len == 2 && m[1].msg_len == 2);
	m[0].msg_hdr.msg_iov = &in[0];
	m[1].msg_hdr.msg_iov = &in[1];
	ck_assert_int_eq(recvmmsg(s, m, 2, MSG_WAITALL, NULL), 2);
	ck_assert_str_eq(to[0], "ab");
	ck_assert_str_eq(to[1], "cd");
	ck_assert_int_eq(recvmmsg(s, m, 2, MSG_DONTWAIT, NULL), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(pwritev2(c, out, 2, -1, 0), 4);
	hear(s, "abcd");
	say(c, "xy");
	ck_assert_int_eq(preadv2(s, in, 1, -1, 0), 2);
	ck_assert_str_eq(to[0], "xy");
	pair_close(l, c, s);
}
END_TEST

void calls_data(Suite *s)
{
	SUITE_ADD(s, plain, nothing, unsent, peeks, unread, oddities, timeouts, dups, vforked, no_files, bounds, others,
		  port_shared, polling, pipe_broken, waits_oddly, several);
}
