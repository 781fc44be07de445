/* SPDX-License-Identifier: MIT */
/*
 * hang.c - programs that hang, each in a way of its own: hang HOW.  Two connected queue pairs of one program, which does all
 * that it ever does, and waits for its end.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "need.h"

#define DEPTH 16u

static char memory[8192];
static struct ibv_mr *mr;
static struct ibv_comp_channel *events;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static union ibv_gid gid;

static void connect_to(struct ibv_qp *q, uint32_t dest, uint32_t psn, bool uc)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int rc = uc ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = dest,
				  .rq_psn = psn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12,
				  .ah_attr = {
					  .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 64 } } };
	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | rc),
	     "RTR");
	rc = uc ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	/* More than a minute until it gives up. */
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 21, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};
	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | rc), "RTS");
}

static void post(enum ibv_wr_opcode op, unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = flags }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)memory + 4096;
	wr.wr.rdma.rkey = mr->rkey;
	need(!ibv_post_send(qp[0], &wr, &bad), "post");
}

static void receive(void)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	need(!ibv_post_recv(qp[1], &wr, &bad), "receive");
}

/* The peer's receives are an SRQ's. */
static struct ibv_srq *srq_of(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_srq *s = ibv_create_srq(pd, &a);

	need(s, "SRQ");
	return s;
}

static void event(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	need(!rdma_get_cm_event(ch, &e) && e->event == type, rdma_event_str(type));
	rdma_ack_cm_event(e);
}

/* Asks for a connection; the answer never comes, or the request is never looked at. */
static void ask(enum rdma_port_space ps, bool listening)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(7999),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct rdma_event_channel *ch = rdma_create_event_channel(), *other = rdma_create_event_channel();
	struct rdma_conn_param p = { .retry_count = 7 };
	struct rdma_cm_id *id = NULL, *server = NULL;

	need(ch && other && !rdma_create_id(ch, &id, NULL, ps), "id");
	if (listening)
		need(!rdma_create_id(other, &server, NULL, ps) && !rdma_bind_addr(server, (struct sockaddr *)&to) &&
			     !rdma_listen(server, 1),
		     "listen");
	need(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000), "resolve");
	event(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	need(!rdma_resolve_route(id, 2000), "route");
	event(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	p.qp_num = 0x777;
	need(!rdma_connect(id, &p), "connect");
}

/* An id, the event of which is kept. */
static struct rdma_cm_id *keep(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;
	struct rdma_cm_event *e;

	need(ch && !rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), "id");
	need(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000) && !rdma_get_cm_event(ch, &e), "resolve");
	return id;
}

/* One whose event of a group is kept. */
static void leave(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(0xe0000105) } };
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;
	struct rdma_cm_event *e;

	need(ch && !rdma_create_id(ch, &id, NULL, RDMA_PS_UDP), "id");
	need(!rdma_bind_addr(id, (struct sockaddr *)&from), "bind");
	need(!rdma_join_multicast(id, (struct sockaddr *)&to, NULL), "join");
	need(!rdma_get_cm_event(ch, &e) && e->event == RDMA_CM_EVENT_MULTICAST_JOIN, "joined");
	rdma_leave_multicast(id, (struct sockaddr *)&to);
}

static void hang(const char *how)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR }, drain = { .qp_state = IBV_QPS_SQD };
	struct ibv_cq *fired;
	struct ibv_wc wc;
	void *of;

	if (!strcmp(how, "rnr") || !strcmp(how, "silent") || !strcmp(how, "srq") || !strcmp(how, "psn")) {
		post(IBV_WR_SEND, IBV_SEND_SIGNALED);
	} else if (!strcmp(how, "signaled")) {
		for (unsigned i = 0; i < DEPTH; i++)
			post(IBV_WR_RDMA_WRITE, 0);
	} else if (!strcmp(how, "uc")) {
		for (unsigned i = 0; i < 4; i++)
			receive();
		for (unsigned i = 0; i < 4; i++)
			post(IBV_WR_SEND, IBV_SEND_SIGNALED); /* a rule drops one of them */
	} else if (!strcmp(how, "peer")) {
		receive();
		need(!ibv_modify_qp(qp[0], &err, IBV_QP_STATE), "ERR");
	} else if (!strcmp(how, "poll")) {
		receive();
		post(IBV_WR_SEND, IBV_SEND_SIGNALED);
		while (!ibv_poll_cq(cq, 1, &wc)) {}
		need(!ibv_req_notify_cq(cq, 0), "arm");
		need(!ibv_get_cq_event(events, &fired, &of), "event");
		need(!ibv_req_notify_cq(cq, 0), "arm");
	} else if (!strcmp(how, "solicited")) {
		need(!ibv_req_notify_cq(cq, 1), "arm");
		receive();
		post(IBV_WR_SEND, 0); /* its receiver is to be woken by it, but it does not say so */
	} else if (!strcmp(how, "sqd")) {
		need(!ibv_modify_qp(qp[0], &drain, IBV_QP_STATE), "SQD");
		post(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	} else if (!strcmp(how, "unacked")) {
		receive();
		need(!ibv_req_notify_cq(cq, 0), "arm");
		post(IBV_WR_SEND, IBV_SEND_SIGNALED);
		need(!ibv_get_cq_event(events, &fired, &of), "event");
		for (unsigned i = 0; i < 2; i++)
			need(!ibv_destroy_qp(qp[i]), "destroy QP");
		ibv_destroy_cq(cq);
	} else if (!strcmp(how, "unacked_id")) {
		rdma_destroy_id(keep());
	} else if (!strcmp(how, "unacked_move")) {
		rdma_migrate_id(keep(), rdma_create_event_channel());
	} else if (!strcmp(how, "unacked_group")) {
		leave();
	} else if (!strcmp(how, "recv")) {
		receive();
	} else if (!strcmp(how, "req") || !strcmp(how, "accept")) {
		ask(RDMA_PS_TCP, !strcmp(how, "accept"));
	} else if (!strcmp(how, "sidr")) {
		ask(RDMA_PS_UDP, false);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	bool uc = !strcmp(how, "uc"), silent = !strcmp(how, "silent");
	struct ibv_context *c = NULL;
	struct ibv_pd *pd;

	need(list && list[0] && (c = ibv_open_device(list[0])), "open");
	need(!ibv_query_gid(c, 1, 0, &gid), "GID");
	need((pd = ibv_alloc_pd(c)), "PD");
	need((mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)), "MR");
	need((events = ibv_create_comp_channel(c)), "channel");
	need((cq = ibv_create_cq(c, 4 * DEPTH, NULL, events, 0)), "CQ");
	init.qp_type = uc ? IBV_QPT_UC : IBV_QPT_RC;
	init.send_cq = init.recv_cq = cq;
	for (unsigned i = 0; i < 2; i++) {
		init.srq = i && strstr(how, "srq") ? srq_of(pd) : NULL;
		need((qp[i] = ibv_create_qp(pd, &init)), "QP");
	}
	connect_to(qp[0], qp[1]->qp_num + (silent ? 1000 : 0), 0, uc);
	connect_to(qp[1], qp[0]->qp_num, strcmp(how, "psn") ? 0 : 77, uc);
	hang(how);
	pause();
	return 0;
}
