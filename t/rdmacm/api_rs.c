/* SPDX-License-Identifier: MIT */
/* api_rs.c - rsockets: streams in both directions, their ends, polling, memory of the program. */
#include "streams.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A byte of a stream that repeats in no power of two. */
static unsigned char byte_at(size_t i) { return (unsigned char)(i % 251); }

struct sender {
	int fd;
	size_t len, piece;
};

static void *sender_run(void *arg)
{
	struct sender *s = arg;
	unsigned char *buf = malloc(s->piece);

	for (size_t at = 0; at < s->len; at += s->piece) {
		for (size_t i = 0; i < s->piece; i++)
			buf[i] = byte_at(at + i);
		if (rsend(s->fd, buf, s->piece, 0) != (ssize_t)s->piece)
			break;
	}
	free(buf);
	rshutdown(s->fd, SHUT_WR);
	return NULL;
}

static void stream_check(int fd, size_t len, size_t piece)
{
	unsigned char *buf = malloc(piece);
	size_t at = 0, wrong = 0;
	ssize_t n;

	while ((n = rrecv(fd, buf, piece, 0)) > 0)
		for (ssize_t i = 0; i < n; i++, at++)
			wrong += buf[i] != byte_at(at); /* an assertion for each would take its time */
	ck_assert_msg(n == 0, "rrecv: %s", strerror(errno));
	ck_assert_uint_eq(at, len);
	ck_assert_uint_eq(wrong, 0);
	free(buf);
}

/* Pieces that fit nothing; more of them than there are credits, and more bytes than any buffer. */
static void stream_move(int from, int to, size_t piece, size_t pieces, size_t take)
{
	struct sender s = { .fd = from, .len = piece * pieces, .piece = piece };
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, sender_run, &s), 0);
	stream_check(to, s.len, take);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
}

START_TEST(rs_both_ways)
{
	struct streams s;

	streams_open(&s, 0);
	stream_move(s.client, s.server, 7, 3000, 1000);
	stream_move(s.server, s.client, 99999, 50, 65537);
	streams_close(&s);
}
END_TEST

/* Two threads sleep on the same socket, one for either direction. */
START_TEST(rs_two_threads)
{
	struct sender a, b;
	struct streams s;
	pthread_t t[2];

	streams_open(&s, 0);
	a = (struct sender){ .fd = s.client, .len = 5000000, .piece = 50000 };
	b = (struct sender){ .fd = s.server, .len = 5000000, .piece = 500 };
	ck_assert_int_eq(pthread_create(&t[0], NULL, sender_run, &a), 0);
	ck_assert_int_eq(pthread_create(&t[1], NULL, sender_run, &b), 0);
	/* Neither sender can end before both receivers have read. */
	stream_check(s.server, a.len, 4096);
	stream_check(s.client, b.len, 4096);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	streams_close(&s);
}
END_TEST

START_TEST(rs_flags)
{
	struct streams s;
	char buf[8] = "";

	streams_open(&s, 0);
	fails((int)rrecv(s.server, buf, sizeof(buf), MSG_DONTWAIT), EAGAIN);
	ck_assert_int_eq(rsend(s.client, "abc", 3, 0), 3);
	rs_ready(s.server, POLLIN);
	ck_assert_int_eq(rrecv(s.server, buf, sizeof(buf), MSG_PEEK), 3);
	ck_assert_int_eq(rsend(s.client, "defgh", 5, 0), 5);
	ck_assert_int_eq(rrecv(s.server, buf, sizeof(buf), MSG_WAITALL), 8);
	ck_assert_mem_eq(buf, "abcdefgh", 8);
	streams_close(&s);
}
END_TEST

/* A sender that nobody reads stops, and goes on when somebody does. */
START_TEST(rs_full)
{
	static char block[4096];
	struct streams s;
	size_t sent = 0, got = 0;
	ssize_t n;

	streams_open(&s, 0);
	ok(rfcntl(s.client, F_SETFL, O_NONBLOCK));
	while (sent < 1u << 26) {
		n = rsend(s.client, block, sizeof(block), 0);
		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = s.client, .events = POLLOUT };

			if (!rpoll(&p, 1, 100)) /* nothing is under way any more */
				break;
			continue;
		}
		ck_assert_int_gt(n, 0);
		sent += (size_t)n;
	}
	ck_assert_uint_lt(sent, 1u << 26);
	while (got < sent) {
		n = rrecv(s.server, block, sizeof(block), 0);
		ck_assert_int_gt(n, 0);
		got += (size_t)n;
	}
	rs_ready(s.client, POLLOUT);
	streams_close(&s);
}
END_TEST

START_TEST(rs_ends)
{
	struct streams s;
	char buf[8];

	streams_open(&s, 0);
	ck_assert_int_eq(rsend(s.client, "last", 4, 0), 4);
	ok(rclose(s.client));
	s.client = -1;
	rs_ready(s.server, POLLIN);
	ck_assert_int_eq(rrecv(s.server, buf, sizeof(buf), 0), 4);
	ck_assert_int_eq(rrecv(s.server, buf, sizeof(buf), 0), 0);
	rs_ready(s.server, POLLHUP);
	fails((int)rsend(s.server, "x", 1, 0), EPIPE);
	streams_close(&s);
}
END_TEST

/* Data that had come before are read, then the end. */
START_TEST(rs_shut_read)
{
	struct streams s;
	char buf[8];

	streams_open(&s, 0);
	ck_assert_int_eq(rsend(s.client, "abc", 3, 0), 3);
	rs_ready(s.server, POLLIN);
	ok(rshutdown(s.server, SHUT_RD));
	ck_assert_int_eq(rrecv(s.server, buf, 2, 0), 2);
	ck_assert_int_eq(rrecv(s.server, buf, sizeof(buf), 0), 1);
	ck_assert_int_eq(rrecv(s.server, buf, sizeof(buf), 0), 0);
	streams_close(&s);
}
END_TEST

/* How much is read of data that nothing has looked at. */
static ssize_t unseen(void)
{
	struct streams s;
	char buf[8];
	ssize_t n;

	streams_open(&s, 0);
	rs_ready(s.server, POLLOUT);
	ck_assert_int_eq(rsend(s.client, "hello", 5, 0), 5);
	ok(rshutdown(s.client, SHUT_WR)); /* until it is acknowledged */
	ok(rshutdown(s.server, SHUT_RD));
	n = rrecv(s.server, buf, sizeof(buf), 0);
	if (n)
		ck_assert_int_eq(rrecv(s.server, buf, sizeof(buf), 0), 0);
	streams_close(&s);
	return n;
}

/* A sender may hear that it has arrived a moment before the receiver can see it: so there are some tries. */
START_TEST(rs_shut_read_unseen)
{
	ssize_t n = 0;

	for (unsigned i = 0; i < 20 && !n; i++)
		n = unseen();
	ck_assert_int_eq(n, 5);
}
END_TEST

START_TEST(rs_refused)
{
	int fd = rs_open(), listen = rs_open();
	socklen_t len = 0;
	uint16_t port;

	ok(rbind(listen, lo(0), sizeof(struct sockaddr_in)));
	port = rs_port(listen);
	ok(rclose(listen));
	fails(rconnect(fd, lo(port), sizeof(struct sockaddr_in)), ECONNREFUSED);
	fails((int)rsend(fd, "x", 1, 0), EPIPE);
	ok(rclose(fd));
	fails(rclose(fd), EBADF);
	fails(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	fd = rs_open();
	ok(rgetsockname(fd, NULL, &len));
	ck_assert_uint_eq(len, sizeof(struct sockaddr_in));
	fails(rgetsockname(fd, NULL, &len), EFAULT);
	ok(rclose(fd));
}
END_TEST

START_TEST(rs_iomap)
{
	static char mem[10000], data[5000];
	struct streams s;
	char c;

	streams_open(&s, 2);
	memset(data, 'd', sizeof(data));
	ck_assert_int_eq(riomap(s.server, mem, sizeof(mem), PROT_WRITE, 0, 1000), 1000);
	ck_assert_int_eq(rsend(s.server, "m", 1, 0), 1);
	ck_assert_int_eq(rrecv(s.client, &c, 1, 0), 1);
	ck_assert_uint_eq(riowrite(s.client, data, sizeof(data), 3000, 0), sizeof(data));
	fails((int)riowrite(s.client, data, 1, 11000, 0), EINVAL);
	ck_assert_int_eq(rsend(s.client, "w", 1, 0), 1);
	ck_assert_int_eq(rrecv(s.server, &c, 1, 0), 1);
	ck_assert_mem_eq(mem + 2000, data, sizeof(data));
	ck_assert_int_eq(mem[1999] | mem[7000], 0);
	ok(riounmap(s.server, mem, sizeof(mem)));
	fails(riounmap(s.server, mem, sizeof(mem)), EINVAL);
	streams_close(&s);
}
END_TEST

/* rselect() and rpoll() with other descriptors among rsockets. */
START_TEST(rs_mixed)
{
	struct streams s;
	struct timeval t = { .tv_sec = 10 };
	int p[2];
	fd_set r;

	streams_open(&s, 0);
	ok(pipe(p));
	FD_ZERO(&r);
	FD_SET(s.server, &r);
	FD_SET(p[0], &r);
	ck_assert_int_eq(write(p[1], "x", 1), 1);
	ck_assert_int_eq(rselect(FD_SETSIZE, &r, NULL, NULL, &t), 1);
	ck_assert(FD_ISSET(p[0], &r) && !FD_ISSET(s.server, &r));
	ck_assert_int_eq(rwrite(s.client, "y", 1), 1);
	FD_ZERO(&r);
	FD_SET(s.server, &r);
	ck_assert_int_eq(rselect(FD_SETSIZE, &r, NULL, NULL, &t), 1);
	ck_assert(FD_ISSET(s.server, &r));
	close(p[0]);
	close(p[1]);
	streams_close(&s);
}
END_TEST

struct selecting {
	int fd, ret;
	pid_t tid;
};

static void *select_run(void *arg)
{
	struct timeval t = { 4294967, 296000 }; /* 2^32 ms */
	struct selecting *s = arg;
	fd_set r;

	FD_ZERO(&r);
	FD_SET(s->fd, &r);
	__atomic_store_n(&s->tid, gettid(), __ATOMIC_RELEASE);
	s->ret = rselect(s->fd + 1, &r, NULL, NULL, &t);
	return NULL;
}

START_TEST(rs_select_long)
{
	struct selecting sel;
	struct streams s;
	pthread_t t;

	streams_open(&s, 0);
	sel = (struct selecting){ .fd = s.server };
	ck_assert_int_eq(pthread_create(&t, NULL, select_run, &sel), 0);
	sleeps_in(&sel.tid, SYS_ppoll);
	ck_assert_int_eq(rsend(s.client, "x", 1, 0), 1);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_int_eq(sel.ret, 1);
	streams_close(&s);
}
END_TEST

/* A socket that always has data keeps no other descriptor from being told of, whatever else is looked at in between. */
START_TEST(rs_busy)
{
	struct streams s;
	struct pollfd f[2], idle;
	int p[2], looks = 0;

	streams_open(&s, 0);
	ok(pipe(p));
	ck_assert_int_eq(rwrite(s.client, "y", 1), 1);
	rs_ready(s.server, POLLIN);
	f[0] = (struct pollfd){ s.server, POLLIN, 0 };
	f[1] = (struct pollfd){ p[0], POLLIN, 0 };
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(rpoll(f, 2, PATIENCE_MS), 1);
	ck_assert_int_eq(write(p[1], "x", 1), 1);
	idle = (struct pollfd){ s.client, POLLIN, 0 };
	do {
		ck_assert_int_ge(rpoll(f, 2, PATIENCE_MS), 1);
		ck_assert_int_eq(f[0].revents, POLLIN);
		ck_assert_int_eq(rpoll(&idle, 1, 0), 0);
	} while (!f[1].revents && ++looks < 100);
	ck_assert_int_eq(f[1].revents, POLLIN);
	close(p[0]);
	close(p[1]);
	streams_close(&s);
}
END_TEST

/* Both ends' buffers are mapped by the daemon, so that none of their bytes costs a system call. */
START_TEST(rs_mapped)
{
	const char *count =
		"test $(grep -c memfd:rsocket /proc/$(./rdmactl stats | sed -n 's/^  pid  *//p')/maps) -ge 2";
	struct streams s;

	streams_open(&s, 0);
	ck_assert_int_eq(system(count), 0);
	streams_close(&s);
}
END_TEST

/* rdma-core 65: the library that we are linked with may lack them, the one that we run with may not. */
static int (*set_create)(int flags);
static int (*set_change)(int set, int op, int fd, struct epoll_event *event);
static int (*set_look)(int set, struct epoll_event *events, int max, int timeout);

static int set_open(int flags)
{
	set_create = dlsym(RTLD_DEFAULT, "repoll_create");
	set_change = dlsym(RTLD_DEFAULT, "repoll_ctl");
	set_look = dlsym(RTLD_DEFAULT, "repoll_wait");
	ck_assert(set_create && set_change && set_look);
	return set_create(flags);
}

static void set_ctl(int set, int op, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.fd = fd };

	ok(set_change(set, op, fd, &e));
}

struct waiter {
	int set, ret, err;
	pid_t tid;
	struct epoll_event event;
	pthread_t thread;
};

static void *waiter_run(void *arg)
{
	struct waiter *w = arg;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	w->ret = set_look(w->set, &w->event, 1, -1);
	w->err = errno;
	return NULL;
}

/* It sleeps. */
static void waiter_start(struct waiter *w, int set)
{
	*w = (struct waiter){ .set = set };
	ck_assert_int_eq(pthread_create(&w->thread, NULL, waiter_run, w), 0);
	sleeps_in(&w->tid, SYS_ppoll);
}

START_TEST(rs_epoll)
{
	int set = set_open(EPOLL_CLOEXEC);
	struct epoll_event e[2] = { 0 };
	struct streams s;
	char c = 0;

	ck_assert_int_ge(set, 0);
	streams_open(&s, 0);
	set_ctl(set, EPOLL_CTL_ADD, s.server, EPOLLIN);
	fails(set_change(set, EPOLL_CTL_ADD, s.server, e), EEXIST);
	fails(set_change(set, EPOLL_CTL_MOD, s.client, e), ENOENT);
	fails(set_change(set, EPOLL_CTL_DEL, s.client, NULL), ENOENT);
	fails(set_change(set, EPOLL_CTL_ADD, 9999, e), EBADF);
	fails(set_change(set, EPOLL_CTL_ADD, set, e), EINVAL);
	fails(set_change(s.client, EPOLL_CTL_ADD, s.server, e), EBADF);
	fails(set_change(9999, EPOLL_CTL_ADD, 9999, e), EBADF);
	fails(set_look(set, e, 0, 0), EINVAL);
	ck_assert_int_eq(set_look(set, e, 2, 0), 0);
	ck_assert_int_eq(set_look(set, e, 2, 1), 0);

	/* Level-triggered: until it is read. */
	ck_assert_int_eq(rsend(s.client, "x", 1, 0), 1);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(set_look(set, e, 2, PATIENCE_MS), 1);
		ck_assert_int_eq(e[0].data.fd, s.server);
		ck_assert_uint_eq(e[0].events, EPOLLIN);
	}
	ck_assert_int_eq(rrecv(s.server, &c, 1, 0), 1);
	ck_assert_int_eq(set_look(set, e, 2, 0), 0);

	/* Two are ready, and there is room for one: each has its turn. Once is once. */
	set_ctl(set, EPOLL_CTL_MOD, s.server, EPOLLOUT);
	set_ctl(set, EPOLL_CTL_ADD, s.client, EPOLLOUT);
	ck_assert_int_eq(set_look(set, &e[0], 1, PATIENCE_MS), 1);
	ck_assert_int_eq(set_look(set, &e[1], 1, PATIENCE_MS), 1);
	ck_assert_int_ne(e[0].data.fd, e[1].data.fd);
	ck_assert_int_eq(set_look(set, e, 2, PATIENCE_MS), 2);
	set_ctl(set, EPOLL_CTL_DEL, s.server, 0);
	set_ctl(set, EPOLL_CTL_MOD, s.client, EPOLLOUT | EPOLLONESHOT);
	ck_assert_int_eq(set_look(set, e, 2, PATIENCE_MS), 1);
	ck_assert_int_eq(set_look(set, e, 2, 0), 0);
	streams_close(&s);
	ok(rclose(set));
	fails(rclose(set), EBADF);
	fails(set_look(set, e, 2, 0), EBADF);
}
END_TEST

/* A number that another rsocket had, in a set where no wait has seen that one's end. */
START_TEST(rs_epoll_reused)
{
	int set = set_open(0), fd;
	struct epoll_event e = { 0 };
	struct streams s;

	streams_open(&s, 0);
	set_ctl(set, EPOLL_CTL_ADD, s.client, EPOLLIN);
	fd = s.client;
	ok(rclose(fd));
	fails(set_change(set, EPOLL_CTL_MOD, fd, &e), ENOENT);
	s.client = rs_open();
	ck_assert_int_eq(s.client, fd);
	set_ctl(set, EPOLL_CTL_ADD, fd, EPOLLOUT);
	ck_assert_int_eq(set_look(set, &e, 1, PATIENCE_MS), 1);
	ck_assert_int_eq(e.data.fd, fd);
	streams_close(&s);
	ok(rclose(set));
}
END_TEST

/* A thread that waits already is told of what is added, and that the set is closed. */
START_TEST(rs_epoll_added)
{
	int set = set_open(0);
	struct waiter w[2];
	struct streams s;

	streams_open(&s, 0);
	set_ctl(set, EPOLL_CTL_ADD, s.server, EPOLLIN);
	for (int i = 0; i < 2; i++)
		waiter_start(&w[i], set);
	set_ctl(set, EPOLL_CTL_ADD, s.client, EPOLLOUT);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_join(w[i].thread, NULL), 0);
		ck_assert_int_eq(w[i].ret, 1);
		ck_assert_int_eq(w[i].event.data.fd, s.client);
	}
	set_ctl(set, EPOLL_CTL_DEL, s.client, 0);
	for (int i = 0; i < 2; i++)
		waiter_start(&w[i], set);
	ok(rclose(set));
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_join(w[i].thread, NULL), 0);
		ck_assert_int_eq(w[i].ret, -1);
		ck_assert_int_eq(w[i].err, EBADF);
	}
	streams_close(&s);
}
END_TEST

/* A child that inherits a set does nothing to its parent's. */
START_TEST(rs_epoll_forked)
{
	int set = set_open(0), fd = rs_open(), status;
	struct epoll_event e = { 0 };
	struct waiter w;
	pid_t pid;

	set_ctl(set, EPOLL_CTL_ADD, fd, 0);
	set_ctl(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT);
	ck_assert_int_eq(set_look(set, &e, 1, PATIENCE_MS), 1); /* POLLHUP: it is not connected */
	waiter_start(&w, set);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		fails(set_change(set, EPOLL_CTL_MOD, fd, &e), EBADF);
		fails(set_look(set, &e, 1, 0), EBADF);
		ok(rclose(fd));
		ok(rclose(set));
		fails(fcntl(set, F_GETFD), EBADF);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	/* Readable, it would wake the one that waits again and again. */
	ck_assert_int_eq(poll(&(struct pollfd){ .fd = set, .events = POLLIN }, 1, 0), 0);
	ok(rclose(set));
	ck_assert_int_eq(pthread_join(w.thread, NULL), 0);
	ck_assert_int_eq(w.err, EBADF);
	ok(rclose(fd));
}
END_TEST

enum { FULL = 1, EMPTY = 2 };

static int swapped_told; /* atomic */

/* Ends when the set is closed. */
static void *swapped_wait(void *arg)
{
	struct epoll_event e;

	while (set_look(*(int *)arg, &e, 1, -1) == 1) {
		ck_assert_uint_eq(e.data.u32, FULL);
		__atomic_add_fetch(&swapped_told, 1, __ATOMIC_RELAXED);
	}
	ck_assert_int_eq(errno, EBADF);
	return NULL;
}

/* A thread finds something at a descriptor, and does not tell it of the next file that has the number. */
START_TEST(rs_epoll_swapped)
{
	const time_t until = time(NULL) + 20; /* on a busy machine a round takes long */
	struct epoll_event e = { .events = EPOLLIN };
	int set = set_open(0), p[2][2], fd;
	pthread_t waiting[2];

	ok(pipe(p[0]));
	ok(pipe(p[1]));
	ck_assert_int_eq(write(p[0][1], "x", 1), 1);
	fd = dup(p[1][0]);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&waiting[i], NULL, swapped_wait, &set), 0);
	for (int i = 0; i < 2000 && time(NULL) < until; i++) {
		int told = __atomic_load_n(&swapped_told, __ATOMIC_RELAXED);

		ck_assert_int_eq(dup2(p[i % 2][0], fd), fd);
		e.data.u32 = i % 2 ? EMPTY : FULL;
		ok(set_change(set, EPOLL_CTL_ADD, fd, &e));
		while (e.data.u32 == FULL && __atomic_load_n(&swapped_told, __ATOMIC_RELAXED) == told)
			sched_yield(); /* 60 s at most */
		ok(set_change(set, EPOLL_CTL_DEL, fd, NULL));
	}
	ok(rclose(set));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(waiting[i], NULL), 0);
	close(fd);
	for (int i = 0; i < 4; i++)
		close(p[i / 2][i % 2]);
}
END_TEST

void api_rs(Suite *s)
{
	SUITE_ADD(s, rs_epoll, rs_epoll_reused, rs_epoll_added, rs_epoll_forked, rs_epoll_swapped, rs_mapped,
		  rs_both_ways, rs_two_threads, rs_flags, rs_full, rs_ends, rs_refused, rs_iomap, rs_mixed, rs_busy,
		  rs_shut_read, rs_shut_read_unseen, rs_select_long);
}
