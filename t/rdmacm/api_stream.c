/* SPDX-License-Identifier: MIT */
/* api_stream.c - rsockets do without help what sockets of TCP do. */
#include "streams.h"

#include "../fds_left.h"
#include "../late.h"

#include <dirent.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 1024, TRIES = 100 };

/* As many descriptors as a process may have, and one of them a stream, which is three while the thread sleeps. */
START_TEST(rs_poll_many)
{
	static struct pollfd f[FILES - 2];
	struct rlimit old, few;
	struct streams s;
	int p[2];

	ok(getrlimit(RLIMIT_NOFILE, &old));
	few = old;
	few.rlim_cur = FILES;
	streams_open(&s, 0);
	ok(pipe(p));
	ok(setrlimit(RLIMIT_NOFILE, &few));
	for (int i = 0; i < FILES - 2; i++)
		f[i] = (struct pollfd){ i % 8 ? p[0] : -1, POLLIN, POLLIN };
	f[FILES / 2].fd = s.server;
	ck_assert_int_eq(rpoll(f, FILES - 2, 1), 0);
	for (int i = 0; i < FILES - 2; i++)
		ck_assert_int_eq(f[i].revents, 0);
	ck_assert_int_eq(rsend(s.client, "x", 1, 0), 1);
	ck_assert_int_eq(rpoll(f, FILES - 2, PATIENCE_MS), 1);
	ck_assert_int_eq(f[FILES / 2].revents, POLLIN);
	ok(setrlimit(RLIMIT_NOFILE, &old));
	close(p[0]);
	close(p[1]);
	streams_close(&s);
}
END_TEST

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void *nothing(void *arg) { return arg; }

static int connect_start(uint16_t port)
{
	int fd = rs_open();

	ok(rfcntl(fd, F_SETFL, O_NONBLOCK));
	fails(rconnect(fd, lo(port), sizeof(struct sockaddr_in)), EINPROGRESS);
	return fd;
}

/* A connection is made though nobody polls it, by a thread that is gone then. */
START_TEST(rs_connect_unpolled)
{
	struct streams s = { .listen = rs_open() };
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer), err_len = sizeof(int);
	int before, err = 0;
	uint16_t port;
	pthread_t t;

	/* With its first thread a program may get one of a sanitizer. */
	ck_assert_int_eq(pthread_create(&t, NULL, nothing, NULL), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	before = threads();
	ok(rbind(s.listen, lo(0), sizeof(peer)));
	ok(rlisten(s.listen, 1));
	port = rs_port(s.listen);
	s.client = connect_start(port);
	rs_ready(s.listen, POLLIN);
	s.server = raccept(s.listen, NULL, NULL);
	ck_assert_int_ge(s.server, 0);
	for (int i = 0; rgetpeername(s.client, (struct sockaddr *)&peer, &len); i++) {
		ck_assert_int_lt(i, PATIENCE_MS);
		usleep(1000);
	}
	ok(rgetsockopt(s.client, SOL_SOCKET, SO_ERROR, &err, &err_len));
	ck_assert_int_eq(err, 0);
	streams_close(&s);
	s.client = connect_start(port);
	for (int i = 0; !err; i++) {
		ck_assert_int_lt(i, PATIENCE_MS);
		usleep(1000);
		ok(rgetsockopt(s.client, SOL_SOCKET, SO_ERROR, &err, &err_len));
	}
	ck_assert_int_eq(err, ECONNREFUSED);
	for (int i = 0; threads() != before; i++) {
		ck_assert_int_lt(i, PATIENCE_MS);
		usleep(1000);
	}
	ok(rclose(s.client));
}
END_TEST

/*
 * A client that waits, as by TCP, as there are n descriptors left.  False: the library's thread was first: one that it has accepted
 * needs none any more, and one that it was about to accept is refused.
 */
static bool accept_full(struct streams *s, int n)
{
	struct rlimit old;
	int fd, why;

	s->client = connect_start(rs_port(s->listen));
	rs_ready(s->listen, POLLIN);
	old = fds_left(n);
	fd = raccept(s->listen, NULL, NULL);
	why = errno;
	ok(setrlimit(RLIMIT_NOFILE, &old));
	if (fd < 0 && why == EMFILE) {
		struct pollfd p[] = { { s->listen, POLLIN, 0 }, { s->client, 0, 0 } };

		ck_assert_int_gt(rpoll(p, 2, PATIENCE_MS), 0);
		if (p[0].revents)
			return true;
	}
	ck_assert(fd >= 0 || why == EMFILE || why == EAGAIN);
	if (fd >= 0)
		ok(rclose(fd));
	ok(rclose(s->client));
	return false;
}

/* Without descriptors for it a connection waits, and is there when there are some. */
START_TEST(rs_accept_full)
{
	struct streams s = { .listen = rs_open() };
	socklen_t len = sizeof(int);
	char buf[4] = "";

	ok(rfcntl(s.listen, F_SETFL, O_NONBLOCK));
	ok(rbind(s.listen, lo(0), sizeof(struct sockaddr_in)));
	ok(rlisten(s.listen, 1));
	for (int n = 0; n < 4; n++) {
		int err = -1;

		for (int i = 0; !accept_full(&s, n); i++)
			ck_assert_int_lt(i, TRIES);
		s.server = raccept(s.listen, NULL, NULL);
		ck_assert_int_ge(s.server, 0);
		rs_ready(s.client, POLLOUT);
		ok(rgetsockopt(s.client, SOL_SOCKET, SO_ERROR, &err, &len));
		ck_assert_int_eq(err, 0);
		ck_assert_int_eq(rsend(s.server, "abc", 3, 0), 3);
		rs_ready(s.client, POLLIN);
		ck_assert_int_eq(rrecv(s.client, buf, 3, 0), 3);
		ok(rclose(s.server));
		ok(rclose(s.client));
	}
	ok(rclose(s.listen));
}
END_TEST

/* A program that only writes hears that nobody is there any more before there is no room left. */
START_TEST(rs_write_only)
{
	struct streams s;
	int n = 0;

	streams_open(&s, 0);
	ok(rclose(s.server));
	s.server = -1;
	while (rsend(s.client, "x", 1, 0) == 1) {
		ck_assert_int_lt(++n, 300);
		usleep(10000);
	}
	ck_assert_int_eq(errno, EPIPE);
	streams_close(&s);
}
END_TEST

static void forked_child(const struct streams *s, int connecting)
{
	struct streams own;
	char c;

	fails((int)rsend(s->client, "child", 5, 0), EIO);
	fails((int)rrecv(s->client, &c, 1, MSG_DONTWAIT), EIO);
	fails(rshutdown(s->client, SHUT_WR), EIO);
	ok(rclose(s->client));
	fails(rclose(s->client), EBADF);
	fails(fcntl(s->client, F_GETFD), EBADF);
	ok(rclose(connecting));
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* they have no locks for a child of threads */
	streams_open(&own, 0);
	streams_close(&own);
#else
	(void)own;
#endif
	_exit(0);
}

/* A child has nothing of its parent's streams; it may make others, whatever the library's thread was doing. */
START_TEST(rs_forked)
{
	struct streams s;
	char buf[8] = "";
	int status, fd;
	pid_t pid;

	streams_open(&s, 0);
	for (int i = 0; i < 20; i++) {
		fd = connect_start(rs_port(s.listen));
		usleep((unsigned)i * 50);
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (!pid)
			forked_child(&s, fd);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
		ok(rclose(fd));
	}
	ck_assert_int_eq(rsend(s.client, "parent", 6, 0), 6);
	ck_assert_int_eq(rrecv(s.server, buf, 6, MSG_WAITALL), 6);
	ck_assert_str_eq(buf, "parent");
	streams_close(&s);
}
END_TEST

struct peeker {
	int fd;
	pid_t tid;
	ssize_t n;
	char buf[9];
};

static void *peeker_run(void *arg)
{
	struct peeker *p = arg;

	__atomic_store_n(&p->tid, gettid(), __ATOMIC_RELEASE);
	p->n = rrecv(p->fd, p->buf, 8, MSG_PEEK | MSG_WAITALL);
	return NULL;
}

/* All of it is waited for, and is there to be read afterwards; or the end. */
START_TEST(rs_peek_all)
{
	struct streams s;
	struct peeker p;
	pthread_t t;

	streams_open(&s, 0);
	p = (struct peeker){ .fd = s.server };
	ck_assert_int_eq(rsend(s.client, "1234", 4, 0), 4);
	rs_ready(s.server, POLLIN);
	ck_assert_int_eq(pthread_create(&t, NULL, peeker_run, &p), 0);
	sleeps_in(&p.tid, SYS_ppoll);
	ck_assert_int_eq(rsend(s.client, "5678", 4, 0), 4);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_int_eq(p.n, 8);
	ck_assert_str_eq(p.buf, "12345678");
	ck_assert_int_eq(rrecv(s.server, p.buf, 6, 0), 6);
	ok(rshutdown(s.client, SHUT_WR));
	ck_assert_int_eq(rrecv(s.server, p.buf, 8, MSG_PEEK | MSG_WAITALL), 2);
	ck_assert_int_eq(rrecv(s.server, p.buf, 8, MSG_WAITALL), 2);
	ck_assert_int_eq(rrecv(s.server, p.buf, 8, MSG_PEEK | MSG_WAITALL), 0);
	streams_close(&s);
}
END_TEST

/* As many pieces as the kernel takes. */
START_TEST(rs_pieces)
{
	static struct iovec v[IOV_MAX + 1];
	static char buf[IOV_MAX + 1];
	struct streams s;

	streams_open(&s, 0);
	for (int i = 0; i <= IOV_MAX; i++)
		v[i] = (struct iovec){ &buf[i], 1 };
	fails((int)rwritev(s.client, v, -1), EINVAL);
	fails((int)rwritev(s.client, v, IOV_MAX + 1), EINVAL);
	fails((int)rreadv(s.server, v, -1), EINVAL);
	fails((int)rreadv(s.server, v, IOV_MAX + 1), EINVAL);
	ck_assert_int_eq(rwritev(s.client, v, 0), 0);
	ck_assert_int_eq(rwritev(s.client, v, IOV_MAX), IOV_MAX);
	rs_ready(s.server, POLLIN);
	ck_assert_int_eq(rreadv(s.server, v, IOV_MAX), IOV_MAX);
	streams_close(&s);
}
END_TEST

/* Of ever so small a queue some completion is always under way: who waits for room has it. */
static void fill(int size)
{
	struct streams s;
	char to[64];

	streams_open_with(&s, SOL_RDMA, RDMA_SQSIZE, size);
	ok(rfcntl(s.client, F_SETFL, O_NONBLOCK));
	for (int i = 0; i < 200; i++) {
		ssize_t n = 0;

		while (rsend(s.client, "x", 1, 0) == 1)
			n++;
		ck_assert_int_eq(errno, EAGAIN);
		for (ssize_t got; n; n -= got) {
			got = rrecv(s.server, to, sizeof(to), 0);
			ck_assert_int_gt(got, 0);
		}
		rs_ready(s.client, POLLOUT);
	}
	streams_close(&s);
}

START_TEST(rs_small_queue)
{
	for (int size = 1; size < 10; size++)
		fill(size);
}
END_TEST

void api_stream(Suite *s)
{
	SUITE_ADD(s, rs_poll_many, rs_accept_full, rs_connect_unpolled, rs_write_only, rs_forked, rs_peek_all,
		  rs_pieces, rs_small_queue);
}
