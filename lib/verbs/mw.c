/* SPDX-License-Identifier: MIT */
/*
 * mw.c - memory windows: allocated and freed, and those of type 1 bound.
 *
 * A bind is a work request like others; type 2 is bound by the program's own work requests.
 * Only the daemon knows what is bound where.
 */
#include "mw.h"
#include "pd.h"
#include "wr_build.h"

#include <rdmad/keep.h>

#include <stdlib.h>

struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct msg_req req = { .op = MSG_MW_ALLOC, .mw = { pd->handle, (uint32_t)type } };
	struct ibv_mw *mw;
	struct msg_rep rep;
	int err;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return err_null(EINVAL);
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return err_null(ENOMEM);
	err = ctx_call(to_ctx(pd->context), &req, &rep);
	if (err) {
		free(mw);
		return err_null(err);
	}
	*mw = (struct ibv_mw){
		.context = pd->context, .pd = pd, .rkey = rep.obj.rkey, .handle = rep.obj.handle, .type = type
	};
	pd_object(pd, 1);
	return mw;
}

int mw_dealloc(struct ibv_mw *mw)
{
	int err = ctx_call_id(to_ctx(mw->context), MSG_MW_FREE, mw->handle);

	if (err)
		return err;
	pd_object(mw->pd, -1);
	keep_free(mw);
	return 0;
}

/* The new key is the one after; it is mw's from here on, and valid when the bind has completed. */
int mw_bind(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct rd_qp *qp = to_qp(ibqp);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct send_wr *w;
	int err;

	if (!pd_same(mw->pd, ibqp->pd))
		return EPERM;
	if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) /* rule 6.2 */
		return EINVAL;
	pthread_mutex_lock(&qp->sq_lock);
	w = wr_open(qp, WR_BIND_MW, bind->wr_id, bind->send_flags, 0, &err);
	if (w)
		err = wr_bind(w, IBV_MW_TYPE_1, mw, rkey, &bind->bind_info);
	if (!err) {
		wr_close(qp, w);
		wr_publish(qp);
		mw->rkey = rkey;
	}
	pthread_mutex_unlock(&qp->sq_lock);
	return err;
}
