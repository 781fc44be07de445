/* SPDX-License-Identifier: MIT */
/* lesson_cm.c - a connection made by librdmacm, one message over it, and its end. */
#include "lesson.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT 7174

/* The IPv4 address of the device of that name. */
static struct sockaddr_in address_of(const char *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	union ibv_gid gid;

	for (int i = 0; list && list[i]; i++) {
		struct ibv_context *c = strcmp(ibv_get_device_name(list[i]), device) ? NULL : ibv_open_device(list[i]);

		for (int row = 0; c && row < 16; row++)
			if (!ibv_query_gid(c, 1, row, &gid) && gid.raw[10] == 0xff && gid.raw[11] == 0xff)
				memcpy(&a.sin_addr, gid.raw + 12, 4);
		if (c)
			ibv_close_device(c);
	}
	if (list)
		ibv_free_device_list(list);
	must(a.sin_addr.s_addr ? 0 : ENODEV, "no device with an IPv4 address");
	return a;
}

/* The next event, which is that one. */
static struct rdma_cm_id *event(struct rdma_event_channel *ch, const char *who, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	bool right;

	must(rdma_get_cm_event(ch, &e) ? -1 : 0, "event");
	right = e->event == type;
	expect(right, "%s: %s", who, rdma_event_str(e->event));
	id = e->id;
	rdma_ack_cm_event(e);
	if (!right)
		exit(1);
	return id;
}

static void qp_make(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	must(rdma_create_qp(id, pd, &init) ? -1 : 0, "QP");
}

static void end_of(struct end *e, const char *name, struct rdma_cm_id *id)
{
	e->name = name;
	e->ctx = id->verbs;
	e->mem = calloc(1, MEM);
	must(!e->mem, "memory");
	e->pd = ibv_alloc_pd(e->ctx);
	must(!e->pd ? -1 : 0, "PD");
	e->mr = ibv_reg_mr(e->pd, e->mem, MEM, IBV_ACCESS_LOCAL_WRITE);
	must(!e->mr ? -1 : 0, "MR");
	e->cq = ibv_create_cq(e->ctx, 16, NULL, NULL, 0);
	must(!e->cq ? -1 : 0, "CQ");
	qp_make(id, e->pd, e->cq);
	e->qp = id->qp;
}

static void end_free(struct end *e, struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	ibv_destroy_cq(e->cq);
	ibv_dereg_mr(e->mr);
	ibv_dealloc_pd(e->pd);
	free(e->mem);
	rdma_destroy_id(id);
}

void lesson_cm(void)
{
	struct sockaddr_in to = address_of("server"), from = address_of("client");
	struct rdma_event_channel *cch = rdma_create_event_channel(), *sch = rdma_create_event_channel();
	struct rdma_conn_param param = {
		.retry_count = 7, .rnr_retry_count = 7, .responder_resources = 1, .initiator_depth = 1
	};
	struct rdma_cm_id *listener, *cid, *sid;
	struct end c = { 0 }, s = { 0 };

	from.sin_port = 0;
	must(!cch || !sch ? -1 : 0, "event channel");
	must(rdma_create_id(sch, &listener, NULL, RDMA_PS_TCP) || rdma_bind_addr(listener, (struct sockaddr *)&to) ||
			     rdma_listen(listener, 1)
		     ? -1
		     : 0,
	     "listen");
	tell("server listens on port %d: service ID 0x%016x", PORT, 0x01060000 | PORT);
	must(rdma_create_id(cch, &cid, NULL, RDMA_PS_TCP) ||
			     rdma_resolve_addr(cid, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000)
		     ? -1
		     : 0,
	     "resolve");
	event(cch, "client", RDMA_CM_EVENT_ADDR_RESOLVED);
	must(rdma_resolve_route(cid, 2000) ? -1 : 0, "route");
	event(cch, "client", RDMA_CM_EVENT_ROUTE_RESOLVED);
	end_of(&c, "client", cid);
	must(rdma_connect(cid, &param) ? -1 : 0, "connect");
	tell("client connects: REQ");
	sid = event(sch, "server", RDMA_CM_EVENT_CONNECT_REQUEST);
	end_of(&s, "server", sid);
	post_recv(&s, 11);
	must(rdma_accept(sid, &param) ? -1 : 0, "accept");
	tell("server accepts: REP");
	event(cch, "client", RDMA_CM_EVENT_ESTABLISHED);
	tell("client is ready, and says so: RTU");
	event(sch, "server", RDMA_CM_EVENT_ESTABLISHED);
	fill(c.mem, 100, 9);
	post(&c, IBV_WR_SEND, 1, 100, 0, 0);
	expect_wc(&c, 1, IBV_WC_SUCCESS);
	expect_wc(&s, 11, IBV_WC_SUCCESS);
	expect_data(&s, 100, 9);
	must(rdma_disconnect(cid) ? -1 : 0, "disconnect");
	tell("client disconnects: DREQ");
	event(sch, "server", RDMA_CM_EVENT_DISCONNECTED);
	must(rdma_disconnect(sid) ? -1 : 0, "disconnect");
	tell("server answers: DREP");
	event(cch, "client", RDMA_CM_EVENT_DISCONNECTED);
	end_free(&c, cid);
	end_free(&s, sid);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(cch);
	rdma_destroy_event_channel(sch);
}
