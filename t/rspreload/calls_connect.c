/* SPDX-License-Identifier: MIT */
/* calls_connect.c - connections that nobody has accepted: one more than the backlog are there, the others not yet; and those of clients that try again. */
#include "calls.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/sendfile.h>

#include "t/late.h"

/* Its queue is full of these: more have to wait. */
enum { FULL = 3 };

static int full_listener(int first[FULL])
{
	int l = listener_for(0, FULL - 1); /* there is room for one more than that */
	struct tcp_info info;
	socklen_t len = sizeof(info);

	for (int i = 0; i < FULL; i++) {
		connector(&first[i]);
		ck_assert_int_ge(first[i], 0);
		ok(getsockopt(first[i], IPPROTO_TCP, TCP_INFO, &info, &len));
		ck_assert_int_ne(info.tcpi_state, TCP_ESTABLISHED);
	}
	return l;
}

static void all_close(const int fd[FULL])
{
	for (int i = 0; i < FULL; i++)
		close(fd[i]);
}

/* By one thread, as of programs that make themselves a pair of sockets. */
START_TEST(before_accept)
{
	int l = listener(0), c, d, s;
	struct sockaddr_in a, b;
	socklen_t len = sizeof(a);

	connector(&c);
	connector(&d);
	say(c, "first");
	say(d, "second");
	ok(getsockname(c, (struct sockaddr *)&a, &len));
	s = accept(l, (struct sockaddr *)&b, &len);
	ck_assert_int_ge(s, 0);
	ck_assert_mem_eq(&a, &b, 8);
	fails(bind(s, (struct sockaddr *)&a, sizeof(a)), EINVAL); /* and it is what it was */
	hear(s, "first");
	say(s, "back");
	hear(c, "back");
	ok(shutdown(s, SHUT_RD));
	ck_assert_int_eq(poll(&(struct pollfd){ s, POLLRDHUP, 0 }, 1, 0), 1);
	close(s);
	ck_assert_int_eq(poll(&(struct pollfd){ l, POLLIN, 0 }, 1, PATIENCE_MS), 1);
	s = accept(l, NULL, NULL);
	hear(s, "second");
	close(s);
	close(c);
	close(d);
	close(l);
}
END_TEST

static int connecting(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	fails(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	return fd;
}

/* It waits for the connection, and then for what is said. */
struct talk {
	int fd;
	pid_t tid;
};

static void *talk(void *arg)
{
	struct talk *t = arg;

	__atomic_store_n(&t->tid, gettid(), __ATOMIC_RELEASE);
	say(t->fd, "hello");
	hear(t->fd, "back");
	return NULL;
}

START_TEST(not_yet)
{
	int first[FULL], l = full_listener(first), s, file = open("/proc/self/exe", O_RDONLY);
	struct talk k = { .fd = connecting() };
	struct sockaddr_in a, b;
	socklen_t len = sizeof(a);
	pthread_t t;
	off_t from = 0;
	char c;

	fails((int)write(k.fd, "x", 1), EAGAIN);
	fails((int)send(k.fd, "x", 1, 0), EAGAIN);
	fails((int)read(k.fd, &c, 1), EAGAIN);
	fails((int)sendfile(k.fd, file, &from, 10), EAGAIN);
	fails(getpeername(k.fd, (struct sockaddr *)&a, &len), ENOTCONN);
	ok(getsockname(k.fd, (struct sockaddr *)&a, &len));
	ok(fcntl(k.fd, F_SETFL, 0));
	fails((int)send(k.fd, "x", 1, MSG_DONTWAIT), EAGAIN);
	fails((int)recv(k.fd, &c, 1, MSG_DONTWAIT), EAGAIN);
	pthread_create(&t, NULL, talk, &k);
	sleeps_in(&k.tid, SYS_ppoll);
	for (int i = 0; i < FULL; i++)
		close(accept(l, NULL, NULL));
	s = accept(l, (struct sockaddr *)&b, &len);
	ck_assert_int_ge(s, 0);
	ck_assert_uint_ne(a.sin_port, 0);
	ck_assert_mem_eq(&a, &b, 8);
	hear(s, "hello");
	say(s, "back");
	pthread_join(t, NULL);
	close(file);
	all_close(first);
	close(k.fd);
	close(s);
	close(l);
}
END_TEST

static void *connect_vain(void *arg)
{
	struct talk *t = arg;

	t->fd = socket(AF_INET, SOCK_STREAM, 0);
	__atomic_store_n(&t->tid, gettid(), __ATOMIC_RELEASE);
	fails(connect(t->fd, (struct sockaddr *)&addr, sizeof(addr)), ECONNABORTED);
	return NULL;
}

/* shutdown() ends the attempt, also of a thread that waits; the socket is one that is not connected. */
START_TEST(aborted)
{
	int first[FULL], l = full_listener(first), fd = connecting();
	struct talk k = { 0 };
	struct pollfd p = { fd, POLLOUT, 0 };
	pthread_t t;

	ok(shutdown(fd, SHUT_RDWR));
	ck_assert_int_eq(poll(&p, 1, 0), 1);
	ck_assert_int_eq(p.revents, POLLOUT | POLLHUP);
	fails(shutdown(fd, SHUT_RDWR), ENOTCONN);
	pthread_create(&t, NULL, connect_vain, &k);
	sleeps_in(&k.tid, SYS_ppoll);
	ok(shutdown(k.fd, SHUT_RDWR));
	pthread_join(t, NULL);
	close(k.fd);
	close(fd);
	all_close(first);
	close(l);
}
END_TEST

/* Where nobody listens yet. */
static int silent(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	addr = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	ok(bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	ok(getsockname(fd, (struct sockaddr *)&addr, &len));
	return fd;
}

static short events_of(int fd, short events)
{
	struct pollfd p = { fd, events, 0 };

	ck_assert_int_ge(poll(&p, 1, 0), 0);
	return p.revents;
}

/* A client that waits for its server by trying again, with the same socket: in the end it is one as any other. */
static void tries(int c)
{
	int l = silent(), s;

	fails(connect(c, (struct sockaddr *)&addr, sizeof(addr)), ECONNREFUSED);
	ck_assert_int_eq(events_of(c, POLLIN | POLLOUT), POLLOUT | POLLHUP);
	ok(listen(l, 8));
	ok(connect(c, (struct sockaddr *)&addr, sizeof(addr)));
	ck_assert_int_eq(events_of(c, POLLIN | POLLOUT), POLLOUT);
	s = accept(l, NULL, NULL);
	ck_assert_int_ge(s, 0);
	say(c, "x");
	hear(s, "x");
	fails(connect(c, (struct sockaddr *)&addr, sizeof(addr)), EISCONN);
	close(s);
	close(l);
}

START_TEST(again)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int c = socket(AF_INET, SOCK_STREAM, 0);
	struct tcp_info info;
	socklen_t len = sizeof(info);

	tries(c);
	ok(getsockopt(c, IPPROTO_TCP, TCP_INFO, &info, &len));
	ck_assert_int_ne(info.tcpi_state, TCP_ESTABLISHED);
	close(c);
	c = socket(AF_INET, SOCK_STREAM, 0);
	ok(bind(c, (struct sockaddr *)&a, sizeof(a)));
	tries(c);
	close(c);
}
END_TEST

/* The end of one that was reset. */
static void reset_read(int fd)
{
	char byte;

	ck_assert_int_eq(poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, PATIENCE_MS), 1);
	fails((int)read(fd, &byte, 1), ECONNRESET);
	close(fd);
}

/* AF_UNSPEC ends a connection, an attempt and a listener; the socket can be used again. */
START_TEST(unconnected)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	int l = listener(0), c, s, first[FULL], other;

	pair_open(l, &c, &s);
	ok(connect(c, &none, sizeof(none)));
	reset_read(s);
	fails(getpeername(c, (struct sockaddr *)&a, &len), ENOTCONN);
	ok(connect(c, (struct sockaddr *)&addr, sizeof(addr)));
	s = accept(l, NULL, NULL);
	say(c, "x");
	hear(s, "x");
	close(s);
	close(c);
	connector(&c);
	ok(connect(l, &none, sizeof(none)));
	reset_read(c);
	connector(&c);
	ck_assert_int_eq(c, -ECONNREFUSED);
	close(l);
	l = full_listener(first);
	other = connecting();
	ok(connect(other, &none, sizeof(none)));
	ck_assert_int_eq(events_of(other, POLLOUT), POLLOUT | POLLHUP);
	close(other);
	all_close(first);
	close(l);
}
END_TEST

/* The call that asks for the outcome of one that did not wait has it, once; an address of the other family is none. */
START_TEST(outcome)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int l = listener(0), c, s;

	c = connecting();
	ck_assert_int_eq(poll(&(struct pollfd){ c, POLLOUT, 0 }, 1, PATIENCE_MS), 1);
	ok(connect(c, (struct sockaddr *)&addr, sizeof(addr)));
	fails(connect(c, (struct sockaddr *)&addr, sizeof(addr)), EISCONN);
	close(c);
	s = accept(l, NULL, NULL);
	fails(connect(s, (struct sockaddr *)&addr, sizeof(addr)), EISCONN);
	close(s);
	c = socket(AF_INET6, SOCK_STREAM, 0);
	fails(connect(c, (struct sockaddr *)&addr, sizeof(addr)), EINVAL);
	close(c);
	c = socket(AF_INET, SOCK_STREAM, 0);
	a.sin6_port = addr.sin_port;
	fails(connect(c, (struct sockaddr *)&a, sizeof(a)), EAFNOSUPPORT);
	close(c);
	close(l);
}
END_TEST

static bool served; /* atomic */

static void *accepts(void *arg)
{
	while (!__atomic_load_n(&served, __ATOMIC_RELAXED))
		close(accept(*(int *)arg, NULL, NULL));
	return NULL;
}

static bool connects_by_tcp(void)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	int c;

	connector(&c);
	ck_assert_int_ge(c, 0);
	ok(getsockopt(c, IPPROTO_TCP, TCP_INFO, &info, &len));
	close(c);
	return info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT;
}

/* The last one wakes the thread. */
static void accepts_end(int l, pthread_t t)
{
	__atomic_store_n(&served, true, __ATOMIC_RELAXED);
	connects_by_tcp();
	pthread_join(t, NULL);
	close(l);
}

/* A server whose connections live no longer than it takes to make them is connected to by TCP, and now and then asked again. */
START_TEST(brief)
{
	int l = listener(0), n = 0;
	pthread_t t;

	pthread_create(&t, NULL, accepts, &l);
	for (; n < PATIENCE_MS && !connects_by_tcp(); n++)
		;
	ck_assert_int_ge(n, 8);
	for (n = 0; n < PATIENCE_MS && connects_by_tcp(); n++)
		usleep(1000);
	ck_assert_int_lt(n, PATIENCE_MS);
	accepts_end(l, t);
}
END_TEST

/* But not while there is a connection to it that is in use: what is said by several would come in another order than it was said. */
START_TEST(brief_beside)
{
	int l = listener(0), n = 0, c, s, times;
	pthread_t t;

	pair_open(l, &c, &s);
	for (int i = 0; i < 5; i++) {
		say(c, "x");
		hear(s, "x");
	}
	pthread_create(&t, NULL, accepts, &l);
	for (times = 0; times < 40; times++)
		n += connects_by_tcp();
	ck_assert_int_eq(n, 0);
	close(c);
	close(s);
	for (n = 0; n < PATIENCE_MS && !connects_by_tcp(); n++)
		;
	ck_assert_int_lt(n, PATIENCE_MS);
	accepts_end(l, t);
}
END_TEST

void calls_connect(Suite *s)
{
	SUITE_ADD(s, before_accept, not_yet, aborted, again, unconnected, outcome, brief, brief_beside);
}
