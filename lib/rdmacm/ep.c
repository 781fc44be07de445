/* SPDX-License-Identifier: MIT */
/*
 * ep.c - endpoints: an id made ready from what rdma_getaddrinfo() found, in one call.
 */
#include "cma.h"

enum { RESOLVE_MS = 2000 };

static int passive_make(struct cma_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(&id->id, res->ai_src_addr))
		return errno;
	if (pd)
		id->id.pd = pd;
	if (!attr)
		return 0;
	id->qp_attr = malloc(sizeof(*id->qp_attr));
	if (!id->qp_attr)
		return ENOMEM;
	*id->qp_attr = *attr;
	id->qp_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int active_make(struct cma_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(&id->id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) ||
	    rdma_resolve_route(&id->id, RESOLVE_MS))
		return errno;
	if (attr) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(&id->id, pd, attr))
			return errno;
	}
	if (!res->ai_connect_len)
		return 0;
	id->connect = malloc(res->ai_connect_len);
	if (!id->connect)
		return ENOMEM;
	memcpy(id->connect, res->ai_connect, res->ai_connect_len);
	id->connect_len = res->ai_connect_len;
	return 0;
}

EXPORT int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	int err = id_create(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space,
			    (enum ibv_qp_type)res->ai_qp_type);

	if (err)
		return fail(err);
	if (res->ai_flags & RAI_PASSIVE)
		err = passive_make(to_id(id), res, pd, attr);
	else
		err = active_make(to_id(id), res, pd, attr);
	if (err) {
		rdma_destroy_ep(id);
		return fail(err);
	}
	*out = id;
	return 0;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}
