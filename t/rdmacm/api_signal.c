/* SPDX-License-Identifier: MIT */
/* api_signal.c - signals while a thread waits for an rsocket. */
#include "streams.h"

#include "../interrupt.h"

static int call_recv(int fd)
{
	char c;

	return (int)rrecv(fd, &c, 1, 0);
}

static int call_accept(int fd) { return raccept(fd, NULL, NULL); }

static void send_one(void *arg) { ck_assert_int_eq(rsend(*(int *)arg, "x", 1, 0), 1); }

static void connect_one(void *arg)
{
	struct streams *s = arg;

	s->client = rs_open();
	ok(rfcntl(s->client, F_SETFL, O_NONBLOCK));
	fails(rconnect(s->client, lo(rs_port(s->listen)), sizeof(struct sockaddr_in)), EINPROGRESS);
	rs_ready(s->client, POLLOUT);
}

START_TEST(rs_recv_signal)
{
	struct streams s;

	streams_open(&s, 0);
	ck_assert_int_eq(interrupted(SA_RESTART, call_recv, s.server, send_one, &s.client), 1);
	ck_assert_int_eq(interrupted(0, call_recv, s.server, send_one, &s.client), -EINTR);
	streams_close(&s);
}
END_TEST

START_TEST(rs_accept_signal)
{
	struct streams s = { .listen = rs_open(), .client = -1 };

	ok(rbind(s.listen, lo(0), sizeof(struct sockaddr_in)));
	ok(rlisten(s.listen, 1));
	s.server = interrupted(SA_RESTART, call_accept, s.listen, connect_one, &s);
	ck_assert_int_ge(s.server, 0);
	ck_assert_int_eq(interrupted(0, call_accept, s.listen, connect_one, &s), -EINTR);
	streams_close(&s);
}
END_TEST

void api_signal(Suite *s) { SUITE_ADD(s, rs_recv_signal, rs_accept_signal); }
