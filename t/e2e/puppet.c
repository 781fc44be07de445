/* SPDX-License-Identifier: MIT */
/*
 * puppet.c - one RC queue pair that does what it is told, line by line, and says what came of it.
 *
 *	puppet -d DEVICE -g GID-INDEX
 *
 *	<- qp QPN address ADDR rkey RKEY
 *	-> connect QPN GID RQ-PSN SQ-PSN TIMEOUT TCLASS [MTU]	to RTS with that peer; MTU: as enum ibv_mtu	<- ok
 *	-> recv LEN | send LEN | write LEN ADDR RKEY | read LEN ADDR RKEY | add ADDR RKEY N	<- ok
 *	-> poll MS	the next completion, if one comes in time	<- wc OPCODE STATUS LEN, or none
 *	-> fill OFF LEN BYTE	<- ok
 *	-> bytes OFF LEN	of its memory	<- hexadecimal digits
 *	-> state	<- its number
 *	-> destroy | close	the queue pair; the device with all that is open	<- ok
 *	-> exit		returns from main() with everything as it is
 *
 * Work requests use its memory from 0 on (receives from 32768 on, one behind the other).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "../nap.h"

#define LEN   65536u
#define RECVS 32768u

static struct ibv_context *ctx;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static uint8_t *mem;
static unsigned recv_off = RECVS;
static int gid_index;

static void die(const char *what)
{
	printf("error %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must(int err, const char *what)
{
	if (err) {
		errno = err;
		die(what);
	}
}

static void setup(const char *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = { .cap = { 64, 64, 1, 1, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct ibv_pd *pd;

	if (!list)
		die("device list");
	for (unsigned i = 0; list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		die(device);
	ibv_free_device_list(list);
	mem = aligned_alloc(4096, LEN);
	memset(mem, 0, LEN);
	pd = ibv_alloc_pd(ctx);
	mr = pd ? ibv_reg_mr(pd, mem, LEN,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				     IBV_ACCESS_REMOTE_ATOMIC)
		: NULL;
	cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	qp = mr && cq ? ibv_create_qp(pd, &init) : NULL;
	if (!qp)
		die("objects");
	printf("qp %u address %llu rkey %u\n", qp->qp_num, (unsigned long long)(uintptr_t)mem, mr->rkey);
}

static void connect_to(const char *args)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC };
	unsigned qpn, rq_psn, sq_psn, timeout, tclass, mtu = IBV_MTU_256;
	char gid[64];

	if (sscanf(args, "%u %63s %u %u %u %u %u", &qpn, gid, &rq_psn, &sq_psn, &timeout, &tclass, &mtu) < 6)
		die("connect");
	must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = (enum ibv_mtu)mtu,
				  .dest_qp_num = qpn,
				  .rq_psn = rq_psn,
				  .max_dest_rd_atomic = 4,
				  .min_rnr_timer = 12,
				  .ah_attr = { .is_global = 1,
					       .port_num = 1,
					       .grh = { .sgid_index = (uint8_t)gid_index,
							.hop_limit = 61,
							.traffic_class = (uint8_t)tclass } } };
	if (inet_pton(AF_INET6, gid, &a.ah_attr.grh.dgid) != 1)
		die(gid);
	must(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .sq_psn = sq_psn,
				  .timeout = (uint8_t)timeout,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 4 };
	must(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static void post_recv(unsigned len)
{
	struct ibv_sge sge = { (uintptr_t)mem + recv_off, len, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	recv_off += len;
	must(ibv_post_recv(qp, &wr, &bad), "recv");
}

static void post_send(enum ibv_wr_opcode op, unsigned len, const char *args)
{
	struct ibv_sge sge = { (uintptr_t)mem, len, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = len ? 1 : 0, .opcode = op }, *bad;
	unsigned long long addr = 0, add = 0;
	unsigned rkey = 0;

	if (op != IBV_WR_SEND && sscanf(args, "%llu %u %llu", &addr, &rkey, &add) < 2)
		die("work request");
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = add;
	}
	must(ibv_post_send(qp, &wr, &bad), "send");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void poll_for(unsigned ms)
{
	double end = now() + ms;
	unsigned empty_n = 0;
	struct ibv_wc wc;

	do {
		if (ibv_poll_cq(cq, 1, &wc) == 1) {
			printf("wc %u %u %u\n", (unsigned)wc.opcode, (unsigned)wc.status, wc.status ? 0 : wc.byte_len);
			return;
		}
		nap(&empty_n);
	} while (now() < end);
	puts("none");
}

static void state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	must(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), "query");
	printf("%d\n", (int)a.qp_state);
}

static void bytes(unsigned off, unsigned n)
{
	for (unsigned i = 0; i < n && off + i < LEN; i++)
		printf("%02x", mem[off + i]);
	putchar('\n');
}

/* False: it says nothing itself. */
static int obey(const char *word, const char *args, unsigned a, unsigned b, unsigned c)
{
	const char *rest = strchr(args, ' ');

	rest = rest ? rest : "";
	if (!strcmp(word, "connect"))
		connect_to(args);
	else if (!strcmp(word, "recv"))
		post_recv(a);
	else if (!strcmp(word, "send"))
		post_send(IBV_WR_SEND, a, "");
	else if (!strcmp(word, "write"))
		post_send(IBV_WR_RDMA_WRITE, a, rest);
	else if (!strcmp(word, "read"))
		post_send(IBV_WR_RDMA_READ, a, rest);
	else if (!strcmp(word, "add"))
		post_send(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, args);
	else if (!strcmp(word, "fill") && a < LEN && b <= LEN - a)
		memset(mem + a, (int)c, b);
	else if (!strcmp(word, "destroy"))
		must(ibv_destroy_qp(qp), "destroy");
	else if (!strcmp(word, "close"))
		must(ibv_close_device(ctx), "close");
	else if (!strcmp(word, "poll"))
		return poll_for(a), 0;
	else if (!strcmp(word, "bytes"))
		return bytes(a, b), 0;
	else if (!strcmp(word, "state"))
		return state(), 0;
	else
		die(word);
	return 1;
}

int main(int argc, char **argv)
{
	const char *device = "";
	char line[256], word[32];
	int o, at;

	while ((o = getopt(argc, argv, "d:g:")) != -1) {
		if (o == 'd')
			device = optarg;
		else if (o == 'g')
			gid_index = atoi(optarg);
		else
			return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	setup(device);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned v[3] = { 0 };

		at = 0;
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%31s %n", word, &at) != 1 || !strcmp(word, "exit"))
			break;
		sscanf(line + at, "%u %u %u", &v[0], &v[1], &v[2]);
		if (obey(word, line + at, v[0], v[1], v[2]))
			puts("ok");
	}
	return 0;
}
