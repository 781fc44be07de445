/* SPDX-License-Identifier: MIT */
/* post.c - requests that are posted by tables of the context. */
#include "hooks.h"

#include "work.h"

static _Thread_local struct object *turn; /* of the call that this thread is in; NULL: it has none */

static struct object *begin(enum object_kind kind, const void *p)
{
	struct object *o;

	pthread_mutex_lock(&check_lock);
	o = object_find(kind, p);
	pthread_mutex_unlock(&check_lock);
	turn = o && object_take(o) ? o : NULL;
	pthread_mutex_lock(&check_lock);
	return o;
}

static void end(void)
{
	pthread_mutex_unlock(&check_lock);
	if (turn)
		object_give(turn);
	turn = NULL;
}

bool send_posting(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct object *o;

	if (!check_on)
		return true;
	o = begin(OBJ_QP, qp);
	for (; o && wr; wr = wr->next)
		send_note(o, wr);
	pthread_mutex_unlock(&check_lock);
	return true;
}

void send_posted(struct ibv_qp *qp, struct ibv_send_wr *bad, int err)
{
	struct object *o;
	uint32_t n = 0;

	if (!check_on)
		return;
	pthread_mutex_lock(&check_lock);
	o = object_find(OBJ_QP, qp);
	for (; bad; bad = bad->next)
		n++;
	if (o)
		send_settle(o, n);
	if (o && err == ENOMEM)
		send_full(o);
	end();
}

bool recv_posting(enum object_kind kind, const void *p, struct ibv_recv_wr *wr)
{
	struct object *o;

	if (!check_on)
		return true;
	o = begin(kind, p);
	for (; o && wr; wr = wr->next)
		recv_note(o, wr);
	pthread_mutex_unlock(&check_lock);
	return true;
}

void recv_posted(enum object_kind kind, const void *p, struct ibv_recv_wr *bad)
{
	struct object *o;
	uint32_t n = 0;

	if (!check_on)
		return;
	pthread_mutex_lock(&check_lock);
	o = object_find(kind, p);
	for (; bad; bad = bad->next)
		n++;
	if (o)
		recv_settle(o, n);
	end();
}

bool bind_posting(struct ibv_qp *qp, const struct ibv_mw_bind *b)
{
	struct ibv_send_wr wr = { .wr_id = b->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = b->send_flags };

	return send_posting(qp, &wr);
}

void bind_posted(struct ibv_qp *qp, int err)
{
	struct ibv_send_wr wr = { 0 };

	send_posted(qp, err ? &wr : NULL, err);
}
