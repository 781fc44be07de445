/* SPDX-License-Identifier: MIT */
/*
 * misuse.c - programs that use verbs wrongly: misuse KIND.  Two connected queue pairs of one program; each kind does what
 * sanitize.test wants to be told of, and "clean" nothing of that.  The status is 0 wherever the library lets it come so far.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "need.h"

#define LEN   4096u
#define DEPTH 8u

static struct ibv_context *dev;
static struct ibv_pd *pd;
static struct ibv_cq *cq[2];
static struct ibv_qp *qp[2];
static struct ibv_mr *mr;
static char *memory; /* two pieces of LEN: what is sent, and what is received */
static union ibv_gid gid;

static struct ibv_qp *qp_new(struct ibv_cq *c)
{
	struct ibv_qp_init_attr a = {
		.send_cq = c, .recv_cq = c, .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 }
	};
	struct ibv_qp *q = ibv_create_qp(pd, &a);

	need(q, "ibv_create_qp");
	return q;
}

static void qp_connect(struct ibv_qp *q, uint32_t to)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	need(!ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = to,
				  .min_rnr_timer = 1,
				  .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid } } };
	need(!ibv_modify_qp(q, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 };
	need(!ibv_modify_qp(q, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static void set_up(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list && *list, "a device");
	dev = ibv_open_device(*list);
	need(dev, "ibv_open_device");
	ibv_free_device_list(list);
	memory = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(memory != MAP_FAILED, "mmap");
	pd = ibv_alloc_pd(dev);
	need(pd && !ibv_query_gid(dev, 1, 0, &gid), "PD, GID");
	mr = ibv_reg_mr(pd, memory, 2 * LEN, IBV_ACCESS_LOCAL_WRITE);
	need(mr, "ibv_reg_mr");
	for (int i = 0; i < 2; i++) {
		cq[i] = ibv_create_cq(dev, 2 * DEPTH, NULL, NULL, 0);
		need(cq[i], "ibv_create_cq");
		qp[i] = qp_new(cq[i]);
	}
	for (int i = 0; i < 2; i++)
		qp_connect(qp[i], qp[!i]->qp_num);
}

static void tear_down(void)
{
	for (int i = 0; i < 2; i++)
		need(!ibv_destroy_qp(qp[i]) && !ibv_destroy_cq(cq[i]), "destroy");
	need(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(dev), "destroy");
}

static int post_recv(char *at, uint32_t len, uint32_t lkey, uint64_t id)
{
	struct ibv_sge s = { (uintptr_t)at, len, lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &s, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp[1], &wr, &bad);
}

static int post_send(enum ibv_wr_opcode op, uint32_t len, uint32_t lkey, uint64_t id, unsigned flags)
{
	struct ibv_sge s = { (uintptr_t)memory, len, lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = flags }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)memory + LEN;
	return ibv_post_send(qp[0], &wr, &bad);
}

/* The next completion, within 20 s. */
static enum ibv_wc_status wait_for(struct ibv_cq *c)
{
	time_t end = time(NULL) + 20;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(c, 1, &wc)))
		need(time(NULL) < end, "a completion in time");
	need(n == 1, "ibv_poll_cq");
	return wc.status;
}

static void exchange(uint32_t len)
{
	need(!post_send(IBV_WR_SEND, len, mr->lkey, 1, IBV_SEND_SIGNALED), "ibv_post_send");
	need(!wait_for(cq[0]) && !wait_for(cq[1]), "a message");
}

/* ---- the kinds ------------------------------------------------------------------------ */

static void clean(void)
{
	need(!post_recv(memory + LEN, LEN, mr->lkey, 2), "ibv_post_recv");
	memset(memory, 1, LEN);
	exchange(LEN / 2);
	memset(memory, 2, 2 * LEN);
}

/* The receive comes only when the buffer has been changed. */
static void send_changed(void)
{
	need(!post_send(IBV_WR_SEND, LEN, mr->lkey, 1, IBV_SEND_SIGNALED), "ibv_post_send");
	memory[100]++;
	need(!post_recv(memory + LEN, LEN, mr->lkey, 2), "ibv_post_recv");
	need(!wait_for(cq[0]) && !wait_for(cq[1]), "a message");
}

static void receive_written(void)
{
	need(!post_recv(memory + LEN, LEN, mr->lkey, 2), "ibv_post_recv");
	memory[LEN + LEN - 8]++;
	exchange(64);
}

static void dereg_posted(void)
{
	struct ibv_mr *other = ibv_reg_mr(pd, memory + LEN, LEN, IBV_ACCESS_LOCAL_WRITE);

	need(other && !post_recv(memory + LEN, LEN, other->lkey, 2), "ibv_post_recv");
	need(!ibv_dereg_mr(other), "ibv_dereg_mr");
	need(!post_send(IBV_WR_SEND, 64, mr->lkey, 1, IBV_SEND_SIGNALED), "ibv_post_send");
	need(wait_for(cq[1]) == IBV_WC_LOC_PROT_ERR && wait_for(cq[0]), "LOC_PROT_ERR");
}

static void unmap_posted(void)
{
	char *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *other = at == MAP_FAILED ? NULL : ibv_reg_mr(pd, at, LEN, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	need(other && !post_recv(at, LEN, other->lkey, 2), "ibv_post_recv");
	munmap(at, LEN);
	need(!ibv_modify_qp(qp[1], &a, IBV_QP_STATE) && wait_for(cq[1]) && !ibv_dereg_mr(other), "the end");
}

static void double_destroy(void)
{
	struct ibv_mr *other = ibv_reg_mr(pd, memory, LEN, 0);

	need(other && !ibv_dereg_mr(other), "ibv_dereg_mr");
	need(ibv_dereg_mr(other), "the second one refused");
}

static void use_after_destroy(void)
{
	struct ibv_qp *gone = qp[1];

	need(!ibv_destroy_qp(gone), "ibv_destroy_qp");
	need(post_recv(memory + LEN, LEN, mr->lkey, 2) == EINVAL, "refused");
	qp[1] = qp_new(cq[1]);
}

static struct ibv_cq_ex *cq_ex_new(uint32_t flags)
{
	struct ibv_cq_init_attr_ex a = { .cqe = DEPTH, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(dev, &a);

	need(ex, "ibv_create_cq_ex");
	return ex;
}

static void polled_after_destroy(void)
{
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_cq_ex *ex = cq_ex_new(0);

	need(!ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), "ibv_destroy_cq");
	need(ibv_start_poll(ex, &none) == EINVAL, "refused");
}

static void used_after_close(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *other = ibv_open_device(*list);
	struct ibv_cq *c = other ? ibv_create_cq(other, 1, NULL, NULL, 0) : NULL;
	struct ibv_wc wc;

	ibv_free_device_list(list);
	need(c && !ibv_close_device(other), "ibv_close_device");
	need(ibv_poll_cq(c, 1, &wc) < 0, "refused");
}

/* A second region lets others write to what is sent by the key of the first one. */
static void overlap(void)
{
	struct ibv_mr *open = ibv_reg_mr(pd, memory, 2 * LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	need(open, "ibv_reg_mr");
	send_changed();
	need(!ibv_dereg_mr(open), "ibv_dereg_mr");
}

/* A QP that has failed by itself, and its receive's memory goes before that is polled: the QP's state is the program's. */
static void failed_unseen(void)
{
	char *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *other = at == MAP_FAILED ? NULL : ibv_reg_mr(pd, at, LEN, IBV_ACCESS_LOCAL_WRITE);

	need(other && !post_recv(memory + LEN, 64, mr->lkey, 2) && !post_recv(at, LEN, other->lkey, 3), "receives");
	need(!post_send(IBV_WR_SEND, LEN, mr->lkey, 1, IBV_SEND_SIGNALED), "ibv_post_send");
	need(wait_for(cq[0]) == IBV_WC_REM_INV_REQ_ERR, "too long");
	munmap(at, LEN);
	need(qp[1]->state == IBV_QPS_RTS, "the state that was set");
	need(wait_for(cq[1]) == IBV_WC_LOC_LEN_ERR && wait_for(cq[1]) == IBV_WC_WR_FLUSH_ERR, "both receives");
	need(!ibv_dereg_mr(other), "ibv_dereg_mr");
}

/* A child uses a CQ with functions of its own that is the parent's. */
static void forked(void)
{
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_cq_ex *ex = cq_ex_new(0);
	int status;
	pid_t child = fork();

	need(child >= 0, "fork");
	if (!child)
		_exit(ibv_start_poll(ex, &none) == ENOENT ? 0 : 1);
	need(waitpid(child, &status, 0) == child && !status, "the child's poll");
	need(!ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), "ibv_destroy_cq");
}

/* Calls that hardly any program makes. */
static void seldom(void)
{
	struct ibv_rwq_ind_table_init_attr t = { .log_ind_tbl_size = 40 };
	struct ibv_values_ex now = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1000000 };
	struct ibv_counters_init_attr c = { 0 };
	struct ibv_counters *counters = ibv_create_counters(dev, &c);
	struct ibv_ece ece;
	uint64_t value;

	need(!ibv_create_rwq_ind_table(dev, &t) && errno == EINVAL, "a table that is too large");
	need(!ibv_query_rt_values_ex(dev, &now), "ibv_query_rt_values_ex");
	need(!ibv_modify_qp_rate_limit(qp[0], &rate), "ibv_modify_qp_rate_limit");
	need(counters && !ibv_read_counters(counters, &value, 1, 0), "ibv_read_counters");
	need(!ibv_destroy_counters(counters), "ibv_destroy_counters");
	need(!ibv_query_ece(qp[0], &ece) && !ibv_set_ece(qp[0], &ece), "ECE");
}

static void polls_nothing(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < 100; i++)
		need(!ibv_poll_cq(cq[0], 1, &wc), "nothing");
}

/* Descriptors that others have opened, but not those that verbs show: then a file of its own with the first number. */
static void closes_all(void)
{
	char target[256], name[32];

	for (int fd = 3; fd < 100; fd++) {
		ssize_t n;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, target, sizeof(target) - 1);
		if (n < 5 || memcmp(target + n - 5, "taken", 5) != 0)
			continue;
		close(fd);
		need(open("mine", O_WRONLY | O_CREAT | O_TRUNC, 0644) == fd, "that number");
		return;
	}
	need(false, "a file to close");
}

static void use_after_dereg(void)
{
	struct ibv_mr *other = ibv_reg_mr(pd, memory, LEN, 0);
	uint32_t lkey;

	need(other, "ibv_reg_mr");
	lkey = other->lkey;
	need(!ibv_dereg_mr(other), "ibv_dereg_mr");
	post_send(IBV_WR_SEND, LEN, lkey, 1, IBV_SEND_SIGNALED);
	need(wait_for(cq[0]) == IBV_WC_LOC_PROT_ERR, "LOC_PROT_ERR");
}

/* As in rdma-core 59; headers may lack it. */
static void reg_ex(void)
{
	struct {
		size_t len;
		int access;
		uint64_t mask, iova;
		void *addr;
	} a = { LEN, 0, 2, 0, memory };
	struct ibv_mr *(*reg)(struct ibv_pd *, void *), *other;
	uint32_t lkey;

	*(void **)&reg = dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex");
	other = reg ? reg(pd, &a) : NULL;
	need(other, "ibv_reg_mr_ex");
	lkey = other->lkey;
	need(!ibv_dereg_mr(other), "ibv_dereg_mr");
	post_send(IBV_WR_SEND, LEN, lkey, 1, IBV_SEND_SIGNALED);
	need(wait_for(cq[0]) == IBV_WC_LOC_PROT_ERR, "LOC_PROT_ERR");
}

static struct ibv_xrcd *xrcd_new(struct ibv_context *context, int fd)
{
	struct ibv_xrcd_init_attr a = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					.fd = fd,
					.oflags = O_CREAT };
	struct ibv_xrcd *x = ibv_open_xrcd(context, &a);

	need(x, "ibv_open_xrcd");
	return x;
}

static void xrcd_twice(void)
{
	struct ibv_xrcd *x = xrcd_new(dev, -1);

	need(!ibv_close_xrcd(x) && ibv_close_xrcd(x) == EINVAL, "the second one refused");
}

static void wq_twice(void)
{
	struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq[0] };
	struct ibv_wq *w = ibv_create_wq(dev, &a);

	need(w, "ibv_create_wq");
	need(!ibv_destroy_wq(w) && ibv_destroy_wq(w) == EINVAL, "the second one refused");
}

/* A queue pair of another context. */
static void opened_twice(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *other = ibv_open_device(*list);
	int fd = open("/proc/self/exe", O_RDONLY);
	struct ibv_xrcd *x = xrcd_new(dev, fd), *y = xrcd_new(other, fd);
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = y };
	struct ibv_qp *first = ibv_create_qp_ex(other, &a), *again;
	struct ibv_qp_open_attr o = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
				      .qp_num = first ? first->qp_num : 0,
				      .xrcd = x,
				      .qp_type = IBV_QPT_XRC_RECV };

	ibv_free_device_list(list);
	need(first, "ibv_create_qp_ex");
	again = ibv_open_qp(dev, &o);
	need(again && !ibv_destroy_qp(again) && ibv_destroy_qp(again) == EINVAL, "the second one refused");
	need(!ibv_destroy_qp(first) && !ibv_close_xrcd(x) && !ibv_close_xrcd(y) && !ibv_close_device(other), "destroy");
}

static void never_signaled(void)
{
	int err = 0;

	for (unsigned i = 0; i <= DEPTH && !err; i++)
		err = post_send(IBV_WR_SEND, 64, mr->lkey, i, 0);
	need(err == ENOMEM, "a full queue");
}

static void cq_too_small(void)
{
	need(!ibv_destroy_qp(qp[1]) && !ibv_destroy_cq(cq[1]), "destroy");
	cq[1] = ibv_create_cq(dev, 4, NULL, NULL, 0);
	need(cq[1], "ibv_create_cq");
	qp[1] = qp_new(cq[1]);
	qp_connect(qp[1], qp[0]->qp_num);
	for (unsigned i = 0; i < DEPTH; i++)
		need(!post_recv(memory + LEN, LEN, mr->lkey, i), "ibv_post_recv");
}

static void *poll_once(void *c)
{
	struct ibv_wc wc;

	ibv_poll_cq(c, 1, &wc);
	return NULL;
}

/* Of a completion that came, one thread reads while another one polls; which is that of a wrong key. */
static void threads(void)
{
	struct ibv_poll_cq_attr none = { 0 };
	time_t end = time(NULL) + 20;
	struct ibv_cq_ex *ex;
	pthread_t other;

	need(!ibv_destroy_qp(qp[0]) && !ibv_destroy_cq(cq[0]), "destroy");
	ex = cq_ex_new(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	cq[0] = ibv_cq_ex_to_cq(ex);
	qp[0] = qp_new(cq[0]);
	qp_connect(qp[0], qp[0]->qp_num); /* to itself */
	need(!post_send(IBV_WR_RDMA_WRITE, 64, mr->lkey, 1, IBV_SEND_SIGNALED), "ibv_post_send");
	while (ibv_start_poll(ex, &none))
		need(time(NULL) < end, "a completion in time");
	need(!pthread_create(&other, NULL, poll_once, cq[0]) && !pthread_join(other, NULL), "a thread");
	ibv_end_poll(ex);
}

static void access_missing(void)
{
	struct ibv_mr *other = ibv_reg_mr(pd, memory + LEN, LEN, 0);

	need(other && !post_recv(memory + LEN, LEN, other->lkey, 2), "ibv_post_recv");
	need(!ibv_destroy_qp(qp[1]) && !ibv_dereg_mr(other), "destroy");
	qp[1] = qp_new(cq[1]);
}

static void range(void) { need(!post_recv(memory + LEN + 8, LEN, mr->lkey, 2), "ibv_post_recv"); }

static void *cancelled_thread(void *came_back)
{
	pthread_cancel(pthread_self());
	range();
	*(bool *)came_back = true;
	return NULL;
}

/* A thread that is about to be cancelled comes back from a call, with all that is done besides. */
static void cancelled(void)
{
	bool came_back = false;
	struct ibv_wc wc;
	pthread_t t;

	need(!pthread_create(&t, NULL, cancelled_thread, &came_back) && !pthread_join(t, NULL), "a thread");
	need(came_back && !ibv_poll_cq(cq[1], 1, &wc), "a call is no point to be cancelled");
}

static void on_pipe(int sig)
{
	(void)sig;
	exit(0);
}

/* The handler comes when the finding is written. */
static void exits_in_handler(void)
{
	int p[2];

	signal(SIGPIPE, on_pipe);
	need(!pipe(p) && dup2(p[1], STDERR_FILENO) == STDERR_FILENO && !close(p[0]), "a pipe without a reader");
	range();
}

static void domain(void)
{
	struct ibv_pd *second = ibv_alloc_pd(dev);
	struct ibv_mr *other = second ? ibv_reg_mr(second, memory + LEN, LEN, IBV_ACCESS_LOCAL_WRITE) : NULL;

	need(other && !post_recv(memory + LEN, LEN, other->lkey, 2), "ibv_post_recv");
	need(!ibv_destroy_qp(qp[1]) && !ibv_dereg_mr(other) && !ibv_dealloc_pd(second), "destroy");
	qp[1] = qp_new(cq[1]);
}

/* The key of the peer's memory is wrong; that is not looked at. */
static void ignored(void)
{
	struct ibv_qp_init_attr init;
	time_t end = time(NULL) + 20;
	struct ibv_qp_attr a;

	need(!post_send(IBV_WR_RDMA_WRITE, 64, mr->lkey, 1, IBV_SEND_SIGNALED), "ibv_post_send");
	do {
		need(time(NULL) < end && !ibv_query_qp(qp[0], &a, IBV_QP_STATE, &init), "an error in time");
	} while (a.qp_state != IBV_QPS_ERR);
}

static void posts_on(void)
{
	need(!post_send(IBV_WR_RDMA_WRITE, 64, mr->lkey, 1, IBV_SEND_SIGNALED), "ibv_post_send");
	for (unsigned i = 0; i < 20; i++) {
		wait_for(cq[0]);
		need(!post_send(IBV_WR_SEND, 64, mr->lkey, 1, IBV_SEND_SIGNALED), "ibv_post_send");
	}
}

static const struct {
	const char *name;
	void (*fn)(void);
} kinds[] = {
	{ "clean", clean },
	{ "send-changed", send_changed },
	{ "receive-written", receive_written },
	{ "dereg-posted", dereg_posted },
	{ "unmap-posted", unmap_posted },
	{ "double-destroy", double_destroy },
	{ "use-after-destroy", use_after_destroy },
	{ "use-after-dereg", use_after_dereg },
	{ "never-signaled", never_signaled },
	{ "cq-too-small", cq_too_small },
	{ "threads", threads },
	{ "access", access_missing },
	{ "range", range },
	{ "pd", domain },
	{ "cancelled", cancelled },
	{ "exits-in-handler", exits_in_handler },
	{ "ignored", ignored },
	{ "posts-on", posts_on },
	{ "reg-ex", reg_ex },
	{ "xrcd-twice", xrcd_twice },
	{ "wq-twice", wq_twice },
	{ "opened-twice", opened_twice },
	{ "polled-after-destroy", polled_after_destroy },
	{ "used-after-close", used_after_close },
	{ "overlap", overlap },
	{ "failed-unseen", failed_unseen },
	{ "polls-nothing", polls_nothing },
	{ "closes-all", closes_all },
	{ "forked", forked },
	{ "seldom", seldom },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(argv[1], kinds[i].name) != 0)
			continue;
		set_up();
		kinds[i].fn();
		tear_down();
		return 0;
	}
	fputs("Usage: misuse KIND\n", stderr);
	return 98;
}
