/* SPDX-License-Identifier: MIT */
/* calls_reset.c - peers that end a connection by a reset, or have closed it, and connections that are begun one behind another. */
#include "calls.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

static const struct linger hard = { 1, 0 };

enum { CLIENTS = 20, ROUNDS = 5, MANY = 5 };

static void reset(int fd)
{
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)));
	ok(close(fd));
}

static void *reset_all(void *arg)
{
	for (int i = 0; i < CLIENTS; i++) {
		int fd = accept(*(int *)arg, NULL, NULL);

		ck_assert_int_ge(fd, 0);
		reset(fd);
	}
	return NULL;
}

/* A client that is reset as soon as it is accepted was connected, once. */
START_TEST(reset_at_once)
{
	int l = listener(0), fd;
	pthread_t t;
	char byte;

	pthread_create(&t, NULL, reset_all, &l);
	for (int i = 0; i < CLIENTS; i++) {
		connector(&fd);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(read(fd, &byte, 1), -1);
		ck_assert_int_eq(errno, ECONNRESET);
		ok(close(fd));
	}
	pthread_join(t, NULL);
	ok(fcntl(l, F_SETFL, O_NONBLOCK));
	ck_assert_int_eq(accept(l, NULL, NULL), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ok(close(l));
}
END_TEST

/* A reader that does not wait has what has come, the reset, and then the end. */
START_TEST(reset_unpolled)
{
	int l = listener(0), a, b;
	char buf[8];
	ssize_t n;

	for (int data = 0; data < 2; data++) {
		pair_open(l, &a, &b);
		if (data)
			say_there(a, b);
		reset(a);
		for (int i = 0; i < PATIENCE_MS; i++) {
			n = recv(b, buf, sizeof(buf), MSG_DONTWAIT);
			if (n >= 0 || errno != EAGAIN)
				break;
			usleep(1000);
		}
		ck_assert_int_eq(n, data ? 1 : -1);
		if (data)
			n = recv(b, buf, sizeof(buf), 0);
		ck_assert(n == -1 && errno == ECONNRESET);
		ck_assert_int_eq(recv(b, buf, sizeof(buf), MSG_DONTWAIT), 0);
		ok(close(b));
	}
	ok(close(l));
}
END_TEST

/* It is heard of by a poll that asks for room, too, of which there is some in any case. */
START_TEST(reset_polled)
{
	int l = listener(0), a, b;
	struct pollfd p = { .events = POLLIN | POLLOUT };

	pair_open(l, &a, &b);
	p.fd = b;
	ck_assert_int_eq(poll(&p, 1, 0), 1);
	ck_assert_int_eq(p.revents, POLLOUT);
	reset(a);
	for (int i = 0; i < PATIENCE_MS && !(p.revents & POLLERR); i++) {
		usleep(1000);
		ck_assert_int_eq(poll(&p, 1, 0), 1);
	}
	ck_assert_int_eq(p.revents, POLLIN | POLLOUT | POLLERR | POLLHUP);
	ok(close(b));
	ok(close(l));
}
END_TEST

/* Behind the peer's end a buffer is taken, and no more. */
START_TEST(sent_to_nobody)
{
	static char much[32 << 20];
	int l = listener(0), a, b;
	char byte;
	ssize_t n;

	pair_open(l, &a, &b);
	ok(close(b));
	ck_assert_int_eq(read(a, &byte, 1), 0);
	n = send(a, much, sizeof(much), MSG_NOSIGNAL);
	ck_assert(n > 0 && n < (ssize_t)sizeof(much));
	ck_assert_int_eq(send(a, much, 1, MSG_NOSIGNAL), -1);
	ck_assert_int_eq(errno, EPIPE);
	ok(close(a));
	ok(close(l));
}
END_TEST

static in_port_t port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	ok(getsockname(fd, (struct sockaddr *)&a, &len));
	return a.sin_port;
}

/* Those of one thread that does not wait are accepted as they were begun. */
START_TEST(in_order)
{
	int l = listener(0), client[MANY], server[MANY];

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < MANY; i++) {
			client[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
			ck_assert_int_eq(connect(client[i], (struct sockaddr *)&addr, sizeof(addr)), -1);
			ck_assert_int_eq(errno, EINPROGRESS);
		}
		for (int i = 0; i < MANY; i++) {
			struct sockaddr_in from;
			socklen_t len = sizeof(from);

			server[i] = accept(l, (struct sockaddr *)&from, &len);
			ck_assert_int_ge(server[i], 0);
			ck_assert_int_eq(from.sin_port, port_of(client[i]));
		}
		for (int i = 0; i < MANY; i++) {
			ok(close(client[i]));
			ok(close(server[i]));
		}
	}
	ok(close(l));
}
END_TEST

void calls_reset(Suite *s) { SUITE_ADD(s, reset_at_once, reset_unpolled, reset_polled, sent_to_nobody, in_order); }
