/* SPDX-License-Identifier: MIT */
/*
 * vdata_window.c - memory windows: what goes through one arrives, and nothing does once it is closed, by its owner or by
 * the peer's SEND with invalidate.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vdata_scene.h"

#define WINDOW_AT  8192u
#define WINDOW_LEN 6000u

static void open_bindable(struct scene *s)
{
	struct vd_want want = { .timeout = 14 };

	scene_open_with(s, &want, ALL | IBV_ACCESS_MW_BIND);
}

static struct ibv_mw *window_new(struct scene *s, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->node->pd, type);

	if (!mw)
		vd_die("ibv_alloc_mw: %s", strerror(errno));
	return mw;
}

static struct ibv_mw_bind_info window_info(struct scene *s)
{
	return (struct ibv_mw_bind_info){
		.mr = s->mr,
		.addr = (uintptr_t)s->buf + WINDOW_AT,
		.length = WINDOW_LEN,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
}

/* The peer hears of the window; it is opened by then. */
static void window_tell(struct scene *s, uint32_t rkey)
{
	struct vd_mem mine = { (uintptr_t)s->buf + WINDOW_AT, rkey, WINDOW_LEN }, theirs;

	vd_swap(s->fd, &mine, &theirs, sizeof(mine));
}

static struct ibv_mw *window_open2(struct scene *s)
{
	struct ibv_mw *mw = window_new(s, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .wr_id = 60, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = window_info(s);
	scene_post(s, &wr);
	scene_expect(s, 60, IBV_WC_SUCCESS);
	mw->rkey = wr.bind_mw.rkey;
	window_tell(s, mw->rkey);
	return mw;
}

/* All of the window was written, and nothing beside it. */
static void window_expect(struct scene *s)
{
	static uint8_t want[WINDOW_LEN];

	vd_fill(want, WINDOW_LEN, s->node->opt->seed);
	if (memcmp(s->buf + WINDOW_AT, want, WINDOW_LEN))
		scene_differs(s, "what came through the window is wrong");
	if (s->buf[WINDOW_AT - 1] != 0x77 || s->buf[WINDOW_AT + WINDOW_LEN] != 0x77)
		scene_differs(s, "something was written beside the window");
}

/* The owner's end of it: its window was used against the rules. */
static void window_end(struct scene *s, struct ibv_mw *mw)
{
	vd_barrier(s->fd);
	scene_expect_event(s, IBV_EVENT_QP_ACCESS_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	window_expect(s);
	if (ibv_dealloc_mw(mw))
		vd_die("ibv_dealloc_mw");
	scene_done(s);
}

static void type1_s(struct scene *s)
{
	struct ibv_mw *mw;
	struct ibv_mw_bind bind = { .wr_id = 60, .send_flags = IBV_SEND_SIGNALED };

	open_bindable(s);
	mw = window_new(s, IBV_MW_TYPE_1);
	bind.bind_info = window_info(s);
	if (ibv_bind_mw(s->q.qp, mw, &bind))
		vd_die("ibv_bind_mw: %s", strerror(errno));
	scene_expect(s, 60, IBV_WC_SUCCESS);
	window_tell(s, mw->rkey);
	vd_barrier(s->fd);
	window_end(s, mw);
}

static void beyond_s(struct scene *s)
{
	struct ibv_mw *mw;

	open_bindable(s);
	mw = window_open2(s);
	vd_barrier(s->fd);
	window_end(s, mw);
}

static void local_inv_s(struct scene *s)
{
	struct ibv_send_wr wr = { .wr_id = 61, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mw *mw;

	open_bindable(s);
	mw = window_open2(s);
	vd_barrier(s->fd);
	wr.invalidate_rkey = mw->rkey;
	scene_post(s, &wr);
	scene_expect(s, 61, IBV_WC_SUCCESS);
	vd_barrier(s->fd);
	window_end(s, mw);
}

static void send_inv_s(struct scene *s)
{
	struct ibv_mw *mw;
	struct ibv_wc wc;
	unsigned i;

	open_bindable(s);
	scene_recv_post(s, 50, 100, s->mr->lkey);
	mw = window_open2(s);
	vd_barrier(s->fd);
	if (!vd_poll(&s->q, &wc, WAIT_MS) || wc.wr_id != 50 || wc.status || wc.byte_len != 64)
		vd_die("the SEND with invalidate did not come: %s", ibv_wc_status_str(wc.status));
	if (!(wc.wc_flags & IBV_WC_WITH_INV))
		scene_differs(s, "flags %x, without IBV_WC_WITH_INV", wc.wc_flags);
	if (wc.invalidated_rkey != mw->rkey)
		scene_differs(s, "not the key of the window");
	for (i = 0; i < 64; i++)
		if (s->buf[1024 + i] != s->buf[WINDOW_AT + i])
			scene_differs(s, "the message is wrong");
	window_end(s, mw);
}

/* ---- the other end -------------------------------------------------------------- */

/* Writes the window full, and reads it back. */
static void window_use(struct scene *s)
{
	struct vd_mem none = { 0 };
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	scene_open_usual(s);
	vd_swap(s->fd, &none, &s->q.peer.dst, sizeof(none));
	vd_fill(s->buf, WINDOW_LEN, s->node->opt->seed);
	wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, WINDOW_LEN);
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_RDMA_READ;
	sge.addr += WINDOW_LEN;
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_SUCCESS);
	if (memcmp(s->buf, s->buf + WINDOW_LEN, WINDOW_LEN))
		vd_die("what was read through the window is wrong");
}

static void window_refuses(struct scene *s, uint32_t add)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = scene_request(s, IBV_WR_RDMA_WRITE, &sge, WINDOW_LEN);

	wr.wr.rdma.remote_addr += add;
	memset(s->buf, 0x33, WINDOW_LEN);
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_REM_ACCESS_ERR);
	scene_expect_state(s, IBV_QPS_ERR);
	vd_barrier(s->fd);
	scene_done(s);
}

static void beyond_c(struct scene *s)
{
	window_use(s);
	vd_barrier(s->fd);
	window_refuses(s, 1);
}

static void local_inv_c(struct scene *s)
{
	window_use(s);
	vd_barrier(s->fd);
	vd_barrier(s->fd); /* the owner has closed it */
	window_refuses(s, 0);
}

static void send_inv_c(struct scene *s)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	window_use(s);
	vd_barrier(s->fd);
	wr = scene_request(s, IBV_WR_SEND_WITH_INV, &sge, 64);
	wr.invalidate_rkey = s->q.peer.dst.rkey;
	scene_post(s, &wr);
	scene_expect(s, 1, IBV_WC_SUCCESS);
	window_refuses(s, 0);
}

const struct vd_case vd_cases_window[] = {
	{ "window-type1", beyond_c, type1_s },
	{ "window-beyond-end", beyond_c, beyond_s },
	{ "window-closed-by-owner", local_inv_c, local_inv_s },
	{ "window-closed-by-send", send_inv_c, send_inv_s },
	{ 0 },
};
