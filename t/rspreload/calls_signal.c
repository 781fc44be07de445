/* SPDX-License-Identifier: MIT */
/* calls_signal.c - signals while a thread waits for a socket. */
#include "calls.h"

#include <poll.h>
#include <stdatomic.h>
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

/* ---- while it looks, and does not sleep yet ------------------------------------------------------------------ */

/* Between two looks the library gives the core away: there the signal comes. */
static atomic_bool raises;

int sched_yield(void)
{
	if (atomic_exchange(&raises, false))
		pthread_kill(pthread_self(), SIGUSR1);
	return (int)syscall(SYS_sched_yield);
}

struct kick {
	int from;
	atomic_bool over;
};

/* If it was in vain, data end the wait. */
static void *kick(void *arg)
{
	struct kick *k = arg;

	for (int i = 0; i < 500 && !k->over; i++)
		usleep(1000);
	say(k->from, "x");
	return NULL;
}

static int wait_epoll_only(int fd)
{
	struct epoll_event e = { .events = EPOLLIN };
	int ep = epoll_create1(0), ret, err;

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	ret = epoll_wait(ep, &e, 1, -1);
	err = errno;
	close(ep);
	errno = err;
	return ret;
}

static int wait_for_data(int fd) { return poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, -1); }

/* A thread that has not waited for a while looks for some microseconds before it sleeps: a handler that runs then ends the wait, too. */
START_TEST(signals_early)
{
	static int (*const call[])(int) = { wait_epoll_only, wait_for_data, call_read };
	int l = listener(0), c, s, done = 0;
	struct sigaction old;
	char byte;

	pair_open(l, &c, &s);
	interrupt_handler(0);
	ok(sigaction(SIGUSR1, NULL, &old));
	ck_assert_ptr_eq(old.sa_handler, interrupt_count);
	ck_assert(!(old.sa_flags & SA_SIGINFO));
	for (int i = 0; i < 300 && done < 9; i++) {
		struct kick k = { .from = c };
		int before = interrupts, ret;
		pthread_t t;

		pthread_create(&t, NULL, kick, &k);
		say(c, "y");
		ck_assert_int_eq(call_read(s), 1);
		usleep(5000);
		raises = true;
		ret = call[i % 3](s);
		raises = false;
		if (interrupts != before) {
			ck_assert_int_eq(ret, -1);
			ck_assert_int_eq(errno, EINTR);
			done++;
		}
		k.over = true;
		if (ret < 0 || call[i % 3] != call_read)
			while (read(s, &byte, 1) != 1)
				ck_assert_int_eq(errno, EINTR);
		pthread_join(t, NULL);
	}
	ck_assert_int_eq(done, 9);
	close(c);
	close(s);
	close(l);
}
END_TEST

void calls_signal(Suite *s) { SUITE_ADD(s, signals, signals_pending, signals_early); }
