/* SPDX-License-Identifier: MIT */
/* scene.c - see scene.h. */
#include "scene.h"

#include <poll.h>

int readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && p.revents & POLLIN;
}

void scene_open(struct scene *s)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 } };

	fix_open(&s->f);
	s->ch = ibv_create_comp_channel(s->f.ctx);
	ck_assert(s->ch != NULL);
	s->rcq = ibv_create_cq(s->f.ctx, 64, s, s->ch, 0);
	ck_assert(s->rcq != NULL);
	init.send_cq = s->f.cq;
	init.recv_cq = s->rcq;
	s->a = fix_qp(&s->f, IBV_QPT_RC, 16, NULL);
	s->b = ibv_create_qp(s->f.pd, &init);
	ck_assert(s->b != NULL);
	fix_connect(&s->f, s->a, s->b);
	for (unsigned i = 0; i < 16; i++)
		ck_assert_int_eq(fix_recv(&s->f, s->b, i, 4096, 64), 0);
}

void scene_close(struct scene *s)
{
	ck_assert_int_eq(ibv_destroy_qp(s->a), 0);
	ck_assert_int_eq(ibv_destroy_qp(s->b), 0);
	ck_assert_int_eq(ibv_destroy_cq(s->rcq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(s->ch), 0);
	fix_close(&s->f);
}

void send_one(struct scene *s, unsigned flags)
{
	ck_assert_int_eq(fix_send(&s->f, s->a, 1, 0, 32, flags | IBV_SEND_SIGNALED), 0);
	fix_wait_ok(s->f.cq);
}

void event_take(struct ibv_comp_channel *ch, struct ibv_cq *want)
{
	struct ibv_cq *cq;
	void *context;

	ck_assert(readable(ch->fd, 10000));
	ck_assert_int_eq(ibv_get_cq_event(ch, &cq, &context), 0);
	ck_assert_ptr_eq(cq, want);
	ck_assert_ptr_eq(context, want->cq_context);
	ibv_ack_cq_events(cq, 1);
}
