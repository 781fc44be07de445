/* SPDX-License-Identifier: MIT */
/* rate.c - a QP's rate limit.  ibv_modify_qp() can set one, too. */
#include "qp.h"
#include "slots.h"

/* typical_pkt_sz is of no use: the daemon counts the bytes of each packet. */
int rate_modify(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *a)
{
	struct msg_req req = { .op = MSG_QP_RATE, .rate = { qp->handle, a->rate_limit, a->max_burst_sz, 0 } };
	struct msg_rep rep;

	return a->comp_mask ? EINVAL : ctx_call(to_ctx(qp->context), &req, &rep);
}
