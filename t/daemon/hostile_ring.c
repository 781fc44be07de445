/* SPDX-License-Identifier: MIT */
/*
 * hostile_ring.c - clients that write nonsense to the memory they share with the daemon.  Their own QP or CQ goes to
 * ERR or overruns; a neighbour's messages arrive as ever, and nothing is left.
 */
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "t/suite.h"
#include "t/xorshift.h"

static struct cx bad, good;

static void scene(void)
{
	daemon_start();
	cx_open(&good);
	cx_connect(&good, &good);
	cx_open(&bad);
	cx_connect(&bad, &bad);
	cx_ping(&bad);
}

static void scene_over(void)
{
	cx_ping(&good);
	cx_close(&bad);
	cx_ping(&good);
	cx_close(&good);
	daemon_clean();
	daemon_stop();
}

static uint8_t state_of(struct cx *c)
{
	struct msg_req req = { .op = MSG_QP_QUERY, .id.handle = c->qpn };
	struct msg_rep rep;

	ck_assert_int_eq(call(c->fd, &req, &rep, NULL), 0);
	return rep.qp_query.attr.state;
}

/* The daemon has looked at the bells: it serves each shard call after a turn's drain, or before; two make sure. */
static void looked_at(void)
{
	cx_ping(&good);
	cx_ping(&good);
}

static struct msg_event event_of(struct cx *c)
{
	struct msg_event ev = { 0 };
	struct pollfd p = { .fd = c->event, .events = POLLIN };

	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	ck_assert_int_eq(recv(c->event, &ev, sizeof(ev), 0), sizeof(ev));
	return ev;
}

/* It is among the causes. */
static void why_told(uint32_t qpn)
{
	json_t *j = dump_of(good.fd, DUMP_WHY, qpn);
	char *text = json_dumps(j, 0);

	ck_assert(text != NULL);
	ck_assert_msg(strstr(text, "\"RING_BROKEN\"") && strstr(text, "to ERR: the program wrote nonsense"), "%s",
		      text);
	free(text);
	json_decref(j);
}

static void broken_by(void)
{
	struct msg_event ev;

	cx_ring(&bad, bad.qp_bell);
	ev = event_of(&bad);
	ck_assert_uint_eq(ev.type, EV_QP_FATAL);
	ck_assert_uint_eq(ev.cookie, 9);
	ck_assert_uint_eq(state_of(&bad), QPS_ERR);
	ck_assert_uint_eq(RING_LOAD(&bad.sq.hdr->err), QPS_ERR);
	why_told(bad.qpn);
}

START_TEST(sq_index)
{
	static const uint32_t off[] = { 65, 66, 1000, 1u << 31, UINT32_MAX, UINT32_MAX - 64 };

	for (unsigned i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		scene();
		RING_STORE(&bad.sq.hdr->prod, bad.sq.pos + off[i]);
		broken_by();
		/* RESET takes up what is there, and the QP works again. */
		ck_assert_int_eq(cx_state(&bad, QPS_RESET), 0);
		bad.sq.pos = bad.sq.pos + off[i];
		cx_connect(&bad, &bad);
		cx_ping(&bad);
		scene_over();
	}
}
END_TEST

START_TEST(rq_index)
{
	static const uint32_t off[] = { 65, 1u << 31, UINT32_MAX };

	for (unsigned i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		scene();
		RING_STORE(&bad.rq.hdr->prod, bad.rq.pos + off[i]);
		broken_by();
		scene_over();
	}
}
END_TEST

START_TEST(rq_overfull)
{
	scene();
	for (unsigned i = 0; i < 64; i++)
		cx_recv(&bad, i, 0, 64);
	looked_at();
	ck_assert_uint_eq(state_of(&bad), QPS_RTS);
	cx_recv(&bad, 64, 0, 64); /* the slot is free, the queue is full */
	ck_assert_uint_eq(event_of(&bad).type, EV_QP_FATAL);
	ck_assert_uint_eq(state_of(&bad), QPS_ERR);
	scene_over();
}
END_TEST

static void srq_recv(struct cx *c)
{
	*(struct recv_wr *)ring_slot(&c->srq_ring, c->srq_ring.pos) = (struct recv_wr){ .sge_n = 0 };
	ring_publish(&c->srq_ring, 1);
	cx_ring(c, c->srq_bell);
}

START_TEST(srq_overfull)
{
	scene();
	for (unsigned i = 0; i < 16; i++)
		srq_recv(&bad);
	looked_at();
	ck_assert_uint_eq(ring_behind(&bad.srq_ring), 0);
	ck_assert_uint_eq(ring_undone(&bad.srq_ring), 16);
	srq_recv(&bad);
	ck_assert_uint_eq(event_of(&bad).type, EV_SRQ_ERR);
	cx_ping(&bad);
	scene_over();
}
END_TEST

START_TEST(srq_index)
{
	scene();
	RING_STORE(&bad.srq_ring.hdr->prod, 12345u);
	cx_ring(&bad, bad.srq_bell);
	ck_assert_uint_eq(event_of(&bad).type, EV_SRQ_ERR);
	cx_ping(&bad);
	scene_over();
}
END_TEST

/* A consumer index of nonsense: the CQ has no room, so it overruns. */
START_TEST(cq_index)
{
	bool cq = false;

	scene();
	RING_STORE(&bad.cq_ring.hdr->cons, 0x12345678u);
	/* The daemon reads the index when its own count says that half of the ring may be used. */
	for (unsigned i = 0; i < 100 && !cq; i++) {
		struct pollfd p = { .fd = bad.event, .events = POLLIN };

		cx_recv(&bad, 1, 0, 64);
		cx_send(&bad, 2, 1024, 5);
		looked_at();
		cq = poll(&p, 1, 0) == 1 && event_of(&bad).type == EV_CQ_ERR;
	}
	ck_assert(cq);
	ck_assert_uint_eq(RING_LOAD(&bad.cq_ring.hdr->err), 1);
	ck_assert_uint_eq(state_of(&bad), QPS_ERR);
	scene_over();
}
END_TEST

/* More completions than the CQ has slots, and never one polled. */
START_TEST(cq_overrun)
{
	bool cq = false;

	scene();
	for (unsigned i = 0; i < 200 && !cq; i++) {
		struct pollfd p = { .fd = bad.event, .events = POLLIN };

		cx_recv(&bad, i, 0, 64);
		cx_send(&bad, i, 1024, 5);
		looked_at();
		cq = poll(&p, 1, 0) == 1 && event_of(&bad).type == EV_CQ_ERR;
	}
	ck_assert(cq);
	ck_assert_uint_eq(RING_LOAD(&bad.cq_ring.hdr->err), 1);
	/* All that was published is there, and whole. */
	ck_assert_uint_eq(ring_used(&bad.cq_ring), 256);
	scene_over();
}
END_TEST

/* The header's own numbers are for information: the daemon keeps its copies. */
START_TEST(header)
{
	scene();
	bad.sq.hdr->slots = bad.rq.hdr->slots = bad.cq_ring.hdr->slots = UINT32_MAX;
	bad.sq.hdr->stride = bad.rq.hdr->stride = bad.cq_ring.hdr->stride = UINT32_MAX;
	RING_STORE(&bad.sq.hdr->cons, 77u);
	RING_STORE(&bad.cq_ring.hdr->prod, 99u);
	RING_STORE(&bad.cq_ring.hdr->arm, 12345u);
	cx_recv(&bad, 1, 0, 64);
	cx_send(&bad, 2, 1024, 5);
	looked_at();
	ck_assert_str_eq((char *)bad.buf, "ping");
	scene_over();
}
END_TEST

START_TEST(bells)
{
	scene();
	memset(bad.bell->word, 0xff, sizeof(bad.bell->word));
	memset(bad.bell->sum, 0xff, sizeof(bad.bell->sum));
	cx_kick(&bad);
	looked_at();
	cx_ping(&bad);
	memset(bad.bell, 0, sizeof(*bad.bell));
	cx_kick(&bad);
	looked_at();
	scene_over();
}
END_TEST

/* Slots full of random bytes, half of them with a head that makes some sense. */
START_TEST(slots)
{
	uint64_t s = 0x123456789abcdefu;

	scene();
	for (unsigned i = 0; i < 3000; i++) {
		uint8_t *slot = ring_slot(&bad.sq, bad.sq.pos);
		struct recv_wr *r = ring_slot(&bad.rq, bad.rq.pos);

		for (unsigned k = 0; k < bad.sq_stride; k++)
			slot[k] = (uint8_t)xorshift(&s);
		for (unsigned k = 0; k < 48; k++)
			((uint8_t *)r)[k] = (uint8_t)xorshift(&s);
		if (i & 1) {
			struct send_wr *wr = (struct send_wr *)slot;

			wr->op = (uint8_t)(xorshift(&s) % 16);
			wr->flags &= 31;
			wr->sge_n = (uint16_t)(xorshift(&s) % 5);
			wr->inline_len = (uint32_t)(xorshift(&s) % 96);
			r->sge_n = (uint32_t)(xorshift(&s) % 5);
			for (unsigned k = 0; k < 4; k++)
				if (xorshift(&s) & 1)
					((struct sge *)(wr + 1))[k] = (struct sge){ (uintptr_t)bad.buf, 64, bad.key };
		}
		ring_publish(&bad.sq, 1);
		ring_publish(&bad.rq, 1);
		cx_ring(&bad, bad.qp_bell);
		ring_consume(&bad.cq_ring, ring_used(&bad.cq_ring));
		if (i % 4 == 3) {
			ck_assert_int_eq(cx_state(&bad, QPS_RESET), 0);
			cx_connect(&bad, &bad);
		}
		if (i % 256 == 0)
			cx_ping(&good);
	}
	ck_assert_int_eq(cx_state(&bad, QPS_RESET), 0);
	scene_over();
}
END_TEST

/* A client that never reads its events: the daemon keeps some, and the rest is its loss. */
START_TEST(events_unread)
{
	struct msg_event ev;
	unsigned n = 0;

	scene();
	for (unsigned i = 0; i < 1000; i++) {
		RING_STORE(&bad.sq.hdr->prod, bad.sq.pos + 1000);
		cx_ring(&bad, bad.qp_bell);
		while (state_of(&bad) != QPS_ERR)
			;
		RING_STORE(&bad.sq.hdr->prod, bad.sq.pos);
		ck_assert_int_eq(cx_state(&bad, QPS_RESET), 0);
		cx_connect(&bad, &bad);
	}
	cx_ping(&good);
	while (recv(bad.event, &ev, sizeof(ev), n < 100 ? 0 : MSG_DONTWAIT) == sizeof(ev))
		n++;
	ck_assert_uint_ge(n, 100);
	scene_over();
}
END_TEST

/* A channel that is never read is full some day: the events wait, and come when there is room. */
START_TEST(channel_unread)
{
	uint64_t cookie;
	unsigned n = 0, held;
	struct pollfd p;
	int bytes;

	scene();
	for (unsigned i = 0; i < 1000; i++) {
		cq_arm(bad.cq_ring.hdr, CQ_ARM_ANY);
		cx_recv(&bad, 1, 0, 64);
		cx_send(&bad, 2, 1024, 5);
		for (unsigned k = 0; k < 2; k++) {
			struct cqe e;

			ck_assert(cx_poll(&bad, &e));
		}
	}
	p = (struct pollfd){ .fd = bad.channel_fd, .events = POLLIN };
	ck_assert_int_eq(ioctl(bad.channel_fd, FIONREAD, &bytes), 0);
	held = (unsigned)bytes / sizeof(cookie);
	ck_assert(held > 16 && held < 1000);
	while (poll(&p, 1, n < held + 1 ? PATIENCE_MS : 0) == 1) {
		ck_assert_int_eq(read(bad.channel_fd, &cookie, sizeof(cookie)), sizeof(cookie));
		ck_assert_uint_eq(cookie, 7);
		n++;
	}
	/* As many as the socket held, and one for all that did not fit: they were of one CQ. */
	ck_assert_uint_eq(n, held + 1);
	scene_over();
}
END_TEST

TEST_MAIN("ctl: hostile rings", sq_index, rq_index, rq_overfull, srq_overfull, srq_index, cq_index, cq_overrun, header,
	  bells, slots, events_unread, channel_unread)
