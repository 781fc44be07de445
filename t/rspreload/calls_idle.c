/* SPDX-License-Identifier: MIT */
/* calls_idle.c - epoll, with sockets of which nothing is heard for long: what a thread that waits sleeps on, and what it is told. */
#include "calls.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "t/late.h"

/* Of a crowd some are looked at in any case; an idle one has so many descriptors by which a thread would be woken. */
enum { CROWD = 24, LOOKED = 8, ROUNDS = 400, WAKES = 3 };

struct crowd {
	int l, ep, c[CROWD], s[CROWD];
};

static void tells(const struct crowd *t, uint32_t events, int i)
{
	struct epoll_event e = { 0 };

	ck_assert_int_eq(epoll_wait(t->ep, &e, 1, PATIENCE_MS), 1);
	ck_assert_uint_eq(e.events, events);
	ck_assert_uint_eq(e.data.u64, (uint64_t)i);
}

static void tells_nothing(const struct crowd *t)
{
	struct epoll_event e;

	ck_assert_int_eq(epoll_wait(t->ep, &e, 1, 0), 0);
}

static void ctl(const struct crowd *t, int op, int i, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.u64 = (uint64_t)i };

	ok(epoll_ctl(t->ep, op, t->s[i], &e));
}

static unsigned watched_by(int fd)
{
	char path[64], line[256];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		n += !strncmp(line, "tfd:", 4);
	if (f)
		fclose(f);
	return n;
}

/* The kernel's instance of those that are idle is the one with most. */
static unsigned idle_n(void)
{
	unsigned most = 0, n;

	for (int fd = 0; fd < 1024; fd++) {
		n = watched_by(fd);
		most = n > most ? n : most;
	}
	return most / WAKES;
}

/* While one of them has all the news, the others become idle. */
static void crowd_tires(const struct crowd *t, int by, unsigned left)
{
	for (int i = 0; i < ROUNDS; i++) {
		say(t->c[by], "x");
		tells(t, EPOLLIN, by);
		hear(t->s[by], "x");
	}
	ck_assert_uint_eq(idle_n(), left - LOOKED);
}

static void crowd_open(struct crowd *t, uint32_t events)
{
	t->l = listener_for(0, CROWD);
	t->ep = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < CROWD; i++) {
		pair_open(t->l, &t->c[i], &t->s[i]);
		ctl(t, EPOLL_CTL_ADD, i, events);
	}
	crowd_tires(t, 0, CROWD);
}

static void crowd_close(const struct crowd *t)
{
	for (int i = 0; i < CROWD; i++) {
		close(t->c[i]);
		close(t->s[i]);
	}
	close(t->l);
	close(t->ep);
}

/* All of them tell what comes, and again, and are idle again. */
START_TEST(idle_data)
{
	struct crowd t;

	crowd_open(&t, EPOLLIN);
	for (int round = 0; round < 3; round++) {
		tells_nothing(&t);
		for (int i = CROWD - 1; i >= 0; i--) {
			say(t.c[i], "ab");
			tells(&t, EPOLLIN, i);
			tells(&t, EPOLLIN, i);
			hear(t.s[i], "ab");
			tells_nothing(&t);
		}
		crowd_tires(&t, round, CROWD);
	}
	crowd_close(&t);
}
END_TEST

/* Edge-triggered: once for what comes, also for what is not read. */
START_TEST(idle_edge)
{
	struct crowd t;
	char b[8];

	crowd_open(&t, EPOLLIN | EPOLLRDHUP | EPOLLET);
	for (int i = 0; i < CROWD; i++) {
		say(t.c[i], "ab");
		tells(&t, EPOLLIN, i);
		hear(t.s[i], "a");
		tells_nothing(&t);
	}
	hear(t.s[0], "b");
	crowd_tires(&t, 0, CROWD);
	for (int i = 1; i < CROWD; i++) {
		tells_nothing(&t);
		say(t.c[i], "cd");
		tells(&t, EPOLLIN, i);
		hear(t.s[i], "bcd");
		ck_assert_int_eq(recv(t.s[i], b, sizeof(b), MSG_DONTWAIT), -1);
		ok(shutdown(t.c[i], SHUT_WR));
		tells(&t, EPOLLIN | EPOLLRDHUP, i);
		tells_nothing(&t);
	}
	crowd_close(&t);
}
END_TEST

/* The program, or its peer, does something with a socket that is idle. */
START_TEST(idle_changes)
{
	struct epoll_event e;
	struct crowd t;
	int twin;

	crowd_open(&t, EPOLLIN);
	ctl(&t, EPOLL_CTL_MOD, 1, EPOLLOUT);
	tells(&t, EPOLLOUT, 1);
	ctl(&t, EPOLL_CTL_MOD, 1, EPOLLIN);
	ctl(&t, EPOLL_CTL_DEL, 2, 0);
	say(t.c[2], "x");
	tells_nothing(&t);
	ctl(&t, EPOLL_CTL_ADD, 2, EPOLLIN | EPOLLONESHOT);
	tells(&t, EPOLLIN, 2);
	tells_nothing(&t);
	close(t.s[3]);
	close(t.c[4]);
	tells(&t, EPOLLIN, 4);
	close(t.s[4]);
	twin = dup(t.s[5]); /* of which one can close the other */
	close(t.s[5]);
	say(t.c[5], "y");
	tells(&t, EPOLLIN, 5);
	hear(twin, "y");
	ok(shutdown(twin, SHUT_RD));
	tells(&t, EPOLLIN, 5);
	close(twin);
	say(t.c[6], "z"); /* who reads it without being told is told of nothing */
	hear(t.s[6], "z");
	tells_nothing(&t);
	say(t.s[7], "to it");
	hear(t.c[7], "to it");
	tells_nothing(&t);
	say(t.c[7], "from it");
	tells(&t, EPOLLIN, 7);
	hear(t.s[7], "from it");
	ck_assert_int_eq(epoll_wait(t.ep, &e, 1, 20), 0);
	crowd_tires(&t, 0, CROWD - 3);
	crowd_close(&t);
}
END_TEST

/* One that was idle, and is heard of before one that is looked at, is told of before it. */
START_TEST(idle_order)
{
	struct crowd t;

	crowd_open(&t, EPOLLIN);
	say_there(t.c[5], t.s[5]);
	say_there(t.c[0], t.s[0]);
	tells(&t, EPOLLIN, 5);
	hear(t.s[5], "x");
	tells(&t, EPOLLIN, 0);
	crowd_close(&t);
}
END_TEST

struct one {
	int ep;
	pid_t tid;
	struct epoll_event e;
	pthread_t thread;
};

static void *one_run(void *arg)
{
	struct one *o = arg;

	__atomic_store_n(&o->tid, gettid(), __ATOMIC_RELEASE);
	ck_assert_int_eq(epoll_wait(o->ep, &o->e, 1, -1), 1);
	return NULL;
}

/* Of two threads that sleep each has something; and one that takes all the news does not leave the other one asleep. */
START_TEST(idle_threads)
{
	struct one o[2];
	struct crowd t;

	crowd_open(&t, EPOLLIN);
	for (int i = 1; i < CROWD; i++)
		ctl(&t, EPOLL_CTL_MOD, i, EPOLLIN | EPOLLONESHOT);
	crowd_tires(&t, 0, CROWD);
	for (int i = 0; i < 2; i++) {
		o[i] = (struct one){ .ep = t.ep };
		ck_assert_int_eq(pthread_create(&o[i].thread, NULL, one_run, &o[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		sleeps_in(&o[i].tid, SYS_ppoll);
	say(t.c[3], "x");
	say(t.c[4], "y");
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(o[i].thread, NULL), 0);
	ck_assert_uint_eq(o[0].e.data.u64 + o[1].e.data.u64, 3 + 4);
	tells_nothing(&t);
	crowd_close(&t);
}
END_TEST

/* A child has copies of all descriptors; what is idle stays the parent's. */
START_TEST(idle_fork)
{
	struct crowd t;
	int status;
	pid_t pid;

	crowd_open(&t, EPOLLIN);
	pid = fork();
	if (!pid) {
		for (int i = 0; i < CROWD; i++)
			close(t.s[i]);
		close(t.ep);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	tells_nothing(&t);
	for (int i = 0; i < CROWD; i++) {
		say(t.c[i], "x");
		tells(&t, EPOLLIN, i);
		hear(t.s[i], "x");
	}
	crowd_tires(&t, 1, CROWD);
	crowd_close(&t);
}
END_TEST

void calls_idle(Suite *s) { SUITE_ADD(s, idle_data, idle_edge, idle_changes, idle_order, idle_threads, idle_fork); }
