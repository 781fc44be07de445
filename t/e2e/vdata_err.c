/* SPDX-License-Identifier: MIT */
/*
 * vdata_err.c - what goes wrong, and how each end must hear of it.
 *
 * A case has two halves; the client does the wrong thing, the server is its victim, or has
 * prepared the trap. The statuses are those of the InfiniBand specification: table 4.12 of
 * what a requester reports, and for the responder the local status of the receive concerned, the QP's
 * state and the asynchronous event.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vdata_scene.h"

/* ---- the responder refuses ---------------------------------------------------- */

/* The client's request fails with status, the one behind it is flushed. */
static void refused(struct scene *s, struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	struct ibv_sge sge;
	struct ibv_send_wr after = scene_request(s, IBV_WR_SEND, &sge, 8);

	after.wr_id = 2;
	after.send_flags = 0; /* errors are reported for unsignaled requests, too */
	wr->next = &after;
	scene_post(s, wr);
	scene_expect(s, 1, status);
	scene_expect(s, 2, IBV_WC_WR_FLUSH_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	scene_done(s);
}

/* The server's side of it: event, flushed receive, nothing written. */
static void victim(struct scene *s, enum ibv_event_type type)
{
	scene_expect_event(s, type);
	scene_expect(s, 50, IBV_WC_WR_FLUSH_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	scene_expect_untouched(s);
	scene_done(s);
}

static void victim_access(struct scene *s)
{
	scene_open_usual(s);
	scene_recv_post(s, 50, 100, s->mr->lkey);
	vd_barrier(s->fd);
	victim(s, IBV_EVENT_QP_ACCESS_ERR);
}

static void with_bad_rkey(struct scene *s, enum ibv_wr_opcode code, uint32_t len)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_usual(s);
	vd_barrier(s->fd);
	wr = scene_request(s, code, &sge, len);
	if (len == 8) {
		wr.wr.atomic.remote_addr = s->q.peer.dst.addr;
		wr.wr.atomic.rkey = s->q.peer.dst.rkey ^ 0x00010100;
	} else {
		wr.wr.rdma.rkey ^= 0x00010100;
	}
	refused(s, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void rkey_write_c(struct scene *s) { with_bad_rkey(s, IBV_WR_RDMA_WRITE, 5000); }
static void rkey_read_c(struct scene *s) { with_bad_rkey(s, IBV_WR_RDMA_READ, 5000); }
static void rkey_atomic_c(struct scene *s) { with_bad_rkey(s, IBV_WR_ATOMIC_FETCH_AND_ADD, 8); }

static void bounds_c(struct scene *s)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_usual(s);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, 100);
	wr.wr.rdma.remote_addr += s->q.peer.dst.len - 99;
	refused(s, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void wrap_c(struct scene *s) /* the end of the range is beyond 2^64 */
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_usual(s);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, 100);
	wr.wr.rdma.remote_addr = UINT64_MAX - 50;
	refused(s, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void wrong_pd_s(struct scene *s)
{
	struct vd_mem other;

	scene_open_usual(s);
	s->pd2 = ibv_alloc_pd(s->node->ctx);
	s->mr2 = s->pd2 ? ibv_reg_mr(s->pd2, s->buf, BUF_LEN, ALL) : NULL;
	if (!s->mr2)
		vd_die("ibv_reg_mr: %s", strerror(errno));
	scene_recv_post(s, 50, 100, s->mr->lkey);
	other = (struct vd_mem){ (uintptr_t)s->buf, s->mr2->rkey, BUF_LEN };
	vd_swap(s->fd, &other, &s->q.peer.dst, sizeof(other));
	victim(s, IBV_EVENT_QP_ACCESS_ERR);
}

static void wrong_pd_c(struct scene *s)
{
	struct vd_mem none = { 0 };
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_usual(s);
	vd_swap(s->fd, &none, &s->q.peer.dst, sizeof(none));
	wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, 100);
	refused(s, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void no_right_s(struct scene *s)
{
	struct vd_want want = { 0 };

	scene_open_with(s, &want, IBV_ACCESS_LOCAL_WRITE);
	scene_recv_post(s, 50, 100, s->mr->lkey);
	vd_barrier(s->fd);
	victim(s, IBV_EVENT_QP_ACCESS_ERR);
}

static void plain_c(struct scene *s, enum ibv_wr_opcode code, uint32_t len, enum ibv_wc_status status)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_usual(s);
	vd_barrier(s->fd);
	wr = scene_request(s, code, &sge, len);
	refused(s, &wr, status);
}

static void no_write_c(struct scene *s) { plain_c(s, IBV_WR_RDMA_WRITE, 100, IBV_WC_REM_ACCESS_ERR); }
static void no_read_c(struct scene *s) { plain_c(s, IBV_WR_RDMA_READ, 100, IBV_WC_REM_ACCESS_ERR); }

static void qp_no_right_s(struct scene *s) /* the QP itself does not take RDMA WRITE */
{
	struct vd_want want = { .access = IBV_ACCESS_LOCAL_WRITE };

	scene_open_with(s, &want, ALL);
	scene_recv_post(s, 50, 100, s->mr->lkey);
	vd_barrier(s->fd);
	victim(s, IBV_EVENT_QP_REQ_ERR);
}

static void qp_no_write_c(struct scene *s) { plain_c(s, IBV_WR_RDMA_WRITE, 100, IBV_WC_REM_INV_REQ_ERR); }
static void qp_no_read_c(struct scene *s) { plain_c(s, IBV_WR_RDMA_READ, 100, IBV_WC_REM_INV_REQ_ERR); }

static void no_resources_s(struct scene *s)
{
	struct vd_want want = { .no_responder = true };

	scene_open_with(s, &want, ALL);
	scene_recv_post(s, 50, 100, s->mr->lkey);
	vd_barrier(s->fd);
	victim(s, IBV_EVENT_QP_REQ_ERR);
}

static void dereg_s(struct scene *s)
{
	scene_open_usual(s);
	if (ibv_dereg_mr(s->mr))
		vd_die("ibv_dereg_mr");
	s->mr = NULL;
	vd_barrier(s->fd);
	scene_expect_event(s, IBV_EVENT_QP_ACCESS_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	scene_expect_untouched(s);
	scene_done(s);
}

static void misaligned_s(struct scene *s)
{
	scene_open_usual(s);
	scene_recv_post(s, 50, 100, s->mr->lkey);
	vd_barrier(s->fd);
	victim(s, IBV_EVENT_QP_REQ_ERR);
}

static void misaligned_c(struct scene *s)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	scene_open_usual(s);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 8);
	wr.wr.atomic.remote_addr = s->q.peer.dst.addr + 4;
	wr.wr.atomic.rkey = s->q.peer.dst.rkey;
	wr.wr.atomic.compare_add = wr.wr.atomic.swap = 0;
	refused(s, &wr, IBV_WC_REM_INV_REQ_ERR);
}

static void too_long_s(struct scene *s)
{
	scene_open_usual(s);
	scene_recv_post(s, 50, 100, s->mr->lkey);
	scene_recv_post(s, 51, 100, s->mr->lkey);
	vd_barrier(s->fd);
	scene_expect(s, 50, IBV_WC_LOC_LEN_ERR);
	scene_expect(s, 51, IBV_WC_WR_FLUSH_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	scene_done(s);
}

static void too_long_c(struct scene *s) { plain_c(s, IBV_WR_SEND, 101, IBV_WC_REM_INV_REQ_ERR); }
static void too_long_many_c(struct scene *s) { plain_c(s, IBV_WR_SEND, 30000, IBV_WC_REM_INV_REQ_ERR); }

static void bad_recv_s(struct scene *s) /* the receive's memory is not the program's to write */
{
	scene_open_usual(s);
	scene_recv_post(s, 50, 100, s->mr->lkey ^ 0x00010100);
	scene_recv_post(s, 51, 100, s->mr->lkey);
	vd_barrier(s->fd);
	scene_expect(s, 50, IBV_WC_LOC_PROT_ERR);
	scene_expect(s, 51, IBV_WC_WR_FLUSH_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	scene_expect_untouched(s);
	scene_done(s);
}

static void bad_recv_c(struct scene *s) { plain_c(s, IBV_WR_SEND, 100, IBV_WC_REM_OP_ERR); }

const struct vd_case vd_cases_remote[] = {
	{ "write-bad-rkey", rkey_write_c, victim_access },
	{ "read-bad-rkey", rkey_read_c, victim_access },
	{ "atomic-bad-rkey", rkey_atomic_c, victim_access },
	{ "write-beyond-end", bounds_c, victim_access },
	{ "write-address-wraps", wrap_c, victim_access },
	{ "write-other-pd", wrong_pd_c, wrong_pd_s },
	{ "write-region-without-right", no_write_c, no_right_s },
	{ "read-region-without-right", no_read_c, no_right_s },
	{ "write-qp-without-right", qp_no_write_c, qp_no_right_s },
	{ "read-qp-without-right", qp_no_read_c, qp_no_right_s },
	{ "read-without-resources", qp_no_read_c, no_resources_s },
	{ "write-deregistered", no_write_c, dereg_s },
	{ "atomic-misaligned", misaligned_c, misaligned_s },
	{ "send-too-long", too_long_c, too_long_s },
	{ "send-many-packets-too-long", too_long_many_c, too_long_s },
	{ "recv-bad-lkey", bad_recv_c, bad_recv_s },
	{ 0 },
};
