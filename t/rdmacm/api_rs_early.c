/* SPDX-License-Identifier: MIT */
/* api_rs_early.c - what is sent on an accepted stream before its peer is ready: the peer here is a QP that waits with its RTU. */
#include "streams.h"

#include <endian.h>
#include <unistd.h>

#include "lib/rdmacm/rs_wire.h"

struct late_peer {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct {
		struct rs_sge list[RS_SGL_N];
		char buf[4096];
	} mem;
	int listen, server;
	unsigned long untimely;
};

/* Packets that came before they could be taken, or were sent again. */
static unsigned long untimely(void) { return stats_of("bad_state") + stats_of("local_ack_timeout"); }

static void peer_qp(struct late_peer *p)
{
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);

	p->pd = ibv_alloc_pd(p->id->verbs);
	p->cq = ibv_create_cq(p->id->verbs, 64, NULL, NULL, 0);
	ck_assert(p->pd && p->cq);
	p->mr = ibv_reg_mr(p->pd, &p->mem, sizeof(p->mem), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	a.send_cq = a.recv_cq = p->cq;
	p->qp = ibv_create_qp(p->pd, &a);
	ck_assert(p->mr && p->qp);
}

static struct rs_hello peer_hello(const struct late_peer *p)
{
	struct rs_hello h = {
		.version = RS_VERSION,
		.flags = htonl(1) == 1 ? RS_FLAG_NET : 0,
		.credits = htons(16),
		.sgl = { htobe64((uintptr_t)p->mem.list), htonl(p->mr->rkey), htonl(RS_SGL_N) },
		.buf = { htobe64((uintptr_t)p->mem.buf), htonl(p->mr->rkey), htonl(sizeof(p->mem.buf)) },
	};

	return h;
}

/* Up to a stream that is accepted, and has the answer on its way. */
static void peer_open(struct late_peer *p)
{
	struct rdma_conn_param c = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rs_hello h;

	*p = (struct late_peer){ .ch = channel_new(), .listen = rs_open(), .untimely = untimely() };
	ok(rbind(p->listen, lo(0), sizeof(struct sockaddr_in)));
	ok(rlisten(p->listen, 1));
	ok(rdma_create_id(p->ch, &p->id, NULL, RDMA_PS_TCP));
	ok(rdma_resolve_addr(p->id, NULL, lo(rs_port(p->listen)), 2000));
	event_eat(p->ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_resolve_route(p->id, 2000));
	event_eat(p->ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	peer_qp(p);
	h = peer_hello(p);
	c.private_data = &h;
	c.private_data_len = sizeof(h);
	c.qp_num = p->qp->qp_num;
	ok(rdma_connect(p->id, &c));
	p->server = raccept(p->listen, NULL, NULL);
	ck_assert_int_ge(p->server, 0);
	event_eat(p->ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
}

static void peer_ready(struct late_peer *p)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	qp_to(p->id, p->qp, IBV_QPS_INIT);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(ibv_post_recv(p->qp, &wr, &bad), 0);
	qp_to(p->id, p->qp, IBV_QPS_RTR);
	qp_to(p->id, p->qp, IBV_QPS_RTS);
	ok(rdma_establish(p->id));
}

/* The next one; how much may be sent is told when the stream likes. */
static uint32_t peer_message(struct late_peer *p)
{
	uint32_t msg = rs_msg(RS_OP_SGL, 0);
	struct ibv_wc wc;

	for (int i = 0; rs_msg_op(msg) == RS_OP_SGL; i++) {
		ck_assert_int_lt(i, PATIENCE_MS);
		if (!ibv_poll_cq(p->cq, 1, &wc)) {
			usleep(1000);
			continue;
		}
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		msg = ntohl(wc.imm_data);
	}
	return msg;
}

static void peer_close(struct late_peer *p)
{
	ok(rclose(p->listen));
	ok(ibv_destroy_qp(p->qp));
	ok(ibv_destroy_cq(p->cq));
	ok(ibv_dereg_mr(p->mr));
	ok(ibv_dealloc_pd(p->pd));
	ok(rdma_destroy_id(p->id));
	rdma_destroy_event_channel(p->ch);
	ck_assert_uint_eq(untimely(), p->untimely);
}

/* The program does nothing for it behind the call. */
START_TEST(rs_early_send)
{
	struct late_peer p;

	peer_open(&p);
	ok(rfcntl(p.server, F_SETFL, O_NONBLOCK));
	ck_assert_int_eq(rsend(p.server, "hello, ", 7, 0), 7);
	ck_assert_int_eq(rsend(p.server, "you", 3, 0), 3);
	peer_ready(&p);
	ck_assert_uint_eq(peer_message(&p), rs_msg(RS_OP_DATA, 7));
	ck_assert_uint_eq(peer_message(&p), rs_msg(RS_OP_DATA, 3));
	ck_assert_mem_eq(p.mem.buf, "hello, you", 10);
	ok(rsetsockopt(p.server, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger)));
	ok(rclose(p.server));
	peer_close(&p);
}
END_TEST

static void *ends(void *arg)
{
	const struct late_peer *p = arg;

	ok(rclose(p->server));
	return arg;
}

static void peer_sees_end(struct late_peer *p, void *(*end)(void *))
{
	pthread_t t;

	ok(rfcntl(p->server, F_SETFL, O_NONBLOCK));
	ck_assert_int_eq(rsend(p->server, "bye", 3, 0), 3);
	ck_assert_int_eq(pthread_create(&t, NULL, end, p), 0);
	peer_ready(p);
	ck_assert_uint_eq(peer_message(p), rs_msg(RS_OP_DATA, 3));
	ck_assert_uint_eq(peer_message(p), rs_msg(RS_OP_CTL, RS_CTL_DISCONNECT));
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_mem_eq(p->mem.buf, "bye", 3);
}

/* As servers do with a client that they do not want: the reason, and the end. */
START_TEST(rs_early_close)
{
	struct late_peer p;

	peer_open(&p);
	peer_sees_end(&p, ends);
	peer_close(&p);
}
END_TEST

static void *shuts(void *arg)
{
	const struct late_peer *p = arg;

	ok(rshutdown(p->server, SHUT_RDWR));
	return arg;
}

START_TEST(rs_early_shutdown)
{
	struct late_peer p;

	peer_open(&p);
	peer_sees_end(&p, shuts);
	ok(rclose(p.server));
	peer_close(&p);
}
END_TEST

/* A peer that gives up. */
START_TEST(rs_early_refused)
{
	struct late_peer p;
	char c;

	peer_open(&p);
	ck_assert_int_eq(rsend(p.server, "bye", 3, 0), 3);
	ok(rdma_reject(p.id, NULL, 0));
	fails((int)rrecv(p.server, &c, 1, 0), ECONNRESET);
	ok(rclose(p.server));
	peer_close(&p);
}
END_TEST

void api_rs_early(Suite *s) { SUITE_ADD(s, rs_early_send, rs_early_close, rs_early_shutdown, rs_early_refused); }
