/* SPDX-License-Identifier: MIT */
/*
 * many.c - what it costs that there is much, of which little is used: for contrib/bench.
 *
 *	many contexts N		a WRITE of 8 bytes while N more contexts are open, and idle
 *	many qps N		the same, of eight queue pairs in turn, with N on one completion queue
 *	many connected N	the same, of a hundred queue pairs in turn, with N more that are connected, and silent
 *	many mrs N		the same, from eight memory regions in turn, of N
 *
 * Prints three numbers: microseconds without them, with them, and the ratio of the two.  They are measured one after the
 * other, contexts ROUNDS times; each number is the median.
 */
#include <infiniband/verbs.h>

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define ROUNDS 5u
#define WRITES 4000u
#define USED   8u   /* QPs and MRs that are written with */
#define BUSY   100u /* QPs, if those beside them are connected */
#define NTH    997u /* of what is made one is used, to see that it is good */
#define GAP_NS 10000000u

static struct ibv_device *device;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static uint8_t *buffer;
static struct ibv_mr *mr[USED];
static struct ibv_qp *qp[BUSY];
static unsigned qp_n = USED;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "many: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *must(void *p, const char *what)
{
	if (!p)
		die(what);
	return p;
}

static void zero(int err, const char *what)
{
	if (err) {
		errno = err;
		die(what);
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- what is used ------------------------------------------------------------------ */

static struct ibv_qp *qp_new(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 1, 1, 1, 0 }
	};

	return must(ibv_create_qp(pd, &init), "ibv_create_qp");
}

/* To itself. */
static void qp_connect(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = q->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 1 } },
	};

	zero(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a.qp_state = IBV_QPS_RTR;
	zero(ibv_modify_qp(q, &a,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	a.qp_state = IBV_QPS_RTS;
	zero(ibv_modify_qp(q, &a,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static struct ibv_mr *mr_new(void)
{
	return must(ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), "ibv_reg_mr");
}

static void set_up(void)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL), "ibv_get_device_list");

	device = must(list[0], "a device");
	context = must(ibv_open_device(device), "ibv_open_device");
	pd = must(ibv_alloc_pd(context), "ibv_alloc_pd");
	cq = must(ibv_create_cq(context, 64, NULL, NULL, 0), "ibv_create_cq");
	zero(ibv_query_gid(context, 1, 0, &gid) ? EIO : 0, "ibv_query_gid");
	buffer = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED)
		die("mmap");
	for (unsigned i = 0; i < USED; i++)
		mr[i] = mr_new();
	for (unsigned i = 0; i < qp_n; i++) {
		qp[i] = qp_new();
		qp_connect(qp[i]);
	}
}

static void write_by(struct ibv_qp *q, const struct ibv_mr *m)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 8, m->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { (uintptr_t)buffer + 64, mr[0]->rkey } };
	struct ibv_wc wc;
	int n;

	zero(ibv_post_send(q, &wr, &bad), "ibv_post_send");
	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (!n);
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		die("ibv_poll_cq");
}

static void write_one(unsigned i) { write_by(qp[i % qp_n], mr[i % USED]); }

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_size);
	return v[n / 2];
}

/* Microseconds of one, the median; after a while in which what is not used has become so. */
static double latency(void)
{
	static double us[WRITES];
	uint64_t start = now_ns(), end;
	unsigned i;

	for (i = 0; now_ns() - start < GAP_NS; i++)
		write_one(i);
	for (i = 0; i < WRITES; i++) {
		start = now_ns();
		write_one(i);
		end = now_ns();
		us[i] = (double)(end - start) / 1000;
	}
	return median(us, WRITES);
}

/* ---- what is not -------------------------------------------------------------------- */

static void *context_more(void) { return must(ibv_open_device(device), "ibv_open_device"); }
static void context_less(void *p) { zero(ibv_close_device(p), "ibv_close_device"); }
static void *qp_more(void) { return qp_new(); }
static void qp_less(void *p) { zero(ibv_destroy_qp(p), "ibv_destroy_qp"); }
static void qp_use(void *p)
{
	qp_connect(p);
	write_by(p, mr[0]);
}
static void *connected_more(void)
{
	struct ibv_qp *q = qp_new();

	qp_connect(q);
	return q;
}
static void connected_use(void *p) { write_by(p, mr[0]); }
static void *mr_more(void) { return mr_new(); }
static void mr_use(void *p) { write_by(qp[0], p); }
static void mr_less(void *p) { zero(ibv_dereg_mr(p), "ibv_dereg_mr"); }

static const struct thing {
	const char *name;
	void *(*more)(void);
	void (*less)(void *);
	void (*use)(void *); /* or NULL */
	unsigned qps;        /* that are written with */
	unsigned rounds;     /* to make many takes long */
} things[] = {
	{ "contexts", context_more, context_less, NULL, USED, ROUNDS },
	{ "qps", qp_more, qp_less, qp_use, USED, 1 },
	{ "connected", connected_more, qp_less, connected_use, BUSY, 1 },
	{ "mrs", mr_more, mr_less, mr_use, USED, 1 },
};

int main(int argc, char **argv)
{
	const struct thing *t = things;
	double alone[ROUNDS], beside[ROUNDS], ratio[ROUNDS];
	unsigned n = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
	struct rlimit files;
	void **more;

	while (argc == 3 && t < things + sizeof(things) / sizeof(*things) && strcmp(t->name, argv[1]))
		t++;
	if (!n || t == things + sizeof(things) / sizeof(*things)) {
		fprintf(stderr, "usage: many contexts|qps|connected|mrs N\n");
		return 2;
	}
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	more = must(calloc(n, sizeof(*more)), "memory");
	qp_n = t->qps;
	set_up();
	for (unsigned i = 0; i < t->rounds; i++) {
		alone[i] = latency();
		for (unsigned k = 0; k < n; k++)
			more[k] = t->more();
		beside[i] = latency();
		for (unsigned k = 0; k < n && t->use; k += NTH)
			t->use(more[k]);
		for (unsigned k = 0; k < n; k++)
			t->less(more[k]);
		ratio[i] = beside[i] / alone[i];
	}
	printf("%.3f %.3f %.3f\n", median(alone, t->rounds), median(beside, t->rounds), median(ratio, t->rounds));
	return 0;
}
