/* SPDX-License-Identifier: MIT */
/*
 * api_sleep.c - two threads that wait for the same rsocket: neither keeps the other from being woken.
 *
 * The program's own ppoll() stands before the C library's: a thread with a gate comes back from it late, or goes into it late.
 */
#include "streams.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <unistd.h>

enum { AT_KICK, AT_CM, AT_CQ, FDS };

struct gate {
	bool late_in, late_out;
	atomic_bool in, out; /* it stands before it, or behind it */
	atomic_bool open;
	short cq; /* what it found at the CQ */
};

static _Thread_local struct gate *gate;

static void gate_stand(struct gate *g, atomic_bool *at)
{
	*at = true;
	while (!g->open)
		usleep(1000);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	int (*real)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	struct gate *g = n == FDS ? gate : NULL;
	int ret;

	*(void **)&real = dlsym(RTLD_NEXT, "ppoll");
	if (g && g->late_in)
		gate_stand(g, &g->in);
	if (g)
		g->in = true;
	ret = real(fds, n, g && g->late_out ? NULL : t, mask);
	if (g)
		g->cq = fds[AT_CQ].revents;
	if (g && g->late_out)
		gate_stand(g, &g->out);
	return ret;
}

static void until(const atomic_bool *b)
{
	for (int i = 0; !*b; i++) {
		ck_assert_int_lt(i, PATIENCE_MS);
		usleep(1000);
	}
}

struct sleeper {
	struct gate gate;
	int fd;
	atomic_bool done;
	pthread_t thread;
};

/* Looks for a short time only: it has gone when it comes back. */
static void *looker_run(void *arg)
{
	struct sleeper *s = arg;
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	gate = &s->gate;
	rpoll(&p, 1, 1);
	s->done = true;
	return NULL;
}

static void *reader_run(void *arg)
{
	struct sleeper *s = arg;
	char c[2] = "";

	gate = &s->gate;
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
static void event_shared(int from, int to)
{
	struct sleeper first = { .fd = to, .gate.late_out = true }, second = { .fd = to, .gate.late_in = true };

	ck_assert_int_eq(pthread_create(&first.thread, NULL, looker_run, &first), 0);
	until(&first.gate.in);
	ck_assert_int_eq(rsend(from, "a", 1, 0), 1);
	until(&first.gate.out);
	ck_assert_int_eq(first.gate.cq, POLLIN);
	ck_assert_int_eq(pthread_create(&second.thread, NULL, reader_run, &second), 0);
	until(&second.gate.in);
	first.gate.open = true;
	until(&first.done);
	ck_assert_int_eq(rsend(from, "b", 1, 0), 1);
	second.gate.open = true;
	until(&second.done);
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
	rs_ready(s.server, POLLOUT);
	event_shared(s.client, s.server);
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

	for (int i = 0; i < 2; i++)
		ok(rconnect(fd[i], (struct sockaddr *)&at[!i], sizeof(at[i])));
	/* The first go by UDP; in between each learns the other's QP. */
	for (int i = 0; i < 40; i++) {
		ck_assert_int_eq(rsend(fd[i % 2], "x", 1, 0), 1);
		rs_ready(fd[!(i % 2)], POLLIN);
		ck_assert_int_eq(rrecv(fd[!(i % 2)], &c, 1, 0), 1);
	}
	event_shared(fd[0], fd[1]);
	for (int i = 0; i < 2; i++)
		ok(rclose(fd[i]));
}
END_TEST

void api_sleep(Suite *s) { SUITE_ADD(s, rs_event_shared, rsd_event_shared); }
