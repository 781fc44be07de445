/* SPDX-License-Identifier: MIT */
/*
 * ex.c - the functions of a CQ and of a QP that have their own: start_poll and its family, wr_start and its family.
 *
 * Between wr_start and wr_complete requests are collected; they are noted when they are posted.  The object's turn lasts
 * from the first call to the last.  With --trace alone the objects are known, too, for the sake of their real functions.
 */
#include "hooks.h"
#include "finding.h"
#include "text.h"
#include "trace.h"
#include "work.h"

#define DRAFT_SGES 16u /* of a request; more are not looked into */

struct draft {
	struct ibv_send_wr *wr;
	struct ibv_sge (*sge)[DRAFT_SGES];
	uint32_t n, room;
	bool turn;
};

/*
 * The object, for its real functions: it was noted when ours were put there, and it may be dead by now, or forgotten.  NULL: it is, that
 * is told, and nothing may be called.  In a call, as telling allocates.
 */
static struct object *known(enum object_kind kind, const void *p, enum call_id id)
{
	struct object *o;

	if (!object_usable(kind, p, call_name(id)))
		return NULL;
	pthread_mutex_lock(&check_lock);
	o = object_any(kind, p);
	if (!o && check_on)
		finding(F_USE_DESTROYED, NULL, NULL, "%s(): %p is no object, and may have been one long ago",
			call_name(id), p);
	pthread_mutex_unlock(&check_lock);
	return o;
}

static bool is_looked_at(const struct object *o) { return check_on && o && !o->dead && !o->inherited; }

/* ---- CQs ------------------------------------------------------------------------------- */

static void now_taken(struct object *o, struct ibv_cq_ex *ex)
{
	struct ibv_wc wc = { .wr_id = ex->wr_id, .status = ex->status, .byte_len = UINT32_MAX };

	if (!is_looked_at(o) || !ex->read_qp_num || !ex->read_opcode)
		return;
	wc.qp_num = ex->read_qp_num(ex);
	wc.opcode = ex->read_opcode(ex);
	if (ex->read_byte_len)
		wc.byte_len = ex->read_byte_len(ex);
	cq_taken(o, &wc);
}

static void poll_end(struct object *o)
{
	bool mine = __atomic_load_n(&o->in, __ATOMIC_ACQUIRE) == gettid();

	if (!mine)
		return;
	o->held = false;
	object_give(o);
}

/* The end of the call; returns r. */
static int poll_said(struct call *c, const struct ibv_cq_ex *ex, int r, bool empty)
{
	if (c->trace)
		call_line(c, RESULT_ERR, r, empty, "%p%s%#.0jx", (const void *)ex, r ? "" : ": wr_id ",
			  r ? 0 : (uintmax_t)ex->wr_id);
	call_end(c);
	return r;
}

static int my_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *a)
{
	struct object *o;
	struct call c;
	bool turn;
	int r;

	call_begin(&c, CALL_ibv_start_poll, LEVEL_VERBS);
	o = known(OBJ_CQ, ex, c.id);
	turn = is_looked_at(o) && object_take(o);
	if (o)
		o->cq.polled = true;
	call_go(&c);
	r = o ? o->cq.real.start_poll(ex, a) : EINVAL;
	call_made(&c);
	if (!r)
		now_taken(o, ex);
	if (turn && !r)
		o->held = true;
	else if (turn)
		object_give(o);
	return poll_said(&c, ex, r, r == ENOENT);
}

static int my_next_poll(struct ibv_cq_ex *ex)
{
	struct object *o;
	struct call c;
	int r;

	call_begin(&c, CALL_ibv_next_poll, LEVEL_VERBS);
	o = known(OBJ_CQ, ex, c.id);
	call_go(&c);
	r = o ? o->cq.real.next_poll(ex) : EINVAL;
	call_made(&c);
	if (!r)
		now_taken(o, ex);
	return poll_said(&c, ex, r, false);
}

static void my_end_poll(struct ibv_cq_ex *ex)
{
	struct object *o;
	struct call c;

	call_begin(&c, CALL_ibv_end_poll, LEVEL_VERBS);
	o = known(OBJ_CQ, ex, c.id);
	call_go(&c);
	if (o)
		o->cq.real.end_poll(ex);
	call_made(&c);
	if (is_looked_at(o))
		poll_end(o);
	if (c.trace)
		call_line(&c, RESULT_NONE, 0, false, "%p", (void *)ex);
	call_end(&c);
}

void cq_ex_put(struct ibv_cq_ex *ex, bool single)
{
	struct object *o;

	pthread_mutex_lock(&check_lock);
	o = object_find(OBJ_CQ, ex);
	if (!o)
		o = object_made(OBJ_CQ, ex, ex->context);
	if (o && ex->start_poll != my_start_poll) {
		o->single = single;
		o->cq.real = *ex;
		ex->start_poll = my_start_poll;
		ex->next_poll = my_next_poll;
		ex->end_poll = my_end_poll;
	}
	pthread_mutex_unlock(&check_lock);
}

/* ---- QPs ---------------------------------------------------------------------------------- */

static void draft_begin(struct object *o)
{
	struct draft *d = o ? o->qp.draft : NULL;
	bool turn;

	if (!is_looked_at(o))
		return;
	turn = object_take(o);
	if (!d)
		d = o->qp.draft = calloc(1, sizeof(*d));
	if (!d || !turn)
		return;
	d->n = 0;
	d->turn = o->held = true;
}

static void draft_end(struct object *o)
{
	struct draft *d = o ? o->qp.draft : NULL;

	if (!is_looked_at(o) || !d || !d->turn || __atomic_load_n(&o->in, __ATOMIC_ACQUIRE) != gettid())
		return;
	d->turn = o->held = false;
	object_give(o);
}

static bool draft_grow(struct draft *d)
{
	uint32_t room = d->room ? d->room * 2 : 16;
	void *wr = realloc(d->wr, room * sizeof(*d->wr)), *sge;

	if (wr)
		d->wr = wr;
	sge = wr ? realloc(d->sge, room * sizeof(*d->sge)) : NULL;
	if (!sge)
		return false;
	d->sge = sge;
	d->room = room;
	return true;
}

static void draft_add(struct object *o, const struct ibv_qp_ex *qp, enum ibv_wr_opcode op)
{
	struct draft *d = o ? o->qp.draft : NULL;

	if (!is_looked_at(o) || !d || !d->turn || (d->n == d->room && !draft_grow(d)))
		return;
	d->wr[d->n++] = (struct ibv_send_wr){ .wr_id = qp->wr_id, .opcode = op, .send_flags = qp->wr_flags };
}

static void draft_sge(struct object *o, const struct ibv_sge *sge, size_t n)
{
	struct draft *d = o ? o->qp.draft : NULL;

	if (!is_looked_at(o) || !d || !d->turn || !d->n)
		return;
	n = n < DRAFT_SGES ? n : DRAFT_SGES;
	memcpy(d->sge[d->n - 1], sge, n * sizeof(*sge));
	d->wr[d->n - 1].num_sge = (int)n;
}

static int my_wr_complete(struct ibv_qp_ex *qp)
{
	struct object *o;
	struct draft *d;
	struct call c;
	bool noted;
	int r;

	call_begin(&c, CALL_ibv_wr_complete, LEVEL_VERBS);
	o = known(OBJ_QP, qp, c.id);
	d = o ? o->qp.draft : NULL;
	noted = is_looked_at(o) && d && d->turn;
	if (noted) {
		pthread_mutex_lock(&check_lock);
		for (uint32_t i = 0; i < d->n; i++) {
			d->wr[i].sg_list = d->sge[i];
			send_note(o, &d->wr[i]);
		}
		pthread_mutex_unlock(&check_lock);
	}
	call_go(&c);
	r = o ? o->qp.real.wr_complete(qp) : EINVAL;
	call_made(&c);
	if (noted) {
		pthread_mutex_lock(&check_lock);
		send_settle(o, r ? d->n : 0);
		if (r == ENOMEM)
			send_full(o);
		pthread_mutex_unlock(&check_lock);
	}
	draft_end(o);
	if (c.trace)
		call_line(&c, RESULT_ERR, r, false, "%p", (void *)qp);
	call_end(&c);
	return r;
}

void draft_free(struct object *o)
{
	struct draft *d = o->qp.draft;

	if (!d)
		return;
	free(d->wr);
	free(d->sge);
	free(d);
	o->qp.draft = NULL;
}

#define EX(name, params, args, note, ...)                                  \
	static void my_##name params                                       \
	{                                                                  \
		struct object *o;                                          \
		struct call c;                                             \
		call_begin(&c, CALL_ibv_##name, LEVEL_VERBS);              \
		o = known(OBJ_QP, qp, c.id);                               \
		note;                                                      \
		call_go(&c);                                               \
		if (o)                                                     \
			o->qp.real.name args;                              \
		call_made(&c);                                             \
		if (c.trace)                                               \
			call_line(&c, RESULT_NONE, 0, false, __VA_ARGS__); \
		call_end(&c);                                              \
	}
#include "ex.def"

void qp_ex_put(struct ibv_qp *qp)
{
	static struct ibv_qp_ex *(*to_ex)(struct ibv_qp *);
	struct ibv_qp_ex *ex;
	struct object *o;

	if (!to_ex)
		*(void **)&to_ex = real_find("ibv_qp_to_qp_ex");
	ex = to_ex ? to_ex(qp) : NULL;
	if (!ex)
		return;
	pthread_mutex_lock(&check_lock);
	o = object_find(OBJ_QP, ex);
	if (!o)
		o = object_made(OBJ_QP, ex, qp->context);
	if (o && ex->wr_complete && ex->wr_complete != my_wr_complete) {
		o->qp.real = *ex;
#define EX(name, ...) \
	if (ex->name) \
		ex->name = my_##name;
#include "ex.def"
		ex->wr_complete = my_wr_complete;
	}
	pthread_mutex_unlock(&check_lock);
}
