/* SPDX-License-Identifier: MIT */
/*
 * ece.c - enhanced connection establishment: the vendor is the device's, and there are no options that two ends would
 * have to agree on.
 */
#include "ctx.h"

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){ .vendor_id = to_ctx(qp->context)->attr.vendor_id };
	return 0;
}

/* Vendor 0: the peer says nothing.  Of the options of our own vendor those are accepted that are known: none. */
EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (ece->comp_mask || (ece->vendor_id ? ece->vendor_id != to_ctx(qp->context)->attr.vendor_id : ece->options))
		return EINVAL;
	ece->options = 0;
	return 0;
}
