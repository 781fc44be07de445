/* SPDX-License-Identifier: MIT */
/* region.c - the memory regions of a program. */
#include "region.h"

#include "finding.h"
#include "place.h"

#define REMOTE_WRITERS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

static void region_fill(struct object *o, struct ibv_mr *mr, uint64_t iova, unsigned int access)
{
	o->pd = mr->pd;
	o->mr.addr = mr->addr;
	o->mr.len = mr->length;
	o->mr.iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	o->mr.access = access;
	object_number_set(o, mr->lkey);
}

void region_made(struct ibv_mr *mr, uint64_t iova, unsigned int access, bool plain)
{
	struct object *o;

	if (!check_on || !mr)
		return;
	pthread_mutex_lock(&check_lock);
	o = object_made(OBJ_MR, mr, mr->context);
	if (o) {
		region_fill(o, mr, iova, access);
		o->mr.plain = plain && !(access & IBV_ACCESS_ON_DEMAND);
	}
	pthread_mutex_unlock(&check_lock);
}

void region_ex_made(struct ibv_mr *mr, const struct reg_attr *a)
{
	bool fd = a->comp_mask & REG_FD;

	region_made(mr, a->comp_mask & REG_IOVA ? a->iova : (uintptr_t)a->addr, (unsigned int)a->access, !fd);
}

void region_changed(struct ibv_mr *mr, int flags, unsigned int access)
{
	struct object *o;

	if (!check_on)
		return;
	pthread_mutex_lock(&check_lock);
	o = object_find(OBJ_MR, mr);
	if (o) {
		if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
			access = o->mr.access;
		region_fill(o, mr, flags & IBV_REREG_MR_CHANGE_TRANSLATION ? (uintptr_t)mr->addr : o->mr.iova, access);
	}
	pthread_mutex_unlock(&check_lock);
}

static struct object *region_of(const struct object *o, uint32_t lkey)
{
	return object_number(OBJ_MR, o->context, lkey);
}

/* A domain and those that were made of it are one. */
static const void *base_of(const void *pd)
{
	const struct object *o = object_find(OBJ_PD, pd);

	return o && o->pd ? o->pd : pd;
}

static bool is_within(const struct object *mr, const struct ibv_sge *s)
{
	uint64_t off = s->addr - mr->mr.iova;

	return off <= mr->mr.len && s->length <= mr->mr.len - off;
}

static void sge_check(const struct object *o, const struct note *n, const struct ibv_sge *s, int i)
{
	const struct object *mr = region_of(o, s->lkey);

	if (!mr || !s->length)
		return;
	if (mr->dead)
		finding(F_USE_DEREG, "deregistered by", &mr->ended,
			"%s, wr_id %#llx: sge %d has lkey %#x, whose region of %zu bytes at %p "
			"was deregistered",
			object_name(o), (unsigned long long)n->wr_id, i, s->lkey, mr->mr.len,
			(const void *)mr->mr.addr);
	else if (mr->pd && o->pd && base_of(mr->pd) != base_of(o->pd))
		finding(F_PD, "registered by", &mr->made,
			"%s, wr_id %#llx: sge %d has lkey %#x, whose region is of another protection domain",
			object_name(o), (unsigned long long)n->wr_id, i, s->lkey);
	else if (mr->mr.len && !is_within(mr, s)) /* 0: it was imported */
		finding(F_RANGE, "registered by", &mr->made,
			"%s, wr_id %#llx: sge %d, %u bytes at %#llx, is not within the region of lkey %#x, "
			"%zu bytes at %#llx",
			object_name(o), (unsigned long long)n->wr_id, i, s->length, (unsigned long long)s->addr,
			s->lkey, mr->mr.len, (unsigned long long)mr->mr.iova);
	else if (!n->reads && !(mr->mr.access & IBV_ACCESS_LOCAL_WRITE))
		finding(F_ACCESS, "registered by", &mr->made,
			"%s, wr_id %#llx: sge %d is to be written to, and the region of lkey %#x has no "
			"IBV_ACCESS_LOCAL_WRITE",
			object_name(o), (unsigned long long)n->wr_id, i, s->lkey);
}

void region_check(const struct object *o, const struct note *n, const struct ibv_sge *sge, int sge_n)
{
	for (int i = 0; i < sge_n; i++)
		sge_check(o, n, &sge[i], i);
}

const char *region_at(const struct object *o, const struct ibv_sge *s, bool *others)
{
	const struct object *mr = region_of(o, s->lkey);

	if (!mr || mr->dead || !mr->mr.plain || !s->length || !is_within(mr, s))
		return NULL;
	*others = mr->mr.access & REMOTE_WRITERS;
	return mr->mr.addr + (s->addr - mr->mr.iova);
}

struct others {
	const char *at;
	size_t len;
	bool found;
};

static void others_look(struct object *mr, void *arg)
{
	struct others *w = arg;

	w->found |= mr->mr.access & REMOTE_WRITERS && overlap(mr->mr.addr, mr->mr.len, w->at, w->len);
}

bool region_others(const char *at, size_t len)
{
	struct others w = { at, len, false };

	object_each(OBJ_MR, others_look, &w);
	return w.found;
}
