/* SPDX-License-Identifier: MIT */
/*
 * cm_mcast.c - datagrams to a group: each QP that is attached gets each of them once, whatever context,
 * device, shard or daemon it belongs to, and nobody else does.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cm_client.h"
#include "t/suite.h"

#define N   8u
#define LEN 64u
#define GRH 40u

struct end {
	union ibv_gid mgid;
	bool attached; /* its QP, to mgid */
	struct chan c;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq, *send_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct cmm_event joined;
	uint8_t buf[N + 1][GRH + LEN]; /* the last one is sent */
};

/* Not those of the same test that runs beside. */
static const char *group(unsigned n)
{
	static char text[2][32];
	static unsigned pid;

	if (!pid)
		pid = (unsigned)getpid();
	snprintf(text[n], sizeof(text[n]), "239.%u.%u.%u", pid >> 8 & 0xff, pid & 0xff, n);
	return text[n];
}

static struct ibv_context *device(const struct host *h, unsigned index)
{
	struct ibv_device **list;
	struct ibv_context *ctx = NULL;
	char name[16];

	setenv("RDMAD_SOCKET", h->socket, 1);
	snprintf(name, sizeof(name), "n%u", index);
	list = ibv_get_device_list(NULL);
	ck_assert_msg(list != NULL, "no devices: %s", strerror(errno));
	for (unsigned i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	ck_assert_msg(ctx != NULL, "no device %s", name);
	return ctx;
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RDMA_UDP_QKEY };

	ck_assert_int_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	a.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

/* A QP in the group, with N receives. */
static void end_open(struct end *e, const struct host *h, unsigned index, unsigned n, uint32_t flags)
{
	struct cmm_req join = { .op = CMM_JOIN, .join = { .addr = addr_text(group(n), 0), .flags = flags } };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .cap = { N, N, 1, 1, 0 } };

	chan_open(&e->c, h);
	join.id = id_new(&e->c, RDMA_PS_UDP, 1);
	ck_assert_int_eq(id_bind(&e->c, join.id, addr(index, 0)), 0);
	ck_assert_int_eq(chan_call(&e->c, &join, NULL), 0);
	e->joined = chan_event(&e->c, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	memcpy(e->mgid.raw, e->joined.av.dgid, 16);
	e->ctx = device(h, index);
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = init.recv_cq = ibv_create_cq(e->ctx, N, NULL, NULL, 0);
	e->send_cq = init.send_cq = ibv_create_cq(e->ctx, N, NULL, NULL, 0);
	e->mr = ibv_reg_mr(e->pd, e->buf, sizeof(e->buf), IBV_ACCESS_LOCAL_WRITE);
	e->qp = ibv_create_qp(e->pd, &init);
	ck_assert(e->pd && e->cq && e->send_cq && e->mr && e->qp);
	to_rts(e->qp);
	e->attached = !flags;
	if (e->attached)
		ck_assert_int_eq(ibv_attach_mcast(e->qp, &e->mgid, 0), 0);
	for (unsigned i = 0; i < N; i++) {
		struct ibv_sge sge = { (uintptr_t)e->buf[i], sizeof(e->buf[i]), e->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

		ck_assert_int_eq(ibv_post_recv(e->qp, &wr, &bad), 0);
	}
}

static struct ibv_wc wait_wc(struct ibv_cq *cq)
{
	time_t end = time(NULL) + 50;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		ck_assert_msg(time(NULL) < end, "no completion");
	ck_assert_int_eq(n, 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	return wc;
}

static void fill(uint8_t *p, unsigned i) { memset(p, (int)(0x40 + i), LEN); }

/* All N, in order, each once. */
static void end_take(struct end *e)
{
	uint8_t want[LEN];

	for (unsigned i = 0; i < N; i++) {
		struct ibv_wc wc = wait_wc(e->cq);

		ck_assert_uint_eq(wc.opcode, IBV_WC_RECV);
		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_uint_eq(wc.byte_len, GRH + LEN);
		fill(want, i);
		ck_assert_mem_eq(e->buf[i] + GRH, want, LEN);
	}
}

static void end_send(struct end *e)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .hop_limit = e->joined.av.hop_limit,
					     .sgid_index = e->joined.av.sgid_index } };
	struct ibv_ah *ah;

	memcpy(attr.grh.dgid.raw, e->joined.av.dgid, 16);
	ah = ibv_create_ah(e->pd, &attr);
	ck_assert(ah != NULL);
	for (unsigned i = 0; i < N; i++) {
		struct ibv_sge sge = { (uintptr_t)e->buf[N], LEN, e->mr->lkey };
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .wr.ud = { ah, e->joined.conn.qp_num, e->joined.conn.qkey } },
				   *bad;

		fill(e->buf[N], i);
		ck_assert_int_eq(ibv_post_send(e->qp, &wr, &bad), 0);
		ck_assert_uint_eq(wait_wc(e->send_cq).opcode, IBV_WC_SEND);
	}
	ibv_destroy_ah(ah);
}

static void end_close(struct end *e)
{
	if (e->attached)
		ck_assert_int_eq(ibv_detach_mcast(e->qp, &e->mgid, 0), 0);
	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	ck_assert_int_eq(ibv_dereg_mr(e->mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(e->cq), 0);
	ck_assert_int_eq(ibv_destroy_cq(e->send_cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(e->pd), 0);
	ck_assert_int_eq(ibv_close_device(e->ctx), 0);
	chan_close(&e->c);
}

/* A receiver of another daemon: a process of its own, since a process knows one daemon. */
static pid_t stranger(const struct host *h, int ready)
{
	static struct end e;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	end_open(&e, h, h->first, 0, RDMA_MC_JOIN_FLAG_FULLMEMBER);
	if (write(ready, "", 1) != 1)
		_exit(1);
	end_take(&e);
	_exit(0);
}

START_TEST(everyone)
{
	static struct end e[3], sender, apart;
	struct host a, b;
	int ready[2], status;
	pid_t pid;
	char c;

	group(0);
	host_start(&a, 0, 2);
	host_start(&b, 2, 1);
	ck_assert_int_eq(pipe(ready), 0);
	for (unsigned i = 0; i < 3; i++)
		end_open(&e[i], &a, i / 2, 0, RDMA_MC_JOIN_FLAG_FULLMEMBER);
	end_open(&apart, &a, 0, 1, RDMA_MC_JOIN_FLAG_FULLMEMBER);
	end_open(&sender, &a, 1, 0, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
	pid = stranger(&b, ready[1]);
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	end_send(&sender);
	for (unsigned i = 0; i < 3; i++)
		end_take(&e[i]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	/* The group of its own got its own only. */
	end_send(&apart);
	end_take(&apart);
	for (unsigned i = 0; i < 3; i++)
		end_close(&e[i]);
	end_close(&apart);
	end_close(&sender);
	while (host_stat(&a, "cm", "channels"))
		;
	ck_assert_int_eq(host_stat(&a, "cm", "groups"), 0);
	host_stop(&a);
	host_stop(&b);
}
END_TEST

TEST_MAIN("ctl: multicast", everyone)
