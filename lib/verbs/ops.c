/* SPDX-License-Identifier: MIT */
/* ops.c - the tables of operations that programs call through a context. */
#include "cq.h"
#include "ctx.h"
#include "mw.h"
#include "qp.h"
#include "srq.h"
#include "slots.h"

typedef void *(*compat_fn)(void);
#define COMPAT(fn) ((compat_fn)(void (*)(void))(fn))

static void ops_old(struct ibv_context_ops *o)
{
	*o = (struct ibv_context_ops){
		._compat_query_device = ibv_query_device,
		._compat_query_port = ibv_query_port,
		._compat_alloc_pd = COMPAT(ibv_alloc_pd),
		._compat_dealloc_pd = COMPAT(ibv_dealloc_pd),
		._compat_reg_mr = COMPAT(ibv_reg_mr),
		._compat_rereg_mr = COMPAT(ibv_rereg_mr),
		._compat_dereg_mr = COMPAT(ibv_dereg_mr),
		.alloc_mw = mw_alloc,
		.bind_mw = mw_bind,
		.dealloc_mw = mw_dealloc,
		._compat_create_cq = COMPAT(ibv_create_cq),
		.poll_cq = cq_poll,
		.req_notify_cq = cq_req_notify,
		._compat_cq_event = COMPAT(ibv_get_cq_event),
		._compat_resize_cq = COMPAT(ibv_resize_cq),
		._compat_destroy_cq = COMPAT(ibv_destroy_cq),
		._compat_create_srq = COMPAT(ibv_create_srq),
		._compat_modify_srq = COMPAT(ibv_modify_srq),
		._compat_query_srq = COMPAT(ibv_query_srq),
		._compat_destroy_srq = COMPAT(ibv_destroy_srq),
		.post_srq_recv = post_srq_recv,
		._compat_create_qp = COMPAT(ibv_create_qp),
		._compat_query_qp = COMPAT(ibv_query_qp),
		._compat_modify_qp = COMPAT(ibv_modify_qp),
		._compat_destroy_qp = COMPAT(ibv_destroy_qp),
		.post_send = post_send,
		.post_recv = post_recv,
		._compat_create_ah = COMPAT(ibv_create_ah),
		._compat_destroy_ah = COMPAT(ibv_destroy_ah),
		._compat_attach_mcast = COMPAT(ibv_attach_mcast),
		._compat_detach_mcast = COMPAT(ibv_detach_mcast),
		._compat_async_event = COMPAT(ibv_get_async_event),
	};
}

void ops_fill(struct verbs_context *v)
{
	stub_ops(v);
#define SLOT(slot, fn) v->slot = fn;
#include "verbs.def"
	/* Programs of rdma-core 1.1.8 look for these two here. */
	v->ABI_placeholder1 = (void (*)(void))flow_create;
	v->ABI_placeholder2 = (void (*)(void))flow_destroy;
	ops_old(&v->context.ops);
}
