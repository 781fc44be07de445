/* SPDX-License-Identifier: MIT */
/* calls_cancel.c - threads that are cancelled while they wait, and a process that is forked meanwhile: what they leave behind. */
#include "calls.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "t/late.h"

struct waiter {
	void (*call)(int fd); /* it blocks */
	int fd;
	pid_t tid;
	pthread_t thread;
};

static void *waiter_run(void *arg)
{
	struct waiter *w = arg;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	w->call(w->fd);
	return NULL;
}

/* It sleeps in the system call nr. */
static void waiter_start(struct waiter *w, void (*call)(int), int fd, long nr)
{
	*w = (struct waiter){ .call = call, .fd = fd };
	ck_assert_int_eq(pthread_create(&w->thread, NULL, waiter_run, w), 0);
	sleeps_in(&w->tid, nr);
}

static void waiter_cancel(struct waiter *w)
{
	void *ret;

	ck_assert_int_eq(pthread_cancel(w->thread), 0);
	ck_assert_int_eq(pthread_join(w->thread, &ret), 0);
	ck_assert_ptr_eq(ret, PTHREAD_CANCELED);
}

static void call_read(int fd)
{
	char c;

	read(fd, &c, 1);
}

static void call_poll(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	poll(&p, 1, -1);
}

static void call_accept(int fd) { accept(fd, NULL, NULL); }

static void call_epoll(int ep)
{
	struct epoll_event e;

	epoll_wait(ep, &e, 1, -1);
}

static void call_epoll_of(int fd)
{
	struct epoll_event e = { .events = EPOLLIN };
	int ep = epoll_create1(0);

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	pthread_cleanup_push((void (*)(void *))(uintptr_t)close, (void *)(intptr_t)ep);
	call_epoll(ep);
	pthread_cleanup_pop(1);
}

/* A connection that no other call holds ends with its descriptor. */
START_TEST(cancelled)
{
	void (*const calls[])(int) = { call_read, call_poll, call_epoll_of };
	struct sockaddr_in at;
	struct waiter w;
	int l = listener(0), c, s, on = 1;
	char b;

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct pollfd p;

		pair_open(l, &c, &s);
		waiter_start(&w, calls[i], s, SYS_ppoll);
		waiter_cancel(&w);
		close(s);
		p = (struct pollfd){ c, POLLIN, 0 };
		ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
		ck_assert_int_eq(read(c, &b, 1), 0);
		close(c);
	}
	waiter_start(&w, call_accept, l, SYS_ppoll);
	waiter_cancel(&w);
	close(l);
	at = addr;
	l = socket(AF_INET, SOCK_STREAM, 0);
	ok(setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	ok(bind(l, (struct sockaddr *)&at, sizeof(at)));
	close(l);
}
END_TEST

static bool readable(int ep)
{
	struct pollfd p = { ep, POLLIN, 0 };

	return syscall(SYS_ppoll, &p, 1, &(struct timespec){ 0 }, NULL, 0);
}

/* Of two threads one is cancelled: a change of the list wakes the other one once. */
START_TEST(epoll_cancelled)
{
	int l = listener(0), ep = epoll_create1(0), c, s;
	struct epoll_event e = { .events = EPOLLIN };
	struct waiter one, two;

	pair_open(l, &c, &s);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
	waiter_start(&one, call_epoll, ep, SYS_ppoll);
	waiter_start(&two, call_epoll, ep, SYS_ppoll);
	waiter_cancel(&one);
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, s, &e));
	for (int i = 0; readable(ep); i++) {
		ck_assert_int_lt(i, PATIENCE_MS / 10);
		usleep(10000);
	}
	waiter_cancel(&two);
	close(c);
	close(s);
	close(l);
	close(ep);
}
END_TEST

/* The same before there is a list: nobody is left to be woken. */
START_TEST(epoll_outer_cancelled)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), ep = epoll_create1(0);
	struct epoll_event e = { .events = 0 };
	struct waiter w;

	waiter_start(&w, call_epoll, ep, SYS_epoll_pwait);
	waiter_cancel(&w);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	ck_assert(!readable(ep));
	close(fd);
	close(ep);
}
END_TEST

/* A child has none of its parent's threads that wait: what it registers wakes nobody, neither by a list that there was nor by a new one. */
START_TEST(epoll_forked)
{
	int ep[2] = { epoll_create1(0), epoll_create1(0) }, l = listener(0), c, s, status;
	struct epoll_event e = { .events = EPOLLIN };
	struct waiter w[2];
	pid_t pid;

	pair_open(l, &c, &s);
	ok(epoll_ctl(ep[0], EPOLL_CTL_ADD, s, &e));
	waiter_start(&w[0], call_epoll, ep[0], SYS_ppoll);
	waiter_start(&w[1], call_epoll, ep[1], SYS_epoll_pwait);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		int own = socket(AF_INET, SOCK_STREAM, 0), woken = 0;

		for (int i = 0; i < 2; i++)
			woken += epoll_ctl(ep[i], EPOLL_CTL_ADD, own, &e) || readable(ep[i]);
		_exit(woken);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	for (int i = 0; i < 2; i++)
		waiter_cancel(&w[i]);
	close(c);
	close(s);
	close(l);
	close(ep[0]);
	close(ep[1]);
}
END_TEST

void calls_cancel(Suite *s)
{
#ifndef __SANITIZE_ADDRESS__ /* which takes the frames that a cancelled thread leaves for an error of its own */
	SUITE_ADD(s, cancelled, epoll_cancelled, epoll_outer_cancelled, epoll_forked);
#else
	(void)s;
	(void)cancelled;
	(void)epoll_cancelled;
	(void)epoll_outer_cancelled;
	(void)epoll_forked;
#endif
}
