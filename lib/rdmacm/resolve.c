/* SPDX-License-Identifier: MIT */
/*
 * resolve.c - calls that rdma-core 60 added: addresses are found for an id and reported by an event; events that the
 * program makes itself.
 *
 * Older headers, with which this library is built too, do not declare it.
 */
#include "cma.h"

enum { EVENT_ADDRINFO_RESOLVED = 16, EVENT_USER = 18 };
enum { FLAG_SA = 1 << 4 }; /* RAI_SA: services of a subnet administrator, of which RoCE has none */

int rdma_write_cm_event(struct rdma_cm_id *, enum rdma_cm_event_type, int status, uint64_t arg);
int rdma_resolve_addrinfo(struct rdma_cm_id *, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *, struct rdma_addrinfo **);

static int event_put(struct cma_id *id, uint32_t type, int status, uint64_t arg)
{
	struct cmm_req req = { .op = CMM_PUT_EVENT };

	req.put.type = type;
	req.put.status = status;
	req.put.arg = arg;
	return id_call(id, &req, NULL);
}

EXPORT int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
{
	return result(id && (uint32_t)event == EVENT_USER ? event_put(to_id(id), event, status, arg) : EINVAL);
}

static bool resolving_begin(struct cma_id *id)
{
	bool mine;

	pthread_mutex_lock(&id->lock);
	mine = !id->resolving;
	id->resolving = true;
	pthread_mutex_unlock(&id->lock);
	return mine;
}

/* Takes what was found, if it is all there. */
static struct rdma_addrinfo *resolving_end(struct cma_id *id, bool failed)
{
	struct rdma_addrinfo *found;

	pthread_mutex_lock(&id->lock);
	found = id->resolved;
	id->resolved = NULL;
	if (found || failed)
		id->resolving = false;
	pthread_mutex_unlock(&id->lock);
	return found;
}

static int resolve(struct cma_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *found;

	if (hints && hints->ai_flags & FLAG_SA)
		return EOPNOTSUPP;
	if (rdma_getaddrinfo(node, service, hints, &found))
		return ENODATA; /* which EAI_... it was, errno cannot tell */
	pthread_mutex_lock(&id->lock);
	id->resolved = found;
	pthread_mutex_unlock(&id->lock);
	return event_put(id, EVENT_ADDRINFO_RESOLVED, 0, 0);
}

EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *rid, const char *node, const char *service,
				 const struct rdma_addrinfo *hints)
{
	struct cma_id *id = to_id(rid);
	int err;

	if (!rid)
		return fail(EINVAL);
	if (!resolving_begin(id))
		return fail(EBUSY);
	err = resolve(id, node, service, hints);
	if (!err)
		return id_wait(id);
	rdma_freeaddrinfo(resolving_end(id, true));
	return fail(err);
}

EXPORT int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	struct rdma_addrinfo *found;

	if (!id || !info)
		return fail(EINVAL);
	found = resolving_end(to_id(id), false);
	if (!found)
		return fail(ENOENT);
	*info = found;
	return 0;
}
