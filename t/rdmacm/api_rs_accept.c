/* SPDX-License-Identifier: MIT */
/* api_rs_accept.c - connections that are there before the program calls raccept(); what is set for a listener. */
#include "streams.h"

enum { BACKLOG = 3 };

static int server(int backlog)
{
	int fd = rs_open();

	ok(rbind(fd, lo(0), sizeof(struct sockaddr_in)));
	ok(rlisten(fd, backlog));
	return fd;
}

static int connected(int listen)
{
	int fd = rs_open();

	ok(rconnect(fd, lo(rs_port(listen)), sizeof(struct sockaddr_in)));
	return fd;
}

static void talk(int a, int b)
{
	char buf[8] = "";

	ck_assert_int_eq(rsend(a, "hello", 6, 0), 6);
	ck_assert_int_eq(rrecv(b, buf, 6, MSG_WAITALL), 6);
	ck_assert_str_eq(buf, "hello");
}

/* One thread is both, or a server has something else to do; data, too, may come before. */
START_TEST(rs_connect_first)
{
	int l = server(8), c = connected(l), d = connected(l), s, t;

	ck_assert_int_eq(rsend(c, "first", 6, 0), 6);
	rs_ready(l, POLLIN);
	s = raccept(l, NULL, NULL);
	t = raccept(l, NULL, NULL);
	ck_assert_int_ge(s, 0);
	ck_assert_int_ge(t, 0);
	ok(rfcntl(l, F_SETFL, O_NONBLOCK));
	fails(raccept(l, NULL, NULL), EAGAIN);
	ck_assert_int_eq(rpoll(&(struct pollfd){ l, POLLIN, 0 }, 1, 0), 0);
	talk(s, c);
	talk(t, d);
	talk(d, t);
	for (int i = 0; i < 5; i++)
		ok(rclose((int[]){ c, d, s, t, l }[i]));
}
END_TEST

/* A client that has gone by then is accepted, and its words are read. */
START_TEST(rs_connect_and_go)
{
	int l = server(8), c = connected(l), s;
	char buf[8];

	ck_assert_int_eq(rsend(c, "bye", 4, 0), 4);
	ok(rclose(c));
	s = raccept(l, NULL, NULL);
	ck_assert_int_ge(s, 0);
	ck_assert_int_eq(rrecv(s, buf, 4, MSG_WAITALL), 4);
	ck_assert_str_eq(buf, "bye");
	ck_assert_int_eq(rrecv(s, buf, 1, 0), 0);
	ok(rclose(s));
	ok(rclose(l));
}
END_TEST

/* No more than the backlog; the others wait, until it is closed. */
START_TEST(rs_connect_backlog)
{
	int l = server(BACKLOG), c[BACKLOG], more = rs_open();
	char b;

	for (int i = 0; i < BACKLOG; i++)
		c[i] = connected(l);
	ok(rfcntl(more, F_SETFL, O_NONBLOCK));
	fails(rconnect(more, lo(rs_port(l)), sizeof(struct sockaddr_in)), EINPROGRESS);
	ck_assert_int_eq(rpoll(&(struct pollfd){ more, POLLOUT, 0 }, 1, 200), 0);
	ok(rclose(raccept(l, NULL, NULL)));
	rs_ready(more, POLLOUT);
	ck_assert_int_eq(rrecv(c[0], &b, 1, 0), 0);
	ok(rclose(l));
	for (int i = 1; i < BACKLOG; i++) {
		fails((int)rrecv(c[i], &b, 1, 0), ECONNRESET);
		ok(rclose(c[i]));
	}
	ok(rclose(c[0]));
	ok(rclose(more));
}
END_TEST

/* As servers do that set it once more, for a listener that they have: Puma. */
START_TEST(rs_reuse_late)
{
	int fd = rs_open(), on = 1, got = 0;
	socklen_t len = sizeof(got);

	ok(rbind(fd, lo(0), sizeof(struct sockaddr_in)));
	ok(rlisten(fd, 1));
	ok(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	ok(rgetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &got, &len));
	ck_assert_int_eq(got, 1);
	ok(rclose(fd));
}
END_TEST

void api_rs_accept(Suite *s) { SUITE_ADD(s, rs_connect_first, rs_connect_and_go, rs_connect_backlog, rs_reuse_late); }
