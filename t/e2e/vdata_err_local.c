/* SPDX-License-Identifier: MIT */
/*
 * vdata_err_local.c - mistakes that do not leave their side, peers that are not ready or not there, shared
 * receive queues, and the services that do not answer.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vdata_scene.h"

/* ---- the requester's own mistakes ------------------------------------------------ */

/* The server notices nothing. */
static void unharmed(struct scene *s)
{
	scene_open_usual(s);
	scene_recv_post(s, 50, 100, s->mr->lkey);
	vd_barrier(s->fd);
	vd_barrier(s->fd);
	scene_expect_none(s, 0);
	scene_expect_state(s, IBV_QPS_RTS);
	scene_expect_untouched(s);
	scene_done(s);
}

static void local_fails(struct scene *s, enum ibv_wr_opcode code, uint64_t addr_add, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = scene_request(s, code, &sge, len), after = wr;

	sge.addr += addr_add;
	sge.lkey = lkey;
	after.wr_id = 2;
	after.send_flags = 0;
	wr.next = &after;
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_LOC_PROT_ERR);
	scene_expect(s, 2, IBV_WC_WR_FLUSH_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	vd_barrier(s->fd);
	scene_done(s);
}

static void lkey_c(struct scene *s)
{
	scene_open_usual(s);
	vd_barrier(s->fd);
	local_fails(s, IBV_WR_SEND, 0, 100, s->mr->lkey ^ 0x00010100);
}

static void local_bounds_c(struct scene *s)
{
	scene_open_usual(s);
	vd_barrier(s->fd);
	local_fails(s, IBV_WR_RDMA_WRITE, BUF_LEN / 2 - 99, 100, s->mr->lkey);
}

static void local_pd_c(struct scene *s)
{
	scene_open_usual(s);
	s->pd2 = ibv_alloc_pd(s->node->ctx);
	s->mr2 = s->pd2 ? ibv_reg_mr(s->pd2, s->buf, BUF_LEN, ALL) : NULL;
	if (!s->mr2)
		vd_die("ibv_reg_mr: %s", strerror(errno));
	vd_barrier(s->fd);
	local_fails(s, IBV_WR_RDMA_WRITE, 0, 100, s->mr2->lkey);
}

static void read_into_readonly_c(struct scene *s)
{
	struct vd_want want = { 0 };

	scene_open_with(s, &want, IBV_ACCESS_REMOTE_READ);
	vd_barrier(s->fd);
	local_fails(s, IBV_WR_RDMA_READ, 0, 100, s->mr->lkey);
}

static void post_limits_c(struct scene *s) /* what the verb itself refuses */
{
	struct ibv_sge sge[64];
	struct ibv_send_wr wr, *bad;
	unsigned i;
	int err = 0;

	scene_open_usual(s);
	vd_barrier(s->fd);
	for (i = 0; i < 64; i++)
		wr = scene_request(s, IBV_WR_SEND, &sge[i], 1);
	wr.sg_list = sge;
	wr.num_sge = 33;
	if (!ibv_post_send(s->q.qp, &wr, &bad) || bad != &wr)
		vd_die("33 sge are taken");
	wr.num_sge = 1;
	wr.send_flags |= IBV_SEND_INLINE;
	sge[0].length = s->q.inline_max + 1;
	if (!ibv_post_send(s->q.qp, &wr, &bad))
		vd_die("%u inline bytes are taken", sge[0].length);
	wr.send_flags = 0;
	sge[0].length = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	for (i = 0; i < 100000 && !err; i++) /* unsignaled: nothing is ever given back */
		err = ibv_post_send(s->q.qp, &wr, &bad);
	if (err != ENOMEM || bad != &wr || i < 64)
		vd_die("post %u to a queue of 64: %s", i, strerror(err));
	vd_barrier(s->fd);
	scene_done(s);
}

static void post_limits_s(struct scene *s)
{
	scene_open_usual(s);
	vd_barrier(s->fd);
	vd_barrier(s->fd);
	scene_expect_state(s, IBV_QPS_RTS);
	scene_done(s);
}

static void flush_c(struct scene *s) /* ERR by the program: everything comes back, in order, and so does what follows */
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	unsigned i;

	scene_open_usual(s);
	for (i = 0; i < 5; i++)
		scene_recv_post(s, 50 + i, 100, s->mr->lkey);
	vd_barrier(s->fd);
	if (ibv_modify_qp(s->q.qp, &attr, IBV_QP_STATE))
		vd_die("QP to ERR: %s", strerror(errno));
	for (i = 0; i < 5; i++)
		scene_expect(s, 50 + i, IBV_WC_WR_FLUSH_ERR);
	wr = scene_request(s, IBV_WR_SEND, &sge, 8);
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_WR_FLUSH_ERR);
	scene_recv_post(s, 60, 100, s->mr->lkey);
	scene_expect(s, 60, IBV_WC_WR_FLUSH_ERR);
	vd_barrier(s->fd);
	scene_done(s);
}

static void cq_overrun_c(struct scene *s)
{
	struct vd_want want = { .cqe = 4, .depth = 1024 };
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int i;

	scene_open_with(s, &want, ALL);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, 8);
	for (i = 0; i < s->q.cq->cqe + 8; i++)
		scene_post(s, &wr);
	scene_expect_event(s, IBV_EVENT_CQ_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	vd_barrier(s->fd);
	scene_done(s);
}

/* ---- nobody ready, nobody there ------------------------------------------------- */

static void rnr_s(struct scene *s)
{
	struct vd_want want = { .min_rnr = 12 };

	scene_open_with(s, &want, ALL);
	vd_barrier(s->fd);
	vd_barrier(s->fd);
	scene_expect_state(s, IBV_QPS_RTS);
	scene_done(s);
}

static void rnr_c(struct scene *s)
{
	struct vd_want want = { .rnr_retry = 2 };
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_with(s, &want, ALL);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_SEND, &sge, 100);
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	vd_barrier(s->fd);
	scene_done(s);
}

static void rnr_late_s(struct scene *s)
{
	struct vd_want want = { .min_rnr = 12 };

	scene_open_with(s, &want, ALL);
	vd_barrier(s->fd);
	vd_barrier(s->fd); /* the client has waited long enough to be refused */
	scene_recv_post(s, 50, 40000 > BUF_LEN / 2 - 1024 ? 20000 : 40000, s->mr->lkey);
	scene_expect(s, 50, IBV_WC_SUCCESS);
	scene_done(s);
}

static void rnr_late_c(struct scene *s)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_usual(s);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_SEND, &sge, 20000);
	scene_post(s, &wr);
	scene_expect_none(s, 30); /* some 40 refusals */
	vd_barrier(s->fd);
	scene_expect(s, 1, IBV_WC_SUCCESS);
	scene_done(s);
}

static void gone_s(struct scene *s)
{
	scene_open_usual(s);
	if (ibv_destroy_qp(s->q.qp))
		vd_die("ibv_destroy_qp");
	vd_barrier(s->fd);
	vd_barrier(s->fd);
	exit(0); /* the rest of the cleaning up is the daemon's */
}

static void gone_c(struct scene *s)
{
	struct vd_want want = { .timeout = 10, .retry = 2 };
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_with(s, &want, ALL);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, 100);
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_RETRY_EXC_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	vd_barrier(s->fd);
	vd_qp_close(&s->q);
	exit(0);
}

static void killed_s(struct scene *s) /* dies in the middle of being written to */
{
	scene_open_usual(s);
	vd_barrier(s->fd);
	vd_barrier(s->fd);
	_exit(0);
}

static void killed_c(struct scene *s)
{
	struct vd_want want = { .timeout = 10, .retry = 2 };
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc = { 0 };
	uint64_t end = vd_now_ms() + WAIT_MS;
	unsigned out = 0;

	scene_open_with(s, &want, ALL);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, 10000);
	for (; out < 16; out++)
		scene_post(s, &wr);
	vd_barrier(s->fd);
	while (wc.status == IBV_WC_SUCCESS && vd_now_ms() < end) {
		if (!vd_poll(&s->q, &wc, WAIT_MS))
			vd_die("no completion after the peer's death");
		if (wc.status == IBV_WC_SUCCESS && ibv_post_send(s->q.qp, &wr, &bad))
			vd_die("ibv_post_send");
	}
	/* Whether the memory or the QP was gone first is a matter of luck. */
	if (wc.status != IBV_WC_RETRY_EXC_ERR && wc.status != IBV_WC_REM_ACCESS_ERR && wc.status != IBV_WC_REM_OP_ERR)
		vd_die("after the peer's death: %s", ibv_wc_status_str(wc.status));
	while (--out)
		scene_expect(s, 1, IBV_WC_WR_FLUSH_ERR);
	exit(0);
}

static void zero_c(struct scene *s) /* no byte, no key to check */
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_usual(s);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, 0);
	wr.num_sge = 0;
	wr.wr.rdma.rkey ^= 0x00010100;
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_RDMA_READ;
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_SUCCESS);
	vd_barrier(s->fd);
	scene_done(s);
}

/* ---- shared receive queues ---------------------------------------------------------- */

static void srq_limit_s(struct scene *s)
{
	struct vd_want want = { .srq = true };
	struct ibv_srq_attr attr = { .srq_limit = 4 };
	unsigned i;

	scene_open_with(s, &want, ALL);
	for (i = 0; i < 8; i++)
		scene_recv_post(s, 50 + i, 100, s->mr->lkey);
	if (ibv_modify_srq(s->q.srq, &attr, IBV_SRQ_LIMIT))
		vd_die("ibv_modify_srq: %s", strerror(errno));
	vd_barrier(s->fd);
	for (i = 0; i < 5; i++)
		scene_expect(s, 50 + i, IBV_WC_SUCCESS);
	scene_expect_event(s, IBV_EVENT_SRQ_LIMIT_REACHED);
	if (ibv_query_srq(s->q.srq, &attr) || attr.srq_limit)
		vd_die("the limit is still armed: %u", attr.srq_limit);
	scene_done(s);
}

static void srq_limit_c(struct scene *s)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	unsigned i;

	scene_open_usual(s);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_SEND, &sge, 100);
	for (i = 0; i < 5; i++)
		scene_post(s, &wr);
	for (i = 0; i < 5; i++)
		scene_expect(s, 1, IBV_WC_SUCCESS);
	scene_done(s);
}

static void last_wqe_s(struct scene *s)
{
	struct vd_want want = { .srq = true };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	scene_open_with(s, &want, ALL);
	vd_barrier(s->fd);
	if (ibv_modify_qp(s->q.qp, &attr, IBV_QP_STATE))
		vd_die("QP to ERR: %s", strerror(errno));
	scene_expect_event(s, IBV_EVENT_QP_LAST_WQE_REACHED);
	scene_done(s);
}

static void idle_c(struct scene *s)
{
	scene_open_usual(s);
	vd_barrier(s->fd);
	scene_done(s);
}

/* ---- UC and UD --------------------------------------------------------------------- */

static void uc_rkey_s(struct scene *s) /* the bad message vanishes, the next one arrives */
{
	struct vd_want want = { .type = IBV_QPT_UC };

	scene_open_with(s, &want, ALL);
	scene_recv_post(s, 50, 100, s->mr->lkey);
	vd_barrier(s->fd);
	scene_expect(s, 50, IBV_WC_SUCCESS);
	scene_expect_state(s, IBV_QPS_RTS);
	if (s->buf[0] != 0x77)
		vd_die("the bad WRITE was executed");
	scene_done(s);
}

static void uc_rkey_c(struct scene *s)
{
	struct vd_want want = { .type = IBV_QPT_UC };
	struct ibv_sge sge, sge2;
	struct ibv_send_wr wr, next;

	scene_open_with(s, &want, ALL);
	memset(s->buf, 0x33, BUF_LEN);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, 5000);
	wr.wr.rdma.rkey ^= 0x00010100;
	next = scene_request(s, IBV_WR_SEND, &sge2, 100);
	next.wr_id = 2;
	wr.next = &next;
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_SUCCESS);
	scene_expect(s, 2, IBV_WC_SUCCESS);
	scene_done(s);
}

static void ud_open(struct scene *s)
{
	struct vd_want want = { .type = IBV_QPT_UD };

	scene_open_with(s, &want, IBV_ACCESS_LOCAL_WRITE);
}

static struct ibv_send_wr ud_request(struct scene *s, struct ibv_sge *sge, uint32_t len, uint32_t qkey)
{
	struct ibv_send_wr wr = scene_request(s, IBV_WR_SEND, sge, len);

	wr.wr.ud.ah = s->q.ah;
	wr.wr.ud.remote_qpn = s->q.peer.qpn;
	wr.wr.ud.remote_qkey = qkey;
	return wr;
}

static void ud_qkey_s(struct scene *s)
{
	struct ibv_wc wc;

	ud_open(s);
	scene_recv_post(s, 50, 1000, s->mr->lkey);
	vd_barrier(s->fd);
	if (!vd_poll(&s->q, &wc, WAIT_MS) || wc.status != IBV_WC_SUCCESS || wc.byte_len != 40 + 200)
		vd_die("of two datagrams the one with the right Q_Key should have come");
	scene_expect_none(s, 20);
	scene_done(s);
}

static void ud_qkey_c(struct scene *s)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	ud_open(s);
	vd_barrier(s->fd);
	wr = ud_request(s, &sge, 100, s->q.peer.qkey ^ 1);
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_SUCCESS);
	wr = ud_request(s, &sge, 200, s->q.peer.qkey);
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_SUCCESS);
	scene_done(s);
}

static void ud_long_s(struct scene *s)
{
	ud_open(s);
	scene_recv_post(s, 50, 1000, s->mr->lkey);
	vd_barrier(s->fd);
	scene_expect(s, 50, IBV_WC_SUCCESS);
	scene_done(s);
}

static void ud_long_c(struct scene *s) /* LOC_LEN_ERR, SQE, and back to RTS */
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };
	struct ibv_sge sge, sge2;
	struct ibv_send_wr wr, next;

	ud_open(s);
	vd_barrier(s->fd);
	wr = ud_request(s, &sge, (128u << s->node->port.active_mtu) + 1, s->q.peer.qkey);
	next = ud_request(s, &sge2, 100, s->q.peer.qkey);
	next.wr_id = 2;
	wr.next = &next;
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_LOC_LEN_ERR);
	scene_expect(s, 2, IBV_WC_WR_FLUSH_ERR);
	scene_expect_state(s, IBV_QPS_SQE);
	if (ibv_modify_qp(s->q.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE))
		vd_die("QP from SQE to RTS: %s", strerror(errno));
	next.wr_id = 3;
	scene_post(s, &next);
	scene_expect(s, 3, IBV_WC_SUCCESS);
	scene_done(s);
}

const struct vd_case vd_cases_local[] = {
	{ "send-bad-lkey", lkey_c, unharmed },           { "send-beyond-end", local_bounds_c, unharmed },
	{ "send-other-pd", local_pd_c, unharmed },       { "read-into-readonly", read_into_readonly_c, unharmed },
	{ "post-limits", post_limits_c, post_limits_s }, { "flush", flush_c, scene_bystander },
	{ "cq-overrun", cq_overrun_c, scene_bystander }, { "rnr-exhausted", rnr_c, rnr_s },
	{ "rnr-late", rnr_late_c, rnr_late_s },          { "peer-gone", gone_c, gone_s },
	{ "peer-killed", killed_c, killed_s },           { "zero-length-bad-rkey", zero_c, scene_bystander },
	{ "srq-limit", srq_limit_c, srq_limit_s },       { "last-wqe", idle_c, last_wqe_s },
	{ "uc-bad-rkey", uc_rkey_c, uc_rkey_s },         { "ud-bad-qkey", ud_qkey_c, ud_qkey_s },
	{ "ud-too-long", ud_long_c, ud_long_s },         { 0 },
};
