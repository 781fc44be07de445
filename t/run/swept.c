/* SPDX-License-Identifier: MIT */
/*
 * swept.c - small programs for rdmad-run --sweep: swept BUG.  Two queue pairs of one program, or two ids of the connection
 * manager.  Without faults each ends with status 0; "none" and "cm" do so with all of them, the others have one bug each.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <unistd.h>

#include "need.h"

#define MESSAGES 2u
#define LEN      64u
#define GRH      40u
#define QKEY     0x11u
#define PORT     7997
#define LATE_MS  250 /* the sweep's delay */

static struct {
	enum ibv_qp_type type;
	uint8_t timeout, retry_cnt, rnr_retry;
	unsigned messages;
	unsigned tries; /* of polling, 20 ms each; 0: for ever */
	bool tells;     /* the order of arrival */
} plan = { IBV_QPT_RC, 14, 7, 7, MESSAGES, 0, false };

static char memory[8192];
static struct ibv_mr *mr;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_ah *ah;
static union ibv_gid gid;

static struct ibv_ah_attr peer(void)
{
	return (struct ibv_ah_attr){ .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 64 } };
}

static void ready(struct ibv_qp *q, uint32_t dest, uint32_t sq_psn, uint32_t rq_psn)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	bool rc = plan.type == IBV_QPT_RC, ud = plan.type == IBV_QPT_UD;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	need(!ibv_modify_qp(q, &a, mask | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), "INIT");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest, .rq_psn = rq_psn
	};
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr = peer();
	mask = ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | mask | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
	     "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = sq_psn, .max_rd_atomic = 1 };
	a.timeout = plan.timeout;
	a.retry_cnt = plan.retry_cnt;
	a.rnr_retry = plan.rnr_retry;
	mask = rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;
	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | mask), "RTS");
}

static void objects(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_context *ctx = NULL;
	struct ibv_ah_attr to;

	need(list && list[0] && (ctx = ibv_open_device(list[0])), "open");
	need(!ibv_query_gid(ctx, 1, 0, &gid), "GID");
	need((pd = ibv_alloc_pd(ctx)), "PD");
	need((mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE)), "MR");
	need((cq = ibv_create_cq(ctx, 32, NULL, NULL, 0)), "CQ");
	init.qp_type = plan.type;
	init.send_cq = init.recv_cq = cq;
	for (unsigned i = 0; i < 2; i++)
		need((qp[i] = ibv_create_qp(pd, &init)), "QP");
	/* Starting PSNs that differ from run to run. */
	ready(qp[0], qp[1]->qp_num, (uint32_t)getpid() & 0xffff, 5);
	ready(qp[1], qp[0]->qp_num, 5, (uint32_t)getpid() & 0xffff);
	to = peer();
	need((ah = ibv_create_ah(pd, &to)), "AH");
}

static void receive(unsigned i)
{
	struct ibv_sge sge = { (uintptr_t)memory + 4096 + i * 128, LEN + GRH, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 100 + i, .sg_list = &sge, .num_sge = 1 }, *bad;

	need(!ibv_post_recv(qp[1], &wr, &bad), "receive");
}

static void send_one(unsigned i)
{
	struct ibv_sge sge = { (uintptr_t)memory + i * LEN, LEN, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};
	struct ibv_send_wr *bad;

	memory[i * LEN] = (char)('1' + i);
	if (plan.type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp[1]->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	need(!ibv_post_send(qp[0], &wr, &bad), "send");
}

/* Its status, if it came in time. */
static int completion(struct ibv_wc *wc)
{
	for (unsigned i = 0; !plan.tries || i < plan.tries; i++) {
		int n = ibv_poll_cq(cq, 1, wc);

		if (n)
			return n < 0 ? 1 : (int)wc->status;
		usleep(plan.tries ? 20000 : 1000);
	}
	return 1;
}

/* The completions of so many messages, at both ends. */
static int completions(unsigned n)
{
	struct ibv_wc wc = { 0 };

	for (unsigned i = 0; i < 2 * n; i++) {
		if (completion(&wc)) {
			fprintf(stderr, "swept: %s\n", ibv_wc_status_str(wc.status));
			return 1;
		}
		if (plan.tells && wc.wr_id >= 100)
			printf("%c\n", memory[4096 + (wc.wr_id - 100) * 128 + GRH]);
	}
	return 0;
}

/* One after the other, so that each has an ACK of its own; or all at once. */
static int messages(void)
{
	objects();
	for (unsigned i = 0; i < plan.messages; i++)
		receive(i);
	for (unsigned i = 0; i < plan.messages; i++) {
		send_one(i);
		if (!plan.tells && completions(1))
			return 1;
	}
	return plan.tells ? completions(plan.messages) : 0;
}

/* ---- the connection manager ------------------------------------------------------------- */

static struct rdma_cm_id *wanted(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	need(!rdma_get_cm_event(ch, &e), "event");
	need(e->event == type, rdma_event_str(e->event));
	id = e->id;
	rdma_ack_cm_event(e);
	return id;
}

static bool comes(struct rdma_event_channel *ch, int ms)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

static int connection(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct rdma_event_channel *ch = rdma_create_event_channel(), *other = rdma_create_event_channel();
	struct rdma_conn_param p = { .retry_count = 7, .qp_num = 0x777 }, q = { .qp_num = 0x778 };
	struct rdma_cm_id *id = NULL, *server = NULL, *made;

	need(ch && other && !rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) &&
		     !rdma_create_id(other, &server, NULL, RDMA_PS_TCP),
	     "id");
	need(!rdma_bind_addr(server, (struct sockaddr *)&to) && !rdma_listen(server, 1), "listen");
	need(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 20000), "resolve");
	wanted(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	need(!rdma_resolve_route(id, 20000), "route");
	wanted(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	need(!rdma_connect(id, &p), "connect");
	made = wanted(other, RDMA_CM_EVENT_CONNECT_REQUEST);
	need(!rdma_accept(made, &q), "accept");
	wanted(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	need(!rdma_establish(id), "establish");
	wanted(other, RDMA_CM_EVENT_ESTABLISHED);
	/* A message that comes late, or twice, is no second event. */
	return comes(other, 2 * LATE_MS) || comes(ch, 0);
}

int main(int argc, char **argv)
{
	const char *bug = argc > 1 ? argv[1] : "";

	if (!strcmp(bug, "cm"))
		return connection();
	if (!strcmp(bug, "retry")) {
		plan.retry_cnt = 0;
		plan.timeout = 17;
	} else if (!strcmp(bug, "rnr")) {
		plan.rnr_retry = 0;
	} else if (!strcmp(bug, "tries")) { /* an ACK timeout is longer than it waits */
		plan.messages = 1;
		plan.timeout = 22;
		plan.tries = 100;
	} else if (!strcmp(bug, "hang")) { /* UC loses messages */
		plan.type = IBV_QPT_UC;
		plan.messages = 1;
	} else if (!strcmp(bug, "order")) { /* so does UD, and it keeps no order */
		plan.type = IBV_QPT_UD;
		plan.tells = true;
	} else { /* a slow machine repeats nothing */
		plan.timeout = 19;
		need(!strcmp(bug, "none"), "swept BUG: retry, rnr, tries, hang, order, cm or none");
	}
	return messages();
}
