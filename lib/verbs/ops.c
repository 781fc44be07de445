/* SPDX-License-Identifier: MIT */
/* ops.c - the tables of operations that programs call through a context. */
#include "cq.h"
#include "ctx.h"
#include "dm.h"
#include "flow.h"
#include "mr.h"
#include "mw.h"
#include "pd.h"
#include "qp.h"
#include "query.h"
#include "srq.h"
#include "xrc.h"

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
	v->query_port = port_query;
	v->query_device_ex = device_query_ex;
	v->query_rt_values = rt_values_query;
	v->create_cq_ex = cq_create_ex;
	v->modify_cq = cq_modify;
	v->modify_qp_rate_limit = rate_modify;
	v->create_wq = wq_create;
	v->modify_wq = wq_modify;
	v->destroy_wq = wq_destroy;
	v->create_rwq_ind_table = table_create;
	v->destroy_rwq_ind_table = table_destroy;
	v->create_counters = counters_create;
	v->destroy_counters = counters_destroy;
	v->attach_counters_point_flow = counters_attach;
	v->read_counters = counters_read;
	v->create_qp_ex = qp_create_ex;
	v->create_srq_ex = srq_create_ex;
	v->get_srq_num = srq_get_num;
	v->open_xrcd = xrcd_open;
	v->close_xrcd = xrcd_close;
	v->open_qp = qp_open;
	v->ibv_create_flow = flow_create;
	v->ibv_destroy_flow = flow_destroy;
	/* Programs of rdma-core 1.1.8 look for these two here. */
	v->ABI_placeholder1 = (void (*)(void))flow_create;
	v->ABI_placeholder2 = (void (*)(void))flow_destroy;
	v->alloc_null_mr = mr_null;
	v->advise_mr = mr_advise;
	v->alloc_dm = dm_alloc;
	v->free_dm = dm_free;
	v->reg_dm_mr = dm_reg_mr;
	v->alloc_td = td_alloc;
	v->dealloc_td = td_dealloc;
	v->alloc_parent_domain = parent_domain_alloc;
	ops_old(&v->context.ops);
}
