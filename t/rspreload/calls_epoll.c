/* SPDX-License-Identifier: MIT */
/* calls_epoll.c - epoll. */
#include "calls.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "t/late.h"

static int wait_one(int ep, int ms, struct epoll_event *e)
{
	int n = epoll_wait(ep, e, 1, ms);

	ck_assert_int_ge(n, 0);
	return n;
}

static void expect(int ep, uint32_t events, uint64_t data)
{
	struct epoll_event e = { 0 };

	ck_assert_int_eq(wait_one(ep, PATIENCE_MS, &e), 1);
	ck_assert_uint_eq(e.events, events);
	ck_assert_uint_eq(e.data.u64, data);
}

START_TEST(epolls)
{
	int l = listener(0), ep = epoll_create1(EPOLL_CLOEXEC), c, s, pipes[2];
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 42 };

	pair_open(l, &c, &s);
	ok(pipe(pipes));
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
	fails(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e), EEXIST);
	e.data.u64 = 43;
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, pipes[0], &e));
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	say(pipes[1], "p");
	expect(ep, EPOLLIN, 43);
	hear(pipes[0], "p");
	say(c, "ab");
	expect(ep, EPOLLIN, 42);
	expect(ep, EPOLLIN, 42); /* level-triggered */
	hear(s, "ab");
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	e = (struct epoll_event){ .events = EPOLLIN | EPOLLONESHOT, .data.u64 = 44 };
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, s, &e));
	say(c, "cd");
	expect(ep, EPOLLIN, 44);
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	e = (struct epoll_event){ .events = EPOLLIN | EPOLLET, .data.u64 = 45 };
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, s, &e));
	expect(ep, EPOLLIN, 45);
	ck_assert_int_eq(wait_one(ep, 0, &e), 0); /* told already */
	hear(s, "cd");
	say(c, "ef");
	expect(ep, EPOLLIN, 45);
	ok(epoll_ctl(ep, EPOLL_CTL_DEL, s, NULL));
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	fails(epoll_ctl(ep, EPOLL_CTL_DEL, s, NULL), ENOENT);
	e = (struct epoll_event){ .events = EPOLLOUT | EPOLLRDHUP, .data.u64 = 46 };
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
	expect(ep, EPOLLOUT, 46);
	ok(close(s)); /* with it goes what was registered */
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	close(pipes[0]);
	close(pipes[1]);
	close(c);
	close(l);
	close(ep);
}
END_TEST

/* With edge triggering an end is told once, also to who reads it. */
START_TEST(epoll_end)
{
	int l = listener(0), ep = epoll_create1(0), c, s;
	struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.u64 = 5 };
	char b;

	pair_open(l, &c, &s);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
	ok(shutdown(c, SHUT_WR));
	expect(ep, EPOLLIN, 5);
	ck_assert_int_eq(read(s, &b, 1), 0);
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	close(c);
	close(s);
	close(l);
	close(ep);
}
END_TEST

/* With edge triggering all that comes is told, however much of it is read, and nothing twice. */
START_TEST(epoll_edge)
{
	int l = listener(0), ep = epoll_create1(0), c, s;
	struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.u64 = 6 };
	char b[8];

	pair_open(l, &c, &s);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
	say(c, "1234");
	expect(ep, EPOLLIN, 6);
	ck_assert_int_eq(recv(s, b, 4, MSG_PEEK), 4);
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	say(c, "5678");
	expect(ep, EPOLLIN, 6);
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	hear(s, "12");
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	ok(shutdown(c, SHUT_WR));
	expect(ep, EPOLLIN, 6);
	hear(s, "345678");
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	ok(shutdown(s, SHUT_RD));
	expect(ep, EPOLLIN, 6);
	close(c);
	close(s);
	close(l);
	close(ep);
}
END_TEST

/* Nobody waits, so nobody is woken: a change of the list writes nothing into the instance. */
START_TEST(epoll_unwaited)
{
	int l = listener(0), ep = epoll_create1(0), c, s;
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 9 };
	struct pollfd p = { ep, POLLIN, 0 };

	pair_open(l, &c, &s);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
	ck_assert_int_eq(wait_one(ep, 0, &e), 0);
	e = (struct epoll_event){ .events = EPOLLOUT, .data.u64 = 9 };
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, s, &e));
	ck_assert_int_eq(syscall(SYS_ppoll, &p, 1, &(struct timespec){ 0 }, NULL, 0), 0);
	expect(ep, EPOLLOUT, 9);
	close(c);
	close(s);
	close(l);
	close(ep);
}
END_TEST

static void *adder_run(void *arg)
{
	const int *p = arg;
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 7 };

	if (!epoll_ctl(p[0], EPOLL_CTL_ADD, p[1], &e))
		say(p[2], "late");
	return NULL;
}

/* A thread that waits already hears of what another one registers; and of connections, both kinds. */
START_TEST(epoll_threads)
{
	int l = listener(0), ep = epoll_create1(0), c, s, tcp, p[3];
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 8 };
	pthread_t t;

	pair_open(l, &c, &s);
	p[0] = ep;
	p[1] = s;
	p[2] = c;
	pthread_create(&t, NULL, adder_run, p);
	expect(ep, EPOLLIN, 7);
	pthread_join(t, NULL);
	hear(s, "late");
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, l, &e));
	tcp = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	ok(syscall(SYS_connect, tcp, &addr, sizeof(addr)));
	expect(ep, EPOLLIN, 8);
	close(accept(l, NULL, NULL));
	syscall(SYS_close, tcp);
	close(c);
	expect(ep, EPOLLIN, 7);
	close(s);
	pthread_create(&t, NULL, connector, &c);
	expect(ep, EPOLLIN, 8);
	s = accept(l, NULL, NULL);
	pthread_join(t, NULL);
	say(c, "x");
	hear(s, "x");
	close(c);
	close(s);
	close(l);
	close(ep);
}
END_TEST

struct looker {
	int ep;
	struct late late;
	struct epoll_event event;
	pthread_t thread;
};

static void *looker_run(void *arg)
{
	struct looker *l = arg;

	late = &l->late;
	ck_assert_int_eq(wait_one(l->ep, -1, &l->event), 1);
	return NULL;
}

/* A socket that is registered while two threads wait is told of to both, though one of them comes to its sleep when the other one has left. */
START_TEST(epoll_waiters)
{
	int l = listener(0), ep = epoll_create1(0), c, s;
	struct looker one = { .ep = ep, .late.fds = 4 }, two = { .ep = ep, .late = { .fds = 4, .in = true } };
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 8 };

	pair_open(l, &c, &s);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, c, &e));
	e.data.u64 = 9;
	ck_assert_int_eq(pthread_create(&one.thread, NULL, looker_run, &one), 0);
	ck_assert_int_eq(pthread_create(&two.thread, NULL, looker_run, &two), 0);
	late_wait(&one.late.came);
	late_wait(&two.late.came);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
	say(c, "x");
	ck_assert_int_eq(pthread_join(one.thread, NULL), 0);
	ck_assert_uint_eq(one.event.data.u64, 9);
	two.late.open = true;
	ck_assert_int_eq(pthread_join(two.thread, NULL), 0);
	ck_assert_uint_eq(two.event.data.u64, 9);
	close(c);
	close(s);
	close(l);
	close(ep);
}
END_TEST

/* A descriptor that has hung up, which are those of the process that is gone; false: none, in the end. */
static bool any_gone(void)
{
	struct pollfd p[256];

	for (int i = 0; i < PATIENCE_MS; i++) {
		for (int k = 0; k < 256; k++)
			p[k] = (struct pollfd){ k < 3 ? -1 : k, 0, 0 };
		syscall(SYS_ppoll, p, 256, &(struct timespec){ 0 }, NULL, 0);
		for (int k = 3; k < 256; k++)
			if (p[k].revents & POLLHUP)
				return true;
		usleep(1000);
	}
	return false;
}

/* Its parent is gone, and with it the rsockets; TCP is left. */
static void orphan_run(int l, int ep, int said)
{
	int tcp = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), s;
	struct epoll_event e = { 0 };
	bool quiet = any_gone() && !epoll_wait(ep, &e, 1, 0);
	bool hears = !syscall(SYS_connect, tcp, &addr, sizeof(addr)) && epoll_wait(ep, &e, 1, PATIENCE_MS) == 1;

	s = accept(l, NULL, NULL);
	say(said, quiet && hears && e.data.u64 == 3 && s >= 0 && !epoll_wait(ep, &e, 1, 0) ? "well" : "ill");
}

/* As daemons do: the listener and its epoll are made, then the process goes into the background. */
START_TEST(epoll_fork)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 3 };
	int p[2], l, ep, status;
	pid_t pid;

	ok(pipe(p));
	pid = fork();
	if (!pid) {
		l = listener(SOCK_NONBLOCK);
		ep = epoll_create1(0);
		ok(epoll_ctl(ep, EPOLL_CTL_ADD, l, &e));
		ck_assert_int_eq(wait_one(ep, 0, &e), 0);
		if (!fork())
			orphan_run(l, ep, p[1]);
		_exit(0);
	}
	close(p[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	hear(p[0], "well");
	close(p[0]);
}
END_TEST

/* Sockets and files that all have something: where there is room for one event, each has its turn. */
START_TEST(epoll_turns)
{
	int l = listener(0), ep = epoll_create1(0), c, s, fd[3];
	struct epoll_event e = { .events = EPOLLIN };
	uint64_t seen = 0;

	pair_open(l, &c, &s);
	fd[0] = s;
	fd[1] = eventfd(1, 0);
	fd[2] = eventfd(1, 0);
	say(c, "x");
	for (int i = 0; i < 3; i++) {
		e.data.u64 = 1u << i;
		ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd[i], &e));
	}
	for (int i = 0; i < PATIENCE_MS && seen != 7; i++) {
		ck_assert_int_eq(wait_one(ep, PATIENCE_MS, &e), 1);
		seen |= e.data.u64;
	}
	ck_assert_uint_eq(seen, 7);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	close(c);
	close(l);
	close(ep);
}
END_TEST

/* The socket that has something first is told of first, whichever had something before. */
START_TEST(epoll_order)
{
	int l = listener(0), ep = epoll_create1(0), c[4], s[4];
	struct epoll_event e[4] = { { .events = EPOLLIN } };

	for (unsigned i = 0; i < 4; i++) {
		pair_open(l, &c[i], &s[i]);
		e->data.u64 = i;
		ok(epoll_ctl(ep, EPOLL_CTL_ADD, s[i], e));
	}
	for (unsigned round = 0; round < 24; round++) {
		unsigned first = round % 4, step = round % 3 == 2 ? 3 : 1;

		for (unsigned i = 0; i < 4; i++)
			say_there(c[(first + i * step) % 4], s[(first + i * step) % 4]);
		ck_assert_int_eq(epoll_wait(ep, e, 4, PATIENCE_MS), 4);
		for (unsigned i = 0; i < 4; i++) {
			ck_assert_uint_eq(e[i].data.u64, (first + i * step) % 4);
			hear(s[i], "x");
		}
	}
	for (unsigned i = 0; i < 4; i++) {
		close(c[i]);
		close(s[i]);
	}
	close(l);
	close(ep);
}
END_TEST

struct early {
	int ep, fd;
	bool connected;
};

/* Until the socket can be written to, and is no longer one that is not connected. */
static void *waits_for_out(void *arg)
{
	struct early *t = arg;
	struct epoll_event e = { 0 };

	while (!(e.events & EPOLLOUT) || e.events & EPOLLHUP)
		wait_one(t->ep, -1, &e);
	t->connected = true;
	return NULL;
}

/* Events of a socket that is not connected are told again when it is. */
static void registers_first(uint32_t how)
{
	int l = listener(0), s;
	struct early t = { .ep = epoll_create1(0), .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0) };
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | how, .data.u64 = 7 };
	pthread_t thread;

	ok(epoll_ctl(t.ep, EPOLL_CTL_ADD, t.fd, &e));
	expect(t.ep, EPOLLOUT | EPOLLHUP, 7);
	pthread_create(&thread, NULL, waits_for_out, &t);
	fails(connect(t.fd, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	s = accept(l, NULL, NULL);
	pthread_join(thread, NULL);
	ck_assert(t.connected);
	say(s, "back");
	do
		ck_assert_int_eq(wait_one(t.ep, PATIENCE_MS, &e), 1);
	while (!(e.events & EPOLLIN));
	hear(t.fd, "back");
	close(t.ep);
	close(t.fd);
	close(s);
	close(l);
}

START_TEST(epoll_early)
{
	registers_first(0);
	registers_first(EPOLLET);
}
END_TEST

/* By another number of the instance, which it has before there is anything in it, and when the first one is closed. */
START_TEST(epoll_dup)
{
	int l = listener(0), ep = epoll_create1(EPOLL_CLOEXEC), more = fcntl(ep, F_DUPFD_CLOEXEC, 0), third, c, s;
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 7 }, got;

	pair_open(l, &c, &s);
	ok(epoll_ctl(more, EPOLL_CTL_ADD, s, &e));
	say(c, "x");
	ck_assert_int_eq(epoll_wait(ep, &got, 1, PATIENCE_MS), 1);
	ck_assert_uint_eq(got.data.u64, 7);
	third = dup(ep);
	ok(close(ep));
	ck_assert_int_eq(epoll_wait(third, &got, 1, PATIENCE_MS), 1);
	hear(s, "x");
	ck_assert_int_eq(epoll_wait(third, &got, 1, 0), 0);
	ok(close(more));
	say(c, "y");
	ck_assert_int_eq(epoll_wait(third, &got, 1, PATIENCE_MS), 1);
	ok(epoll_ctl(third, EPOLL_CTL_DEL, s, NULL));
	e.events = EPOLLRDNORM;
	ok(epoll_ctl(third, EPOLL_CTL_ADD, s, &e));
	ck_assert_int_eq(epoll_wait(third, &got, 1, PATIENCE_MS), 1);
	ck_assert_uint_eq(got.events, EPOLLRDNORM);
	ok(close(third));
	pair_close(l, c, s);
}
END_TEST

/* Threads that share an instance: to each that is told of a byte, it is there. */
enum { SERVERS = 3, CLIENTS = 8, ROUNDS = 200 };

struct shared {
	int ep, in_vain; /* atomic */
	bool over;       /* atomic */
};

static void *server_run(void *arg)
{
	struct shared *h = arg;
	struct epoll_event e;
	char byte;

	while (!__atomic_load_n(&h->over, __ATOMIC_RELAXED)) {
		if (!wait_one(h->ep, 20, &e))
			continue;
		if (recv(e.data.fd, &byte, 1, MSG_DONTWAIT) == 1)
			say(e.data.fd, "y");
		else
			__atomic_add_fetch(&h->in_vain, 1, __ATOMIC_RELAXED);
		e.events = EPOLLIN | EPOLLONESHOT;
		ok(epoll_ctl(h->ep, EPOLL_CTL_MOD, e.data.fd, &e));
	}
	return NULL;
}

static void ask_all(const int *c)
{
	for (int i = 0; i < CLIENTS; i++)
		say(c[i], "x");
	for (int i = 0; i < CLIENTS; i++)
		hear(c[i], "y");
}

START_TEST(epoll_oneshots)
{
	struct shared h = { .ep = epoll_create1(EPOLL_CLOEXEC) };
	int l = listener(0), c[CLIENTS], s[CLIENTS];
	pthread_t t[SERVERS];

	for (int i = 0; i < CLIENTS; i++) {
		pair_open(l, &c[i], &s[i]);
		ok(epoll_ctl(h.ep, EPOLL_CTL_ADD, s[i],
			     &(struct epoll_event){ .events = EPOLLIN | EPOLLONESHOT, .data.fd = s[i] }));
	}
	for (int i = 0; i < SERVERS; i++)
		pthread_create(&t[i], NULL, server_run, &h);
	for (int i = 0; i < ROUNDS; i++)
		ask_all(c);
	__atomic_store_n(&h.over, true, __ATOMIC_RELAXED);
	for (int i = 0; i < SERVERS; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(h.in_vain, 0);
	for (int i = 0; i < CLIENTS; i++) {
		close(c[i]);
		close(s[i]);
	}
	close(h.ep);
	close(l);
}
END_TEST

void calls_epoll(Suite *s)
{
	SUITE_ADD(s, epoll_early, epolls, epoll_end, epoll_edge, epoll_unwaited, epoll_threads, epoll_waiters,
		  epoll_fork, epoll_turns, epoll_order, epoll_dup, epoll_oneshots);
}
