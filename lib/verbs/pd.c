/* SPDX-License-Identifier: MIT */
/* pd.c - protection domains. */
#include "objects.h"

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

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int err = ctx_call_id(to_ctx(pd->context), MSG_PD_FREE, pd->handle);

	if (!err)
		free(pd);
	return err;
}
