/* SPDX-License-Identifier: MIT */
/*
 * bind.c - addresses: bind, listen, resolve.  The daemon knows ports and routes.
 */
#include "cma.h"

/* 0 or an errno.  A NULL address is one of family 0.  AF_IB is a family, though not one of ours. */
static int addr_in(union cmm_addr *to, const struct sockaddr *sa)
{
	memset(to, 0, sizeof(*to));
	if (!sa)
		return 0;
	switch (sa->sa_family) {
	case AF_INET: memcpy(&to->in, sa, sizeof(to->in)); return 0;
	case AF_INET6: memcpy(&to->in6, sa, sizeof(to->in6)); return 0;
	}
	return sa->sa_family == AF_IB ? EAFNOSUPPORT : EINVAL;
}

static int info_call(struct cma_id *id, struct cmm_req *req)
{
	struct cmm_rep rep;
	int err = id_call(id, req, &rep);

	return err ? err : id_update(id, &rep.info);
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct cmm_req req = { .op = CMM_BIND };
	int err = addr ? addr_in(&req.bind.addr, addr) : EINVAL;

	return result(err ? err : info_call(to_id(id), &req));
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	struct cmm_req req = { .op = CMM_LISTEN };

	req.listen.backlog = backlog < 0 ? 0 : (uint32_t)backlog;
	return result(info_call(to_id(id), &req));
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	struct cmm_req req = { .op = CMM_RESOLVE_ADDR };
	int err = dst ? addr_in(&req.resolve.dst, dst) : EINVAL;

	if (!err)
		err = addr_in(&req.resolve.src, src);
	if (err)
		return fail(err);
	req.resolve.timeout_ms = (uint32_t)timeout_ms;
	memcpy(&id->route.addr.dst_storage, &req.resolve.dst,
	       sizeof(req.resolve.dst)); /* the event may say it better */
	err = id_call(to_id(id), &req, NULL);
	return err ? fail(err) : id_wait(to_id(id));
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	struct cmm_req req = { .op = CMM_RESOLVE_ROUTE };
	int err;

	req.route.timeout_ms = (uint32_t)timeout_ms;
	err = id_call(to_id(id), &req, NULL);
	return err ? fail(err) : id_wait(to_id(id));
}
