/* SPDX-License-Identifier: MIT */
/* cm_qp.c - queue pairs that the daemon moves with the messages of the CM: whose they must be, and where they come to. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cm_client.h"
#include "t/suite.h"

#define PORT 7473

/* A program's context on a device, with a QP. */
struct prog {
	int fd;
	uint64_t key;
	uint32_t qpn;
};

struct pair {
	struct host host;
	struct chan s, c;
	struct prog server, client;
	uint32_t listener, active, passive;
};

static uint32_t qp_new(int fd, uint32_t pd, uint32_t cq)
{
	struct msg_req req = {
		.op = MSG_QP_CREATE,
		.qp = { .pd = pd, .send_cq = cq, .recv_cq = cq, .cap = { 8, 8, 1, 1, 0 }, .type = QPT_RC }
	};
	struct msg_rep rep;

	ck_assert_int_eq(verbs_call(fd, &req, &rep), 0);
	return rep.qp.qpn;
}

static void prog_start(struct prog *p, const struct host *h, const char *device)
{
	struct msg_req req = { .op = MSG_OPEN };
	struct msg_rep rep;
	uint32_t pd;

	p->fd = verbs_open(h);
	snprintf(req.open.name, sizeof(req.open.name), "%s", device);
	ck_assert_int_eq(verbs_call(p->fd, &req, &rep), 0);
	p->key = rep.open.key;
	req = (struct msg_req){ .op = MSG_PD_ALLOC };
	ck_assert_int_eq(verbs_call(p->fd, &req, &rep), 0);
	pd = rep.obj.handle;
	req = (struct msg_req){ .op = MSG_CQ_CREATE, .cq.cqe = 16 };
	ck_assert_int_eq(verbs_call(p->fd, &req, &rep), 0);
	p->qpn = qp_new(p->fd, pd, rep.cq.handle);
}

static struct cmm_qp name(const struct prog *p) { return (struct cmm_qp){ .key = p->key, .qpn = p->qpn }; }

static struct qp_attr attr(const struct prog *p)
{
	struct msg_req req = { .op = MSG_QP_QUERY, .id.handle = p->qpn };
	struct msg_rep rep;

	ck_assert_int_eq(verbs_call(p->fd, &req, &rep), 0);
	return rep.qp_query.attr;
}

static void pair_open(struct pair *p)
{
	host_start(&p->host, 0, 2);
	chan_open(&p->s, &p->host);
	chan_open(&p->c, &p->host);
	prog_start(&p->client, &p->host, "n1"); /* the host comes from where it goes to */
	prog_start(&p->server, &p->host, "n1");
	ck_assert(p->client.key && p->client.key != p->server.key);
	p->listener = id_listen(&p->s, addr(1, PORT), 1, RDMA_PS_TCP, 4);
	p->active = id_resolve(&p->c, addr(1, PORT), 2, RDMA_PS_TCP);
}

/* It asks, and the server knows. */
static void pair_ask(struct pair *p, struct cmm_qp qp)
{
	struct cmm_req req = { .op = CMM_CONNECT, .id = p->active, .conn.qp = qp };

	req.conn.conn.qp_num = p->client.qpn;
	req.conn.conn.responder_resources = 3;
	req.conn.conn.initiator_depth = 5;
	req.conn.conn.retry_count = req.conn.conn.rnr_retry_count = 7;
	ck_assert_int_eq(chan_call(&p->c, &req, NULL), 0);
	p->passive = chan_event(&p->s, RDMA_CM_EVENT_CONNECT_REQUEST, 0).id;
}

static void pair_start(struct pair *p)
{
	pair_open(p);
	pair_ask(p, (struct cmm_qp){ 0 });
}

static void pair_stop(struct pair *p)
{
	close(p->client.fd);
	close(p->server.fd);
	chan_close(&p->c);
	chan_close(&p->s);
	host_stop(&p->host);
}

static int accept_of(struct pair *p, struct cmm_qp qp, uint8_t data_len)
{
	struct cmm_req req = { .op = CMM_ACCEPT, .id = p->passive, .conn = { .cookie = 3, .qp = qp } };

	req.conn.conn.qp_num = p->server.qpn;
	req.conn.conn.responder_resources = 2;
	req.conn.conn.initiator_depth = 255;
	req.conn.conn.data_len = data_len;
	return chan_call(&p->s, &req, NULL);
}

static int own(struct chan *c, enum cmm_op op, uint32_t id, struct cmm_qp qp, struct cmm_rep *rep)
{
	struct cmm_req req = { .op = op, .id = id, .own = qp };

	return chan_call(c, &req, rep);
}

/* From RESET to RTS with the REP and with the RTU, to ERR with the DREQ. */
START_TEST(moved)
{
	struct cmm_rep rep;
	struct pair p;

	pair_start(&p);
	ck_assert_int_eq(accept_of(&p, name(&p.server), 0), 0);
	ck_assert_uint_eq(attr(&p.server).state, QPS_RTS);
	ck_assert_uint_eq(attr(&p.server).dest_qpn, p.client.qpn);
	ck_assert_uint_eq(attr(&p.server).max_dest_rd_atomic, 2); /* as the program says */
	ck_assert_uint_eq(attr(&p.server).max_rd_atomic, 3);      /* as the request allows */
	chan_event(&p.c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_uint_eq(attr(&p.client).state, QPS_RESET);
	ck_assert_int_eq(own(&p.c, CMM_ESTABLISH, p.active, name(&p.client), NULL), 0);
	ck_assert_uint_eq(attr(&p.client).state, QPS_RTS);
	ck_assert_uint_eq(attr(&p.client).dest_qpn, p.server.qpn);
	chan_event(&p.s, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_int_eq(own(&p.c, CMM_DISCONNECT, p.active, name(&p.client), &rep), 0);
	ck_assert_int_eq(rep.end.qp_err, 0);
	ck_assert_uint_eq(attr(&p.client).state, QPS_ERR);
	chan_event(&p.s, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_uint_eq(attr(&p.server).state, QPS_RTS);
	pair_stop(&p);
}
END_TEST

/* The client's, if its request has named it: when its program fetches the answer, and not before. */
START_TEST(follows)
{
	struct cmm_event ev;
	struct pair p;

	pair_open(&p);
	pair_ask(&p, name(&p.client));
	ck_assert_int_eq(accept_of(&p, name(&p.server), 0), 0);
	ck_assert(chan_ready(&p.c));
	ck_assert_uint_eq(attr(&p.client).state, QPS_RESET);
	ck_assert(chan_quiet(&p.s));
	ev = chan_event(&p.c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_uint_eq(ev.qp.tried, 1);
	ck_assert_int_eq(ev.qp.err, 0);
	ck_assert_uint_eq(attr(&p.client).state, QPS_RTS);
	chan_event(&p.s, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_int_eq(own(&p.c, CMM_ESTABLISH, p.active, (struct cmm_qp){ 0 }, NULL), EINVAL);
	pair_stop(&p);
}
END_TEST

/* One that is gone by then, or was never the program's: it is told, there is no RTU, and it can still be refused. */
START_TEST(follows_not)
{
	struct cmm_qp wrong;
	struct cmm_event ev;
	struct pair p;

	pair_open(&p);
	wrong = (struct cmm_qp){ .key = p.client.key, .qpn = p.server.qpn };
	pair_ask(&p, wrong);
	ck_assert_int_eq(accept_of(&p, name(&p.server), 0), 0);
	ev = chan_event(&p.c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_uint_eq(ev.qp.tried, 1);
	ck_assert_int_eq(ev.qp.err, EINVAL);
	ck_assert(chan_quiet(&p.s));
	ck_assert_int_eq(id_reject(&p.c, p.active, ""), 0);
	chan_event(&p.s, RDMA_CM_EVENT_REJECTED, 28);
	pair_stop(&p);
}
END_TEST

/* A QP of another context, by its key or by its number: it stays where it is, and so does the connection but for its end. */
START_TEST(others)
{
	struct cmm_rep rep;
	struct cmm_qp wrong;
	struct prog far;
	struct pair p;

	pair_start(&p);
	prog_start(&far, &p.host, "n0");
	wrong = (struct cmm_qp){ .key = p.client.key, .qpn = p.server.qpn };
	ck_assert_int_eq(accept_of(&p, wrong, 0), EINVAL);
	wrong.key = p.server.key ^ 1;
	ck_assert_int_eq(accept_of(&p, wrong, 0), EINVAL);
	wrong.key = 0;
	ck_assert_int_eq(accept_of(&p, wrong, 0), EINVAL);
	ck_assert_uint_eq(attr(&p.server).state, QPS_RESET);
	ck_assert_int_eq(accept_of(&p, name(&p.server), 0), 0);
	chan_event(&p.c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_int_eq(own(&p.c, CMM_ESTABLISH, p.active, name(&far), NULL), EINVAL); /* of another device */
	ck_assert_uint_eq(attr(&far).state, QPS_RESET);
	ck_assert(chan_quiet(&p.s));
	ck_assert_int_eq(own(&p.c, CMM_ESTABLISH, p.active, name(&p.client), NULL), 0);
	chan_event(&p.s, RDMA_CM_EVENT_ESTABLISHED, 0);
	wrong = (struct cmm_qp){ .key = p.server.key, .qpn = p.client.qpn };
	ck_assert_int_eq(own(&p.c, CMM_DISCONNECT, p.active, wrong, &rep), 0);
	ck_assert_int_eq(rep.end.qp_err, EINVAL);
	ck_assert_uint_eq(attr(&p.client).state, QPS_RTS);
	chan_event(&p.s, RDMA_CM_EVENT_DISCONNECTED, 0);
	close(far.fd);
	pair_stop(&p);
}
END_TEST

/* A REP that cannot be: its QP is of no use any more, and the request is refused. */
START_TEST(refused)
{
	struct pair p;

	pair_start(&p);
	ck_assert_int_eq(accept_of(&p, name(&p.server), 255), EINVAL);
	ck_assert_uint_eq(attr(&p.server).state, QPS_ERR);
	chan_event(&p.c, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert_int_eq(accept_of(&p, (struct cmm_qp){ 0 }, 0), EINVAL);
	pair_stop(&p);
}
END_TEST

TEST_MAIN("cm: QPs", moved, follows, follows_not, others, refused)
