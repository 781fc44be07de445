/* SPDX-License-Identifier: MIT */
/* calls_connect.c - connections that are not there yet: nobody has accepted them. */
#include "calls.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>

#include "t/late.h"

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
	int l = listener(0), s, file = open("/proc/self/exe", O_RDONLY);
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
	s = accept(l, (struct sockaddr *)&b, &len);
	ck_assert_int_ge(s, 0);
	ck_assert_uint_ne(a.sin_port, 0);
	ck_assert_mem_eq(&a, &b, 8);
	hear(s, "hello");
	say(s, "back");
	pthread_join(t, NULL);
	close(file);
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
	int l = listener(0), fd = connecting();
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
	close(l);
}
END_TEST

void calls_connect(Suite *s) { SUITE_ADD(s, not_yet, aborted); }
