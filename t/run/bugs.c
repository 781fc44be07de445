/* SPDX-License-Identifier: MIT */
/*
 * bugs.c - programs with one bug each: bugs NAME.  Two queue pairs of one program, which would be connected and exchange one
 * message, but for the bug.  It prints how the request ended, and ends itself well.  bugs.test has what is to be said of each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../nap.h"
#include "need.h"

#define DEPTH 8u
#define LEN   4096u

static char memory[4 * LEN] __attribute__((aligned(4096)));

/* The things that a program decides on.  A bug changes one of these, or does something itself. */
static struct plan {
	enum ibv_qp_type type;
	enum ibv_wr_opcode op;
	uint32_t len, recv_len; /* recv_len 0: no receive */
	uint32_t dest_off;      /* to the number of the peer's QP */
	uint32_t psn_off;       /* to what the peer expects */
	unsigned mr_access, recv_access;
	unsigned qp_access;
	uint32_t lkey, rkey; /* 0: the right ones */
	uint64_t at_off;     /* to the address at the peer */
	uint64_t from_off;   /* to ours */
	uint8_t dest_rd, rd, depth;
	const char *far; /* GID of the peer, if it is none of ours */
	uint8_t back;    /* the peer is connected to: 0 us, 1 another QP, 2 nobody */
	enum ibv_mtu peer_mtu;
	uint32_t qkey_off;
	unsigned flags, device, n; /* n: requests */
	int sge_n;
	bool refused; /* it cannot be posted at all */
} plan = {
	.type = IBV_QPT_RC,
	.op = IBV_WR_RDMA_WRITE,
	.len = 64,
	.recv_len = 256,
	.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
	.recv_access = IBV_ACCESS_LOCAL_WRITE,
	.qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	.dest_rd = 4,
	.rd = 4,
	.depth = DEPTH,
	.peer_mtu = IBV_MTU_1024,
	.flags = IBV_SEND_SIGNALED,
	.sge_n = 1,
	.n = 1,
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr, *recv_mr;
static struct ibv_qp *qp[2];
static union ibv_gid gid;

/* A call that has to fail: so the bug is that it is made. */
static void refused(bool good, const char *what)
{
	printf("%s: %s\n", what, good ? "not refused" : strerror(errno));
	exit(good ? 98 : 0);
}

static struct ibv_mr *reg(struct ibv_pd *of, unsigned access)
{
	struct ibv_mr *m = ibv_reg_mr(of, memory, 2 * LEN, access);

	need(m, "MR");
	return m;
}

static struct ibv_pd *pd_new(void)
{
	struct ibv_pd *p = ibv_alloc_pd(ctx);

	need(p, "PD");
	return p;
}

/* Of a context besides the program's. */
static struct ibv_pd *pd_of(unsigned device)
{
	struct ibv_device *d = ibv_get_device_list(NULL)[device];
	struct ibv_context *other = d ? ibv_open_device(d) : NULL;
	struct ibv_pd *p = other ? ibv_alloc_pd(other) : NULL;

	need(p, "another context");
	return p;
}

/* ---- bugs of calls ----------------------------------------------------------- */

static void to_init(struct ibv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = plan.qp_access };

	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
}

static void far_gid(union ibv_gid *to) { need(!plan.far || inet_pton(AF_INET6, plan.far, to) == 1, "GID"); }

static int to_rtr(struct ibv_qp *q, uint32_t dest, uint32_t psn, uint8_t row, enum ibv_mtu mtu, int mask)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = dest,
		.rq_psn = psn,
		.max_dest_rd_atomic = plan.dest_rd,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 64, .sgid_index = row } }
	};
	int rc = plan.type == IBV_QPT_UC ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	far_gid(&a.ah_attr.grh.dgid);
	return ibv_modify_qp(
		q, &a, (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | rc) ^ mask);
}

static void skip_init(void) { refused(!to_rtr(qp[0], 1, 0, 0, IBV_MTU_1024, 0), "RTR"); }

static void rtr_refused(uint8_t row, enum ibv_mtu mtu, int mask)
{
	to_init(qp[0]);
	refused(!to_rtr(qp[0], 1, 0, row, mtu, mask), "RTR");
}

static void no_mtu(void) { rtr_refused(0, IBV_MTU_1024, IBV_QP_PATH_MTU); }
static void wrong_mtu(void) { rtr_refused(0, 7, 0); }
static void empty_row(void) { rtr_refused(15, IBV_MTU_1024, 0); }
static void extra_attr(void) { rtr_refused(0, IBV_MTU_1024, IBV_QP_RNR_RETRY); }

static void busy_pd(void) { refused(!(errno = ibv_dealloc_pd(pd)), "ibv_dealloc_pd"); }
static void busy_cq(void) { refused(!(errno = ibv_destroy_cq(cq)), "ibv_destroy_cq"); }
static void deep_cq(void) { refused(ibv_create_cq(ctx, 1 << 30, NULL, NULL, 0), "ibv_create_cq"); }

static void no_memory(void)
{
	char *p = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(p != MAP_FAILED && !munmap(p, LEN), "mmap");
	refused(ibv_reg_mr(pd, p, LEN, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
}

static void remote_only(void) { refused(ibv_reg_mr(pd, memory, LEN, IBV_ACCESS_REMOTE_WRITE), "ibv_reg_mr"); }
static void nobody_listens(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(7998),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct rdma_conn_param p = { .retry_count = 7, .qp_num = 0x777 };
	struct rdma_cm_id *id;

	need(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "id");
	need(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000), "resolve");
	need(!rdma_resolve_route(id, 2000), "route");
	refused(!rdma_connect(id, &p), "rdma_connect");
}

/* ---- bugs of keys -------------------------------------------------------------- */

static void key_swapped(void) { plan.rkey = htonl(mr->rkey); }
static void key_unset(void) { plan.rkey = UINT32_MAX; } /* 0, see post() */
static void lkey_unset(void) { plan.lkey = UINT32_MAX; }

static uint32_t gone(struct ibv_pd *of)
{
	struct ibv_mr *m = reg(of, plan.mr_access);
	uint32_t key = m->rkey;

	need(!ibv_dereg_mr(m), "dereg");
	return key;
}

/* A program of before, which has gone, had it. */
static void key_of_past(void)
{
	int at[2], status = 1;
	pid_t pid = -1;

	need(!pipe(at) && (pid = fork()) >= 0, "fork");
	if (!pid) {
		plan.rkey = gone(pd_of(0));
		need(write(at[1], &plan.rkey, sizeof(plan.rkey)) == sizeof(plan.rkey), "write");
		_exit(0);
	}
	need(read(at[0], &plan.rkey, sizeof(plan.rkey)) == sizeof(plan.rkey), "key");
	need(waitpid(pid, &status, 0) == pid && !status, "program");
}

/* One program, two contexts: as many libraries make one of their own. */
static void key_of_context(void) { plan.rkey = gone(pd_of(0)); }

static void key_gone(void) { plan.rkey = gone(pd); }
static void lkey_gone(void) { plan.lkey = gone(pd); }
static void key_pd(void) { plan.rkey = reg(pd_new(), plan.mr_access)->rkey; }
static void lkey_pd(void) { plan.lkey = reg(pd_new(), plan.mr_access)->lkey; }
static void key_right(void) { plan.mr_access = IBV_ACCESS_LOCAL_WRITE; }
static void read_right(void)
{
	plan.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	plan.op = IBV_WR_RDMA_READ;
}
static void key_bounds(void) { plan.at_off = LEN - 8; }
static void lkey_bounds(void) { plan.from_off = 2 * LEN - 8; }

static void key_device(void) { plan.rkey = reg(pd_of(1), plan.mr_access)->rkey; }

static void window_unbound(void)
{
	struct ibv_mw *w = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	need(w, "MW");
	plan.rkey = w->rkey;
}

static void invalidated_mr(void) { plan.op = IBV_WR_SEND_WITH_INV; }
static void local_inv_mr(void)
{
	plan.op = IBV_WR_LOCAL_INV;
	plan.sge_n = 0;
}

/* ---- bugs of receives ----------------------------------------------------------- */

static void send_op(void) { plan.op = IBV_WR_SEND; }
static void no_receive(void)
{
	send_op();
	plan.recv_len = 0;
}
static void short_receive(void)
{
	send_op();
	plan.recv_len = 16;
}
static void receive_right(void)
{
	send_op();
	plan.recv_access = IBV_ACCESS_REMOTE_READ;
}

static void early_dereg(void) { send_op(); } /* and see run() */

/* ---- bugs of queue pairs ---------------------------------------------------------- */

static void no_write(void) { plan.qp_access = IBV_ACCESS_REMOTE_READ; }
static void no_read(void)
{
	plan.op = IBV_WR_RDMA_READ;
	plan.qp_access = IBV_ACCESS_REMOTE_WRITE;
}
static void no_resources(void)
{
	plan.op = IBV_WR_RDMA_READ;
	plan.dest_rd = 0;
}
static void other_mtu(void)
{
	plan.len = 1024;
	plan.peer_mtu = IBV_MTU_256;
}
static void post_early(void) { plan.refused = true; } /* and see run() */
static void too_many_sge(void)
{
	plan.refused = true;
	plan.sge_n = 2;
}
static void too_much_inline(void)
{
	plan.refused = true;
	plan.len = LEN;
	plan.flags |= IBV_SEND_INLINE;
}
static void inline_flag(void)
{
	plan.refused = true;
	plan.flags |= IBV_SEND_INLINE | 1 << 12;
}
static void read_sge(void)
{
	too_many_sge();
	plan.op = IBV_WR_RDMA_READ;
	plan.device = 1; /* which takes fewer of these */
}
static void bind_type1(void)
{
	too_many_sge(); /* it is not looked at how many there are */
	plan.op = IBV_WR_BIND_MW;
}
static void uc_read(void)
{
	plan.type = IBV_QPT_UC;
	plan.op = IBV_WR_RDMA_READ;
	plan.refused = true;
}
static void wrong_psn(void) { plan.psn_off = 0xffffff; }
static void lost_psn(void) { plan.psn_off = 1; } /* taken for a duplicate: acknowledged, and not executed */
static void far_psn(void) { plan.psn_off = 0x800123; }
static void wrong_qpn(void) { plan.dest_off = 1000; }
static void peer_unset(void) { plan.far = "::"; }
static void made_up_row(void) { plan.far = "fe80::72:64ff:fe00:1"; }
static void other_way(void) { plan.back = 1; }
static void not_ready(void) { plan.back = 2; }
static void peer_failed(void) {} /* see run() */
static void post_to_err(void) {} /* this one, too */
static void atomic_place(void)
{
	plan.op = IBV_WR_ATOMIC_FETCH_AND_ADD;
	plan.len = 8;
	plan.at_off = 4;
}
static void atomic_len(void)
{
	plan.op = IBV_WR_ATOMIC_FETCH_AND_ADD;
	plan.len = 4;
}
static void full_cq(void)
{
	plan.depth = 1;
	plan.n = DEPTH;
}

/* ---- datagrams ----------------------------------------------------------------------- */

static void ud(void)
{
	plan.type = IBV_QPT_UD;
	send_op();
}
static void ud_qkey(void)
{
	ud();
	plan.qkey_off = 1;
}
static void ud_no_receive(void)
{
	ud();
	plan.recv_len = 0;
}
static void ud_no_grh(void)
{
	ud();
	plan.recv_len = 64;
}
static void ud_long(void)
{
	ud();
	plan.len = 2 * LEN;
}
static void ud_far(void)
{
	ud();
	plan.far = "::ffff:198.51.100.1";
}
static void uc_no_receive(void)
{
	no_receive();
	plan.type = IBV_QPT_UC;
}
static void uc_right(void)
{
	no_write();
	plan.type = IBV_QPT_UC;
}
static void uc_key(void)
{
	plan.type = IBV_QPT_UC;
	key_gone();
}

enum when { BEFORE, WITH_MR, WITH_QPS };

static const struct bug {
	const char *name;
	enum when when;
	void (*make)(void);
} bugs[] = {
#define BUG(name, when)           \
	{                         \
#name, when, name \
	}
	BUG(skip_init, WITH_QPS),      BUG(no_mtu, WITH_QPS),        BUG(wrong_mtu, WITH_QPS),
	BUG(empty_row, WITH_QPS),      BUG(extra_attr, WITH_QPS),    BUG(busy_pd, WITH_QPS),
	BUG(busy_cq, WITH_QPS),        BUG(no_memory, WITH_QPS),     BUG(remote_only, WITH_QPS),
	BUG(nobody_listens, WITH_QPS), BUG(key_swapped, WITH_MR),    BUG(key_unset, WITH_MR),
	BUG(lkey_unset, WITH_MR),      BUG(key_of_past, BEFORE),     BUG(key_gone, WITH_MR),
	BUG(lkey_gone, WITH_MR),       BUG(key_pd, WITH_MR),         BUG(lkey_pd, WITH_MR),
	BUG(key_right, BEFORE),        BUG(read_right, BEFORE),      BUG(key_bounds, BEFORE),
	BUG(lkey_bounds, BEFORE),      BUG(key_device, WITH_MR),     BUG(window_unbound, WITH_MR),
	BUG(no_receive, BEFORE),       BUG(short_receive, BEFORE),   BUG(receive_right, BEFORE),
	BUG(early_dereg, BEFORE),      BUG(no_write, BEFORE),        BUG(no_read, BEFORE),
	BUG(no_resources, BEFORE),     BUG(wrong_psn, BEFORE),       BUG(far_psn, BEFORE),
	BUG(lost_psn, BEFORE),         BUG(wrong_qpn, BEFORE),       BUG(other_way, BEFORE),
	BUG(not_ready, BEFORE),        BUG(peer_failed, BEFORE),     BUG(post_to_err, BEFORE),
	BUG(atomic_place, BEFORE),     BUG(atomic_len, BEFORE),      BUG(full_cq, BEFORE),
	BUG(ud_qkey, BEFORE),          BUG(ud_no_receive, BEFORE),   BUG(ud_no_grh, BEFORE),
	BUG(ud_long, BEFORE),          BUG(other_mtu, BEFORE),       BUG(post_early, BEFORE),
	BUG(too_many_sge, BEFORE),     BUG(too_much_inline, BEFORE), BUG(uc_read, BEFORE),
	BUG(invalidated_mr, BEFORE),   BUG(local_inv_mr, BEFORE),    BUG(deep_cq, WITH_QPS),
	BUG(uc_no_receive, BEFORE),    BUG(uc_right, BEFORE),        BUG(uc_key, WITH_MR),
	BUG(key_of_context, WITH_MR),  BUG(inline_flag, BEFORE),     BUG(read_sge, BEFORE),
	BUG(bind_type1, BEFORE),       BUG(peer_unset, BEFORE),      BUG(made_up_row, BEFORE),
	BUG(ud_far, BEFORE),
};

/* ---- the program ------------------------------------------------------------------------ */

static void objects(void)
{
	struct ibv_qp_init_attr init = { .qp_type = plan.type,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = plan.op == IBV_WR_RDMA_READ ? 2 : 1,
						  .max_recv_sge = 1 } };

	init.send_cq = init.recv_cq = cq;
	for (unsigned i = 0; i < 2; i++)
		need((qp[i] = ibv_create_qp(pd, &init)), "QP");
}

static void to_rts(struct ibv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .timeout = 8,
				 .retry_cnt = 2,
				 .rnr_retry = 2,
				 .max_rd_atomic = plan.rd,
				 .sq_psn = 0x1000 };
	int rc = plan.type == IBV_QPT_RC
			 ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
			 : 0;

	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | rc), "RTS");
}

static void join_ud(struct ibv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11 };

	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR };
	need(!ibv_modify_qp(q, &a, IBV_QP_STATE), "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

static void join(void)
{
	if (plan.type == IBV_QPT_UD) {
		join_ud(qp[0]);
		join_ud(qp[1]);
		return;
	}
	for (unsigned i = 0; i < 2; i++)
		to_init(qp[i]);
	need(!to_rtr(qp[0], qp[1]->qp_num + plan.dest_off, 0x1000, 0, IBV_MTU_1024, 0), "RTR");
	to_rts(qp[0]);
	if (plan.back == 2 || plan.far)
		return;
	need(!to_rtr(qp[1], qp[0]->qp_num + 1000 * plan.back, 0x1000 + plan.psn_off, 0, plan.peer_mtu, 0), "RTR");
	to_rts(qp[1]);
}

static void fail(struct ibv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	need(!ibv_modify_qp(q, &a, IBV_QP_STATE), "ERR");
}

static void receive(void)
{
	struct ibv_sge sge = { (uintptr_t)memory + LEN, plan.recv_len, recv_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (plan.recv_len)
		need(!ibv_post_recv(qp[1], &wr, &bad), "receive");
}

static uint32_t key_of(uint32_t planned, uint32_t right)
{
	return planned == UINT32_MAX ? 0 : planned ? planned : right;
}

static void post(void)
{
	struct ibv_ah_attr at = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 64 } };
	struct ibv_sge sge = { (uintptr_t)memory + plan.from_off, plan.len, key_of(plan.lkey, mr->lkey) };
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = plan.sge_n, .opcode = plan.op, .send_flags = plan.flags
	};
	struct ibv_send_wr *bad;
	uint64_t there = (uintptr_t)memory + LEN + plan.at_off;
	uint32_t rkey = key_of(plan.rkey, mr->rkey);

	if (plan.type == IBV_QPT_UD) {
		far_gid(&at.grh.dgid);
		need((wr.wr.ud.ah = ibv_create_ah(pd, &at)), "AH");
		wr.wr.ud.remote_qpn = qp[1]->qp_num;
		wr.wr.ud.remote_qkey = 0x11 + plan.qkey_off;
	} else if (plan.op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = there;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = there;
		wr.wr.rdma.rkey = rkey;
	}
	if (plan.op == IBV_WR_SEND_WITH_INV || plan.op == IBV_WR_LOCAL_INV)
		wr.invalidate_rkey = rkey;
	if (plan.op == IBV_WR_BIND_MW)
		need((wr.bind_mw.mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)), "MW");
	if (plan.refused)
		refused(!(errno = ibv_post_send(qp[0], &wr, &bad)), "ibv_post_send");
	for (unsigned i = 0; i < plan.n; i++)
		need(!ibv_post_send(qp[0], &wr, &bad), "post");
}

/* The end of the request, wherever that is seen: a full CQ shows nothing, but fails the QP. */
static void wait_for_end(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	unsigned empty_n = 0;
	struct ibv_wc wc;

	if (plan.n > 1) {
		do {
			nap(&empty_n);
			need(!ibv_query_qp(qp[0], &a, IBV_QP_STATE, &init), "query");
		} while (a.qp_state != IBV_QPS_ERR);
		return;
	}
	for (;; nap(&empty_n)) {
		int n = ibv_poll_cq(cq, 1, &wc);

		need(n >= 0, "poll");
		if (n && wc.wr_id == 1)
			break;
	}
	printf("%s\n", ibv_wc_status_str(wc.status));
}

static void run(const struct bug *b)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (b->when == BEFORE)
		b->make();
	need(list && list[plan.device] && (ctx = ibv_open_device(list[plan.device])), "open");
	need(!ibv_query_gid(ctx, 1, 0, &gid), "GID");
	pd = pd_new();
	need((cq = ibv_create_cq(ctx, plan.depth, NULL, NULL, 0)), "CQ");
	mr = reg(pd, plan.mr_access);
	recv_mr = reg(pd, plan.recv_access);
	if (b->when == WITH_MR)
		b->make();
	objects();
	if (b->when == WITH_QPS)
		b->make();
	if (b->make == post_early)
		post();
	join();
	receive();
	if (b->make == early_dereg)
		need(!ibv_dereg_mr(recv_mr), "dereg");
	if (b->make == peer_failed)
		fail(qp[1]);
	if (b->make == post_to_err)
		fail(qp[0]);
	post();
	wait_for_end();
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(bugs) / sizeof(*bugs); i++)
		if (argc == 2 && !strcmp(argv[1], bugs[i].name)) {
			run(&bugs[i]);
			return 0;
		}
	for (size_t i = 0; argc < 2 && i < sizeof(bugs) / sizeof(*bugs); i++)
		puts(bugs[i].name);
	return argc < 2 ? 0 : 99;
}
