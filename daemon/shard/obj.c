/* SPDX-License-Identifier: MIT */
/* obj.c - the table: a hash of chains that grows. */
#include "obj.h"

#include <errno.h>
#include <stdlib.h>

#include "ctx.h"

#define SCAN_CHAINS 4096u /* of which nearly all are empty */

struct obj_table {
	struct obj **chain;
	unsigned mask, n;
};

static unsigned map_slot(const struct obj_table *m, enum obj_kind kind, unsigned device, uint32_t number)
{
	uint64_t key = (uint64_t)number | (uint64_t)kind << 32 | (uint64_t)device << 40;

	return (unsigned)(key * 0x9e3779b97f4a7c15u >> 32) & m->mask;
}

/* Each context counts its own channels. */
static unsigned map_space(const struct ctx *c, enum obj_kind kind)
{
	return kind == OBJ_CHANNEL ? c->id : c->dev->index;
}

bool obj_is_shared(enum obj_kind kind) { return kind == OBJ_PD || kind == OBJ_MR || kind == OBJ_DM; }

static unsigned map_slot_of(const struct obj_table *m, const struct obj *o)
{
	return map_slot(m, o->kind, map_space(o->ctx, o->kind), o->number);
}

static int map_grow(struct obj_table *m)
{
	struct obj_table wide = { .mask = m->mask * 2 + 1, .n = m->n };

	wide.chain = calloc(wide.mask + 1u, sizeof(struct obj *));
	if (!wide.chain)
		return ENOMEM;
	for (unsigned i = 0; m->chain && i <= m->mask; i++) {
		for (struct obj *o = m->chain[i], *next; o; o = next) {
			unsigned slot = map_slot_of(&wide, o);

			next = o->chain;
			o->chain = wide.chain[slot];
			wide.chain[slot] = o;
		}
	}
	free(m->chain);
	*m = wide;
	return 0;
}

struct obj *obj_find(const struct shard *s, enum obj_kind kind, unsigned device, uint32_t number)
{
	const struct obj_table *m = s->objs;

	if (!m || !m->chain)
		return NULL;
	for (struct obj *o = m->chain[map_slot(m, kind, device, number)]; o; o = o->chain)
		if (o->number == number && o->kind == kind && kind != OBJ_CHANNEL && o->ctx->dev->index == device)
			return o;
	return NULL;
}

struct obj *obj_get(const struct ctx *c, enum obj_kind kind, uint32_t number)
{
	const struct obj_table *m = c->shard->objs;
	unsigned space = map_space(c, kind);

	for (struct obj *o = m->chain ? m->chain[map_slot(m, kind, space, number)] : NULL; o; o = o->chain)
		if (o->number == number && o->kind == kind &&
		    (o->ctx == c || (obj_is_shared(kind) && o->ctx->family == c->family)))
			return o;
	return NULL;
}

struct obj *obj_other(const struct obj *o)
{
	struct obj *n = o->chain;

	while (n && (n->number != o->number || n->kind != o->kind || n->ctx->dev != o->ctx->dev))
		n = n->chain;
	return n;
}

bool obj_scan(const struct shard *s, unsigned *at, unsigned max, void (*each)(struct obj *, void *), void *arg)
{
	const struct obj_table *m = s->objs;
	unsigned end = *at + SCAN_CHAINS, n = 0;

	for (; m && m->chain && *at <= m->mask; (*at)++) {
		if (*at == end || n >= max)
			return true;
		for (struct obj *o = m->chain[*at]; o; o = o->chain, n++)
			each(o, arg);
	}
	return false;
}

int obj_add(struct ctx *c, struct obj *o, enum obj_kind kind, uint32_t number)
{
	struct obj_table *m = c->shard->objs;
	unsigned slot;

	if ((!m->chain || m->n > m->mask) && map_grow(m))
		return ENOMEM;
	o->kind = kind;
	o->number = number;
	o->ctx = c;
	slot = map_slot_of(m, o);
	o->chain = m->chain[slot];
	m->chain[slot] = o;
	m->n++;
	o->prev = NULL;
	o->next = c->objs[kind];
	if (o->next)
		o->next->prev = o;
	c->objs[kind] = o;
	c->obj_n[kind]++;
	return 0;
}

void obj_del(struct obj *o)
{
	struct ctx *c = o->ctx;
	struct obj_table *m = c->shard->objs;
	struct obj **p = &m->chain[map_slot_of(m, o)];

	while (*p != o)
		p = &(*p)->chain;
	*p = o->chain;
	m->n--;
	if (o->prev)
		o->prev->next = o->next;
	else
		c->objs[o->kind] = o->next;
	if (o->next)
		o->next->prev = o->prev;
	c->obj_n[o->kind]--;
}

int objs_begin(struct shard *s)
{
	if (!s->objs)
		s->objs = calloc(1, sizeof(*s->objs));
	return s->objs ? 0 : ENOMEM;
}

void objs_end(struct shard *s)
{
	if (s->objs)
		free(s->objs->chain);
	free(s->objs);
	s->objs = NULL;
}

void qp_hint(struct ctx_qp *qp)
{
	struct qp_attr attr;
	struct qp_init init;

	if (hca_qp_query(qp->obj.ctx->hca, qp->obj.number, &attr, &init))
		return;
	qp->state = attr.state;
	if (qp->sq.hdr)
		ring_state(qp->sq.hdr, attr.state);
	if (qp->rq.slots)
		ring_state(qp->rq.ring.hdr, attr.state);
}
