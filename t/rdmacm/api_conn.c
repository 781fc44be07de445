/* SPDX-License-Identifier: MIT */
/* api_conn.c - connections: their events, private data, ends. */
#include "fixture.h"

#include <time.h>

START_TEST(connected) /* conf: rule 7.11 */
{
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p, 1);
	ck_assert_str_eq(p.server->context, "listen");
	ck_assert_ptr_eq(p.server->verbs, p.client->verbs);
	ck_assert_uint_eq(ntohs(rdma_get_dst_port(p.client)), p.port);
	ck_assert_uint_eq(ntohs(rdma_get_src_port(p.server)), p.port);
	ck_assert_uint_eq(rdma_get_dst_port(p.server), rdma_get_src_port(p.client));
	message_move(p.client, p.server, 5000);
	message_move(p.server, p.client, 1);
	ok(rdma_disconnect(p.client));
	event_eat(p.sch, RDMA_CM_EVENT_DISCONNECTED);
	ok(rdma_disconnect(p.server));
	event_eat(p.cch, RDMA_CM_EVENT_DISCONNECTED);
	event_eat(p.cch, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	pair_close(&p);
}
END_TEST

/* A small message, and its completion; the message itself is in order, or what follows fails. */
static void send_to(struct rdma_cm_id *a, struct rdma_cm_id *b, struct ibv_mr *ma, struct ibv_mr *mb)
{
	ok(rdma_post_recv(b, NULL, mb->addr, 8, mb));
	ok(rdma_post_send(a, NULL, ma->addr, 8, ma, 0));
}

static void polled(struct ibv_cq *cq)
{
	struct timespec from, now;
	struct ibv_wc wc;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &from);
	while (!(n = ibv_poll_cq(cq, 1, &wc))) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		ck_assert_int_lt(now.tv_sec - from.tv_sec, 10);
	}
	ck_assert_int_eq(n, 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
}

/*
 * Where cores are few, the daemon keeps completions back for a program whose peer is slow to answer (daemon/shard/answer.h).
 * A peer that hangs up instead has taken the message: its completion is there before that is told.
 */
START_TEST(complete_before_the_end)
{
	static char from[8], to[8];

	for (unsigned turn = 0; turn < 8; turn++) {
		struct ibv_mr *c, *s;
		struct ibv_wc wc;
		struct pair p;

		pair_open(&p, RDMA_PS_TCP);
		pair_connect(&p, 1);
		c = rdma_reg_msgs(p.client, from, sizeof(from));
		s = rdma_reg_msgs(p.server, to, sizeof(to));
		ck_assert(c && s);
		for (unsigned i = 0; i < 20; i++) {
			send_to(p.client, p.server, c, s);
			polled(p.client->send_cq);
			polled(p.server->recv_cq);
			nanosleep(&(struct timespec){ 0, 1000000 }, NULL); /* to answer takes long */
			send_to(p.server, p.client, s, c);
			polled(p.server->send_cq);
			polled(p.client->recv_cq);
		}
		send_to(p.client, p.server, c, s);
		polled(p.server->recv_cq);
		ok(rdma_disconnect(p.server));
		event_eat(p.cch, RDMA_CM_EVENT_DISCONNECTED);
		ck_assert_msg(ibv_poll_cq(p.client->send_cq, 1, &wc) == 1, "turn %u", turn);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ok(rdma_dereg_mr(c));
		ok(rdma_dereg_mr(s));
		pair_close(&p);
	}
}
END_TEST

static void filled(const struct rdma_conn_param *c, const char *text, unsigned len)
{
	ck_assert_uint_eq(c->private_data_len, len);
	ck_assert_str_eq(c->private_data, text);
	for (size_t i = strlen(text); i < len; i++)
		ck_assert_uint_eq(((const unsigned char *)c->private_data)[i], 0);
}

START_TEST(private_data) /* conf: rule 7.11 */
{
	struct rdma_conn_param cp = { .private_data = "ask",
				      .private_data_len = 4,
				      .responder_resources = 3,
				      .initiator_depth = 5,
				      .retry_count = 6,
				      .rnr_retry_count = 4 };
	struct rdma_conn_param sp = { .private_data = "tell",
				      .private_data_len = 5,
				      .responder_resources = 2,
				      .initiator_depth = 1,
				      .rnr_retry_count = 5 };
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC), init;
	struct ibv_qp_attr q;
	struct rdma_cm_event *e;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	ok(rdma_create_qp(p.client, NULL, &a));
	ok(rdma_connect(p.client, &cp));
	e = event_get(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	ck_assert_ptr_eq(e->listen_id, p.listen);
	filled(&e->param.conn, "ask", 56);
	ck_assert_uint_eq(e->param.conn.responder_resources, 5);
	ck_assert_uint_eq(e->param.conn.initiator_depth, 3);
	ck_assert_uint_eq(e->param.conn.retry_count, 6);
	ck_assert_uint_eq(e->param.conn.rnr_retry_count, 4);
	ck_assert_uint_eq(e->param.conn.qp_num, p.client->qp->qp_num);
	p.server = e->id;
	a = qp_attr(IBV_QPT_RC);
	ok(rdma_create_qp(p.server, NULL, &a));
	ok(rdma_accept(p.server, &sp));
	ok(rdma_ack_cm_event(e));
	e = event_get(p.cch, RDMA_CM_EVENT_ESTABLISHED);
	filled(&e->param.conn, "tell", 196);
	ck_assert_uint_eq(e->param.conn.qp_num, p.server->qp->qp_num);
	ok(rdma_ack_cm_event(e));
	event_eat(p.sch, RDMA_CM_EVENT_ESTABLISHED);
	ok(ibv_query_qp(p.client->qp, &q, IBV_QP_STATE, &init));
	ck_assert_int_eq(q.qp_state, IBV_QPS_RTS);
	ck_assert_uint_eq(q.max_rd_atomic, 2);
	ck_assert_uint_eq(q.max_dest_rd_atomic, 1);
	ck_assert_uint_eq(q.retry_cnt, 6);
	ck_assert_uint_eq(q.rnr_retry, 5);
	ok(ibv_query_qp(p.server->qp, &q, IBV_QP_STATE, &init));
	ck_assert_uint_eq(q.max_rd_atomic, 1);
	ck_assert_uint_eq(q.max_dest_rd_atomic, 2);
	ck_assert_uint_eq(q.rnr_retry, 4);
	pair_close(&p);
}
END_TEST

START_TEST(too_much_data)
{
	static char data[255];
	struct rdma_conn_param cp = { .private_data = data, .private_data_len = 57 };
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	fails(rdma_connect(p.client, NULL), EINVAL); /* neither a QP nor its number */
	why_says("rdma_connect refused: Invalid argument: neither a queue pair (rdma_create_qp) nor conn_param");
	ok(rdma_create_qp(p.client, NULL, &a));
	fails(rdma_create_qp(p.client, NULL, &a), EINVAL);
	fails(rdma_connect(p.client, &cp), EINVAL);
	why_says("rdma_connect refused: Invalid argument: private_data_len 57: a REQ has room for 56 bytes");
	cp.private_data_len = 0;
	cp.responder_resources = 200; /* more than the device has, and not RDMA_MAX_RESP_RES */
	fails(rdma_connect(p.client, &cp), EINVAL);
	why_says("rdma_connect refused: Invalid argument: conn_param: responder_resources 200 is more than 128");
	ok(rdma_connect(p.client, NULL));
	event_eat(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	fails(rdma_connect(p.client, NULL), EINVAL);
	why_says("rdma_connect refused: Invalid argument: the id has a connection, or a request for one; wanted is one "
		 "that has its route resolved");
	pair_close(&p);
}
END_TEST

/* A request that cannot be accepted is refused: the peer does not wait. */
START_TEST(accept_fails)
{
	static const struct {
		enum rdma_port_space ps;
		uint8_t room;
		enum rdma_cm_event_type ev;
		int status;
	} kind[] = { { RDMA_PS_TCP, 196, RDMA_CM_EVENT_REJECTED, 28 },
		     { RDMA_PS_UDP, 136, RDMA_CM_EVENT_UNREACHABLE, 2 } };
	static char data[255];

	for (unsigned i = 0; i < 2; i++) {
		struct rdma_conn_param cp = { .private_data = data, .private_data_len = kind[i].room + 1 };
		struct ibv_qp_init_attr a, b;
		struct rdma_cm_event *e;
		struct pair p;

		pair_open(&p, kind[i].ps);
		a = b = qp_attr(p.client->qp_type);
		ok(rdma_create_qp(p.client, NULL, &a));
		ok(rdma_connect(p.client, NULL));
		e = event_get(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
		p.server = e->id;
		ok(rdma_create_qp(p.server, NULL, &b));
		fails(rdma_accept(p.server, &cp), EINVAL);
		ok(rdma_ack_cm_event(e));
		e = event_get(p.cch, kind[i].ev);
		ck_assert_int_eq(e->status, kind[i].status);
		ok(rdma_ack_cm_event(e));
		cp.private_data_len = 0;
		fails(rdma_accept(p.server, &cp), EINVAL);
		pair_close(&p);
	}
}
END_TEST

START_TEST(rejected) /* conf: rule 7.10, rule 7.11 */
{
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);
	struct rdma_cm_event *e;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	ok(rdma_create_qp(p.client, NULL, &a));
	ok(rdma_connect(p.client, NULL));
	e = event_get(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	p.server = e->id;
	ok(rdma_reject(p.server, "no", 3));
	ok(rdma_ack_cm_event(e));
	e = event_get(p.cch, RDMA_CM_EVENT_REJECTED);
	ck_assert_int_eq(e->status, 28);
	filled(&e->param.conn, "no", 148);
	ok(rdma_ack_cm_event(e));
	ck_assert_int_eq(p.client->qp->state, IBV_QPS_ERR);
	why_says("connection to 127.0.0.1:[0-9]* (from 127.0.0.1:[0-9]*) rejected: consumer reject (28)");
	pair_close(&p);
}
END_TEST

/* A request that is not answered is refused when its id goes; one that was not even fetched, with the listener. */
START_TEST(dropped)
{
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);
	struct rdma_cm_event *e;
	struct pair p;

	for (int fetched = 0; fetched < 2; fetched++) {
		pair_open(&p, RDMA_PS_TCP);
		a = qp_attr(IBV_QPT_RC);
		ok(rdma_create_qp(p.client, NULL, &a));
		ok(rdma_connect(p.client, NULL));
		if (fetched) {
			e = event_get(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
			p.server = e->id;
			ok(rdma_ack_cm_event(e));
			ok(rdma_destroy_id(p.server));
			p.server = NULL;
		} else {
			struct pollfd f = { .fd = p.sch->fd, .events = POLLIN };

			ck_assert_int_eq(poll(&f, 1, PATIENCE_MS), 1);
			ok(rdma_destroy_id(p.listen));
			p.listen = NULL;
		}
		e = event_get(p.cch, RDMA_CM_EVENT_REJECTED);
		ck_assert_int_eq(e->status, 28);
		ok(rdma_ack_cm_event(e));
		pair_close(&p);
	}
}
END_TEST

START_TEST(nobody_listens)
{
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);
	struct rdma_cm_event *e;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	ok(rdma_destroy_id(p.listen));
	p.listen = NULL;
	ok(rdma_create_qp(p.client, NULL, &a));
	ok(rdma_connect(p.client, NULL));
	e = event_get(p.cch, RDMA_CM_EVENT_REJECTED);
	ck_assert_int_eq(e->status, 8);
	ok(rdma_ack_cm_event(e));
	pair_close(&p);
}
END_TEST

/* The program's own QPs: it moves them with rdma_init_qp_attr() and says when. */
static struct ibv_qp *own_qp(struct rdma_cm_id *id, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);

	a.send_cq = a.recv_cq = cq;
	return ibv_create_qp(id->pd, &a);
}

START_TEST(own_qps)
{
	struct rdma_conn_param c = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7 };
	struct ibv_qp *cqp, *sqp;
	struct rdma_cm_event *e;
	struct ibv_cq *cq;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	cq = ibv_create_cq(p.client->verbs, 64, NULL, NULL, 0);
	cqp = own_qp(p.client, cq);
	sqp = own_qp(p.client, cq);
	ck_assert(cq && cqp && sqp);
	c.qp_num = cqp->qp_num;
	ok(rdma_connect(p.client, &c));
	e = event_get(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	p.server = e->id;
	ck_assert_uint_eq(e->param.conn.qp_num, cqp->qp_num);
	ok(rdma_ack_cm_event(e));
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		qp_to(p.server, sqp, s);
	c.qp_num = sqp->qp_num;
	ok(rdma_accept(p.server, &c));
	e = event_get(p.cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	ck_assert_uint_eq(e->param.conn.qp_num, sqp->qp_num);
	ok(rdma_ack_cm_event(e));
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		qp_to(p.client, cqp, s);
	ok(rdma_establish(p.client));
	event_eat(p.sch, RDMA_CM_EVENT_ESTABLISHED);
	ck_assert(!event_waits(p.cch));
	ok(ibv_destroy_qp(cqp));
	ok(ibv_destroy_qp(sqp));
	ok(ibv_destroy_cq(cq));
	pair_close(&p);
}
END_TEST

void api_conn(Suite *s)
{
	SUITE_ADD(s, connected, complete_before_the_end, private_data, too_much_data, accept_fails, rejected, dropped,
		  nobody_listens, own_qps);
}
