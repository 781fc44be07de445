/* SPDX-License-Identifier: MIT */
/*
 * fate.c - one program, two RC queue pairs, messages from the first to the second: and what became of them.
 *
 *	fate [-o send|write|read|atomic] [-s BYTES] [-n MESSAGES] [-u TIMEOUT] [-r RETRIES] [-R RNR-RETRIES] [-1] [-f] [-e EVENT]
 *
 * -1: one message at a time.  -f: the same, round and round until one of them fails.  -e: waits for that many asynchronous
 * events.  Prints what a test compares: completions of either side in their order, whether the data are right, and events.  Exit
 * status 0 whatever they are; 1: it did not get that far.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../nap.h"

#define FIRST_PSN   0xfffff8u /* so that it wraps */
#define PATIENCE_MS 20000
#define QUIET_MS    300 /* nothing more comes, after the last completion */

static struct {
	enum ibv_wr_opcode op;
	unsigned size, n, timeout, retries, rnr, events;
	int single, failing;
} opt = { .op = IBV_WR_SEND, .size = 64, .n = 10, .timeout = 12, .retries = 7, .rnr = 7 };

static struct ibv_context *ctx;
static struct ibv_qp *qp[2];
static struct ibv_cq *cq[2];
static struct ibv_mr *mr;
static uint8_t *mem; /* what is sent, then what is received */

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "fate: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* E2E_PATIENCE times as long: for a machine that is busy. */
static int patient(int ms)
{
	const char *times = getenv("E2E_PATIENCE");

	return times && atof(times) > 1 ? (int)(ms * atof(times)) : ms;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void objects_make(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	size_t len = (size_t)opt.size * opt.n;
	struct ibv_pd *pd;

	if (!list || !list[0] || !(ctx = ibv_open_device(list[0])) || !(pd = ibv_alloc_pd(ctx)))
		die("device");
	mem = calloc(2, len);
	mr = mem ? ibv_reg_mr(pd, mem, 2 * len,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				      IBV_ACCESS_REMOTE_ATOMIC)
		 : NULL;
	if (!mr)
		die("memory");
	for (size_t i = 0; i < len; i++)
		mem[i] = (uint8_t)(i * 7 + i / 251 + 1);
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
						 .sq_sig_all = 1,
						 .cap = { opt.n, opt.n, 1, 1, 0 } };

		init.send_cq = init.recv_cq = cq[i] = ibv_create_cq(ctx, (int)(2 * opt.n), NULL, NULL, 0);
		qp[i] = cq[i] ? ibv_create_qp(pd, &init) : NULL;
		if (!qp[i])
			die("queue pair");
	}
}

static void connect_qp(struct ibv_qp *q, uint32_t peer)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC };
	union ibv_gid gid;

	if (ibv_query_gid(ctx, 1, 0, &gid) ||
	    ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = peer,
				  .rq_psn = FIRST_PSN,
				  .max_dest_rd_atomic = 4,
				  .min_rnr_timer = 1,
				  .ah_attr = {
					  .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 64 } } };
	if (ibv_modify_qp(q, &a,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .sq_psn = FIRST_PSN,
				  .timeout = (uint8_t)opt.timeout,
				  .retry_cnt = (uint8_t)opt.retries,
				  .rnr_retry = (uint8_t)opt.rnr,
				  .max_rd_atomic = 4 };
	if (ibv_modify_qp(q, &a,
			  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

static struct ibv_sge place(unsigned i, int received)
{
	return (struct ibv_sge){ (uintptr_t)mem + ((size_t)received * opt.n + i) * opt.size, opt.size, mr->lkey };
}

static void wr_fill(struct ibv_send_wr *wr, struct ibv_sge *here, unsigned i)
{
	int back = opt.op == IBV_WR_RDMA_READ;
	struct ibv_sge there = place(i, !back);

	*here = place(i, back);
	*wr = (struct ibv_send_wr){ .wr_id = i, .sg_list = here, .num_sge = 1, .opcode = opt.op };
	wr->wr.rdma.remote_addr = there.addr;
	wr->wr.rdma.rkey = mr->rkey;
	if (opt.op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		here->length = 8;
		wr->wr.atomic.remote_addr = there.addr;
		wr->wr.atomic.rkey = mr->rkey;
		wr->wr.atomic.compare_add = i + 1;
	}
}

/* n messages from the i-th on, in one call: none is sent before the last is there. */
static void post_sends(unsigned i, unsigned n)
{
	struct ibv_send_wr *wr = calloc(n, sizeof(*wr)), *bad;
	struct ibv_sge *sge = calloc(n, sizeof(*sge));

	if (!wr || !sge)
		die("memory");
	for (unsigned k = 0; k < n; k++) {
		wr_fill(&wr[k], &sge[k], i + k);
		wr[k].next = k + 1 < n ? &wr[k + 1] : NULL;
	}
	errno = ibv_post_send(qp[0], wr, &bad);
	if (errno)
		die("post");
	free(wr);
	free(sge);
}

static int last = -1; /* the status of the completion before */

/* Up to n completions, or until it has been quiet for a while; prints runs of the same status. */
static unsigned reap(const char *who, struct ibv_cq *from, unsigned n, int patience, int quietly)
{
	int64_t end;
	static unsigned run;
	struct ibv_wc wc;
	unsigned got = 0, empty_n = 0;

	patience = patient(patience);
	end = now_ms() + patience;
	while (got < n && now_ms() < end) {
		int k = ibv_poll_cq(from, 1, &wc);

		if (k < 0) {
			printf("%s poll fails\n", who);
			break;
		}
		if (!k) {
			nap(&empty_n);
			continue;
		}
		empty_n = 0;
		got++;
		end = now_ms() + patience;
		if (run && last != (int)wc.status) {
			printf("%s %s x%u\n", who, ibv_wc_status_str((enum ibv_wc_status)last), run);
			run = 0;
		}
		last = (int)wc.status;
		run++;
	}
	if (run && !quietly) {
		printf("%s %s x%u\n", who, ibv_wc_status_str((enum ibv_wc_status)last), run);
		run = 0;
	}
	return got;
}

static void data_judge(void)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < opt.n; i++)
		bad += memcmp(mem + (size_t)i * opt.size, mem + (size_t)(opt.n + i) * opt.size, opt.size) != 0;
	if (opt.op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		bad = 0;
		for (unsigned i = 0; i < opt.n; i++) {
			uint64_t v;

			memcpy(&v, mem + (size_t)(opt.n + i) * opt.size, 8);
			bad += v != i + 1;
		}
	}
	printf("data of %u message%s wrong\n", bad, bad == 1 ? "" : "s");
}

static void events_print(void)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event e;

	for (unsigned i = 0; i < opt.events; i++) {
		if (poll(&p, 1, patient(PATIENCE_MS)) != 1 || ibv_get_async_event(ctx, &e))
			die("no event came");
		printf("event %s\n", ibv_event_type_str(e.event_type));
		ibv_ack_async_event(&e);
	}
}

static void options_read(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "o:s:n:u:r:R:1fe:")) != -1) {
		switch (c) {
		case 'o':
			opt.op = !strcmp(optarg, "send")    ? IBV_WR_SEND
				 : !strcmp(optarg, "write") ? IBV_WR_RDMA_WRITE
				 : !strcmp(optarg, "read")  ? IBV_WR_RDMA_READ
							    : IBV_WR_ATOMIC_FETCH_AND_ADD;
			break;
		case 's': opt.size = (unsigned)atoi(optarg); break;
		case 'n': opt.n = (unsigned)atoi(optarg); break;
		case 'u': opt.timeout = (unsigned)atoi(optarg); break;
		case 'r': opt.retries = (unsigned)atoi(optarg); break;
		case 'R': opt.rnr = (unsigned)atoi(optarg); break;
		case '1': opt.single = 1; break;
		case 'f': opt.failing = 1; break;
		case 'e': opt.events = (unsigned)atoi(optarg); break;
		default: exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned got = 0;
	int64_t end;

	options_read(argc, argv);
	objects_make();
	connect_qp(qp[1], qp[0]->qp_num);
	connect_qp(qp[0], qp[1]->qp_num);
	for (unsigned i = 0; i < opt.n && opt.op == IBV_WR_SEND; i++) {
		struct ibv_sge s = place(i, 1);
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &s, .num_sge = 1 }, *bad;

		if ((errno = ibv_post_recv(qp[1], &wr, &bad)))
			die("post a receive");
	}
	end = now_ms() + patient(PATIENCE_MS);
	for (unsigned i = 0; opt.failing && last <= 0 && now_ms() < end; i = (i + 1) % opt.n) {
		post_sends(i, 1);
		reap("send", cq[0], 1, PATIENCE_MS, 1);
	}
	for (unsigned i = 0; i < opt.n; i += opt.single ? 1 : opt.n) {
		post_sends(i, opt.single ? 1 : opt.n);
		if (opt.single)
			got += reap("send", cq[0], 1, PATIENCE_MS, 1);
	}
	reap("send", cq[0], opt.n - got, opt.events ? QUIET_MS : PATIENCE_MS, 0);
	if (opt.op == IBV_WR_SEND)
		reap("recv", cq[1], opt.n, QUIET_MS, 0);
	data_judge();
	events_print();
	return 0;
}
