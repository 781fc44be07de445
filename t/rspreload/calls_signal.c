/* SPDX-License-Identifier: MIT */
/* calls_signal.c - signals while a thread waits for a socket. */
#include "calls.h"

#include "t/interrupt.h"

static int call_read(int fd)
{
	char c;

	return (int)read(fd, &c, 1);
}

static int call_accept(int fd) { return accept(fd, NULL, NULL); }

static void say_one(void *arg) { say(*(int *)arg, "x"); }
static void connect_one(void *arg) { connector(arg); }

START_TEST(signals)
{
	int l = listener(0), c, s, more = -1;

	pair_open(l, &c, &s);
	ck_assert_int_eq(interrupted(SA_RESTART, call_read, s, say_one, &c), 1);
	ck_assert_int_eq(interrupted(0, call_read, s, say_one, &c), -EINTR);
	close(s);
	s = interrupted(SA_RESTART, call_accept, l, connect_one, &more);
	ck_assert_int_ge(s, 0);
	ck_assert_int_ge(more, 0);
	ck_assert_int_eq(interrupted(0, call_accept, l, connect_one, &more), -EINTR);
	close(more);
	close(c);
	close(s);
	close(l);
}
END_TEST

void calls_signal(Suite *s) { SUITE_ADD(s, signals); }
