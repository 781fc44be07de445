/* SPDX-License-Identifier: MIT */
/* calls_listen.c - listeners: their ports, and what a child by fork() has of its parent's. */
#include "calls.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "t/fds_left.h"
#include "t/interrupt.h"

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51
#endif

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

/* Before a fork the parent looks at it: it is its own, then. */
static void await(int l)
{
	struct pollfd p = { l, POLLIN, 0 };

	ck_assert_int_eq(poll(&p, 1, 0), 0);
	others_sleep_in(SYS_ppoll);
}

START_TEST(listener_of_parent)
{
	int l = listener(0), nonblock, c, s, status;
	pid_t pid;

	await(l);
	pid = fork();
	if (!pid)
		child_accepts(l);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	pair_open(l, &c, &s); /* the parent's is as it was */
	nonblock = listener(SOCK_NONBLOCK);
	await(nonblock);
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

/* Connected, and perhaps ended by the peer. */
static bool by_tcp(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	ok(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	return info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT;
}

static void greet(int s)
{
	ck_assert_int_ge(s, 0);
	say(s, "hello");
	close(s);
}

/*
 * As nginx and others do, whose parent accepts nothing: children serve by TCP, which their clients hear at once, if they are not
 * connected yet; else they are served, too.
 */
START_TEST(listener_of_children)
{
	int l = listener(0), early = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), last, other, c, s, status;
	struct sockaddr_in served = addr;
	struct pollfd p = { early, POLLOUT, 0 };
	pid_t pid;

	fails(connect(early, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	pid = fork();
	if (!pid) {
		ck_assert(blocks(l) && !(syscall(SYS_fcntl, l, F_GETFL) & O_NONBLOCK));
		greet(accept(l, NULL, NULL));
		greet(accept(l, NULL, NULL));
		_exit(0);
	}
	connector(&last);
	ck_assert_int_eq(poll(&p, 1, -1), 1);
	ck_assert(by_tcp(last));
	p.events = POLLIN;
	ck_assert_int_eq(poll(&p, 1, -1), 1); /* it does not block */
	hear(early, "hello");
	hear(last, "hello");
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	/* The host has refused, and not been silent: it is asked for RDMA again. */
	other = listener(0);
	pair_open(other, &c, &s);
	/* The parent may serve, too. */
	addr = served;
	connector(&last);
	greet(accept(l, NULL, NULL));
	hear(last, "hello");
	close(last);
	close(early);
	close(c);
	close(s);
	close(other);
	close(l);
}
END_TEST

/* A port that only RDMA has: the number of a socket whose TCP side was closed behind the library's back. */
static int rdma_port(struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), null = open("/dev/null", O_RDWR);
	socklen_t len = sizeof(*a);

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	ok(bind(fd, (struct sockaddr *)a, sizeof(*a)));
	ok(getsockname(fd, (struct sockaddr *)a, &len));
	ck_assert_int_eq(syscall(SYS_dup3, null, fd, 0), fd);
	close(null);
	return fd;
}

/* TCP chooses it: then the listener is one of TCP.  A program that asks for it hears that it is taken. */
START_TEST(port_of_rdma)
{
	struct sockaddr_in taken, any;
	int held = rdma_port(&taken), l = socket(AF_INET, SOCK_STREAM, 0), asked = socket(AF_INET, SOCK_STREAM, 0), c,
	    s;
	uint32_t only = (uint32_t)ntohs(taken.sin_port) << 16 | ntohs(taken.sin_port);

	fails(bind(asked, (struct sockaddr *)&taken, sizeof(taken)), EADDRINUSE);
	close(asked);
	any = taken;
	any.sin_port = 0;
	if (setsockopt(l, IPPROTO_IP, IP_LOCAL_PORT_RANGE, &only, sizeof(only))) { /* Linux 6.3 has it */
		ck_assert_int_eq(errno, ENOPROTOOPT);
	} else {
		ok(bind(l, (struct sockaddr *)&any, sizeof(any)));
		ok(listen(l, 1));
		addr = taken;
		tcp_connect(&c);
		s = accept(l, NULL, NULL);
		ck_assert_int_ge(s, 0);
		close(s);
		syscall(SYS_close, c);
	}
	close(l);
	close(held);
}
END_TEST

/* The connection is one of TCP, and works. */
static void tcp_end(int c, int s)
{
	ck_assert(by_tcp(c));
	say(s, "by tcp");
	hear(c, "by tcp");
	close(c);
	close(s);
}

/* One that begins when it is told to. */
static pid_t client_of_tcp(const int go[2])
{
	char buf[8] = "";
	pid_t pid = fork();
	int c;

	if (pid)
		return pid;
	if (read(go[0], buf, 1) != 1)
		_exit(1);
	connector(&c);
	_exit(c >= 0 && by_tcp(c) && read(c, buf, 6) == 6 && !strcmp(buf, "by tcp") ? 0 : 1);
}

/* By RDMA it would take five.  The client goes by TCP, where it waits until there is one. */
START_TEST(accept_few)
{
	int l = listener(0), c, s, err, status, go[2];
	struct rlimit old;
	pid_t pid;

	pair_open(l, &c, &s); /* later ones find memory that they share */
	close(c);
	close(s);
	ok(pipe(go));
	for (int n = 0; n <= 4; n++) {
		struct pollfd p = { l, POLLIN, 0 };

		pid = client_of_tcp(go);
		old = fds_left(n);
		say(go[1], "g");
		ck_assert_int_eq(poll(&p, 1, -1), 1);
		s = accept(l, NULL, NULL);
		err = errno;
		ok(setrlimit(RLIMIT_NOFILE, &old));
		if (!n) {
			ck_assert_int_eq(s, -1);
			ck_assert_int_eq(err, EMFILE);
			s = accept(l, NULL, NULL);
		}
		ck_assert_int_ge(s, 0);
		say(s, "by tcp");
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
		close(s);
	}
	close(go[0]);
	close(go[1]);
	pair_open(l, &c, &s);
	close(c);
	close(s);
	close(l);
}
END_TEST

/* A connection has the number of its socket, and no other low one: tables are made for as many. */
START_TEST(numbers)
{
	enum { N = 8 };
	int l = listener(0), low = dup(0), c[N], s[N];

	close(low);
	for (int i = 0; i < N; i++) {
		pair_open(l, &c[i], &s[i]);
		ck_assert_int_lt(c[i], low + 3 * N);
		ck_assert_int_lt(s[i], low + 3 * N);
	}
	for (int i = 0; i < N; i++) {
		close(c[i]);
		close(s[i]);
	}
	close(l);
}
END_TEST

/* Where the numbers for the rest of it are taken, connections go by TCP. */
START_TEST(numbers_taken)
{
	enum { LIMIT = 256 };
	struct rlimit old, few;
	int l = listener(0), c, s;
	pthread_t t;

	ok(getrlimit(RLIMIT_NOFILE, &old));
	few = old;
	few.rlim_cur = LIMIT;
	for (int fd = LIMIT / 2; fd < LIMIT; fd++)
		ck_assert_int_eq(dup2(0, fd), fd);
	ok(setrlimit(RLIMIT_NOFILE, &few));
	pthread_create(&t, NULL, connector, &c);
	s = accept(l, NULL, NULL);
	ck_assert_int_ge(s, 0);
	pthread_join(t, NULL);
	tcp_end(c, s);
	for (int fd = LIMIT / 2; fd < LIMIT; fd++)
		close(fd);
	pair_open(l, &c, &s);
	ok(setrlimit(RLIMIT_NOFILE, &old));
	close(c);
	close(s);
	close(l);
}
END_TEST

static void *accepts_none(void *l)
{
	fails(call_accept(*(int *)l), EINVAL);
	return NULL;
}

/* It ends a wait in accept(), and refuses whoever comes. */
START_TEST(listener_shut)
{
	int l = listener(0), c, s;
	socklen_t len = sizeof(addr);
	pthread_t t;

	ok(shutdown(l, SHUT_WR)); /* changes nothing */
	pair_open(l, &c, &s);
	close(c);
	close(s);
	pthread_create(&t, NULL, accepts_none, &l);
	ok(shutdown(l, SHUT_RDWR));
	pthread_join(t, NULL);
	connector(&c);
	ck_assert_int_eq(c, -ECONNREFUSED);
	ok(listen(l, 8));
	ck_assert(blocks(l));
	ok(getsockname(l, (struct sockaddr *)&addr, &len)); /* it was chosen, and is another one */
	pthread_create(&t, NULL, connector, &c);
	s = accept(l, NULL, NULL);
	pthread_join(t, NULL);
	ck_assert_int_ge(s, 0);
	close(c);
	close(s);
	close(l);
}
END_TEST

/* A server of FTP listens, and waits for what its client says when it is connected: that is so soon, by TCP. */
START_TEST(listener_unwaited)
{
	int pipes[2], status, l, s;
	struct timespec from, to;
	pid_t child;

	ok(pipe(pipes));
	child = fork();
	if (!child) {
		int c = -1;

		if (read(pipes[0], &addr, sizeof(addr)) == sizeof(addr))
			connector(&c);
		_exit(c < 0 || write(c, "x", 1) != 1);
	}
	l = listener(0);
	clock_gettime(CLOCK_MONOTONIC, &from);
	ck_assert_int_eq(write(pipes[1], &addr, sizeof(addr)), sizeof(addr));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	clock_gettime(CLOCK_MONOTONIC, &to);
	ck_assert_int_eq(status, 0);
	ck_assert_int_lt(to.tv_sec - from.tv_sec, 5); /* a host that does not answer is waited for for six */
	s = accept(l, NULL, NULL);
	hear(s, "x");
	close(s);
	close(l);
	close(pipes[0]);
	close(pipes[1]);
}
END_TEST

/* Its time is up. */
START_TEST(accept_limit)
{
	struct timeval limit = { 0, 1000 };
	int l = listener(0);

	ok(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	fails(call_accept(l), EAGAIN);
	fails(call_accept(l), EAGAIN);
	close(l);
}
END_TEST

static void is_local6(int (*name)(int, struct sockaddr *, socklen_t *), int fd, in_port_t port)
{
	struct sockaddr_in6 a = { 0 };
	socklen_t len = sizeof(a);

	ok(name(fd, (struct sockaddr *)&a, &len));
	ck_assert_uint_eq(len, sizeof(a));
	ck_assert(IN6_IS_ADDR_LOOPBACK(&a.sin6_addr));
	ck_assert(!port || a.sin6_port == port);
}

/* The device has 127.0.0.1 only; who is at ::1 is told so, also by the names of a bridge. */
START_TEST(local6)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT }, from = { 0 };
	int l = socket(AF_INET6, SOCK_STREAM, 0), c = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), s, status;
	socklen_t len = sizeof(at), from_len = sizeof(from);
	struct pollfd p = { c, POLLOUT, 0 };

	ok(bind(l, (struct sockaddr *)&at, sizeof(at)));
	ok(listen(l, 1));
	ok(getsockname(l, (struct sockaddr *)&at, &len));
	fails(connect(c, (struct sockaddr *)&at, sizeof(at)), EINPROGRESS);
	s = accept(l, (struct sockaddr *)&from, &from_len);
	ck_assert_int_ge(s, 0);
	ck_assert(IN6_IS_ADDR_LOOPBACK(&from.sin6_addr));
	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	is_local6(getpeername, c, at.sin6_port);
	is_local6(getsockname, c, from.sin6_port);
	is_local6(getpeername, s, from.sin6_port);
	is_local6(getsockname, s, at.sin6_port);
	if (!fork()) {
		say(s, "child");
		is_local6(getpeername, s, from.sin6_port);
		_exit(0);
	}
	ok(fcntl(c, F_SETFL, 0));
	hear(c, "child");
	ck_assert_int_gt(wait(&status), 0);
	ck_assert_int_eq(status, 0);
	close(c);
	close(s);
	close(l);
}
END_TEST

static bool same_name(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_family == b->sin_family && a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* A client that was connected when the listener became one of TCP keeps its address: servers ask whom they serve. */
START_TEST(names_of_connected)
{
	int l = listener(0), c[2], s[2], was = dup(STDIN_FILENO);
	struct sockaddr_in name = { 0 }, from = { 0 };
	socklen_t len = sizeof(name);

	pair_open(l, &c[0], &s[0]);
	connector(&c[1]);
	ck_assert_int_ge(c[1], 0);
	ok(getsockname(c[1], (struct sockaddr *)&name, &len));
	ck_assert_int_eq(dup2(s[0], STDIN_FILENO), STDIN_FILENO);
	s[1] = accept(l, (struct sockaddr *)&from, &len);
	ck_assert_int_ge(s[1], 0);
	ck_assert_msg(same_name(&from, &name), "accept() says port %u, and it is %u", ntohs(from.sin_port),
		      ntohs(name.sin_port));
	ck_assert_uint_eq(len, sizeof(from));
	ok(getpeername(s[1], (struct sockaddr *)&from, &len));
	ck_assert(same_name(&from, &name));
	ok(getsockname(s[1], (struct sockaddr *)&from, &len));
	ck_assert(same_name(&from, &addr));
	say(c[1], "x");
	hear(s[1], "x");
	ck_assert_int_eq(dup2(was, STDIN_FILENO), STDIN_FILENO);
	for (unsigned i = 0; i < 2; i++) {
		ok(close(c[i]));
		ok(close(s[i]));
	}
	ok(close(was));
	ok(close(l));
}
END_TEST

/* Without a descriptor for it a client waits for the next call. */
START_TEST(accept_no_room)
{
	int l = listener(SOCK_NONBLOCK), c, s, n = 0;
	struct pollfd p = { l, POLLIN, 0 };
	struct rlimit old, few;
	int spare[64];

	ck_assert_int_eq(poll(&p, 1, 0), 0); /* it is waited for: clients need not */
	connector(&c);
	ck_assert_int_ge(c, 0);
	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	ok(getrlimit(RLIMIT_NOFILE, &old));
	few = old;
	few.rlim_cur = 64;
	ok(setrlimit(RLIMIT_NOFILE, &few));
	while (n < 64 && (spare[n] = dup(0)) >= 0)
		n++;
	ck_assert_int_eq(accept(l, NULL, NULL), -1);
	ck_assert_int_eq(errno, EMFILE);
	ok(setrlimit(RLIMIT_NOFILE, &old));
	while (n)
		ok(close(spare[--n]));
	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	s = accept(l, NULL, NULL);
	ck_assert_int_ge(s, 0);
	say(c, "x");
	hear(s, "x");
	pair_close(l, c, s);
}
END_TEST

/* A socket that is accepted has what its listener has. */
START_TEST(inherits)
{
	int l = listener(0), c, s, on = 1, v = 0;
	struct timeval limit = { 0, 20000 };
	socklen_t len = sizeof(v);
	char byte;

	ok(setsockopt(l, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	ok(setsockopt(l, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
	connector(&c); /* before the limit, which is one of accept(), too */
	ck_assert_int_ge(c, 0);
	ok(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	s = accept(l, NULL, NULL);
	ck_assert_int_ge(s, 0);
	ok(getsockopt(s, IPPROTO_TCP, TCP_NODELAY, &v, &len));
	ck_assert_int_ne(v, 0);
	ok(getsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &v, &len));
	ck_assert_int_ne(v, 0);
	ck_assert_int_eq(read(s, &byte, 1), -1);
	ck_assert_int_eq(errno, EAGAIN);
	pair_close(l, c, s);
}
END_TEST

void calls_listen(Suite *s)
{
	SUITE_ADD(s, listener_of_parent, listener_of_children, port_of_rdma, accept_few, numbers, numbers_taken,
		  listener_shut, listener_unwaited, accept_limit, local6, names_of_connected, accept_no_room, inherits);
}
