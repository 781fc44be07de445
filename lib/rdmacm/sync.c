/* SPDX-License-Identifier: MIT */
/*
 * sync.c - ids for which the program made no channel: a call returns when the event that answers it has come.
 *
 * The event stays in id->event until the next call.
 */
#include "cma.h"

static int status_errno(const struct rdma_cm_event *e)
{
	if (e->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return ENODEV;
	if (e->status < 0)
		return -e->status;
	/* A reason of the peer's: it said no. */
	return e->status ? ECONNREFUSED : 0;
}

void id_event_drop(struct cma_id *id)
{
	if (!id->id.event)
		return;
	rdma_ack_cm_event(id->id.event);
	id->id.event = NULL;
}

int id_wait(struct cma_id *id)
{
	if (!id->sync)
		return 0;
	id_event_drop(id);
	if (rdma_get_cm_event(id->id.channel, &id->id.event))
		return -1;
	return result(status_errno(id->id.event));
}

EXPORT int rdma_get_request(struct rdma_cm_id *rlisten, struct rdma_cm_id **out)
{
	struct cma_id *listen = to_id(rlisten);
	struct ibv_qp_init_attr attr;
	struct rdma_cm_event *e;
	int err;

	if (!listen->sync)
		return fail(EINVAL);
	id_event_drop(listen);
	if (rdma_get_cm_event(rlisten->channel, &e))
		return -1;
	err = status_errno(e);
	if (!err && e->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		err = EINVAL;
	if (err) {
		rdma_ack_cm_event(e);
		return fail(err);
	}
	*out = e->id;
	(*out)->event = e;
	if (!listen->qp_attr)
		return 0;
	attr = *listen->qp_attr;
	if (!rdma_create_qp(*out, rlisten->pd, &attr))
		return 0;
	err = errno;
	rdma_destroy_id(*out);
	return fail(err);
}
