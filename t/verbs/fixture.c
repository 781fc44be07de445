/* SPDX-License-Identifier: MIT */
/* fixture.c - see fixture.h.  Also main(). */
#include "fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "../maps.h"
#include "../nap.h"

struct ibv_context *fix_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c;

	ck_assert_msg(list && list[0], "no device: %s", strerror(errno));
	c = ibv_open_device(list[0]);
	ck_assert_msg(c != NULL, "ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
	return c;
}

void fix_open(struct fix *f)
{
	f->ctx = fix_device();
	ck_assert_int_eq(ibv_query_device(f->ctx, &f->attr), 0);
	ck_assert_int_eq(ibv_query_gid(f->ctx, 1, 0, &f->gid), 0);
	f->pd = ibv_alloc_pd(f->ctx);
	f->cq = ibv_create_cq(f->ctx, 256, NULL, NULL, 0);
	f->buf = calloc(1, BUF_LEN);
	ck_assert(f->pd && f->cq && f->buf);
	f->mr = ibv_reg_mr(f->pd, f->buf, BUF_LEN,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC);
	ck_assert_msg(f->mr != NULL, "ibv_reg_mr: %s", strerror(errno));
}

void fix_close(struct fix *f)
{
	ck_assert_int_eq(ibv_dereg_mr(f->mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(f->cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(f->pd), 0);
	ck_assert_int_eq(ibv_close_device(f->ctx), 0);
	free(f->buf);
}

struct ibv_qp *fix_qp(struct fix *f, enum ibv_qp_type type, unsigned wr, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.srq = srq,
		.cap = { .max_send_wr = wr,
			 .max_recv_wr = wr,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 64 },
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &a);

	ck_assert_msg(qp != NULL, "ibv_create_qp: %s", strerror(errno));
	ck_assert_uint_ge(a.cap.max_send_wr, wr);
	return qp;
}

void fix_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x1111,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	ck_assert_int_eq(ibv_modify_qp(qp, &a, mask), 0);
}

void fix_rtr(struct fix *f, struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.rq_psn = FIX_PSN,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = f->gid, .hop_limit = 64 } },
	};
	int mask = IBV_QP_STATE;

	if (qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND || qp->qp_type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	ck_assert_int_eq(ibv_modify_qp(qp, &a, mask), 0);
}

void fix_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = FIX_PSN,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND || qp->qp_type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	ck_assert_int_eq(ibv_modify_qp(qp, &a, mask), 0);
}

void fix_connect(struct fix *f, struct ibv_qp *a, struct ibv_qp *b)
{
	fix_init(a);
	fix_init(b);
	fix_rtr(f, a, b);
	fix_rtr(f, b, a);
	fix_rts(a);
	fix_rts(b);
}

void fix_pair(struct fix *f, struct ibv_qp **a, struct ibv_qp **b)
{
	*a = fix_qp(f, IBV_QPT_RC, 4, NULL);
	*b = fix_qp(f, IBV_QPT_RC, 4, NULL);
	fix_connect(f, *a, *b);
}

void fix_pair_end(struct ibv_qp *a, struct ibv_qp *b)
{
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
}

int fix_state(struct ibv_qp *qp, enum ibv_qp_state s)
{
	struct ibv_qp_attr a = { .qp_state = s };

	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

void fix_xrc_open_fd(struct fix *f, struct fix_xrc *x, int fd)
{
	struct ibv_xrcd_init_attr xa = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd, O_CREAT };
	struct ibv_qp_init_attr_ex qa = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_srq_init_attr_ex sa = { .attr = { 32, 2, 0 },
					   .srq_type = IBV_SRQT_XRC,
					   .pd = f->pd,
					   .cq = f->cq,
					   .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ };

	x->xrcd = ibv_open_xrcd(f->ctx, &xa);
	ck_assert_msg(x->xrcd != NULL, "ibv_open_xrcd: %s", strerror(errno));
	sa.xrcd = qa.xrcd = x->xrcd;
	x->srq = ibv_create_srq_ex(f->ctx, &sa);
	x->recv = ibv_create_qp_ex(f->ctx, &qa);
	ck_assert(x->srq && x->recv);
	ck_assert_int_eq(ibv_get_srq_num(x->srq, &x->srqn), 0);
	x->send = fix_qp(f, IBV_QPT_XRC_SEND, 16, NULL);
	fix_connect(f, x->send, x->recv);
}

void fix_xrc_open(struct fix *f, struct fix_xrc *x) { fix_xrc_open_fd(f, x, -1); }

void fix_xrc_close(struct fix_xrc *x)
{
	ck_assert_int_eq(ibv_destroy_qp(x->send), 0);
	if (x->recv)
		ck_assert_int_eq(ibv_destroy_qp(x->recv), 0);
	ck_assert_int_eq(ibv_destroy_srq(x->srq), 0);
	ck_assert_int_eq(ibv_close_xrcd(x->xrcd), 0);
}

int fix_srq_recv(struct fix *f, struct ibv_srq *srq, uint64_t wr_id, unsigned off, unsigned len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)f->buf + off, .length = len, .lkey = f->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_srq_recv(srq, &wr, &bad);
}

int fix_write_to(struct fix *f, struct ibv_qp *qp, uint32_t srqn, uint64_t addr, uint32_t rkey, unsigned len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)f->buf, .length = len, .lkey = f->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 1,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { addr, rkey },
					.qp_type.xrc.remote_srqn = srqn };

	return ibv_post_send(qp, &wr, &bad);
}

enum ibv_event_type fix_event(struct ibv_context *c)
{
	struct pollfd p = { .fd = c->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	ck_assert_msg(poll(&p, 1, PATIENCE_S * 1000) == 1, "no event within %d s", PATIENCE_S);
	ck_assert_int_eq(ibv_get_async_event(c, &ev), 0);
	ibv_ack_async_event(&ev);
	return ev.event_type;
}

int fix_send(struct fix *f, struct ibv_qp *qp, uint64_t wr_id, unsigned off, unsigned len, unsigned flags)
{
	struct ibv_sge sge = { .addr = (uintptr_t)f->buf + off, .length = len, .lkey = f->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
	};

	return ibv_post_send(qp, &wr, &bad);
}

int fix_recv(struct fix *f, struct ibv_qp *qp, uint64_t wr_id, unsigned off, unsigned len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)f->buf + off, .length = len, .lkey = f->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(qp, &wr, &bad);
}

struct ibv_wc fix_wait(struct ibv_cq *cq)
{
	time_t end = time(NULL) + PATIENCE_S;
	unsigned empty_n = 0;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc))) {
		ck_assert_msg(time(NULL) <= end, "no completion within %d s", PATIENCE_S);
		nap(&empty_n);
	}
	ck_assert_int_eq(n, 1);
	return wc;
}

struct ibv_wc fix_wait_ok(struct ibv_cq *cq)
{
	struct ibv_wc wc = fix_wait(cq);

	ck_assert_msg(wc.status == IBV_WC_SUCCESS, "WR %llu: %s", (unsigned long long)wc.wr_id,
		      ibv_wc_status_str(wc.status));
	return wc;
}

void fix_fill(unsigned char *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

int fix_filled(const unsigned char *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)(seed * 31 + i * 7 + (i >> 8)))
			return 0;
	return 1;
}

unsigned char *fix_blank(size_t len)
{
	unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert(p != MAP_FAILED);
	return p;
}

unsigned char *fix_pages(size_t len, unsigned seed)
{
	unsigned char *p = fix_blank(len);

	fix_fill(p, len, seed);
	return p;
}

struct ibv_mr *fix_reg(struct fix *f, void *p, size_t len)
{
	struct ibv_mr *m = ibv_reg_mr(f->pd, p, len,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

	ck_assert_msg(m != NULL, "%s", strerror(errno));
	return m;
}

void fix_ended_well(pid_t pid)
{
	int status = -1;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "the child's status is %#x", (unsigned)status);
}

unsigned fix_mappings(const void *p, size_t len, unsigned *shared)
{
	FILE *f = maps_open();
	struct mapping m;
	unsigned n = 0;

	*shared = 0;
	ck_assert(f != NULL);
	while (maps_next(f, &m))
		if ((uintptr_t)p < m.end && m.start < (uintptr_t)p + len) {
			n++;
			*shared += strstr(m.name, "/memfd:rdmad-mr") != NULL;
		}
	fclose(f);
	return n;
}

bool fix_is_mapped(const void *p)
{
	unsigned shared;

	return fix_mappings(p, 1, &shared) == 1 && shared;
}

int main(void)
{
	Suite *s = suite_create("verbs");

	api_objects(s);
	api_post(s);
	api_arm(s);
	api_event(s);
	api_async(s);
	api_answer(s);
	api_tracer(s);
	api_order(s);
	api_raw(s);
	api_offload(s);
	api_handle(s);
	api_key(s);
	api_inline(s);
	api_rss(s);
	api_many(s);
	api_rate(s);
	api_ex(s);
	api_mw(s);
	api_newer(s);
	api_cntr(s);
	api_ops(s);
	api_xrc(s);
	api_flush(s);
	api_memory(s);
	api_share(s);
	api_srq(s);
	api_why(s);
#ifndef __SANITIZE_THREAD__ /* which has a thread of its own: nothing would be converted */
	api_map(s);
	api_attr(s);
	api_caller(s);
	api_back(s);
	api_fork(s);
	api_stack(s);
	api_beside(s);
	api_segment(s);
	api_arena(s);
	api_hold(s);
#endif
	return suite_run(s);
}

struct mail *fix_mail(void)
{
	struct mapping m;

	return maps_named("/memfd:rdmad-mail", &m) ? (struct mail *)m.start : NULL;
}
