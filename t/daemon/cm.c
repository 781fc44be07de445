/* SPDX-License-Identifier: MIT */
/*
 * cm.c - the RDMA CM of the daemon as a library meets it: connections within one daemon and between two,
 * refusals, and ends of every kind.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cm_client.h"
#include "t/suite.h"

#define PORT 7471

/* A server on device 1 and a client on device 0, of one daemon or of two. */
struct pair {
	struct host host[2];
	struct host *server, *client;
	struct chan s, c;
	uint32_t listener, active, passive;
};

static void pair_start(struct pair *p, bool two)
{
	host_start(&p->host[0], 0, two ? 1 : 2);
	if (two)
		host_start(&p->host[1], 1, 1);
	p->client = &p->host[0];
	p->server = two ? &p->host[1] : &p->host[0];
	chan_open(&p->s, p->server);
	chan_open(&p->c, p->client);
}

static void pair_stop(struct pair *p)
{
	host_stop(p->client);
	if (p->server != p->client)
		host_stop(p->server);
}

static long stat_of(const struct pair *p, const char *name)
{
	return host_stat(p->client, "cm", name) + (p->server != p->client ? host_stat(p->server, "cm", name) : 0);
}

static void all_gone(const struct pair *p)
{
	while (stat_of(p, "channels")) /* the sessions' ends are on their way */
		;
	ck_assert_int_eq(stat_of(p, "ids"), 0);
	ck_assert_int_eq(stat_of(p, "listeners"), 0);
	ck_assert_int_eq(stat_of(p, "ports"), 0);
	ck_assert_int_eq(stat_of(p, "groups"), 0);
}

/* Asks, up to the CONNECT_REQUEST. */
static struct cmm_event ask(struct pair *p, uint32_t qpn)
{
	struct cmm_event ev;

	p->active = id_resolve(&p->c, addr(1, PORT), 0xc0, RDMA_PS_TCP);
	ck_assert_int_eq(id_connect(&p->c, p->active, qpn, "ask"), 0);
	ev = chan_event(&p->s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	p->passive = ev.id;
	return ev;
}

static void establish(struct pair *p, uint32_t qpn)
{
	ask(p, qpn);
	ck_assert_int_eq(id_accept(&p->s, p->passive, 0x50, qpn + 1, "answer"), 0);
	chan_event(&p->c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_int_eq(id_op(&p->c, CMM_ESTABLISH, p->active), 0);
	ck_assert_uint_eq(chan_event(&p->s, RDMA_CM_EVENT_ESTABLISHED, 0).cookie, 0x50);
}

static void same_data(const struct cmm_conn *c, const char *data, size_t len)
{
	static const uint8_t zero[CMM_DATA];

	ck_assert_uint_eq(c->data_len, len);
	ck_assert_mem_eq(c->data, data, strlen(data));
	ck_assert_mem_eq(c->data + strlen(data), zero, len - strlen(data));
}

static void same_addr(const union cmm_addr *a, const union cmm_addr *b)
{
	ck_assert_int_eq(a->in.sin_family, b->in.sin_family);
	ck_assert_uint_eq(a->in.sin_addr.s_addr, b->in.sin_addr.s_addr);
	ck_assert_uint_eq(a->in.sin_port, b->in.sin_port);
}

/* An event brings what the library would be told if it asked. */
static void same_init(struct chan *c, uint32_t id, const struct cmm_attr *a)
{
	struct cmm_rep rep = id_qp(c, id, QPS_INIT);

	ck_assert_uint_ne(a->mask, 0);
	ck_assert_mem_eq(a, &rep.qp, sizeof(*a));
}

/* Every number of a connection, seen from both ends (rules 7.4 to 7.8). */
static void connection(struct pair *p)
{
	struct cmm_rep a, b;
	struct cmm_event req, rep;

	p->listener = id_listen(&p->s, addr_text("0.0.0.0", PORT), 0x11, RDMA_PS_TCP, 4);
	req = ask(p, 100);
	ck_assert_uint_eq(req.cookie, 0x11);
	ck_assert_uint_ne(req.id, p->listener);
	ck_assert_str_eq(req.info.dev, "n1");
	ck_assert_uint_eq(req.conn.qp_num, 100);
	ck_assert_uint_eq(req.conn.responder_resources, 5);
	ck_assert_uint_eq(req.conn.initiator_depth, 3);
	ck_assert_uint_eq(req.conn.retry_count, 6);
	same_data(&req.conn, "ask", 56);
	same_addr(&req.info.src, &(union cmm_addr){ .in = addr(1, PORT).in });
	/* The server's QP, before it accepts. */
	same_init(&p->s, p->passive, &req.init);
	a = id_qp(&p->s, p->passive, QPS_INIT);
	ck_assert_uint_eq(a.qp.attr.access, ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC);
	a = id_qp(&p->s, p->passive, QPS_RTR);
	ck_assert_uint_eq(a.qp.attr.dest_qpn, 100);
	ck_assert_uint_eq(a.qp.attr.max_dest_rd_atomic, 5);
	ck_assert_int_eq(id_accept(&p->s, p->passive, 0x50, 101, "answer"), 0);
	rep = chan_event(&p->c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_uint_eq(rep.cookie, 0xc0);
	ck_assert_uint_eq(rep.conn.qp_num, 101);
	same_data(&rep.conn, "answer", 196);
	same_addr(&rep.info.src, &req.info.dst);
	same_addr(&rep.info.dst, &req.info.src);
	b = id_qp(&p->c, p->active, QPS_RTR);
	ck_assert_uint_eq(b.qp.attr.dest_qpn, 101);
	ck_assert_uint_eq(b.qp.attr.max_dest_rd_atomic, 3);
	ck_assert_uint_eq(b.qp.attr.path_mtu, a.qp.attr.path_mtu);
	ck_assert_uint_eq(b.qp.attr.rq_psn, id_qp(&p->s, p->passive, QPS_RTS).qp.attr.sq_psn);
	ck_assert_uint_eq(a.qp.attr.rq_psn, id_qp(&p->c, p->active, QPS_RTS).qp.attr.sq_psn);
	ck_assert_mem_eq(a.qp.attr.av.dgid, rep.info.sgid, 16);
	ck_assert_mem_eq(b.qp.attr.av.dgid, req.info.sgid, 16);
	b = id_qp(&p->c, p->active, QPS_RTS);
	ck_assert_uint_eq(b.qp.attr.retry_cnt, 6);
	ck_assert_uint_eq(b.qp.attr.timeout, 17);
	ck_assert_uint_eq(b.qp.attr.max_rd_atomic, 5);
	ck_assert(chan_quiet(&p->s));
	ck_assert_int_eq(id_op(&p->c, CMM_ESTABLISH, p->active), 0);
	ck_assert_int_eq(id_op(&p->c, CMM_ESTABLISH, p->active), EINVAL);
	chan_event(&p->s, RDMA_CM_EVENT_ESTABLISHED, 0);
	/* The client ends it. */
	ck_assert_int_eq(id_op(&p->c, CMM_DISCONNECT, p->active), 0);
	ck_assert_uint_eq(chan_event(&p->s, RDMA_CM_EVENT_DISCONNECTED, 0).cookie, 0x50);
	ck_assert_int_eq(id_op(&p->s, CMM_DISCONNECT, p->passive), 0);
	chan_event(&p->c, RDMA_CM_EVENT_DISCONNECTED, 0);
	chan_event(&p->c, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	chan_event(&p->s, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	ck_assert(chan_quiet(&p->c) && chan_quiet(&p->s));
	id_destroy(&p->c, p->active);
	id_destroy(&p->s, p->passive);
	/* Once more; now the server destroys without a word. */
	establish(p, 200);
	id_destroy(&p->s, p->passive);
	chan_event(&p->c, RDMA_CM_EVENT_DISCONNECTED, 0);
	id_destroy(&p->c, p->active);
	id_destroy(&p->s, p->listener);
	chan_close(&p->c);
	chan_close(&p->s);
	all_gone(p);
	pair_stop(p);
}

START_TEST(connect_within)
{
	struct pair p = { 0 };

	pair_start(&p, false);
	connection(&p);
}
END_TEST

START_TEST(connect_between)
{
	struct pair p = { 0 };

	pair_start(&p, true);
	connection(&p);
}
END_TEST

static void refusal(struct pair *p)
{
	struct cmm_event ev;
	uint32_t id;

	/* Nobody listens: the agent says so. */
	id = id_resolve(&p->c, addr(1, PORT), 1, RDMA_PS_TCP);
	ck_assert_int_eq(id_connect(&p->c, id, 10, ""), 0);
	chan_event(&p->c, RDMA_CM_EVENT_REJECTED, 8);
	ck_assert_int_eq(id_connect(&p->c, id, 10, ""), EINVAL);
	id_destroy(&p->c, id);
	/* Somebody does, and does not want it. */
	p->listener = id_listen(&p->s, addr(1, PORT), 2, RDMA_PS_TCP, 2);
	ask(p, 20);
	ck_assert_int_eq(id_reject(&p->s, p->passive, "go away"), 0);
	ev = chan_event(&p->c, RDMA_CM_EVENT_REJECTED, 28);
	same_data(&ev.conn, "go away", 148);
	id_destroy(&p->s, p->passive);
	id_destroy(&p->c, p->active);
	/* The request is destroyed; then one that nobody saw, with its listener. */
	ask(p, 30);
	id_destroy(&p->s, p->passive);
	chan_event(&p->c, RDMA_CM_EVENT_REJECTED, 28);
	id_destroy(&p->c, p->active);
	id = id_resolve(&p->c, addr(1, PORT), 3, RDMA_PS_TCP);
	ck_assert_int_eq(id_connect(&p->c, id, 40, ""), 0);
	while (!host_stat(p->server, "cm", "events"))
		;
	id_destroy(&p->s, p->listener);
	chan_event(&p->c, RDMA_CM_EVENT_REJECTED, 28);
	id_destroy(&p->c, id);
	/* The client refuses the answer. */
	p->listener = id_listen(&p->s, addr(1, PORT), 2, RDMA_PS_TCP, 2);
	ask(p, 50);
	ck_assert_int_eq(id_accept(&p->s, p->passive, 0x50, 51, ""), 0);
	chan_event(&p->c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_int_eq(id_reject(&p->c, p->active, "no"), 0);
	ev = chan_event(&p->s, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert_uint_eq(ev.cookie, 0x50);
	same_data(&ev.conn, "no", 148);
	ck_assert_int_eq(id_op(&p->c, CMM_ESTABLISH, p->active), EINVAL);
	chan_close(&p->c);
	chan_close(&p->s);
	all_gone(p);
	pair_stop(p);
}

START_TEST(refuse_within)
{
	struct pair p = { 0 };

	pair_start(&p, false);
	refusal(&p);
}
END_TEST

START_TEST(refuse_between)
{
	struct pair p = { 0 };

	pair_start(&p, true);
	refusal(&p);
}
END_TEST

/* More requests than the backlog has room for come again until it has; those that were fetched do not count. */
START_TEST(backlog)
{
	struct pair p = { 0 };
	uint32_t id[3], other;

	pair_start(&p, false);
	p.listener = id_listen(&p.s, addr(1, PORT), 2, RDMA_PS_TCP, 2);
	for (unsigned i = 0; i < 3; i++) {
		id[i] = id_resolve(&p.c, addr(1, PORT), i, RDMA_PS_TCP);
		ck_assert_int_eq(id_connect(&p.c, id[i], 10 + i, ""), 0);
	}
	/* One that nobody listens to is refused: all before it were heard, and none of them refused. */
	other = id_resolve(&p.c, addr(1, PORT + 1), 3, RDMA_PS_TCP);
	ck_assert_int_eq(id_connect(&p.c, other, 13, ""), 0);
	ck_assert_uint_eq(chan_event(&p.c, RDMA_CM_EVENT_REJECTED, 8).cookie, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(chan_event(&p.s, RDMA_CM_EVENT_CONNECT_REQUEST, 0).conn.qp_num, 10 + i);
	chan_close(&p.c);
	chan_close(&p.s);
	all_gone(&p);
	pair_stop(&p);
}
END_TEST

/*
 * A listener that comes a moment after the request gets it.  How long a moment is on a busy machine nobody
 * knows: one in 50.
 */
START_TEST(early)
{
	struct cmm_req get = { .op = CMM_GET_EVENT };
	struct pair p = { 0 };
	struct cmm_rep rep;
	bool got = false;

	pair_start(&p, false);
	for (unsigned i = 0; i < 50 && !got; i++) {
		struct cmm_req ready = { .op = CMM_LISTEN };

		ready.id = id_new(&p.s, RDMA_PS_TCP, 1);
		ck_assert_int_eq(id_bind(&p.s, ready.id, addr(1, PORT)), 0);
		p.active = id_resolve(&p.c, addr(1, PORT), 2, RDMA_PS_TCP);
		ck_assert_int_eq(id_connect(&p.c, p.active, 10 + i, ""), 0);
		ck_assert_int_eq(chan_call(&p.s, &ready, NULL), 0);
		/* Either way there is an answer. */
		while (!got && chan_quiet(&p.c))
			got = !chan_call(&p.s, &get, &rep);
		if (got)
			ck_assert_uint_eq(rep.event.type, RDMA_CM_EVENT_CONNECT_REQUEST);
		else
			chan_event(&p.c, RDMA_CM_EVENT_REJECTED, 8);
		id_destroy(&p.c, p.active);
		id_destroy(&p.s, ready.id);
	}
	ck_assert(got);
	chan_close(&p.c);
	chan_close(&p.s);
	all_gone(&p);
	pair_stop(&p);
}
END_TEST

/*
 * A request that is in haste is refused at once, before one that is kept for a moment; if that moment is over for the first before the
 * second is sent, on a busy machine, they are asked again.
 */
START_TEST(hasty)
{
	struct pair p = { 0 };
	bool first = false;

	pair_start(&p, false);
	for (unsigned i = 0; i < 50 && !first; i++) {
		struct cmm_req req = { .op = CMM_CONNECT, .conn.conn = { .qp_num = 11, .hasty = 1 } };
		uint32_t waits = id_resolve(&p.c, addr(1, PORT), 1, RDMA_PS_TCP);

		req.id = id_resolve(&p.c, addr(1, PORT), 2, RDMA_PS_TCP);
		ck_assert_int_eq(id_connect(&p.c, waits, 10, ""), 0);
		ck_assert_int_eq(chan_call(&p.c, &req, NULL), 0);
		first = chan_event(&p.c, RDMA_CM_EVENT_REJECTED, 8).cookie == 2;
		chan_event(&p.c, RDMA_CM_EVENT_REJECTED, 8);
		id_destroy(&p.c, waits);
		id_destroy(&p.c, req.id);
	}
	ck_assert(first);
	chan_close(&p.c);
	chan_close(&p.s);
	all_gone(&p);
	pair_stop(&p);
}
END_TEST

/* A thousand at once, made and ended; and all is as before. */
START_TEST(many)
{
	enum { N = 1000 };
	static uint32_t active[N], passive[N];
	struct pair p = { 0 };

	pair_start(&p, true);
	p.listener = id_listen(&p.s, addr(1, PORT), 1, RDMA_PS_TCP, 0);
	for (unsigned i = 0; i < N; i++) {
		establish(&p, 100 + 2 * i);
		active[i] = p.active;
		passive[i] = p.passive;
	}
	ck_assert_int_eq(stat_of(&p, "ids"), 2 * N + 1);
	for (unsigned i = 0; i < N; i++) {
		id_destroy(i % 2 ? &p.c : &p.s, i % 2 ? active[i] : passive[i]);
		chan_event(i % 2 ? &p.s : &p.c, RDMA_CM_EVENT_DISCONNECTED, 0);
		id_destroy(i % 2 ? &p.s : &p.c, i % 2 ? passive[i] : active[i]);
	}
	chan_close(&p.c);
	chan_close(&p.s);
	all_gone(&p);
	/* State that the protocol keeps is kept for half a second. */
	while (stat_of(&p, "agent_ids"))
		;
	pair_stop(&p);
}
END_TEST

/* A program that dies: its peers are told, its ports are free. */
static void death(struct pair *p)
{
	struct chan again;

	p->listener = id_listen(&p->s, addr(1, PORT), 2, RDMA_PS_TCP, 2);
	establish(p, 10);
	chan_close(&p->c);
	chan_event(&p->s, RDMA_CM_EVENT_DISCONNECTED, 0);
	id_destroy(&p->s, p->passive);
	chan_open(&p->c, p->client);
	establish(p, 20);
	chan_close(&p->s);
	chan_event(&p->c, RDMA_CM_EVENT_DISCONNECTED, 0);
	id_destroy(&p->c, p->active);
	chan_open(&again, p->server);
	while (host_stat(p->server, "cm", "ports"))
		;
	p->s = again;
	p->listener = id_listen(&p->s, addr(1, PORT), 2, RDMA_PS_TCP, 2);
	/* Between request and answer: the server, then the client. */
	ask(p, 30);
	chan_close(&p->s);
	chan_event(&p->c, RDMA_CM_EVENT_REJECTED, 28);
	id_destroy(&p->c, p->active);
	chan_open(&p->s, p->server);
	while (host_stat(p->server, "cm", "ports"))
		;
	p->listener = id_listen(&p->s, addr(1, PORT), 2, RDMA_PS_TCP, 2);
	ask(p, 40);
	ck_assert_int_eq(id_accept(&p->s, p->passive, 0x50, 41, ""), 0);
	chan_event(&p->c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	chan_close(&p->c);
	chan_event(&p->s, RDMA_CM_EVENT_REJECTED, 28);
	chan_close(&p->s);
	all_gone(p);
	pair_stop(p);
}

START_TEST(death_within)
{
	struct pair p = { 0 };

	pair_start(&p, false);
	death(&p);
}
END_TEST

START_TEST(death_between)
{
	struct pair p = { 0 };

	pair_start(&p, true);
	death(&p);
}
END_TEST

/*
 * A server that changes its mind after its answer: the client is told so, and nothing more.  The time wait of a connection that
 * began later ends later.
 */
START_TEST(torn)
{
	struct pair p = { 0 };
	struct cmm_event ev;
	uint32_t first;

	pair_start(&p, false);
	p.listener = id_listen(&p.s, addr(1, PORT), 2, RDMA_PS_TCP, 2);
	ask(&p, 20);
	first = p.active;
	ck_assert_int_eq(id_accept(&p.s, p.passive, 0x50, 21, ""), 0);
	chan_event(&p.c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	id_destroy(&p.s, p.passive);
	chan_event(&p.c, RDMA_CM_EVENT_REJECTED, 28);
	establish(&p, 30);
	id_destroy(&p.s, p.passive);
	chan_event(&p.c, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_int_eq(id_op(&p.c, CMM_DISCONNECT, p.active), 0);
	ev = chan_event(&p.c, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	ck_assert_uint_eq(ev.id, p.active);
	id_destroy(&p.c, first);
	ck_assert(chan_quiet(&p.c));
	chan_close(&p.c);
	chan_close(&p.s);
	all_gone(&p);
	pair_stop(&p);
}
END_TEST

/* UD: who answers on the port, and with which QP. */
START_TEST(datagram)
{
	struct pair p = { 0 };
	struct cmm_event ev;
	struct cmm_rep qp;

	pair_start(&p, true);
	p.listener = id_listen(&p.s, addr(1, PORT), 2, RDMA_PS_UDP, 2);
	p.active = id_resolve(&p.c, addr(1, PORT), 3, RDMA_PS_UDP);
	qp = id_qp(&p.c, p.active, QPS_INIT);
	ck_assert_uint_eq(qp.qp.attr.qkey, RDMA_UDP_QKEY);
	ck_assert_uint_eq(qp.qp.mask, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY);
	ck_assert_int_eq(id_connect(&p.c, p.active, 10, "who?"), 0);
	ev = chan_event(&p.s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_uint_eq(ev.ud, 1);
	same_data(&ev.conn, "who?", 180);
	ck_assert_int_eq(id_accept(&p.s, ev.id, 5, 77, "me"), 0);
	ev = chan_event(&p.c, RDMA_CM_EVENT_ESTABLISHED, 0);
	same_data(&ev.conn, "me", 136);
	ck_assert_uint_eq(ev.ud, 1);
	ck_assert_uint_eq(ev.conn.qp_num, 77);
	ck_assert_uint_eq(ev.conn.qkey, RDMA_UDP_QKEY);
	ck_assert_mem_eq(ev.av.dgid, ev.info.dgid, 16);
	ck_assert_uint_eq(ev.av.hop_limit, 64);
	/* No. */
	p.active = id_resolve(&p.c, addr(1, PORT), 4, RDMA_PS_UDP);
	ck_assert_int_eq(id_connect(&p.c, p.active, 10, ""), 0);
	ev = chan_event(&p.s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_int_eq(id_reject(&p.s, ev.id, "no"), 0);
	ev = chan_event(&p.c, RDMA_CM_EVENT_UNREACHABLE, 2);
	same_data(&ev.conn, "no", 136);
	/* Nobody. */
	p.active = id_resolve(&p.c, addr(1, PORT + 1), 4, RDMA_PS_UDP);
	ck_assert_int_eq(id_connect(&p.c, p.active, 10, ""), 0);
	chan_event(&p.c, RDMA_CM_EVENT_UNREACHABLE, 1);
	chan_close(&p.c);
	chan_close(&p.s);
	all_gone(&p);
	pair_stop(&p);
}
END_TEST

TEST_MAIN("ctl: connections", connect_within, connect_between, refuse_within, refuse_between, backlog, early, hasty,
	  many, death_within, death_between, torn, datagram)
