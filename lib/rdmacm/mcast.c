/* SPDX-License-Identifier: MIT */
/*
 * mcast.c - multicast groups of an id.  The daemon joins a group, and then the library attaches the QP.
 */
#include "cma.h"
#include "../verbs/unacked.h"

static uint64_t cookie_last; /* atomic */

static socklen_t addr_len(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
	       : sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : 0;
}

/* The port says nothing of a group. */
static bool same_group(const struct sockaddr_storage *s, const struct sockaddr *sa)
{
	if (s->ss_family != sa->sa_family)
		return false;
	if (sa->sa_family == AF_INET)
		return ((const struct sockaddr_in *)s)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)sa)->sin_addr.s_addr;
	return !memcmp(&((const struct sockaddr_in6 *)s)->sin6_addr, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
}

int group_joined(struct cma_id *id, struct group *g, const uint8_t *mgid)
{
	int err;

	memcpy(g->mgid.raw, mgid, sizeof(g->mgid.raw));
	if (!id->id.qp || g->send_only)
		return 0;
	err = ibv_attach_mcast(id->id.qp, &g->mgid, 0);
	g->attached = !err;
	return err;
}

static void group_add(struct cma_id *id, struct group *g)
{
	pthread_mutex_lock(&id->lock);
	g->next = id->groups;
	id->groups = g;
	pthread_mutex_unlock(&id->lock);
}

/* Its event may be told by another thread before the call that joins is over: it may have been left, then. */
static void group_named(struct cma_id *id, uint64_t cookie, uint32_t handle)
{
	struct group *g;

	pthread_mutex_lock(&id->lock);
	for (g = id->groups; g && g->cookie != cookie; g = g->next)
		;
	if (g)
		g->handle = handle;
	pthread_mutex_unlock(&id->lock);
}

/* Takes the group off the id (addr NULL: any one), so that no event of it is given any more. */
static struct group *group_take(struct cma_id *id, const struct group *which, const struct sockaddr *addr)
{
	struct group **p, *g;

	pthread_mutex_lock(&id->lock);
	for (p = &id->groups; (g = *p); p = &g->next)
		if (which ? g == which : !addr || same_group(&g->addr, addr))
			break;
	if (g)
		*p = g->next;
	pthread_mutex_unlock(&id->lock);
	return g;
}

/* Else the QP is in use. */
void groups_detach(struct cma_id *id)
{
	pthread_mutex_lock(&id->lock);
	for (struct group *g = id->groups; g; g = g->next) {
		if (g->attached && id->id.qp)
			ibv_detach_mcast(id->id.qp, &g->mgid, 0);
		g->attached = false;
	}
	pthread_mutex_unlock(&id->lock);
}

static int group_leave(struct cma_id *id, struct group *g, const char *verb)
{
	struct unacked u = { &to_chan(id->id.channel)->conn, verb, 0, "rdma_ack_cm_event", false };
	struct cmm_req req = { .op = CMM_LEAVE };
	int err = 0;

	if (g->attached && id->id.qp)
		ibv_detach_mcast(id->id.qp, &g->mgid, 0);
	req.leave.group = g->handle;
	if (g->handle)
		err = id_call(id, &req, NULL);
	pthread_mutex_lock(&id->lock);
	while (g->acked != g->got)
		unacked_wait(&u, &id->cond, &id->lock, g->got - g->acked);
	pthread_mutex_unlock(&id->lock);
	unacked_end(&u);
	free(g);
	return err;
}

void groups_leave(struct cma_id *id)
{
	struct group *g;

	while ((g = group_take(id, NULL, NULL)))
		group_leave(id, g, "rdma_destroy_id");
}

static int join(struct cma_id *id, const struct sockaddr *addr, uint32_t flags, void *context)
{
	struct cmm_req req = { .op = CMM_JOIN };
	struct cmm_rep rep;
	struct group *g;
	int err;

	if (!addr_len(addr))
		return fail(addr->sa_family == AF_IB ? EAFNOSUPPORT : EINVAL);
	g = calloc(1, sizeof(*g));
	if (!g)
		return fail(ENOMEM);
	g->cookie = __atomic_add_fetch(&cookie_last, 1, __ATOMIC_RELAXED);
	g->context = context;
	g->send_only = flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	memcpy(&g->addr, addr, addr_len(addr));
	memcpy(&req.join.addr, addr, addr_len(addr));
	req.join.cookie = g->cookie;
	req.join.flags = flags;
	group_add(id, g);
	err = id_call(id, &req, &rep);
	if (err) {
		free(group_take(id, g, NULL));
		return fail(err);
	}
	group_named(id, req.join.cookie, rep.join.group);
	return id_wait(id);
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return join(to_id(id), addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return fail(ENOTSUP);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
	    !attr->addr)
		return fail(EINVAL);
	if (attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return fail(EINVAL);
	return join(to_id(id), attr->addr, attr->join_flags, context);
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *rid, struct sockaddr *addr)
{
	struct cma_id *id = to_id(rid);
	struct group *g = addr_len(addr) ? group_take(id, NULL, addr) : NULL;

	if (!addr_len(addr))
		return fail(EINVAL);
	if (!g)
		return fail(EADDRNOTAVAIL);
	if (id->sync)
		id_event_drop(id);
	return result(group_leave(id, g, "rdma_leave_multicast"));
}
