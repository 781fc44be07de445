/* SPDX-License-Identifier: MIT */
/* vdata_scene.c - the tools of the error cases, and who runs them. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vdata_scene.h"

void scene_open_with(struct scene *s, struct vd_want *want, unsigned mr_access)
{
	want->type = want->type ? want->type : IBV_QPT_RC;
	vd_qp_open(&s->q, s->node, s->fd, want);
	s->buf = aligned_alloc(4096, BUF_LEN);
	memset(s->buf, 0x77, BUF_LEN);
	s->mr = ibv_reg_mr(s->node->pd, s->buf, BUF_LEN / 2, mr_access);
	if (!s->mr)
		vd_die("ibv_reg_mr: %s", strerror(errno));
	s->q.mine.dst = (struct vd_mem){ (uintptr_t)s->buf, s->mr->rkey, BUF_LEN / 2 };
	vd_qp_connect(&s->q);
}

void scene_open_usual(struct scene *s)
{
	struct vd_want want = { .timeout = 14 };

	scene_open_with(s, &want, ALL);
}

struct ibv_send_wr scene_request(struct scene *s, enum ibv_wr_opcode code, struct ibv_sge *sge, uint32_t len)
{
	*sge = (struct ibv_sge){ (uintptr_t)s->buf, len, s->mr->lkey };
	return (struct ibv_send_wr){
		.wr_id = 1,
		.opcode = code,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = sge,
		.num_sge = 1,
		.wr.rdma = { s->q.peer.dst.addr, s->q.peer.dst.rkey },
	};
}

void scene_post(struct scene *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err = ibv_post_send(s->q.qp, wr, &bad);

	if (err)
		vd_die("ibv_post_send: %s", strerror(err));
}

void scene_recv_post(struct scene *s, uint64_t id, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)s->buf + 1024, len, lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	vd_recv(&s->q, &wr);
}

/* A difference ends the program, or with -k is told and passed over. */
void scene_differs(const struct scene *s, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!s->node->opt->lenient)
		vd_die("%s", text);
	printf("differs: %s\n", text);
}

/* An implementation that is known to differ is not waited for as long: events come with the completions, if at all. */
static int wait_ms(const struct scene *s, int part) { return s->node->opt->lenient ? WAIT_MS / part : WAIT_MS; }

void scene_expect(struct scene *s, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	if (!vd_poll(&s->q, &wc, wait_ms(s, 4)))
		scene_differs(s, "no completion; wr_id %llu should: %s", (unsigned long long)id,
			      ibv_wc_status_str(status));
	else if (wc.wr_id != id || wc.status != status || wc.qp_num != s->q.qp->qp_num)
		scene_differs(s, "wr_id %llu: %s (%d); expected wr_id %llu: %s (%d)", (unsigned long long)wc.wr_id,
			      ibv_wc_status_str(wc.status), wc.status, (unsigned long long)id,
			      ibv_wc_status_str(status), status);
}

void scene_expect_none(struct scene *s, int ms)
{
	struct ibv_wc wc;

	if (vd_poll(&s->q, &wc, ms))
		scene_differs(s, "wr_id %llu completes: %s", (unsigned long long)wc.wr_id,
			      ibv_wc_status_str(wc.status));
}

static enum ibv_qp_state state_now(const struct scene *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(s->q.qp, &attr, IBV_QP_STATE, &init))
		vd_die("ibv_query_qp: %s", strerror(errno));
	return attr.qp_state;
}

/* The state comes before the completion; with -k it is waited for: rxe gives the completion first. */
void scene_expect_state(struct scene *s, enum ibv_qp_state state)
{
	enum ibv_qp_state now = state_now(s);

	for (int ms = s->node->opt->lenient ? LATE_MS : 0; now != state && ms > 0; ms -= 10) {
		poll(NULL, 0, 10);
		now = state_now(s);
	}
	if (now != state)
		scene_differs(s, "the QP is in state %d, not %d", now, state);
}

void scene_expect_event(struct scene *s, enum ibv_event_type type)
{
	struct pollfd p = { .fd = s->node->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	bool right;

	do {
		if (poll(&p, 1, wait_ms(s, 10)) != 1) {
			scene_differs(s, "no asynchronous event; expected: %s", ibv_event_type_str(type));
			return;
		}
		if (ibv_get_async_event(s->node->ctx, &ev))
			vd_die("ibv_get_async_event: %s", strerror(errno));
		right = ev.event_type == type;
		if (type == IBV_EVENT_CQ_ERR)
			right = right && ev.element.cq == s->q.cq;
		else if (type == IBV_EVENT_SRQ_LIMIT_REACHED)
			right = right && ev.element.srq == s->q.srq;
		else
			right = right && ev.element.qp == s->q.qp;
		ibv_ack_async_event(&ev);
		/* An overrun CQ takes its QPs with it, and COMM_EST may come at any time. */
		if (!right && ev.event_type != IBV_EVENT_COMM_EST && ev.event_type != IBV_EVENT_QP_FATAL)
			scene_differs(s, "event %s; expected %s", ibv_event_type_str(ev.event_type),
				      ibv_event_type_str(type));
	} while (!right);
}

void scene_expect_untouched(struct scene *s)
{
	size_t i;

	for (i = 0; i < BUF_LEN && s->buf[i] == 0x77; i++)
		;
	if (i < BUF_LEN)
		scene_differs(s, "byte %zu was written", i);
}

void scene_done(struct scene *s)
{
	vd_barrier(s->fd);
	vd_qp_close(&s->q);
	if (s->mr && ibv_dereg_mr(s->mr))
		vd_die("ibv_dereg_mr");
	if (s->mr2 && ibv_dereg_mr(s->mr2))
		vd_die("ibv_dereg_mr");
	if (s->pd2 && ibv_dealloc_pd(s->pd2))
		vd_die("ibv_dealloc_pd");
	free(s->buf);
}

void scene_bystander(struct scene *s)
{
	scene_open_usual(s);
	vd_barrier(s->fd);
	vd_barrier(s->fd);
	scene_done(s);
}

static const struct vd_case *const tables[] = { vd_cases_remote, vd_cases_local, vd_cases_window };

bool vd_err(struct vd_node *node, int fd, bool client)
{
	struct scene s = { .node = node, .fd = fd };
	const struct vd_case *c;
	unsigned t;

	for (t = 0; t < sizeof(tables) / sizeof(*tables); t++)
		for (c = tables[t]; c->name; c++)
			if (!strcmp(node->opt->err, c->name)) {
				(client ? c->client : c->server)(&s);
				return true;
			}
	return false;
}

void vd_err_list(void)
{
	const struct vd_case *c;
	unsigned t;

	for (t = 0; t < sizeof(tables) / sizeof(*tables); t++)
		for (c = tables[t]; c->name; c++)
			puts(c->name);
}
