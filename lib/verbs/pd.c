/* SPDX-License-Identifier: MIT */
/*
 * pd.c - protection domains, thread domains and parent domains.
 *
 * A parent domain is a PD by another name: objects made in it belong to the PD.  Its allocator provides the
 * structs that the library works on while it posts and polls; the queues themselves are shared
 * with the daemon and come from there.  A thread domain is a promise of the program that is not made use of.
 */
#include "ctx.h"
#include "newer.h"
#include "pd.h"
#include "slots.h"

#include <rdmad/keep.h>

#include <stdlib.h>

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct msg_req req = { .op = MSG_PD_ALLOC };
	struct rd_pd *pd = calloc(1, sizeof(*pd));
	struct msg_rep rep;
	int err;

	if (!pd)
		return err_null(ENOMEM);
	err = ctx_call(to_ctx(context), &req, &rep);
	if (err) {
		free(pd);
		return err_null(err);
	}
	pd->pd.context = context;
	pd->pd.handle = rep.obj.handle;
	return &pd->pd;
}

static void user_add(uint32_t *users, int n) { __atomic_add_fetch(users, (uint32_t)n, __ATOMIC_ACQ_REL); }

void pd_use(struct rd_pd *pd, int n) { user_add(&pd->users, n); }

/* Of a PD the daemon knows them. */
void pd_object(struct ibv_pd *pd, int n)
{
	if (pd && to_pd(pd)->base)
		user_add(&to_pd(pd)->users, n);
}

static bool is_used(const uint32_t *users) { return __atomic_load_n(users, __ATOMIC_ACQUIRE); }

EXPORT int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct rd_pd *pd = to_pd(ibpd);
	int err;

	if (is_used(&pd->users))
		return errno = EBUSY;
	if (pd->base) {
		user_add(&pd->base->users, -1);
		if (pd->td)
			user_add(&pd->td->users, -1);
		keep_free(pd);
		return 0;
	}
	err = ctx_call_id(to_ctx(ibpd->context), MSG_PD_FREE, ibpd->handle);
	if (!err)
		keep_free(pd);
	return err;
}

/* ---- parent and thread domains ----------------------------------------------------- */

struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *a)
{
	struct rd_td *td;

	if (a->comp_mask)
		return err_null(EINVAL);
	td = calloc(1, sizeof(*td));
	if (!td)
		return err_null(ENOMEM);
	td->td.context = context;
	return &td->td;
}

int td_dealloc(struct ibv_td *td)
{
	if (is_used(&((struct rd_td *)td)->users))
		return EBUSY;
	keep_free(td);
	return 0;
}

/* PARENT_DOMAIN_CC only allows, and nothing comes of it: the daemon is in the guest, too, and reaches all memory. */
struct ibv_pd *parent_domain_alloc(struct ibv_context *context, struct ibv_parent_domain_init_attr *a)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
			       PARENT_DOMAIN_CC;
	bool own = a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	struct rd_pd *pd;

	if (!a->pd || to_pd(a->pd)->base || a->pd->context != context || (own && (!a->alloc || !a->free)))
		return err_null(EINVAL);
	if (a->comp_mask & ~known)
		return err_null(EOPNOTSUPP);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return err_null(ENOMEM);
	pd->pd.context = context;
	pd->pd.handle = a->pd->handle;
	pd->base = to_pd(a->pd);
	user_add(&pd->base->users, 1);
	pd->td = (struct rd_td *)a->td;
	if (pd->td)
		user_add(&pd->td->users, 1);
	if (own) {
		pd->alloc = a->alloc;
		pd->free = a->free;
	}
	if (a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->context = a->pd_context;
	return &pd->pd;
}

/* ---- its allocator -------------------------------------------------------------------- */

#define RES_ALIGN 64u

void *pd_calloc(struct ibv_pd *ibpd, size_t len, enum res_type type, struct rd_pd **from)
{
	struct rd_pd *pd = ibpd ? to_pd(ibpd) : NULL;
	void *p = IBV_ALLOCATOR_USE_DEFAULT;

	*from = NULL;
	len = (len + RES_ALIGN - 1) & ~(size_t)(RES_ALIGN - 1);
	if (pd && pd->alloc)
		p = pd->alloc(ibpd, pd->context, len, RES_ALIGN, type);
	if (p == IBV_ALLOCATOR_USE_DEFAULT) {
		p = aligned_alloc(RES_ALIGN, len);
	} else if (p) {
		*from = pd;
		user_add(&pd->users, 1);
	}
	if (!p)
		return err_null(ENOMEM);
	return memset(p, 0, len);
}

void pd_free(struct rd_pd *from, void *p, enum res_type type)
{
	if (!from) {
		keep_free(p);
		return;
	}
	from->free(&from->pd, from->context, p, type);
	user_add(&from->users, -1);
}
