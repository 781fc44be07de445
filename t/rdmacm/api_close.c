/* SPDX-License-Identifier: MIT */
/*
 * api_close.c - the end of rsockets: of such whose peer takes nothing any more, of such that are told late what went wrong, of such
 * that a process leaves open; and of event channels.
 */
#include "streams.h"
#include "t/unseen.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* As rdma-core says it (frame 1 of t/data/rsocket.pcap). */
static const uint8_t hello[40] = {
	0x01, 0x02, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x55, 0x6a, 0x2c, 0x5a,
	0xf0, 0x00, 0x00, 0x00, 0x20, 0x5b, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x7f, 0x8d,
	0xdd, 0x7f, 0x70, 0x00, 0x00, 0x00, 0x21, 0x4d, 0x00, 0x08, 0x00, 0x00,
};

/* A peer that connects, and has no receive for anything that it is sent. */
struct mute {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	int listen, server;
};

static void mute_begin(struct mute *m)
{
	m->listen = rs_open();
	ok(rbind(m->listen, lo(0), sizeof(struct sockaddr_in)));
	ok(rlisten(m->listen, 1));
	m->ch = channel_new();
	ok(rdma_create_id(m->ch, &m->id, NULL, RDMA_PS_TCP));
	ok(rdma_resolve_addr(m->id, NULL, lo(rs_port(m->listen)), 2000));
	event_eat(m->ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_resolve_route(m->id, 2000));
	event_eat(m->ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void mute_open(struct mute *m)
{
	struct rdma_conn_param p = {
		.private_data = hello, .private_data_len = sizeof(hello), .retry_count = 7, .rnr_retry_count = 7
	};
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);

	mute_begin(m);
	ok(rdma_create_qp(m->id, NULL, &a));
	ok(rdma_connect(m->id, &p));
	m->server = raccept(m->listen, NULL, NULL);
	ck_assert_int_ge(m->server, 0);
	event_eat(m->ch, RDMA_CM_EVENT_ESTABLISHED);
}

static void mute_close(struct mute *m)
{
	rdma_destroy_qp(m->id);
	ok(rdma_destroy_id(m->id));
	rdma_destroy_event_channel(m->ch);
	ok(rclose(m->listen));
}

static void lingers(int fd, int seconds)
{
	struct linger l = { 1, seconds };

	ok(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
}

static double seconds_of(int (*call)(int fd), int fd)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	ok(call(fd));
	clock_gettime(CLOCK_MONOTONIC, &b);
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

static int shut_write(int fd) { return rshutdown(fd, SHUT_WR); }

START_TEST(rs_close_mute)
{
	struct mute m;
	double s;

	mute_open(&m);
	s = seconds_of(rclose, m.server);
	ck_assert_msg(s > 5 && s < 40, "%f s", s);
	mute_close(&m);
}
END_TEST

START_TEST(rs_shutdown_mute)
{
	struct mute m;
	double s;

	mute_open(&m);
	s = seconds_of(shut_write, m.server);
	ck_assert_msg(s > 5 && s < 40, "%f s", s);
	ok(rclose(m.server));
	mute_close(&m);
}
END_TEST

START_TEST(rs_linger)
{
	struct mute m;
	double s;

	mute_open(&m);
	lingers(m.server, 1);
	s = seconds_of(rclose, m.server);
	ck_assert_msg(s > 0.9 && s < 8, "%f s", s);
	mute_close(&m);
}
END_TEST

/* At once, and the peer sees no end as of a stream that is closed. */
START_TEST(rs_linger_none)
{
	struct streams s;
	struct mute m;
	char c;

	mute_open(&m);
	lingers(m.server, 0);
	ck_assert(seconds_of(rclose, m.server) < 8);
	mute_close(&m);
	streams_open(&s, 0);
	lingers(s.client, 0);
	ok(rclose(s.client));
	s.client = -1;
	fails((int)rrecv(s.server, &c, 1, 0), ECONNRESET);
	streams_close(&s);
}
END_TEST

/* A peer that says something and is gone: first what it said is told, then that it is gone. */
START_TEST(rs_reset_late)
{
	int listen = rs_open(), server;
	char buf[5];
	uint16_t port;
	pid_t pid;

	ok(rbind(listen, lo(0), sizeof(struct sockaddr_in)));
	port = rs_port(listen);
	pid = fork();
	if (!pid) {
		int fd = rs_open();

		ok(rconnect(fd, lo(port), sizeof(struct sockaddr_in)));
		ck_assert_int_eq(rsend(fd, "ab", 2, 0), 2);
		for (;;)
			pause();
	}
	ok(rlisten(listen, 1));
	server = raccept(listen, NULL, NULL);
	ck_assert_int_ge(server, 0);
	rs_ready(server, POLLIN);
	ok(kill(pid, SIGKILL));
	ck_assert_int_eq(rrecv(server, buf, sizeof(buf), MSG_WAITALL), 2);
	fails((int)rrecv(server, buf, sizeof(buf), MSG_WAITALL), ECONNRESET);
	ck_assert_int_eq(rrecv(server, buf, sizeof(buf), 0), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ok(rclose(server));
	ok(rclose(listen));
}
END_TEST

/* A message of no bytes, 384 of which may follow. */
static void credits_tell(struct ibv_qp *qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(0x80000180) }, *bad;

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
}

/* A peer whose QP is not its id's, and that has the answer to its request: no RTU is sent before it says so. */
struct raw {
	struct mute m;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void raw_open(struct raw *r)
{
	struct rdma_conn_param p = { .private_data = hello, .private_data_len = sizeof(hello), .retry_count = 7 };
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);

	mute_begin(&r->m);
	r->cq = ibv_create_cq(r->m.id->verbs, 32, NULL, NULL, 0);
	a.send_cq = a.recv_cq = r->cq;
	r->qp = ibv_create_qp(r->m.id->pd, &a);
	ck_assert_ptr_nonnull(r->qp);
	p.qp_num = r->qp->qp_num;
	ok(rdma_connect(r->m.id, &p));
	r->m.server = raccept(r->m.listen, NULL, NULL);
	ck_assert_int_ge(r->m.server, 0);
	event_eat(r->m.ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
}

static void raw_close(struct raw *r)
{
	ok(rclose(r->m.server));
	ibv_destroy_qp(r->qp);
	ibv_destroy_cq(r->cq);
	mute_close(&r->m);
}

/* The peer's RTU never comes, but a message; what it says then of the connection's beginning is too late. */
START_TEST(rs_rejected_late)
{
	struct sockaddr_in name;
	socklen_t len = sizeof(name);
	struct pollfd channel;
	struct raw r;

	raw_open(&r);
	qp_to(r.m.id, r.qp, IBV_QPS_INIT);
	qp_to(r.m.id, r.qp, IBV_QPS_RTR);
	qp_to(r.m.id, r.qp, IBV_QPS_RTS);
	credits_tell(r.qp);
	rs_ready(r.m.server, POLLOUT);
	ok(rdma_reject(r.m.id, NULL, 0));
	channel = (struct pollfd){ .fd = r.m.server, .events = POLLIN };
	ck_assert_int_eq(poll(&channel, 1, PATIENCE_MS), 1);
	rpoll(&channel, 1, 0);
	ok(rgetpeername(r.m.server, (struct sockaddr *)&name, &len));
	raw_close(&r);
}
END_TEST

/* Of a process that exits: of the locks that it looks at, those from one try to another are taken by other threads. */
static struct {
	bool on;
	int tries, from, to;
	void (*then)(int k);
} taken;

int pthread_mutex_trylock(pthread_mutex_t *m)
{
	__typeof__(pthread_mutex_trylock) *real;
	int k = taken.on ? taken.tries++ : -1;

	if (k >= 0 && taken.then)
		taken.then(k);
	if (k >= taken.from && k < taken.to)
		return EBUSY;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
	return real(m);
}

static int exiting_fd;

/*
 * A client that sends two bytes and exits.  It is forked before there is a listener, whose thread might be in AddressSanitizer's
 * allocator then: that has no handlers of fork(), and looks for leaks at exit().
 */
static pid_t exiting_fork(uint16_t port, int from, int to)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	exiting_fd = rs_open();
	ok(rconnect(exiting_fd, lo(port), sizeof(struct sockaddr_in)));
	ck_assert_int_eq(rsend(exiting_fd, "ab", 2, 0), 2);
	taken.from = from;
	taken.to = to;
	taken.on = true;
	exit(0);
}

/* The table's lock, and that of its own socket; its parent's is no concern of it. */
START_TEST(rs_exit_taken)
{
	char buf[5];

	for (int i = 0; i < 2; i++) {
		int listen = rs_open(), server;
		pid_t pid;

		ok(rbind(listen, lo(0), sizeof(struct sockaddr_in)));
		pid = exiting_fork(rs_port(listen), i, i + 1);
		ok(rlisten(listen, 1));
		server = raccept(listen, NULL, NULL);
		ck_assert_int_ge(server, 0);
		ck_assert_int_eq(rrecv(server, buf, sizeof(buf), MSG_WAITALL), 2);
		ck_assert_int_eq(rrecv(server, buf, sizeof(buf), 0), 0);
		ok(rclose(server));
		ok(rclose(listen));
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	}
}
END_TEST

/* Before the table's lock is tried the second time: the end is said. */
static void send_late(int k)
{
	if (k == 2 && (rsend(exiting_fd, "c", 1, MSG_DONTWAIT) != -1 || errno != EAGAIN))
		_exit(1);
}

/* Behind the end nothing is sent, and nobody is told that it is there: that would be SIGPIPE, by rspreload. */
START_TEST(rs_exit_sending)
{
	int listen = rs_open(), server, status;
	char buf[5];
	pid_t pid;

	ok(rbind(listen, lo(0), sizeof(struct sockaddr_in)));
	taken.then = send_late;
	pid = exiting_fork(rs_port(listen), 0, 0);
	ok(rlisten(listen, 1));
	server = raccept(listen, NULL, NULL);
	ck_assert_int_ge(server, 0);
	ck_assert_int_eq(rrecv(server, buf, sizeof(buf), MSG_WAITALL), 2);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ok(rclose(server));
	ok(rclose(listen));
}
END_TEST

static int pid_wait(int pid) { return waitpid(pid, NULL, 0) != pid; }

/* A lock that is never let go: the thread that has it was stopped by the signal whose handler exits. */
START_TEST(rs_exit_locked)
{
	int listen = rs_open(), server;
	pid_t pid;

	ok(rbind(listen, lo(0), sizeof(struct sockaddr_in)));
	pid = exiting_fork(rs_port(listen), 0, INT_MAX);
	ok(rlisten(listen, 1));
	server = raccept(listen, NULL, NULL);
	ck_assert_int_ge(server, 0);
	ck_assert(seconds_of(pid_wait, pid) < 8);
	ok(rclose(server));
	ok(rclose(listen));
}
END_TEST

/* A kernel's channel is no socket: nfs-ganesha shuts its one down with each connection that ends, and goes on. */
START_TEST(channel_shut)
{
	struct rdma_event_channel *ch = channel_new();
	struct rdma_cm_id *id;

	ck_assert_int_eq(shutdown(ch->fd, SHUT_RDWR), -1);
	ck_assert_int_eq(errno, ENOTSOCK);
	ok(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	ok(rdma_resolve_addr(id, NULL, lo(7), 2000));
	event_eat(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}
END_TEST

/* A channel that is destroyed is gone from epoll(7), without a last event. */
START_TEST(channel_unseen)
{
	struct unseen u;

	unseen_begin(&u);
	for (unsigned i = 0; i < 200; i++) {
		struct rdma_event_channel *ch = channel_new();

		unseen_add(&u, ch->fd);
		rdma_destroy_event_channel(ch);
	}
	ck_assert_uint_eq(unseen_end(&u), 0);
}
END_TEST

void api_close(Suite *s)
{
	SUITE_ADD(s, channel_shut, channel_unseen, rs_close_mute, rs_shutdown_mute, rs_linger, rs_linger_none,
		  rs_reset_late, rs_rejected_late, rs_exit_taken, rs_exit_sending, rs_exit_locked);
}
