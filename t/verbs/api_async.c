/* SPDX-License-Identifier: MIT */
/* api_async.c - each async event is told, to whom it concerns; and completion events under moderation. */
#include "scene.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000

/* The next event, which must be this one. */
static struct ibv_async_event event(struct fix *f, enum ibv_event_type type)
{
	struct ibv_async_event ev;

	ck_assert_msg(readable(f->ctx->async_fd, 10 * SECOND), "no event within 10 s: wanted %s",
		      ibv_event_type_str(type));
	ck_assert_int_eq(ibv_get_async_event(f->ctx, &ev), 0);
	ibv_ack_async_event(&ev);
	ck_assert_msg(ev.event_type == type, "%s instead of %s", ibv_event_type_str(ev.event_type),
		      ibv_event_type_str(type));
	return ev;
}

static void silence(struct fix *f) { ck_assert(!readable(f->ctx->async_fd, 0)); }

static enum ibv_wc_status write_to(struct fix *f, struct ibv_qp *qp, uint32_t rkey, uint64_t remote)
{
	struct ibv_sge sge = { .addr = (uintptr_t)f->buf, .length = 16, .lkey = f->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { .rkey = rkey, .remote_addr = remote } };

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
	return fix_wait(f->cq).status;
}

/* ---- of a QP ----------------------------------------------------------------------------- */

START_TEST(comm_est) /* conf: rule 4.14 */
{
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	a = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	b = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	fix_init(a);
	fix_init(b);
	fix_rtr(&f, a, b);
	fix_rtr(&f, b, a);
	fix_rts(a);
	ck_assert_int_eq(fix_recv(&f, b, 1, 4096, 64), 0);
	ck_assert_int_eq(fix_send(&f, a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	ck_assert_ptr_eq(event(&f, IBV_EVENT_COMM_EST).element.qp, b);
	fix_wait_ok(f.cq);
	fix_wait_ok(f.cq);
	fix_rts(b);
	ck_assert_int_eq(fix_recv(&f, b, 1, 4096, 64), 0);
	ck_assert_int_eq(fix_send(&f, a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(f.cq);
	fix_wait_ok(f.cq);
	silence(&f);
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

START_TEST(drained) /* conf: rule 4.14 */
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 }, got;
	struct ibv_qp_init_attr init;
	struct ibv_qp *a, *b, *c, *d;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	fix_pair(&f, &c, &d);
	ck_assert_int_eq(fix_send(&f, a, 2, 0, 64, IBV_SEND_SIGNALED), 0); /* nobody receives it yet: it goes on */
	/* It has begun when what was posted after it is done: one that has not waits for the end of SQD. */
	ck_assert_int_eq(fix_recv(&f, d, 3, 4096, 64), 0);
	ck_assert_int_eq(fix_send(&f, c, 4, 0, 64, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(f.cq);
	fix_wait_ok(f.cq);
	ck_assert_int_eq(ibv_modify_qp(a, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	ck_assert_int_eq(ibv_query_qp(a, &got, IBV_QP_STATE, &init), 0);
	ck_assert(got.qp_state == IBV_QPS_SQD);
	ck_assert_int_eq(fix_recv(&f, b, 1, 4096, 64), 0);
	fix_wait_ok(f.cq);
	fix_wait_ok(f.cq);
	ck_assert_ptr_eq(event(&f, IBV_EVENT_SQ_DRAINED).element.qp, a);
	ck_assert_int_eq(ibv_query_qp(a, &got, IBV_QP_STATE, &init), 0);
	ck_assert(!got.sq_draining && init.qp_type == IBV_QPT_RC && init.send_cq == f.cq && init.cap.max_send_wr >= 4);
	silence(&f);
	fix_pair_end(a, b);
	fix_pair_end(c, d);
	fix_close(&f);
}
END_TEST

START_TEST(last_wqe) /* conf: rule 4.14 */
{
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq;
	struct ibv_qp *a;
	struct fix f;

	fix_open(&f);
	srq = ibv_create_srq(f.pd, &si);
	a = fix_qp(&f, IBV_QPT_RC, 4, srq);
	fix_init(a);
	fix_rtr(&f, a, a);
	fix_rts(a);
	ck_assert_int_eq(fix_state(a, IBV_QPS_ERR), 0);
	ck_assert_ptr_eq(event(&f, IBV_EVENT_QP_LAST_WQE_REACHED).element.qp, a);
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	fix_close(&f);
}
END_TEST

/* The responder's QP: what was asked of it was not its to give (ACCESS), or made no sense (REQ). */
START_TEST(refusals)
{
	struct ibv_qp_attr no_write = { .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	ck_assert_int_eq(write_to(&f, a, f.mr->rkey ^ 1, (uintptr_t)f.buf), IBV_WC_REM_ACCESS_ERR);
	ck_assert_ptr_eq(event(&f, IBV_EVENT_QP_ACCESS_ERR).element.qp, b);
	ck_assert_int_eq(fix_state(a, IBV_QPS_RESET), 0);
	ck_assert_int_eq(fix_state(b, IBV_QPS_RESET), 0);
	fix_connect(&f, a, b);
	ck_assert_int_eq(ibv_modify_qp(b, &no_write, IBV_QP_ACCESS_FLAGS), 0);
	ck_assert_int_eq(write_to(&f, a, f.mr->rkey, (uintptr_t)f.buf), IBV_WC_REM_INV_REQ_ERR);
	ck_assert_ptr_eq(event(&f, IBV_EVENT_QP_REQ_ERR).element.qp, b);
	silence(&f);
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

/* More completions than a CQ holds: it is in error, and so are its QPs. */
START_TEST(overrun)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 16, 1, 1, 1, 0 } };
	struct ibv_async_event first, second;
	struct ibv_qp_attr got;
	struct ibv_cq *small;
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	small = ibv_create_cq(f.ctx, 4, NULL, NULL, 0);
	ck_assert(small && small->cqe < 16);
	init.send_cq = init.recv_cq = small;
	a = ibv_create_qp(f.pd, &init);
	b = fix_qp(&f, IBV_QPT_RC, 16, NULL);
	fix_connect(&f, a, b);
	for (unsigned i = 0; i < 16; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)f.buf, .length = 16, .lkey = f.mr->lkey };
		struct ibv_send_wr *bad,
			wr = { .sg_list = &sge,
			       .num_sge = 1,
			       .opcode = IBV_WR_RDMA_WRITE,
			       .send_flags = IBV_SEND_SIGNALED,
			       .wr.rdma = { .rkey = f.mr->rkey, .remote_addr = (uintptr_t)f.buf + 4096 } };
		int err = ibv_post_send(a, &wr, &bad);

		ck_assert(!err || err == EINVAL); /* EINVAL: it is in error already */
	}
	ck_assert(readable(f.ctx->async_fd, 10 * SECOND));
	ck_assert_int_eq(ibv_get_async_event(f.ctx, &first), 0);
	ck_assert(readable(f.ctx->async_fd, 10 * SECOND));
	ck_assert_int_eq(ibv_get_async_event(f.ctx, &second), 0);
	if (first.event_type != IBV_EVENT_CQ_ERR) {
		struct ibv_async_event t = first;

		first = second;
		second = t;
	}
	ck_assert(first.event_type == IBV_EVENT_CQ_ERR && first.element.cq == small);
	ck_assert(second.event_type == IBV_EVENT_QP_FATAL && second.element.qp == a);
	ibv_ack_async_event(&first);
	ibv_ack_async_event(&second);
	ck_assert_int_eq(ibv_query_qp(a, &got, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(got.qp_state, IBV_QPS_ERR);
	fix_pair_end(a, b);
	ck_assert_int_eq(ibv_destroy_cq(small), 0);
	fix_close(&f);
}
END_TEST

/* ---- of the port -------------------------------------------------------------------------- */

/* The state that the port gets to; events of addresses that come and go with it are passed over. */
static void port_becomes(struct fix *f, enum ibv_event_type type, enum ibv_port_state state)
{
	struct ibv_async_event ev;
	struct ibv_port_attr port;

	do {
		ck_assert_msg(readable(f->ctx->async_fd, 10 * SECOND), "no %s within 10 s", ibv_event_type_str(type));
		ck_assert_int_eq(ibv_get_async_event(f->ctx, &ev), 0);
		ibv_ack_async_event(&ev);
		ck_assert(ev.event_type == type || ev.event_type == IBV_EVENT_GID_CHANGE);
		ck_assert_int_eq(ev.element.port_num, 1);
	} while (ev.event_type != type);
	ck_assert_int_eq(ibv_query_port(f->ctx, 1, &port), 0);
	ck_assert_int_eq(port.state, state);
	ck_assert_int_eq(port.phys_state, state == IBV_PORT_ACTIVE ? 5 : 2);
}

/* Only where the interface is ours to play with: in the namespace that api.test makes. */
START_TEST(port) /* conf: rule 1.3 */
{
	union ibv_gid gid, want = { .raw = { [10] = 0xff, 0xff, 127, 0, 0, 77 } };
	struct ibv_async_event ev;
	struct fix f;
	int row = -1;

	fix_open(&f);
	silence(&f);
	ck_assert_int_eq(system("LD_PRELOAD= ip addr add 127.0.0.77/8 dev lo"), 0);
	ev = event(&f, IBV_EVENT_GID_CHANGE);
	ck_assert_int_eq(ev.element.port_num, 1);
	for (int i = 0; i < 64; i++)
		if (!ibv_query_gid(f.ctx, 1, i, &gid) && !memcmp(&gid, &want, sizeof(gid)))
			row = i;
	ck_assert_int_gt(row, 0);
	ck_assert_int_eq(system("LD_PRELOAD= ip addr del 127.0.0.77/8 dev lo"), 0);
	event(&f, IBV_EVENT_GID_CHANGE);
	ck_assert_int_eq(ibv_query_gid(f.ctx, 1, row, &gid), 0);
	ck_assert(memcmp(&gid, &want, sizeof(gid)));
	ck_assert_int_eq(system("LD_PRELOAD= ip link set lo down"), 0);
	port_becomes(&f, IBV_EVENT_PORT_ERR, IBV_PORT_DOWN);
	ck_assert_int_eq(system("LD_PRELOAD= ip link set lo up"), 0);
	port_becomes(&f, IBV_EVENT_PORT_ACTIVE, IBV_PORT_ACTIVE);
	fix_close(&f);
}
END_TEST

/* ---- moderation ---------------------------------------------------------------------------- */

static void burst(struct fix *f, struct ibv_qp *a, struct ibv_cq *rcq, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(fix_send(f, a, i, 0, 16, IBV_SEND_SIGNALED), 0);
		fix_wait_ok(f->cq);
		fix_wait_ok(rcq);
	}
}

static long us_between(const struct timespec *a, const struct timespec *b)
{
	return (b->tv_sec - a->tv_sec) * 1000000 + (b->tv_nsec - a->tv_nsec) / 1000;
}

/* A CQ may go while its event is put off. */
static void gone_meanwhile(struct fix *f, struct ibv_qp *a, struct ibv_qp *b, struct ibv_cq *rcq,
			   struct ibv_comp_channel *ch)
{
	struct ibv_modify_cq_attr m = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 100, 40000 } };
	struct timespec t0, t1;

	ck_assert_int_eq(ibv_modify_cq(rcq, &m), 0);
	ck_assert_int_eq(ibv_req_notify_cq(rcq, 0), 0);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	burst(f, a, rcq, 1);
	m.attr_mask = 0;
	ck_assert_int_eq(ibv_modify_cq(rcq, &m), EINVAL);
	fix_pair_end(a, b);
	ck_assert_int_eq(ibv_destroy_cq(rcq), 0);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	if (us_between(&t0, &t1) < 40000) /* else a slow machine had its event before */
		ck_assert(!readable(ch->fd, 60));
}

START_TEST(moderation)
{
	struct ibv_modify_cq_attr m = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { .cq_count = 4 } };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 16, 32, 1, 1, 0 } };
	struct timespec t0, t1;
	struct ibv_device_attr_ex ex;
	struct ibv_comp_channel *ch;
	struct ibv_qp *a, *b;
	struct ibv_cq *rcq;
	struct fix f;

	fix_open(&f);
	ck_assert_int_eq(ibv_query_device_ex(f.ctx, NULL, &ex), 0);
	ck_assert(ex.cq_mod_caps.max_cq_count >= 4 && ex.cq_mod_caps.max_cq_period >= 50000);
	ch = ibv_create_comp_channel(f.ctx);
	rcq = ibv_create_cq(f.ctx, 64, NULL, ch, 0);
	ck_assert(ch && rcq);
	init.send_cq = f.cq;
	init.recv_cq = rcq;
	a = fix_qp(&f, IBV_QPT_RC, 16, NULL);
	b = ibv_create_qp(f.pd, &init);
	fix_connect(&f, a, b);
	for (unsigned i = 0; i < 32; i++)
		ck_assert_int_eq(fix_recv(&f, b, i, 4096, 64), 0);
	/* Each fourth. */
	ck_assert_int_eq(ibv_modify_cq(rcq, &m), 0);
	ck_assert_int_eq(ibv_req_notify_cq(rcq, 0), 0);
	burst(&f, a, rcq, 3);
	ck_assert(!readable(ch->fd, 50));
	burst(&f, a, rcq, 1);
	event_take(ch, rcq);
	ck_assert_int_eq(ibv_req_notify_cq(rcq, 0), 0);
	burst(&f, a, rcq, 3);
	ck_assert(!readable(ch->fd, 0));
	/* Events that the old rule put off come with the new one; then not before its time. */
	m.moderate.cq_count = 100;
	m.moderate.cq_period = 40000;
	ck_assert_int_eq(ibv_modify_cq(rcq, &m), 0);
	event_take(ch, rcq);
	ck_assert_int_eq(ibv_req_notify_cq(rcq, 0), 0);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	burst(&f, a, rcq, 2);
	ck_assert(readable(ch->fd, 10 * SECOND));
	clock_gettime(CLOCK_MONOTONIC, &t1);
	ck_assert_int_ge(us_between(&t0, &t1), 40000);
	event_take(ch, rcq);
	/* Off again. */
	m.moderate.cq_count = m.moderate.cq_period = 0;
	ck_assert_int_eq(ibv_modify_cq(rcq, &m), 0);
	ck_assert_int_eq(ibv_req_notify_cq(rcq, 0), 0);
	burst(&f, a, rcq, 1);
	event_take(ch, rcq);
	gone_meanwhile(&f, a, b, rcq, ch);
	ck_assert_int_eq(ibv_destroy_comp_channel(ch), 0);
	fix_close(&f);
}
END_TEST

/* The async descriptor is the program's to make non-blocking. */
START_TEST(async_empty)
{
	struct ibv_async_event ev;
	struct fix f;

	fix_open(&f);
	ck_assert_int_eq(fcntl(f.ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	errno = 0;
	ck_assert_int_eq(ibv_get_async_event(f.ctx, &ev), -1);
	ck_assert_int_eq(errno, EAGAIN);
	fix_close(&f);
}
END_TEST

void api_async(Suite *s)
{
	SUITE_ADD(s, comm_est, drained, last_wqe, refusals, overrun, moderation, async_empty);
	if (getenv("API_OWN_NET"))
		SUITE_ADD(s, port);
	else
		printf("# skipped: port: there is no network namespace of our own\n");
}
