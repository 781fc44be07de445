/* SPDX-License-Identifier: MIT */
/* calls_close.c - all ways to close a socket: the peer hears of each, and what has the number next is no rsocket. */
#include "calls.h"

#include <fcntl.h>
#include <poll.h>

enum { HIGH = 900, CLOEXEC = 4 }; /* above all that the libraries have open;  CLOSE_RANGE_CLOEXEC */

int close_range(unsigned first, unsigned last, int flags);
void closefrom(int low);

static void by_number(int fd) { ok((int)syscall(SYS_close, fd)); }
static void by_range(int fd) { ok(close_range((unsigned)fd, (unsigned)fd, 0)); }
static void by_range_number(int fd) { ok((int)syscall(SYS_close_range, fd, fd, 0)); }
static void from(int fd) { closefrom(fd); }

static void closes(void (*way)(int fd))
{
	int l = listener(0), c, s, p[2];
	struct pollfd end;
	char b;

	pair_open(l, &c, &s);
	ck_assert_int_eq(dup2(c, HIGH), HIGH);
	ok(close(c));
	way(HIGH);
	end = (struct pollfd){ s, POLLIN, 0 };
	ck_assert_int_eq(poll(&end, 1, PATIENCE_MS), 1);
	ck_assert_int_eq(read(s, &b, 1), 0);
	ok(pipe(p));
	ck_assert_int_eq(syscall(SYS_dup3, p[1], HIGH, 0), HIGH); /* which nobody sees */
	say(HIGH, "pipe");
	hear(p[0], "pipe");
	close(HIGH);
	close(p[0]);
	close(p[1]);
	close(s);
	close(l);
}

START_TEST(close_by_number) { closes(by_number); }
END_TEST

START_TEST(close_by_range)
{
	closes(by_range);
	closes(by_range_number);
	closes(from);
}
END_TEST

/* A call that is refused, and one that is for exec() only, close nothing. */
START_TEST(close_nothing)
{
	int l = listener(0), c, s;
	unsigned fd;

	pair_open(l, &c, &s);
	fd = (unsigned)c;
	ok(close_range(fd, fd, CLOEXEC));
	fails(close_range(fd, fd, 1 << 30), EINVAL);
	fails(close_range(fd + 1, fd, 0), EINVAL);
	say(c, "there");
	hear(s, "there");
	close(c);
	close(s);
	close(l);
}
END_TEST

/* The C library closes a file past us: its number is known by what has it next. */
START_TEST(close_unseen)
{
	int l = listener(0), p[2];
	FILE *f = fdopen(l, "r");
	char b;

	ok(pipe(p));
	ck_assert_ptr_nonnull(f);
	ok(fclose(f));
	ck_assert_int_eq(dup(p[0]), l);
	ok(fcntl(l, F_SETFL, O_NONBLOCK)); /* of a listener it would not be said to the kernel */
	fails((int)read(l, &b, 1), EAGAIN);
	close(l);
	close(p[0]);
	close(p[1]);
}
END_TEST

void calls_close(Suite *s) { SUITE_ADD(s, close_by_number, close_by_range, close_nothing, close_unseen); }
