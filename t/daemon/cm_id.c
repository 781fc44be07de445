/* SPDX-License-Identifier: MIT */
/*
 * cm_id.c - ids of the RDMA CM by themselves: ports, addresses, options, channels, groups, and what is out of
 * turn.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cm_client.h"
#include "t/suite.h"
#include "t/xorshift.h"

#define PORT 7471

static struct host host;
static struct chan c;

static void begin(void)
{
	host_start(&host, 0, 2);
	chan_open(&c, &host);
}

/*
 * Nothing is left of what programs made.  Agents keep what was answered for as long as it may be asked again.
 */
static void end(void)
{
	chan_close(&c);
	while (host_stat(&host, "cm", "channels"))
		;
	ck_assert_int_eq(host_stat(&host, "cm", "ids"), 0);
	ck_assert_int_eq(host_stat(&host, "cm", "ports"), 0);
	ck_assert_int_eq(host_stat(&host, "cm", "listeners"), 0);
	ck_assert_int_eq(host_stat(&host, "cm", "groups"), 0);
	host_stop(&host);
}

static int bind_new(enum rdma_port_space ps, union cmm_addr a, bool reuse, uint32_t *id)
{
	*id = id_new(&c, ps, 1);
	if (reuse)
		ck_assert_int_eq(id_option(&c, *id, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	return id_bind(&c, *id, a);
}

static int listen_on(uint32_t id)
{
	struct cmm_req req = { .op = CMM_LISTEN, .id = id };

	return chan_call(&c, &req, NULL);
}

/* Whether an id may have a port: as the rdma_cm of kernels decides. */
START_TEST(ports) /* conf: rule 7.4 */
{
	union cmm_addr any = addr_text("0.0.0.0", PORT), any6 = addr_text("::", PORT);
	uint32_t a, b, d, e;

	begin();
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, addr(0, PORT), false, &a), 0);
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, addr(0, PORT), false, &b), EADDRINUSE);
	ck_assert_int_eq(id_bind(&c, b, addr(0, PORT)), EADDRINUSE);
	ck_assert_int_eq(id_bind(&c, b, any), EADDRNOTAVAIL);
	ck_assert_int_eq(id_bind(&c, b, any6), EADDRNOTAVAIL);
	ck_assert_int_eq(id_bind(&c, b, addr(1, PORT)), 0);
	ck_assert_int_eq(id_bind(&c, b, addr(1, PORT)), EINVAL);
	ck_assert_int_eq(bind_new(RDMA_PS_UDP, addr(0, PORT), false, &d), 0);
	ck_assert_int_eq(bind_new(RDMA_PS_IB, any, false, &e), 0);
	id_destroy(&c, a);
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, addr(0, PORT), false, &a), 0);
	id_destroy(&c, a);
	id_destroy(&c, b);
	/* IPv6 only, and IPv4: no conflict. */
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, any, false, &a), 0);
	b = id_new(&c, RDMA_PS_TCP, 2);
	ck_assert_int_eq(id_option(&c, b, RDMA_OPTION_ID_AFONLY, 1), 0);
	ck_assert_int_eq(id_bind(&c, b, any6), 0);
	id_destroy(&c, a);
	id_destroy(&c, b);
	/* All want to share: one of them listens. */
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, any, true, &a), 0);
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, any, true, &b), 0);
	ck_assert_int_eq(listen_on(a), EADDRNOTAVAIL);
	id_destroy(&c, b);
	ck_assert_int_eq(listen_on(a), 0);
	ck_assert_int_eq(listen_on(a), EINVAL);
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, any, true, &b), EADDRNOTAVAIL);
	/* Without a port: any that is free. */
	d = id_new(&c, RDMA_PS_TCP, 3);
	ck_assert_int_eq(listen_on(d), 0);
	end();
}
END_TEST

/* An id is compared with all that have its port, so they are not many. */
START_TEST(crowded)
{
	enum { MOST = 1024 };
	union cmm_addr one = addr(0, PORT), other = addr(1, PORT);
	uint32_t first, id;

	begin();
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, one, true, &first), 0);
	for (unsigned n = 1; n < MOST; n++)
		ck_assert_int_eq(bind_new(RDMA_PS_TCP, one, true, &id), 0);
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, one, true, &id), EADDRINUSE);
	ck_assert_int_eq(id_bind(&c, id, other), EADDRINUSE);
	id_destroy(&c, first);
	ck_assert_int_eq(id_bind(&c, id, other), 0);
	ck_assert_int_eq(listen_on(id), 0);
	end();
}
END_TEST

static struct cmm_event resolve(uint32_t id, union cmm_addr src, union cmm_addr dst, enum rdma_cm_event_type type,
				int status)
{
	struct cmm_req req = { .op = CMM_RESOLVE_ADDR, .id = id, .resolve = { .src = src, .dst = dst } };

	ck_assert_int_eq(chan_call(&c, &req, NULL), 0);
	return chan_event(&c, type, status);
}

START_TEST(addresses)
{
	union cmm_addr none = { 0 };
	struct cmm_req req = { .op = CMM_RESOLVE_ADDR };
	struct cmm_event ev;
	uint32_t id;

	begin();
	/* Not of this host; of this host, but of no device. */
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, addr_text("192.0.2.1", 0), false, &id), EADDRNOTAVAIL);
	ck_assert_int_eq(id_bind(&c, id, addr_text("127.255.0.77", 0)), ENODEV);
	ck_assert_int_eq(id_bind(&c, id, none), EAFNOSUPPORT);
	ck_assert_int_eq(id_bind(&c, id, addr_text("fe80::1", 0)), EINVAL);
	/* The device of the source; without one, any with an address of loopback. */
	ev = resolve(id, addr(1, 0), addr(0, PORT), RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_str_eq(ev.info.dev, "n1");
	ck_assert_uint_eq(ev.info.port, 1);
	ck_assert_uint_eq(ev.info.src.in.sin_addr.s_addr, addr(1, 0).in.sin_addr.s_addr);
	ck_assert_uint_ne(ev.info.src.in.sin_port, 0);
	id_destroy(&c, id);
	id = id_new(&c, RDMA_PS_TCP, 1);
	ev = resolve(id, none, addr(1, PORT), RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_str_eq(ev.info.dev, "n1");
	/* Twice is out of turn. */
	req.id = id;
	req.resolve.dst = addr(1, PORT);
	ck_assert_int_eq(chan_call(&c, &req, NULL), EINVAL);
	id_destroy(&c, id);
	id = id_new(&c, RDMA_PS_TCP, 1);
	ev = resolve(id, none, addr_text("0.0.0.0", PORT), RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_mem_eq(ev.info.sgid, ev.info.dgid, 16);
	id_destroy(&c, id);
	/* No device there; the id may try elsewhere. */
	id = id_new(&c, RDMA_PS_TCP, 1);
	resolve(id, none, addr_text("::", PORT), RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	resolve(id, none, addr_text("::", PORT), RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	req.id = id;
	ck_assert_int_eq(chan_call(&c, &req, NULL), EINVAL); /* another family */
	/* ::1, which no device has, is what 127.0.0.1 is, but for the port. */
	ev = resolve(id, none, addr_text("::1", PORT), RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert(IN6_IS_ADDR_V4MAPPED(&ev.info.dst.in6.sin6_addr));
	ck_assert_mem_eq(ev.info.sgid, ev.info.dgid, 16);
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, addr_text("127.0.0.1", PORT + 1), false, &id), 0);
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, addr_text("::1", PORT + 1), false, &id), 0);
	ck_assert_int_eq(bind_new(RDMA_PS_TCP, addr_text("::1", PORT + 1), false, &id), EADDRINUSE);
	end();
}
END_TEST

static int call_of(enum cmm_op op, uint32_t id)
{
	struct cmm_req req = { .op = op, .id = id };

	return chan_call(&c, &req, NULL);
}

/* Requests out of turn, of unknown ids, and too long. */
START_TEST(out_of_turn)
{
	struct chan other;
	struct cmm_req req;
	uint32_t id;

	begin();
	id = id_new(&c, RDMA_PS_TCP, 1);
	ck_assert_int_eq(call_of(CMM_OPEN, 0), EBUSY);
	ck_assert_int_eq(call_of(CMM_RESOLVE_ROUTE, id), EINVAL);
	ck_assert_int_eq(call_of(CMM_CONNECT, id), EINVAL);
	ck_assert_int_eq(call_of(CMM_ACCEPT, id), EINVAL);
	ck_assert_int_eq(call_of(CMM_ESTABLISH, id), EINVAL);
	ck_assert_int_eq(call_of(CMM_REJECT, id), EINVAL);
	ck_assert_int_eq(call_of(CMM_DISCONNECT, id), EINVAL);
	ck_assert_int_eq(call_of(CMM_NOTIFY, id), EINVAL);
	ck_assert_int_eq(call_of(CMM_INIT_QP_ATTR, id), EINVAL);
	ck_assert_int_eq(call_of(CMM_JOIN, id), EINVAL);
	ck_assert_int_eq(call_of(CMM_LEAVE, id), ENOENT);
	for (uint32_t op = CMM_OPEN + 1; op < CMM_OPS; op++) {
		if (op == CMM_CREATE_ID || op == CMM_GET_EVENT)
			continue;
		ck_assert_int_eq(call_of(op, id + 1), ENOENT);
		ck_assert_int_eq(call_of(op, UINT32_MAX), ENOENT);
		ck_assert_int_eq(call_of(op, 0), ENOENT);
	}
	/* Another channel's id is nobody's. */
	chan_open(&other, &host);
	ck_assert_int_eq(id_op(&other, CMM_QUERY, id), ENOENT);
	ck_assert_int_eq(id_op(&other, CMM_DESTROY_ID, id), ENOENT);
	chan_close(&other);
	id = id_resolve(&c, addr(0, PORT), 4, RDMA_PS_TCP);
	req = (struct cmm_req){ .op = CMM_CONNECT, .id = id, .conn.conn.data_len = 57 };
	ck_assert_int_eq(chan_call(&c, &req, NULL), EINVAL);
	req.conn.conn.data_len = 56;
	ck_assert_int_eq(chan_call(&c, &req, NULL), 0);
	chan_event(&c, RDMA_CM_EVENT_REJECTED, 8);
	ck_assert_int_eq(call_of(CMM_DISCONNECT, id), 0);
	end();
}
END_TEST

START_TEST(options)
{
	struct cmm_event ev;
	uint32_t id, conn;

	begin();
	id = id_listen(&c, addr(0, PORT), 1, RDMA_PS_TCP, 0);
	ck_assert_int_eq(id_option(&c, id, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
	ck_assert_int_eq(id_option(&c, id, RDMA_OPTION_ID_AFONLY, 1), EINVAL);
	ck_assert_int_eq(id_option(&c, id, 99, 1), ENOSYS);
	struct cmm_req bad = { .op = CMM_SET_OPTION, .id = id, .option = { .name = RDMA_OPTION_ID_TOS, .len = 4 } };

	ck_assert_int_eq(chan_call(&c, &bad, NULL), EINVAL);
	/* The REQ has the options of the id. */
	conn = id_new(&c, RDMA_PS_TCP, 2);
	ck_assert_int_eq(id_option(&c, conn, RDMA_OPTION_ID_TOS, 0x68), 0);
	ck_assert_int_eq(id_option(&c, conn, RDMA_OPTION_ID_ACK_TIMEOUT, 21), 0);
	resolve(conn, (union cmm_addr){ 0 }, addr(0, PORT), RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(call_of(CMM_RESOLVE_ROUTE, conn), 0);
	ev = chan_event(&c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_uint_eq(ev.info.tclass, 0x68);
	ck_assert_uint_eq(ev.info.life, 20);
	ck_assert_uint_eq(ev.info.hop_limit, 64);
	ck_assert_uint_eq(ev.info.flow_label, (ntohs(ev.info.src.in.sin_port) * 31 + PORT) & 0xfffff);
	ck_assert_int_eq(id_connect(&c, conn, 1, ""), 0);
	ev = chan_event(&c, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_uint_eq(ev.info.tclass, 0x68);
	ck_assert_uint_eq(id_qp(&c, ev.id, QPS_RTS).qp.attr.timeout, 21);
	ck_assert_uint_eq(id_qp(&c, ev.id, QPS_RTR).qp.attr.av.tclass, 0x68);
	id_destroy(&c, ev.id);
	chan_event(&c, RDMA_CM_EVENT_REJECTED, 28);
	chan_close(&c);
	chan_open(&c, &host);
	end();
}
END_TEST

/* Events go where their id goes, and only theirs; a destroyed id has none. */
START_TEST(migrate)
{
	struct cmm_req req = { .op = CMM_MIGRATE };
	struct chan other;
	struct cmm_rep rep;
	uint32_t a, b;

	begin();
	chan_open(&other, &host);
	a = id_new(&c, RDMA_PS_TCP, 4);
	b = id_new(&c, RDMA_PS_TCP, 5);
	for (unsigned i = 0; i < 2; i++) {
		struct cmm_req ask = { .op = CMM_RESOLVE_ADDR, .id = i ? b : a, .resolve.dst = addr(0, PORT) };

		ck_assert_int_eq(chan_call(&c, &ask, NULL), 0);
	}
	req.id = b;
	req.migrate.key = other.key; /* not of the one that it is on */
	ck_assert_int_eq(chan_call(&other, &req, NULL), ENOENT);
	req.migrate.key = c.key;
	ck_assert_int_eq(chan_call(&other, &req, &rep), 0);
	ck_assert_uint_eq(rep.gone.events, 0);
	ck_assert_uint_eq(chan_event(&c, RDMA_CM_EVENT_ADDR_RESOLVED, 0).id, a);
	ck_assert(chan_quiet(&c));
	ck_assert_uint_eq(chan_event(&other, RDMA_CM_EVENT_ADDR_RESOLVED, 0).id, b);
	ck_assert(chan_quiet(&other));
	ck_assert_int_eq(id_op(&c, CMM_RESOLVE_ROUTE, b), ENOENT);
	ck_assert_int_eq(id_op(&other, CMM_RESOLVE_ROUTE, b), 0);
	ck_assert(!chan_quiet(&other));
	chan_close(&other);
	/* Its event fetched is told of; one that waits goes with it. */
	ck_assert_int_eq(id_op(&c, CMM_RESOLVE_ROUTE, a), 0);
	req = (struct cmm_req){ .op = CMM_DESTROY_ID, .id = a };
	ck_assert_int_eq(chan_call(&c, &req, &rep), 0);
	ck_assert_uint_eq(rep.gone.events, 1);
	ck_assert(chan_quiet(&c));
	end();
}
END_TEST

/* An id that no event has told of yet is nobody's: who guesses its number finds nothing. */
START_TEST(untold)
{
	struct cmm_req move = { .op = CMM_MIGRATE };
	struct pollfd p = { .events = POLLIN };
	const uint32_t most = 256;
	uint32_t listener, active;
	struct cmm_event ev;
	struct chan other;

	begin();
	chan_open(&other, &host);
	listener = id_listen(&c, addr(0, PORT), 1, RDMA_PS_TCP, 4);
	active = id_resolve(&other, addr(0, PORT), 2, RDMA_PS_TCP);
	ck_assert_int_eq(id_connect(&other, active, 10, ""), 0);
	p.fd = c.event;
	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	for (uint32_t n = 1; n <= most; n++) {
		move.id = n;
		if (n == listener || n == active)
			continue;
		ck_assert_int_eq(id_accept(&c, n, 5, 11, ""), ENOENT);
		ck_assert_int_eq(chan_call(&other, &move, NULL), ENOENT);
	}
	ev = chan_event(&c, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_uint_le(ev.id, most);
	ck_assert_int_eq(id_accept(&c, ev.id, 5, 11, ""), 0);
	chan_event(&other, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	chan_close(&other);
	end();
}
END_TEST

static int join(uint32_t id, const char *group, uint64_t cookie, uint32_t *number)
{
	struct cmm_req req = { .op = CMM_JOIN, .id = id, .join = { .cookie = cookie, .addr = addr_text(group, 0) } };
	struct cmm_rep rep;
	int err = chan_call(&c, &req, &rep);

	*number = rep.join.group;
	return err;
}

START_TEST(groups)
{
	static const uint8_t mgid[16] = { [10] = 0xff, [11] = 0xff, 239, 1, 2, 3 };
	struct cmm_req leave = { .op = CMM_LEAVE };
	struct cmm_event ev;
	struct cmm_rep rep;
	uint32_t id, tcp, g, h;

	begin();
	tcp = id_new(&c, RDMA_PS_TCP, 1);
	ck_assert_int_eq(id_bind(&c, tcp, addr(0, 0)), 0);
	ck_assert_int_eq(join(tcp, "239.1.2.3", 1, &g), EINVAL);
	id = id_new(&c, RDMA_PS_UDP, 2);
	ck_assert_int_eq(join(id, "239.1.2.3", 1, &g), EINVAL); /* no device yet */
	ck_assert_int_eq(id_bind(&c, id, addr(1, 0)), 0);
	ck_assert_int_eq(join(id, "127.0.0.1", 1, &g), EINVAL);
	ck_assert_int_eq(join(id, "239.1.2.3", 7, &g), 0);
	ev = chan_event(&c, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	ck_assert_uint_eq(ev.group, g);
	ck_assert_uint_eq(ev.group_cookie, 7);
	ck_assert_uint_eq(ev.cookie, 2);
	ck_assert_uint_eq(ev.conn.qp_num, 0xffffff);
	ck_assert_uint_eq(ev.conn.qkey, RDMA_UDP_QKEY);
	ck_assert_mem_eq(ev.av.dgid, mgid, 16);
	ck_assert_int_eq(join(id, "239.1.2.4", 8, &h), 0);
	leave.id = id;
	leave.leave.group = h;
	ck_assert_int_eq(chan_call(&c, &leave, &rep), 0);
	ck_assert_uint_eq(rep.gone.events, 0);
	ck_assert(chan_quiet(&c));
	leave.leave.group = g;
	ck_assert_int_eq(chan_call(&c, &leave, &rep), 0);
	ck_assert_uint_eq(rep.gone.events, 1);
	ck_assert_int_eq(chan_call(&c, &leave, &rep), ENOENT);
	ck_assert_int_eq(join(id, "239.1.2.3", 7, &g), 0);
	ck_assert_int_eq(host_stat(&host, "cm", "groups"), 1);
	end();
}
END_TEST

static uint64_t dice = 0x9e3779b97f4a7c15u;

static unsigned draw(unsigned n) { return (unsigned)(xorshift(&dice) >> 33) % n; }

static union cmm_addr draw_addr(void)
{
	static const char *const odd[] = { "0.0.0.0", "::", "::1", "127.0.0.1", "239.0.0.1", "ff02::77", "fe80::1" };
	union cmm_addr a = draw(3) ? addr(draw(2), (uint16_t)(PORT + draw(2)))
				   : addr_text(odd[draw(7)], (uint16_t)draw(3));

	if (!draw(20))
		a.sa.sa_family = (sa_family_t)draw(12);
	return a;
}

#define SEEN 24u
static uint32_t seen[SEEN]; /* ids made last */
static uint64_t other_key;

/*
 * Any request with any content, on two channels; what it means is the daemon's to judge.  Groups stay on this
 * host.
 */
static void draw_request(struct cmm_req *r)
{
	static const uint8_t often[] = { CMM_GET_EVENT, CMM_RESOLVE_ADDR, CMM_RESOLVE_ROUTE, CMM_CONNECT, CMM_ACCEPT };

	for (size_t i = 0; i < sizeof(*r); i++)
		((uint8_t *)r)[i] = draw(4) ? 0 : (uint8_t)draw(256);
	r->op = CMM_OPEN + draw(CMM_OPS - CMM_OPEN);
	/* Few ids, and long-lived ones. */
	if ((r->op == CMM_DESTROY_ID || r->op == CMM_CREATE_ID || r->op == CMM_MIGRATE) && draw(5))
		r->op = often[draw(sizeof(often))];
	r->id = draw(10) ? seen[draw(SEEN)] : draw(60);
	switch (r->op) {
	case CMM_CREATE_ID:
		r->create.ps = draw(2) ? RDMA_PS_TCP : RDMA_PS_UDP;
		r->create.cookie = 1 + draw(2);
		break;
	case CMM_BIND: r->bind.addr = draw_addr(); break;
	case CMM_RESOLVE_ADDR:
		r->resolve.src = draw_addr();
		r->resolve.dst = draw_addr();
		if (draw(2))
			memset(&r->resolve.src, 0, sizeof(r->resolve.src));
		break;
	case CMM_JOIN:
		r->join.addr = draw_addr();
		r->join.flags = draw(3);
		break;
	case CMM_CONNECT: r->conn.conn.data_len = (uint8_t)draw(60); break;
	case CMM_ACCEPT: r->conn.cookie = draw(3); break;
	case CMM_SET_OPTION:
		r->option.level = !draw(8);
		r->option.name = draw(5);
		r->option.len = draw(2) ? 1 : 4;
		break;
	case CMM_LEAVE: r->leave.group = draw(10); break;
	case CMM_INIT_QP_ATTR: r->qp.state = draw(8); break;
	case CMM_MIGRATE: r->migrate.key = draw(2) ? c.key : other_key; break;
	case CMM_PUT_EVENT: r->put.type = 15 + draw(5); break;
	}
}

START_TEST(anything)
{
	unsigned done[CMM_OPS] = { 0 };
	unsigned seen_n = 0;
	struct cmm_req req;
	struct cmm_rep rep;
	struct chan other;

	begin();
	for (unsigned round = 0; round < 60; round++) {
		chan_open(&other, &host);
		other_key = other.key;
		for (unsigned i = 0; i < 2000; i++) {
			draw_request(&req);
			if (req.op == CMM_OPEN || chan_call(draw(2) ? &c : &other, &req, &rep))
				continue;
			done[req.op]++;
			if (req.op == CMM_CREATE_ID)
				seen[seen_n++ % SEEN] = rep.create.id;
			else if (req.op == CMM_GET_EVENT && rep.event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
				seen[seen_n++ % SEEN] = rep.event.id;
		}
		chan_close(&other);
	}
	for (unsigned op = CMM_OPEN + 1; op < CMM_OPS; op++)
		ck_assert_msg(done[op] || op == CMM_ESTABLISH || op == CMM_NOTIFY || op == CMM_LEAVE,
			      "op %u never did anything", op);
	end();
}
END_TEST

TEST_MAIN("ctl: ids of connections", ports, crowded, addresses, out_of_turn, options, migrate, untold, groups, anything)
