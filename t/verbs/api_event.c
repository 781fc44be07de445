/* SPDX-License-Identifier: MIT */
/* api_event.c - completion and async events of objects that end, and who waits for their ack. */
#include "scene.h"
#include "t/unseen.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/mail.h>
#include <rdmad/msg.h>

/* ---- acks -------------------------------------------------------------------------------- */

struct late {
	struct ibv_cq *cq;
	struct ibv_async_event *ev;
	int acked; /* atomic */
};

static void *ack_late(void *arg)
{
	struct late *l = arg;

	usleep(100000);
	__atomic_store_n(&l->acked, 1, __ATOMIC_RELEASE);
	if (l->cq)
		ibv_ack_cq_events(l->cq, 1);
	else
		ibv_ack_async_event(l->ev);
	return NULL;
}

/* Destroying a CQ returns only after its events were acknowledged. */
START_TEST(ack_cq)
{
	struct scene s;
	struct late l = { 0 };
	struct ibv_cq *cq;
	pthread_t t;
	void *context;

	scene_open(&s);
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 0), 0);
	send_one(&s, 0);
	ck_assert_int_eq(ibv_get_cq_event(s.ch, &cq, &context), 0);
	ck_assert_int_eq(ibv_destroy_qp(s.a), 0);
	ck_assert_int_eq(ibv_destroy_qp(s.b), 0);
	l.cq = cq;
	ck_assert_int_eq(pthread_create(&t, NULL, ack_late, &l), 0);
	ck_assert_int_eq(ibv_destroy_cq(s.rcq), 0);
	ck_assert_int_eq(__atomic_load_n(&l.acked, __ATOMIC_ACQUIRE), 1);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(s.ch), 0);
	fix_close(&s.f);
}
END_TEST

/* An event whose CQ was destroyed before it was read goes with it; those of others stay, and come once. */
START_TEST(stale)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 } };
	struct ibv_cq *cq, *other;
	struct ibv_qp *peer, *qp;
	struct scene s;
	void *context;

	scene_open(&s);
	other = ibv_create_cq(s.f.ctx, 64, &other, s.ch, 0);
	ck_assert_ptr_nonnull(other);
	init.send_cq = init.recv_cq = other;
	peer = fix_qp(&s.f, IBV_QPT_RC, 16, NULL);
	qp = ibv_create_qp(s.f.pd, &init);
	ck_assert_ptr_nonnull(qp);
	fix_connect(&s.f, peer, qp);
	for (unsigned i = 0; i < 3; i++) { /* of s.rcq the first and the third */
		ck_assert_int_eq(ibv_req_notify_cq(i == 1 ? other : s.rcq, 0), 0);
		ck_assert(i != 1 || !fix_recv(&s.f, qp, i, 4096, 64));
		ck_assert_int_eq(fix_send(&s.f, i == 1 ? peer : s.a, 1, 0, 32, IBV_SEND_SIGNALED), 0);
		fix_wait_ok(s.f.cq);
		fix_wait_ok(i == 1 ? other : s.rcq);
	}
	ck_assert_int_eq(ibv_destroy_qp(s.a), 0);
	ck_assert_int_eq(ibv_destroy_qp(s.b), 0);
	ck_assert_int_eq(ibv_destroy_cq(s.rcq), 0);
	ck_assert(readable(s.ch->fd, 10000));
	ck_assert_int_eq(ibv_get_cq_event(s.ch, &cq, &context), 0);
	ck_assert(cq == other && context == &other);
	ibv_ack_cq_events(other, 1);
	ck_assert(!readable(s.ch->fd, 0));
	ck_assert_int_eq(ibv_req_notify_cq(other, 0), 0);
	ck_assert_int_eq(fix_recv(&s.f, qp, 9, 4096, 64), 0);
	ck_assert_int_eq(fix_state(qp, IBV_QPS_ERR), 0);
	ck_assert(readable(s.ch->fd, 10000));
	fix_pair_end(peer, qp);
	ck_assert_int_eq(ibv_destroy_cq(other), 0);
	ck_assert(!readable(s.ch->fd, 0));
	ck_assert_int_eq(ibv_destroy_comp_channel(s.ch), 0);
	fix_close(&s.f);
}
END_TEST

/* The same of async events; those of others stay, in their order, and a thread that waits for one gets it. */
static void *async_get(void *arg)
{
	struct fix *f = arg;
	struct ibv_async_event *ev = calloc(1, sizeof(*ev));

	ck_assert(ev && !ibv_get_async_event(f->ctx, ev));
	return ev;
}

static void qp_drained(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 }, got;
	struct ibv_qp_init_attr init;

	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	ck_assert_int_eq(ibv_query_qp(qp, &got, IBV_QP_STATE, &init), 0);
}

static void drained_event(struct fix *f, struct ibv_qp *of)
{
	struct ibv_async_event ev;

	ck_assert(readable(f->ctx->async_fd, 10000));
	ck_assert_int_eq(ibv_get_async_event(f->ctx, &ev), 0);
	ck_assert(ev.event_type == IBV_EVENT_SQ_DRAINED && ev.element.qp == of);
	ibv_ack_async_event(&ev);
}

#define CQS 64u /* a channel holds as many events */

static uint32_t last_seq; /* of the requests by the socket */

/* In place of libc's, for the library, too. */
ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	const struct msg_req *req = m->msg_iov->iov_base;

	last_seq = m->msg_iov->iov_len >= offsetof(struct msg_req, hello) ? req->seq : last_seq;
	return syscall(SYS_sendmsg, fd, m, flags);
}

/* So many requests there were so far, by the socket or by the mailbox. */
static uint32_t requests(void)
{
	const struct mail *m = fix_mail();
	uint32_t seq = m ? ((const struct msg_req *)m->req)->seq : 0;

	return seq > last_seq ? seq : last_seq;
}

/* CQs of one channel, each with an event. */
struct crowd {
	struct fix f;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq[CQS];
};

static void crowd_open(struct crowd *c)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp *peer, *qp;

	last_seq = 0;
	fix_open(&c->f);
	c->ch = ibv_create_comp_channel(c->f.ctx);
	ck_assert_ptr_nonnull(c->ch);
	init.send_cq = c->f.cq;
	for (unsigned i = 0; i < CQS; i++) {
		c->cq[i] = init.recv_cq = ibv_create_cq(c->f.ctx, 4, c, c->ch, 0);
		ck_assert_ptr_nonnull(c->cq[i]);
		peer = fix_qp(&c->f, IBV_QPT_RC, 1, NULL);
		qp = ibv_create_qp(c->f.pd, &init);
		ck_assert_ptr_nonnull(qp);
		fix_connect(&c->f, peer, qp);
		ck_assert_int_eq(ibv_req_notify_cq(c->cq[i], 0), 0);
		ck_assert_int_eq(fix_recv(&c->f, qp, i, 4096, 64), 0);
		ck_assert_int_eq(fix_send(&c->f, peer, i, 0, 32, IBV_SEND_SIGNALED), 0);
		fix_wait_ok(c->f.cq);
		fix_wait_ok(c->cq[i]);
		fix_pair_end(peer, qp);
	}
}

static void crowd_close(struct crowd *c)
{
	ck_assert(!readable(c->ch->fd, 0));
	ck_assert_int_eq(ibv_destroy_comp_channel(c->ch), 0);
	fix_close(&c->f);
}

/* It takes one request each, in any order. */
START_TEST(stale_crowd)
{
	struct crowd c;
	uint32_t before;

	for (unsigned way = 0; way < 3; way++) {
		crowd_open(&c);
		before = requests();
		for (unsigned i = 0; i < CQS; i++) {
			ck_assert(readable(c.ch->fd, 0));
			ck_assert_int_eq(ibv_destroy_cq(c.cq[way == 2 ? i * 37 % CQS : way ? CQS - 1 - i : i]), 0);
		}
		ck_assert_uint_eq(requests() - before, CQS);
		crowd_close(&c);
	}
}
END_TEST

/* Of two neighbours the first has its event, the second is gone. */
START_TEST(stale_between)
{
	struct ibv_cq *cq;
	struct crowd c;
	uint32_t before;
	void *context;

	crowd_open(&c);
	for (unsigned i = 1; i < CQS; i += 2)
		ck_assert_int_eq(ibv_destroy_cq(c.cq[i]), 0);
	before = requests();
	for (unsigned i = 0; i < CQS; i += 2) {
		ck_assert(readable(c.ch->fd, 0));
		ck_assert_int_eq(ibv_get_cq_event(c.ch, &cq, &context), 0);
		ck_assert(cq == c.cq[i] && context == &c);
		ibv_ack_cq_events(cq, 1);
	}
	ck_assert(!readable(c.ch->fd, 0));
	ck_assert_uint_eq(requests(), before);
	for (unsigned i = 0; i < CQS; i += 2)
		ck_assert_int_eq(ibv_destroy_cq(c.cq[i]), 0);
	crowd_close(&c);
}
END_TEST

START_TEST(stale_async)
{
	struct ibv_async_event *ev;
	struct ibv_qp *a, *b, *c, *d;
	struct fix f;
	pthread_t t;
	void *got;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	fix_pair(&f, &c, &d);
	qp_drained(a);
	ck_assert(readable(f.ctx->async_fd, 10000));
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert(!readable(f.ctx->async_fd, 0));
	qp_drained(b);
	qp_drained(c);
	qp_drained(d);
	ck_assert(readable(f.ctx->async_fd, 10000));
	ck_assert_int_eq(ibv_destroy_qp(c), 0);
	drained_event(&f, b);
	drained_event(&f, d);
	ck_assert(!readable(f.ctx->async_fd, 0));
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	ck_assert_int_eq(ibv_destroy_qp(d), 0);
	fix_pair(&f, &a, &b);
	ck_assert_int_eq(pthread_create(&t, NULL, async_get, &f), 0);
	qp_drained(a);
	ck_assert_int_eq(pthread_join(t, &got), 0);
	ev = got;
	ck_assert_ptr_eq(ev->element.qp, a);
	ibv_ack_async_event(ev);
	free(ev);
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

START_TEST(srq_limit)
{
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 32, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 5 }, got;
	struct ibv_async_event ev;
	struct late l = { .ev = &ev };
	struct ibv_qp *a, *b;
	struct ibv_srq *srq;
	struct fix f;
	pthread_t t;

	fix_open(&f);
	srq = ibv_create_srq(f.pd, &si);
	ck_assert(srq && si.attr.max_wr >= 32);
	a = fix_qp(&f, IBV_QPT_RC, 16, NULL);
	b = fix_qp(&f, IBV_QPT_RC, 16, srq);
	fix_connect(&f, a, b);
	ck_assert_int_eq(fix_recv(&f, b, 1, 0, 8), EINVAL); /* it has no queue of its own */
	for (unsigned i = 0; i < 8; i++) {
		struct ibv_sge sge = { (uintptr_t)f.buf + 4096, 64, f.mr->lkey };
		struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	/* Receives posted before count. */
	ck_assert_int_eq(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	ck_assert_int_eq(fix_send(&f, a, 100, 0, 64, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(f.cq);
	fix_wait_ok(f.cq);
	ck_assert_int_eq(ibv_query_srq(srq, &got), 0);
	ck_assert_uint_eq(got.srq_limit, 5);
	ck_assert(!readable(f.ctx->async_fd, 0));
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(fix_send(&f, a, 101, 0, 64, IBV_SEND_SIGNALED), 0);
		fix_wait_ok(f.cq);
		fix_wait_ok(f.cq);
	}
	ck_assert_int_eq(ibv_get_async_event(f.ctx, &ev), 0);
	ck_assert_int_eq(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	ck_assert_ptr_eq(ev.element.srq, srq);
	ck_assert_int_eq(ibv_destroy_srq(srq), EBUSY);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, ack_late, &l), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(__atomic_load_n(&l.acked, __ATOMIC_ACQUIRE), 1);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	fix_close(&f);
}
END_TEST

/* ---- a daemon that dies ------------------------------------------------------------------- */

/* A second daemon of our own. */
static pid_t daemon_start(void)
{
	char name[64];
	pid_t pid;

	snprintf(name, sizeof(name), "@rdmad-test.%d", (int)getpid());
	ck_assert_int_eq(setenv("RDMAD_SOCKET", name, 1), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		execl("./rdmad", "rdmad", "--private", "--socket", name, "--log-level", "error", NULL);
		_exit(127);
	}
	for (int i = 0; i < PATIENCE_S * 100; i++) {
		struct ibv_device **list = ibv_get_device_list(NULL);

		if (list) {
			ibv_free_device_list(list);
			return pid;
		}
		ck_assert_int_eq(errno, ENOSYS);
		usleep(10000);
	}
	ck_abort_msg("the daemon does not listen");
}

/* Everyone who waits gets an error, and everything can be destroyed. */
START_TEST(daemon_gone)
{
	pid_t pid = daemon_start();
	time_t end = time(NULL) + PATIENCE_S;
	struct ibv_async_event ev;
	struct scene s;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int n;

	scene_open(&s);
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 0), 0);
	send_one(&s, 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	/* Events from before are still there. */
	fix_wait_ok(s.rcq);
	ck_assert_int_eq(ibv_get_cq_event(s.ch, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	while (!(n = ibv_poll_cq(s.f.cq, 1, &wc)))
		ck_assert_msg(time(NULL) <= end, "no error from an empty CQ");
	ck_assert_int_lt(n, 0);
	errno = 0;
	ck_assert_int_eq(ibv_get_cq_event(s.ch, &cq, &context), -1);
	ck_assert_int_eq(errno, EIO);
	ck_assert_int_eq(ibv_get_async_event(s.f.ctx, &ev), 0);
	ck_assert_int_eq(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&ev);
	ck_assert_int_eq(ibv_get_async_event(s.f.ctx, &ev), -1);
	ck_assert_ptr_eq(ibv_alloc_pd(s.f.ctx), NULL);
	ck_assert_int_eq(errno, EIO);
	scene_close(&s);
}
END_TEST

/*
 * A channel or device that is destroyed is gone from epoll(7), without a last event: who hears of it would look for an event of what
 * is no more.
 */
START_TEST(unseen)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	struct unseen u;

	unseen_begin(&u);
	for (unsigned i = 0; i < 200; i++) {
		struct ibv_comp_channel *ch;

		ctx = ibv_open_device(list[0]);
		ck_assert_ptr_nonnull(ctx);
		ch = ibv_create_comp_channel(ctx);
		ck_assert_ptr_nonnull(ch);
		unseen_add(&u, ch->fd);
		unseen_add(&u, ctx->async_fd);
		ck_assert_int_eq(ibv_destroy_comp_channel(ch), 0);
		ck_assert_int_eq(ibv_close_device(ctx), 0);
	}
	ck_assert_uint_eq(unseen_end(&u), 0);
	ibv_free_device_list(list);
}
END_TEST

void api_event(Suite *s)
{
	SUITE_ADD(s, unseen, ack_cq, stale, stale_crowd, stale_between, stale_async, srq_limit, daemon_gone);
}
