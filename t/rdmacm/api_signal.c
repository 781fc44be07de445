/* SPDX-License-Identifier: MIT */
/* api_signal.c - signals while a thread waits: for an rsocket, to be let in by the daemon. */
#include "streams.h"

#include "../interrupt.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/un.h>

static int call_recv(int fd)
{
	char c;

	return (int)rrecv(fd, &c, 1, 0);
}

static int call_accept(int fd) { return raccept(fd, NULL, NULL); }

static void send_one(void *arg) { ck_assert_int_eq(rsend(*(int *)arg, "x", 1, 0), 1); }

static void connect_one(void *arg)
{
	struct streams *s = arg;

	s->client = rs_open();
	ok(rfcntl(s->client, F_SETFL, O_NONBLOCK));
	fails(rconnect(s->client, lo(rs_port(s->listen)), sizeof(struct sockaddr_in)), EINPROGRESS);
	rs_ready(s->client, POLLOUT);
}

START_TEST(rs_recv_signal)
{
	struct streams s;

	streams_open(&s, 0);
	ck_assert_int_eq(interrupted(SA_RESTART, call_recv, s.server, send_one, &s.client), 1);
	ck_assert_int_eq(interrupted(0, call_recv, s.server, send_one, &s.client), -EINTR);
	streams_close(&s);
}
END_TEST

/* A thread that has just begun to sleep.  It may be past that when it is looked at, on a machine with more to do. */
static void interrupted_dozing(struct streams *s, int flags, int want)
{
	unsigned i = 0, early = 0;

	do {
		ck_assert_uint_lt(i++, 1000);
		ck_assert_uint_lt(early += interrupt_early, 10);
		interrupt_dozing = true;
		ck_assert_int_eq(interrupted(flags, call_recv, s->server, send_one, &s->client), want);
	} while (!interrupt_dozing || interrupt_early);
	interrupt_dozing = interrupt_early = false;
}

START_TEST(rs_doze_signal)
{
	struct streams s;

	streams_open(&s, 0);
	interrupted_dozing(&s, SA_RESTART, 1);
	interrupted_dozing(&s, 0, -EINTR);
	streams_close(&s);
}
END_TEST

START_TEST(rs_accept_signal)
{
	struct streams s = { .listen = rs_open(), .client = -1 };

	ok(rbind(s.listen, lo(0), sizeof(struct sockaddr_in)));
	ok(rlisten(s.listen, 1));
	s.server = interrupted(SA_RESTART, call_accept, s.listen, connect_one, &s);
	ck_assert_int_ge(s.server, 0);
	ck_assert_int_eq(interrupted(0, call_accept, s.listen, connect_one, &s), -EINTR);
	streams_close(&s);
}
END_TEST

/* The errno of a channel that cannot be made. */
static void *channel_run(void *tid)
{
	__atomic_store_n((pid_t *)tid, gettid(), __ATOMIC_RELEASE);
	return rdma_create_event_channel() ? NULL : (void *)(intptr_t)errno;
}

/* So many wait for the daemon that connect() does, too.  A handler is no reason to say that there is none. */
START_TEST(door_signal)
{
	int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), first = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	socklen_t len = offsetof(struct sockaddr_un, sun_path);
	char name[32];
	pthread_t t;
	pid_t tid = 0;
	void *err;

	len += (socklen_t)snprintf(name, sizeof(name), "@rdmad-door.%d", (int)getpid());
	memcpy(sa.sun_path + 1, name + 1, strlen(name) - 1);
	ok(bind(door, (struct sockaddr *)&sa, len));
	ok(listen(door, 0));
	ok(connect(first, (struct sockaddr *)&sa, len));
	ok(setenv("RDMAD_SOCKET", name, 1));
	interrupt_handler(0);
	interrupts = 0;
	ck_assert_int_eq(pthread_create(&t, NULL, channel_run, &tid), 0);
	sleeps_in(&tid, SYS_connect);
	ck_assert_int_eq(pthread_kill(t, SIGUSR1), 0);
	while (!interrupts)
		usleep(1000); /* the test has a limit of time */
	sleeps_in(&tid, SYS_connect);
	close(door);
	ck_assert_int_eq(pthread_join(t, &err), 0);
	ck_assert_int_eq((intptr_t)err, ENODEV);
}
END_TEST

void api_signal(Suite *s) { SUITE_ADD(s, rs_recv_signal, rs_doze_signal, rs_accept_signal, door_signal); }
