/* SPDX-License-Identifier: MIT */
/* option.c - options of an id, events of its QP that the program passes on, and ECE. */
#include "cma.h"

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *val, size_t len)
{
	struct cmm_req req = { .op = CMM_SET_OPTION };

	/*
	 * A path that somebody else resolved: on RoCE it says nothing that the daemon would not find.  The event is the
	 * program's, though the id may have no channel.
	 */
	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		return result(len && !(len % sizeof(struct ibv_path_data)) ? id_call_op(to_id(id), CMM_RESOLVE_ROUTE)
									   : EINVAL);
	if (!val || len > sizeof(req.option.value))
		return fail(EINVAL);
	req.option.level = (uint32_t)level;
	req.option.name = (uint32_t)name;
	req.option.len = (uint32_t)len;
	memcpy(req.option.value, val, len);
	init_learn(to_id(id), NULL);
	return result(id_call(to_id(id), &req, NULL));
}

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	struct cmm_req req = { .op = CMM_NOTIFY };

	req.notify.event = event;
	return result(id_call(to_id(id), &req, NULL));
}

/*
 * ---- enhanced connection establishment ----
 *
 * Options of vendors, which REQ and REP carry for programs whose QPs are not the id's.  Our QPs know none.
 */

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return fail(EINVAL);
	to_id(id)->ece = (struct ibv_ece){ .vendor_id = ece->vendor_id, .options = ece->options };
	return 0;
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece)
		return fail(EINVAL);
	*ece = to_id(id)->remote_ece;
	return 0;
}
