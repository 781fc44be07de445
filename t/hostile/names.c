/* SPDX-License-Identifier: MIT */
/*
 * names.c - what a user names is his.  Peers know a connection by its queue pair: one who names another one's, in a request or in a
 * reply, is refused, and that one's connection goes on.  A file that he may not open names no XRC domain, and the privileged Q_Keys,
 * by which peers know their CM, are not his.
 */
#include "t/suite.h"

#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdmad/cmmsg.h>

#include "proto/cm_msg.h"

#define VICTIMS_PORT   7471
#define ATTACKERS_PORT 7472

enum { QPN, CONNECTED, OTHER_QPN, THIRD_QPN, TRIED, MAY_END };

/* Descriptors that come with replies are gone: nobody waits for events but by asking. */
static int cmm(int fd, struct cmm_req *req, struct cmm_rep *rep)
{
	ck_assert(say(fd, req, cmm_req_len(req->op), NULL, 0, 0));
	ck_assert_int_eq(recv(fd, rep, sizeof(*rep), 0), sizeof(*rep));
	return rep->err;
}

static int channel(void)
{
	struct cmm_req req = { .op = CMM_OPEN };
	struct cmm_rep rep;
	int fd = hail();

	ck_assert_int_eq(cmm(fd, &req, &rep), 0);
	return fd;
}

static struct cmm_event event(int fd, unsigned type)
{
	struct cmm_req req = { .op = CMM_GET_EVENT };
	double begun = stage_seconds();
	struct cmm_rep rep;
	int err;

	while ((err = cmm(fd, &req, &rep)) == EAGAIN)
		ck_assert_msg(!stage_late(begun, 20), "waited for event %u in vain", type);
	ck_assert_int_eq(err, 0);
	ck_assert_msg(rep.event.type == type, "event %u, not %u", rep.event.type, type);
	return rep.event;
}

static union cmm_addr home(uint16_t port)
{
	return (union cmm_addr){
		.in = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }
	};
}

static uint32_t id_new(int fd)
{
	struct cmm_req req = { .op = CMM_CREATE_ID, .create = { .ps = CM_PS_TCP, .cookie = 1 } };
	struct cmm_rep rep;

	ck_assert_int_eq(cmm(fd, &req, &rep), 0);
	return rep.create.id;
}

static void listen_on(int fd, uint16_t port)
{
	uint32_t id = id_new(fd);
	struct cmm_req bind = { .op = CMM_BIND, .id = id, .bind.addr = home(port) };
	struct cmm_req req = { .op = CMM_LISTEN, .id = id, .listen.backlog = 4 };
	struct cmm_rep rep;

	ck_assert_int_eq(cmm(fd, &bind, &rep), 0);
	ck_assert_int_eq(cmm(fd, &req, &rep), 0);
}

/* Up to the REQ; *err: that of rdma_connect(). */
static uint32_t ask(int fd, uint16_t port, uint32_t qpn, int *err)
{
	uint32_t id = id_new(fd);
	struct cmm_req addr = { .op = CMM_RESOLVE_ADDR, .id = id, .resolve.dst = home(port) };
	struct cmm_req route = { .op = CMM_RESOLVE_ROUTE, .id = id };
	struct cmm_req req = { .op = CMM_CONNECT, .id = id, .conn.conn = { .qp_num = qpn, .retry_count = 7 } };
	struct cmm_rep rep;

	ck_assert_int_eq(cmm(fd, &addr, &rep), 0);
	event(fd, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(cmm(fd, &route, &rep), 0);
	event(fd, RDMA_CM_EVENT_ROUTE_RESOLVED);
	*err = cmm(fd, &req, &rep);
	return id;
}

static int answer(int fd, uint32_t id, uint32_t qpn)
{
	struct cmm_req req = { .op = CMM_ACCEPT, .id = id, .conn = { .cookie = 2, .conn.qp_num = qpn } };
	struct cmm_rep rep;

	return cmm(fd, &req, &rep);
}

static int op(int fd, enum cmm_op what, uint32_t id)
{
	struct cmm_req req = { .op = what, .id = id };
	struct cmm_rep rep;

	return cmm(fd, &req, &rep);
}

/* A connection from this process to itself; the active id. */
static uint32_t establish(int from, int to, uint16_t port, uint32_t qpn)
{
	uint32_t id;
	int err;

	id = ask(from, port, qpn, &err);
	ck_assert_int_eq(err, 0);
	ck_assert_int_eq(answer(to, event(to, RDMA_CM_EVENT_CONNECT_REQUEST).id, 0), 0);
	event(from, RDMA_CM_EVENT_CONNECT_RESPONSE);
	ck_assert_int_eq(op(from, CMM_ESTABLISH, id), 0);
	event(to, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static void victim(void *)
{
	struct cmm_req get = { .op = CMM_GET_EVENT };
	int s = channel(), c = channel();
	struct cmm_rep rep;
	static struct cx cx;
	uint32_t id;

	cx_open(&cx);
	listen_on(s, VICTIMS_PORT);
	id = establish(c, s, VICTIMS_PORT, cx.qpn);
	note_set(QPN, cx.qpn);
	note_set(CONNECTED, 1);
	note_wait(TRIED, 1);
	ck_assert_int_eq(cmm(c, &get, &rep), EAGAIN);
	ck_assert_int_eq(cmm(s, &get, &rep), EAGAIN);
	ck_assert_int_eq(op(c, CMM_DISCONNECT, id), 0);
	event(s, RDMA_CM_EVENT_DISCONNECTED);
	cx_close(&cx);
}

/* Another process of the attacker's. */
static void owner(void *)
{
	static struct cx cx[2];

	cx_open(&cx[0]);
	cx_open(&cx[1]);
	note_set(THIRD_QPN, cx[1].qpn);
	note_set(OTHER_QPN, cx[0].qpn);
	note_wait(MAY_END, 1);
	cx_close(&cx[0]);
	cx_close(&cx[1]);
}

static void attack(void *)
{
	int s = channel(), c = channel(), err;
	uint32_t stolen = note->n[QPN], id;

	/* In a request: to the victim's peer, and by a number that nobody has yet. */
	ask(c, VICTIMS_PORT, stolen, &err);
	ck_assert_int_eq(err, EINVAL);
	ask(c, VICTIMS_PORT, stolen | 0x7f000000, &err);
	ck_assert_int_eq(err, EINVAL);
	ask(c, VICTIMS_PORT, 0xffff00, &err);
	ck_assert_int_eq(err, EINVAL);
	/* In a reply; the request is refused then. */
	listen_on(s, ATTACKERS_PORT);
	ask(c, ATTACKERS_PORT, 0, &err);
	ck_assert_int_eq(err, 0);
	id = event(s, RDMA_CM_EVENT_CONNECT_REQUEST).id;
	ck_assert_int_eq(answer(s, id, stolen), EINVAL);
	event(c, RDMA_CM_EVENT_REJECTED);
	ask(c, ATTACKERS_PORT, 0, &err);
	ck_assert_int_eq(err, 0);
	id = event(s, RDMA_CM_EVENT_CONNECT_REQUEST).id;
	ck_assert_int_eq(answer(s, id, note->n[OTHER_QPN]), 0);
	ck_assert_uint_eq(event(c, RDMA_CM_EVENT_CONNECT_RESPONSE).conn.qp_num, note->n[OTHER_QPN]);
	/* Those of his own, though another process has them. */
	establish(c, s, ATTACKERS_PORT, note->n[THIRD_QPN]);
	close(c);
	close(s);
}

static void greedy(void *)
{
	struct msg_req key = { .op = MSG_QP_MODIFY };
	struct msg_req domain = { .op = MSG_XRCD_OPEN, .xrcd = { .shared = 1, .oflags = O_CREAT } };
	int fds[CALL_FDS], fd = open("/etc/shadow", O_PATH | O_CLOEXEC);
	static struct cx cx;
	struct msg_rep rep;

	cx_open_type(&cx, QPT_UD);
	key.qp_mod.qpn = cx.qpn;
	key.qp_mod.mask = QPA_STATE | QPA_PORT | QPA_PKEY_INDEX | QPA_QKEY;
	key.qp_mod.attr = (struct qp_attr){ .state = QPS_INIT, .port = 1, .qkey = QKEY_PRIVILEGED | 0x10000 };
	ck_assert_int_eq(call(cx.fd, &key, &rep, NULL), EPERM);
	key.qp_mod.attr.qkey = 0x10000;
	ck_assert_int_eq(call(cx.fd, &key, &rep, NULL), 0);
	ck_assert_int_ge(fd, 0);
	ck_assert(say(cx.fd, &domain, msg_req_len(domain.op), &fd, 1, 0));
	ck_assert(hear(cx.fd, &rep, fds));
	ck_assert_int_eq(rep.err, EBADF);
	close(fd);
	cx_close(&cx);
}

START_TEST(not_his)
{
	stage_open(NULL);
	part_end(part_begin(UID_ATTACKER, greedy, NULL));
	stage_goes_on(20);
	stage_close();
}
END_TEST

START_TEST(foreign_qp)
{
	pid_t v, o, a;

	stage_open("--shards=2");
	v = part_begin(UID_VICTIM, victim, NULL);
	o = part_begin(UID_ATTACKER, owner, NULL);
	note_wait(CONNECTED, 1);
	note_wait(OTHER_QPN, 1);
	a = part_begin(UID_ATTACKER, attack, NULL);
	part_end(a);
	note_set(MAY_END, 1);
	part_end(o);
	note_set(TRIED, 1);
	part_end(v);
	stage_goes_on(20);
	stage_close();
}
END_TEST

STAGE_MAIN("hostile: names", foreign_qp, not_his)
