/* SPDX-License-Identifier: MIT */
/* api_sleep.c - threads that wait for the same rsocket: none keeps another from being woken; one that is cancelled leaves nothing. */
#include "streams.h"

#include "../late.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FDS = 3 }; /* that a thread sleeps on: its socket's kick, channel and CQ */

struct sleeper {
	struct late late;
	int fd;
	atomic_bool done;
	pthread_t thread;
	pid_t tid;
};

/* Looks for a short time only: it has gone when it comes back. */
static void *looker_run(void *arg)
{
	struct sleeper *s = arg;
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	late = &s->late;
	do
		rpoll(&p, 1, 1);
	while (!s->late.came); /* on a loaded machine the millisecond may be over before it sleeps */
	s->done = true;
	return NULL;
}

static void *reader_run(void *arg)
{
	struct sleeper *s = arg;
	char c[2] = "";

	late = &s->late;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(rrecv(s->fd, &c[i], 1, 0), 1);
	ck_assert_mem_eq(c, "ab", 2);
	s->done = true;
	return NULL;
}

/*
 * The first thread is woken for a; meanwhile the second one takes a, and trusts the CQ to be armed.  It is not any more when the first
 * one has taken the event.
 */
static void event_shared(int from, int to, const struct sockaddr_in *at)
{
	socklen_t len = at ? sizeof(*at) : 0;
	struct sleeper first = { .fd = to, .late = { .fds = FDS, .out = true } },
		       second = { .fd = to, .late = { .fds = FDS, .in = true } };

	ck_assert_int_eq(pthread_create(&first.thread, NULL, looker_run, &first), 0);
	late_wait(&first.late.came);
	ck_assert_int_eq(rsendto(from, "a", 1, 0, (const struct sockaddr *)at, len), 1);
	late_wait(&first.late.back);
	ck_assert_int_eq(first.late.revents, POLLIN);
	ck_assert_int_eq(pthread_create(&second.thread, NULL, reader_run, &second), 0);
	late_wait(&second.late.came);
	first.late.open = true;
	late_wait(&first.done);
	ck_assert_int_eq(rsendto(from, "b", 1, 0, (const struct sockaddr *)at, len), 1);
	second.late.open = true;
	late_wait(&second.done);
	ck_assert_int_eq(pthread_join(first.thread, NULL), 0);
	ck_assert_int_eq(pthread_join(second.thread, NULL), 0);
}

START_TEST(rs_event_shared)
{
	struct streams s;
	struct pollfd channel;

	streams_open(&s, 0);
	channel = (struct pollfd){ .fd = s.server, .events = POLLIN };
	ck_assert_int_eq(poll(&channel, 1, PATIENCE_MS), 1); /* ESTABLISHED: it shall wake nobody later */
	ck_assert_int_eq(rpoll(&channel, 1, 0), 0);
	event_shared(s.client, s.server, NULL);
	streams_close(&s);
}
END_TEST

static void *answer_run(void *arg)
{
	struct sleeper *s = arg;
	char c = 0;

	late = &s->late;
	__atomic_store_n(&s->tid, gettid(), __ATOMIC_RELEASE);
	ck_assert_int_eq(rrecv(s->fd, &c, 1, 0), 1);
	ck_assert_int_eq(c, 'a');
	return NULL;
}

/* The server thinks for a while. */
static void ask(const struct streams *s)
{
	struct pollfd p = { .fd = s->server, .events = POLLIN };
	char c = 0;

	ck_assert_int_eq(rsend(s->client, "q", 1, 0), 1);
	ck_assert_int_eq(rrecv(s->server, &c, 1, 0), 1);
	ck_assert_int_eq(rpoll(&p, 1, 20), 0);
	ck_assert_int_eq(rsend(s->server, "a", 1, 0), 1);
}

/* A thread that sleeps until there is an answer is not woken because the question has arrived. */
START_TEST(rs_asked_sleeps)
{
	struct streams s;
	struct sleeper t = { .late = { .fds = FDS } };
	struct pollfd p;
	char c;

	streams_open(&s, 0);
	p = (struct pollfd){ .fd = t.fd = s.client, .events = POLLIN };
	ask(&s);
	ck_assert_int_eq(rrecv(s.client, &c, 1, 0), 1);
	ck_assert_int_eq(rpoll(&p, 1, 1), 0); /* behind what the two ends say of themselves first */
	ck_assert_int_eq(pthread_create(&t.thread, NULL, answer_run, &t), 0);
	late_wait(&t.late.came);
	ask(&s);
	ck_assert_int_eq(pthread_join(t.thread, NULL), 0);
	ck_assert_uint_eq(t.late.calls, 1);
	streams_close(&s);
}
END_TEST

/* As answer_run(), by rpoll(). */
static void *poll_run(void *arg)
{
	struct sleeper *s = arg;
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	late = &s->late;
	__atomic_store_n(&s->tid, gettid(), __ATOMIC_RELEASE);
	ck_assert_int_eq(rpoll(&p, 1, -1), 1);
	return answer_run(arg);
}

/* Of two threads, one of which waits, the other one takes what comes, and wakes it. */
static void *taker_run(void *arg)
{
	struct sleeper *s = arg;
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };

	while (!s->done)
		rpoll(&p, 1, 0);
	return NULL;
}

/* Whether the thread slept when the answer was sent, and on no descriptor until it came. */
static bool dozed(const struct streams *s, void *(*run)(void *))
{
	struct sleeper t = { .fd = s->client, .late = { .fds = FDS } };
	long in;

	ck_assert_int_eq(pthread_create(&t.thread, NULL, run, &t), 0);
	in = sleeps_in_either(&t.tid, SYS_futex, SYS_ppoll);
	ck_assert_int_eq(rsend(s->server, "a", 1, 0), 1);
	ck_assert_int_eq(pthread_join(t.thread, NULL), 0);
	return in == SYS_futex && !t.late.calls;
}

static void dozes(const struct streams *s, void *(*run)(void *))
{
	for (unsigned i = 0; !dozed(s, run); i++)
		ck_assert_uint_lt(i, 1000);
}

/* A thread that has an answer soon is woken by its completion, without an event. */
START_TEST(rs_dozes)
{
	struct sleeper t;
	struct streams s;

	streams_open(&s, 0);
	dozes(&s, answer_run);
	dozes(&s, poll_run);
	t = (struct sleeper){ .fd = s.client };
	ck_assert_int_eq(pthread_create(&t.thread, NULL, taker_run, &t), 0);
	dozes(&s, answer_run);
	t.done = true;
	ck_assert_int_eq(pthread_join(t.thread, NULL), 0);
	streams_close(&s);
}
END_TEST

/* The time for which a thread has slept without a descriptor is of the time that it may sleep. */
START_TEST(rs_doze_limit)
{
	struct late l = { .fds = FDS };
	struct streams s;
	struct pollfd p;

	streams_open(&s, 0);
	p = (struct pollfd){ .fd = s.client, .events = POLLIN };
	late = &l;
	ck_assert_int_eq(rpoll(&p, 1, 30), 0);
	late = NULL;
	ck_assert_uint_ge(l.calls, 1);
	ck_assert_int_le(l.limit_ns, 10000000);
	streams_close(&s);
}
END_TEST

static int dgram_open(struct sockaddr_in *at)
{
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(*at);

	ck_assert_int_ge(fd, 0);
	ok(rbind(fd, lo(0), sizeof(*at)));
	ok(rgetsockname(fd, (struct sockaddr *)at, &len));
	return fd;
}

START_TEST(rsd_event_shared)
{
	struct sockaddr_in at[2];
	int fd[2] = { dgram_open(&at[0]), dgram_open(&at[1]) };
	char c;

	/* The first go by UDP; in between each learns the other's QP. */
	for (int i = 0; i < 40; i++) {
		ck_assert_int_eq(rsendto(fd[i % 2], "x", 1, 0, (struct sockaddr *)&at[!(i % 2)], sizeof(at[0])), 1);
		rs_ready(fd[!(i % 2)], POLLIN);
		ck_assert_int_eq(rrecv(fd[!(i % 2)], &c, 1, 0), 1);
	}
	event_shared(fd[0], fd[1], &at[1]);
	for (int i = 0; i < 2; i++)
		ok(rclose(fd[i]));
}
END_TEST

struct cancelled {
	void (*call)(int fd);
	int fd;
	pid_t tid;
};

static void *cancelled_run(void *arg)
{
	struct cancelled *c = arg;

	__atomic_store_n(&c->tid, gettid(), __ATOMIC_RELEASE);
	c->call(c->fd);
	return NULL;
}

static void call_recv(int fd)
{
	char c;

	rrecv(fd, &c, 1, 0);
}

static void call_poll(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	rpoll(&p, 1, -1);
}

static void call_accept(int fd) { raccept(fd, NULL, NULL); }

/* A thread that is cancelled while it waits leaves the socket: with rclose() it is gone. */
static void cancel_in(void (*call)(int), int fd)
{
	struct cancelled c = { .call = call, .fd = fd };
	pthread_t t;
	void *ret;

	ck_assert_int_eq(pthread_create(&t, NULL, cancelled_run, &c), 0);
	sleeps_in(&c.tid, SYS_ppoll);
	ck_assert_int_eq(pthread_cancel(t), 0);
	ck_assert_int_eq(pthread_join(t, &ret), 0);
	ck_assert_ptr_eq(ret, PTHREAD_CANCELED);
}

START_TEST(rs_cancelled)
{
	struct streams s;

	streams_open(&s, 0);
	cancel_in(call_recv, s.server);
	ok(rclose(s.server));
	fails(fcntl(s.server, F_GETFD), EBADF);
	cancel_in(call_poll, s.listen);
	cancel_in(call_accept, s.listen);
	s.server = -1;
	streams_close(&s);
	fails(fcntl(s.listen, F_GETFD), EBADF);
}
END_TEST

enum { POLLED = 64 };

struct poller {
	int fd;
	atomic_bool stop;
};

static void *poller_run(void *arg)
{
	struct poller *t = arg;
	struct pollfd p[POLLED];

	for (int i = 0; i < POLLED; i++)
		p[i] = (struct pollfd){ .fd = t->fd };
	while (!t->stop)
		rpoll(p, POLLED, 0);
	return NULL;
}

/* A process that is forked while a thread looks up descriptors can look up its own. */
START_TEST(rs_forked_polling)
{
	struct poller p = { .fd = rs_open() };
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, poller_run, &p), 0);
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (!pid)
			_exit(rfcntl(-1, F_GETFL) != -1);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	}
	p.stop = true;
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ok(rclose(p.fd));
}
END_TEST

/* Of the library: when this thread gives its core away next, there comes something to be read. */
static _Thread_local int yields_to = -1;

int sched_yield(void)
{
	if (yields_to >= 0)
		ck_assert_int_eq(write(yields_to, "x", 1), 1);
	yields_to = -1;
	return (int)syscall(SYS_sched_yield);
}

struct files {
	int stream, pipe[2];
	bool slept;
};

static void *files_poll(void *arg)
{
	struct files *t = arg;
	struct pollfd f[] = { { t->stream, POLLIN, 0 }, { t->pipe[0], POLLIN, 0 } };
	struct late l = { .fds = FDS + 1 };
	char c;

	late = &l;
	yields_to = t->pipe[1];
	t->slept = rpoll(f, 2, 100) != 1 || l.came;
	if (yields_to < 0)
		ck_assert_int_eq(read(t->pipe[0], &c, 1), 1);
	return arg;
}

/*
 * A thread that looks for news of a stream before it sleeps sees that another descriptor is ready, and sleeps not at all.  Beside
 * neighbours that keep the core few do, and each one only while it is new.
 */
START_TEST(rs_looks_at_files)
{
	struct files t = { .slept = true };
	struct streams s;

	streams_open(&s, 0);
	t.stream = s.server;
	ok(pipe(t.pipe));
	for (unsigned i = 0; t.slept; i++) {
		pthread_t thread;

		ck_assert_uint_lt(i, 1000);
		ck_assert_int_eq(pthread_create(&thread, NULL, files_poll, &t), 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
	}
	close(t.pipe[0]);
	close(t.pipe[1]);
	streams_close(&s);
}
END_TEST

void api_sleep(Suite *s)
{
	SUITE_ADD(s, rs_event_shared, rsd_event_shared, rs_forked_polling, rs_asked_sleeps, rs_dozes, rs_doze_limit);
#if !defined(__SANITIZE_THREAD__) && \
	!defined(__SANITIZE_ADDRESS__) /* they make it slow: there is no time for four looks */
	SUITE_ADD(s, rs_looks_at_files);
#else
	(void)rs_looks_at_files;
#endif
#ifndef __SANITIZE_ADDRESS__ /* which takes the frames that a cancelled thread leaves for an error of its own */
	SUITE_ADD(s, rs_cancelled);
#else
	(void)rs_cancelled;
#endif
}
