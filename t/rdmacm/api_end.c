/* SPDX-License-Identifier: MIT */
/* api_end.c - the end of a peer, of the daemon, of a channel: what others see of it. */
#include "streams.h"

#include "../proc_state.h"

#include <dirent.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that connects to port and then does nothing. */
static pid_t client_fork(uint16_t port)
{
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);
	struct rdma_cm_id *id;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) || rdma_resolve_addr(id, NULL, lo(port), 2000) ||
	    rdma_resolve_route(id, 2000) || rdma_create_qp(id, NULL, &a) || rdma_connect(id, NULL))
		_exit(1);
	for (;;)
		pause();
}

START_TEST(peer_killed)
{
	struct rdma_event_channel *ch = channel_new();
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);
	struct rdma_cm_id *listen, *id;
	struct rdma_cm_event *e;
	pid_t pid;

	ok(rdma_create_id(ch, &listen, NULL, RDMA_PS_TCP));
	ok(rdma_bind_addr(listen, lo(0)));
	ok(rdma_listen(listen, 1));
	pid = client_fork(ntohs(rdma_get_src_port(listen)));
	e = event_get(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = e->id;
	ok(rdma_create_qp(id, NULL, &a));
	ok(rdma_accept(id, NULL));
	ok(rdma_ack_cm_event(e));
	event_eat(ch, RDMA_CM_EVENT_ESTABLISHED);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	event_eat(ch, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	ok(rdma_destroy_id(id));
	ok(rdma_destroy_id(listen));
	rdma_destroy_event_channel(ch);
}
END_TEST

/* A second daemon of our own. */
static pid_t daemon_start(void)
{
	struct rdma_event_channel *ch;
	char name[64];
	pid_t pid;

	snprintf(name, sizeof(name), "@rdmad-cm-test.%d", (int)getpid());
	ck_assert_int_eq(setenv("RDMAD_SOCKET", name, 1), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		execl("./rdmad", "rdmad", "--private", "--socket", name, "--log-level", "error", NULL);
		_exit(127);
	}
	for (int i = 0; i < PATIENCE_MS / 10; i++) {
		ch = rdma_create_event_channel();
		if (ch) {
			rdma_destroy_event_channel(ch);
			return pid;
		}
		ck_assert_int_eq(errno, ENODEV);
		usleep(10000);
	}
	ck_abort_msg("the daemon does not listen");
}

static void *request_wait(void *arg)
{
	struct rdma_cm_id *id;

	ck_assert_int_eq(rdma_get_request(arg, &id), -1);
	return (void *)(intptr_t)errno;
}

/* Ids on a device are told that it is gone, once; then there is an error.  All can be destroyed. */
START_TEST(daemon_killed)
{
	pid_t pid = daemon_start();
	struct rdma_cm_event *e;
	struct rdma_cm_id *sync;
	struct pair p;
	pthread_t t;
	void *err;

	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p, 1);
	ok(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP));
	ok(rdma_bind_addr(sync, lo(0)));
	ok(rdma_listen(sync, 1));
	ck_assert_int_eq(pthread_create(&t, NULL, request_wait, sync), 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	event_eat(p.cch, RDMA_CM_EVENT_DEVICE_REMOVAL);
	fails(rdma_get_cm_event(p.cch, &e), EIO);
	event_eat(p.sch, RDMA_CM_EVENT_DEVICE_REMOVAL);
	event_eat(p.sch, RDMA_CM_EVENT_DEVICE_REMOVAL);
	fails(rdma_get_cm_event(p.sch, &e), EIO);
	ck_assert_int_eq(pthread_join(t, &err), 0);
	ck_assert_int_eq((intptr_t)err, ENODEV);
	fails(rdma_disconnect(p.client), EIO);
	ok(rdma_destroy_id(sync));
	pair_close(&p);
	ck_assert_ptr_null(rdma_create_event_channel());
	ck_assert_int_eq(errno, ENODEV);
}
END_TEST

/* A program that has rsockets, and whose daemon is gone, waits for nothing when it exits. */
START_TEST(rs_daemon_killed)
{
	pid_t daemon = daemon_start(), pid = fork();
	struct timespec a, b;
	struct streams s;

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		streams_open(&s, 0);
		rs_ready(s.server, POLLOUT);
		kill(daemon, SIGKILL);
		exit(0);
	}
	ck_assert_int_eq(waitpid(daemon, NULL, 0), daemon);
	clock_gettime(CLOCK_MONOTONIC, &a);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ck_assert_int_lt(b.tv_sec - a.tv_sec, 8);
}
END_TEST

static void *end_run(void *id)
{
	ok(rdma_destroy_id(id));
	return NULL;
}

/* The event that says so is one like others: g: it is got; a: given back. */
START_TEST(removal_ordered)
{
	static const char *const all[] = { "", "g", "ga" };

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		pid_t pid = daemon_start();
		struct rdma_cm_event *e = NULL;
		struct pair p;
		pthread_t t;

		pair_open(&p, RDMA_PS_TCP);
		ck_assert_int_eq(kill(pid, SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		if (all[i][0])
			e = event_get(p.cch, RDMA_CM_EVENT_DEVICE_REMOVAL);
		if (all[i][0] && all[i][1]) {
			ok(rdma_ack_cm_event(e));
			e = NULL;
		}
		ck_assert_int_eq(pthread_create(&t, NULL, end_run, p.client), 0);
		if (e) {
			usleep(20000); /* in which it would come to its end if it did not wait */
			ck_assert_int_eq(pthread_tryjoin_np(t, NULL), EBUSY);
			ok(rdma_ack_cm_event(e));
		}
		ck_assert_int_eq(pthread_join(t, NULL), 0);
		p.client = NULL;
		pair_close(&p);
	}
}
END_TEST

struct watch {
	struct rdma_event_channel *ch;
	pid_t tid;
};

static void *event_wait(void *arg)
{
	struct watch *w = arg;
	struct rdma_cm_event *e;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	rdma_get_cm_event(w->ch, &e);
	return NULL;
}

static void watch_start(pthread_t *t, struct watch *w)
{
	ck_assert_int_eq(pthread_create(t, NULL, event_wait, w), 0);
	sleeps_in(&w->tid, SYS_ppoll);
}

/* A thread that waits for an event may be cancelled, and leaves nothing behind (LeakSanitizer). */
START_TEST(wait_cancelled)
{
	struct watch w = { .ch = channel_new() };
	pthread_t t;

	watch_start(&t, &w);
	ck_assert_int_eq(pthread_cancel(t), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	rdma_destroy_event_channel(w.ch);
}
END_TEST

struct call {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	pid_t tid;
};

/* (No assertions in between: they write.) */
static void *event_take(void *arg)
{
	struct call *c = arg;
	struct rdma_cm_event *e;

	__atomic_store_n(&c->tid, gettid(), __ATOMIC_RELEASE);
	return rdma_get_cm_event(c->ch, &e) || rdma_ack_cm_event(e) ? c : NULL;
}

static void *pd_make(void *arg)
{
	struct call *c = arg;
	struct ibv_pd *pd;

	__atomic_store_n(&c->tid, gettid(), __ATOMIC_RELEASE);
	pd = ibv_alloc_pd(c->id->verbs);
	return !pd || ibv_dealloc_pd(pd) ? c : NULL;
}

/* A thread that waits for the daemon's answer is not cancelled there: others use the same connection. */
START_TEST(call_cancelled)
{
	void *(*const calls[])(void *) = { event_take, pd_make };
	pid_t pid = daemon_start();
	struct call c = { .ch = channel_new() };
	pthread_t t;
	void *ret;

	ok(rdma_create_id(c.ch, &c.id, NULL, RDMA_PS_TCP));
	ok(rdma_resolve_addr(c.id, NULL, lo(1), 2000));
	ck_assert_int_eq(poll(&(struct pollfd){ .fd = c.ch->fd, .events = POLLIN }, 1, PATIENCE_MS), 1);
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		c.tid = 0;
		ck_assert_int_eq(kill(pid, SIGSTOP), 0);
		ck_assert_int_eq(pthread_create(&t, NULL, calls[i], &c), 0);
		sleeps_in(&c.tid, SYS_recvmsg);
		ck_assert_int_eq(pthread_cancel(t), 0);
		ck_assert_int_eq(kill(pid, SIGCONT), 0);
		ck_assert_int_eq(pthread_join(t, &ret), 0);
		ck_assert_ptr_null(ret);
	}
	ok(rdma_destroy_id(c.id));
	rdma_destroy_event_channel(c.ch);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

/* A thread that waits for events of it does no harm, and is not woken. */
START_TEST(channel_destroyed)
{
	struct watch w = { .ch = channel_new() };
	struct pair p;
	pthread_t t;

	watch_start(&t, &w);
	rdma_destroy_event_channel(w.ch);
	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p, 1);
	pair_close(&p);
	ck_assert_int_eq(pthread_tryjoin_np(t, NULL), EBUSY);
	ck_assert_int_eq(pthread_cancel(t), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
}
END_TEST

/* The child of a fork has nothing of its parent's, and can have its own. */
START_TEST(forked)
{
	struct pair p;
	int status;
	pid_t pid;

	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p, 1);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct pair own;

		fails(rdma_disconnect(p.client), EIO);
		pair_open(&own, RDMA_PS_TCP);
		ck_assert_ptr_ne(own.client->verbs, p.client->verbs);
		pair_connect(&own, 1);
		message_move(own.client, own.server, 100);
		pair_close(&own);
		pair_close(&p);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	message_move(p.client, p.server, 100);
	pair_close(&p);
}
END_TEST

/* Sanitizers have locks of their own meanwhile, and the thread that accepts wants memory. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

/* A thread of ours that is not this one, the first; 0: there is none. */
static pid_t other_thread(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	pid_t tid = 0;

	ck_assert_ptr_nonnull(d);
	while (!tid && (e = readdir(d)))
		tid = atoi(e->d_name) != getpid() ? atoi(e->d_name) : 0;
	closedir(d);
	return tid;
}

struct rs_call {
	int listen;
	pid_t tid; /* atomic */
};

static void *accept_run(void *arg)
{
	struct rs_call *c = arg;

	__atomic_store_n(&c->tid, gettid(), __ATOMIC_RELEASE);
	return (void *)(intptr_t)raccept(c->listen, NULL, NULL);
}

static void *fork_run(void *arg)
{
	struct rs_call *c = arg;
	pid_t pid;

	__atomic_store_n(&c->tid, gettid(), __ATOMIC_RELEASE);
	pid = fork();
	if (!pid)
		_exit(0);
	return (void *)(intptr_t)(waitpid(pid, NULL, 0) == pid);
}

/* A request has come, and the daemon stops before the library's thread takes it. */
static int stopped_with_request(const struct rs_call *a, pid_t daemon)
{
	for (int i = 0; i < PATIENCE_MS; i++) {
		int client = rs_open();

		ok(rfcntl(client, F_SETFL, O_NONBLOCK));
		fails(rconnect(client, lo(rs_port(a->listen)), sizeof(struct sockaddr_in)), EINPROGRESS);
		rs_ready(a->listen, POLLIN);
		ck_assert_int_eq(kill(daemon, SIGSTOP), 0);
		while (proc_state(daemon) != 'T')
			usleep(1000); /* the test has a limit of time */
		if (poll(&(struct pollfd){ a->listen, POLLIN, 0 }, 1, 0) == 1)
			return client;
		ck_assert_int_eq(kill(daemon, SIGCONT), 0);
		ok(rclose(raccept(a->listen, NULL, NULL)));
		ok(rclose(client));
	}
	ck_abort_msg("it is always taken");
}

/*
 * One thread forks, one accepts, and that of the library is to keep the listener alive, or to accept, which has to wait for the second,
 * or that for it, as the first for the third.  The daemon is slow meanwhile.
 */
START_TEST(rs_fork_accepting)
{
	const int idle = 1, on = 1;
	pid_t daemon = daemon_start(), svc;
	struct rs_call a = { .listen = rs_open() }, f = { .tid = 0 };
	pthread_t accepts, forks;
	int client;
	void *ret;

	ok(rbind(a.listen, lo(0), sizeof(struct sockaddr_in)));
	ok(rlisten(a.listen, 4));
	ok(rsetsockopt(a.listen, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)));
	ok(rsetsockopt(a.listen, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
	svc = other_thread();
	client = stopped_with_request(&a, daemon);
	ck_assert_int_eq(pthread_create(&accepts, NULL, accept_run, &a), 0);
	sleep_in(&a.tid, &svc, SYS_recvmsg, SYS_futex);
	ck_assert_int_eq(pthread_create(&forks, NULL, fork_run, &f), 0);
	sleeps_in(&f.tid, SYS_futex);
	ck_assert_int_eq(kill(daemon, SIGCONT), 0);
	ck_assert_int_eq(pthread_join(accepts, &ret), 0);
	ck_assert_int_ge((intptr_t)ret, 0);
	ok(rclose((int)(intptr_t)ret));
	ck_assert_int_eq(pthread_join(forks, &ret), 0);
	ck_assert_ptr_nonnull(ret);
	ok(rclose(client));
	ok(rclose(a.listen));
	ck_assert_int_eq(kill(daemon, SIGTERM), 0);
	ck_assert_int_eq(waitpid(daemon, NULL, 0), daemon);
}
END_TEST

#endif

void api_end(Suite *s)
{
	SUITE_ADD(s, peer_killed, daemon_killed, rs_daemon_killed, removal_ordered, wait_cancelled, call_cancelled,
		  channel_destroyed, forked);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
	SUITE_ADD(s, rs_fork_accepting);
#endif
}
