/* SPDX-License-Identifier: MIT */
/* calls_signal.c - signals while a thread waits for a socket. */
#include "calls.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

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

static int wait_poll(int fd, const sigset_t *mask)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return ppoll(&p, 1, NULL, mask);
}

static int look_poll(int fd, const sigset_t *mask)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return ppoll(&p, 1, &(struct timespec){ 0 }, mask);
}

static int wait_select(int fd, const sigset_t *mask)
{
	fd_set r;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	return pselect(fd + 1, &r, NULL, NULL, NULL, mask);
}

static int wait_epoll(int fd, const sigset_t *mask)
{
	struct epoll_event e = { .events = EPOLLIN };
	int ep = epoll_create1(0), n, err;

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	n = epoll_pwait(ep, &e, 1, -1, mask);
	err = errno;
	close(ep);
	errno = err;
	return n;
}

/* A signal that came while it was blocked ends a wait that unblocks it. */
START_TEST(signals_pending)
{
	int (*const calls[])(int, const sigset_t *) = { wait_poll, look_poll, wait_select, wait_epoll };
	int l = listener(0), c, s;
	sigset_t old, usr1;

	pair_open(l, &c, &s);
	interrupt_handler(SA_RESTART);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	ok(pthread_sigmask(SIG_BLOCK, &usr1, &old));
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		interrupts = 0;
		ok(raise(SIGUSR1));
		ck_assert_int_eq(interrupts, 0);
		fails(calls[i](s, &old), EINTR);
		ck_assert_int_eq(interrupts, 1);
	}
	close(c);
	close(s);
	close(l);
}
END_TEST

void calls_signal(Suite *s) { SUITE_ADD(s, signals, signals_pending); }
