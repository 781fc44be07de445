/* SPDX-License-Identifier: MIT */
/*
 * verb_mcast.c - UD QPs in multicast groups.  An adapter receives packets of a group once a QP is attached, without
 * any RDMA CM; here the host joins the IP group for it, on each interface where the device has an address of that family.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid.h>

#include "../base/log.h"
#include "call.h"
#include "../shard/net_group.h"
#include "../shard/inbox.h"

#define JOINS 8u

/* Control thread's. */
struct qp_group {
	struct qp_group *next;
	struct device *dev;
	uint8_t mgid[16];
	uid_t uid;
	unsigned n;
	unsigned ifindex[JOINS]; /* of those that it has joined on */
	struct bill bill;
};

static bool has(const struct qp_group *g, unsigned ifindex)
{
	for (unsigned i = 0; i < g->n; i++)
		if (g->ifindex[i] == ifindex)
			return true;
	return false;
}

static struct qp_group **find(struct ctx_qp *qp, const uint8_t *mgid)
{
	struct qp_group **g = &qp->groups;

	while (*g && !gid_same((*g)->mgid, mgid))
		g = &(*g)->next;
	return g;
}

static void drop(struct qp_group **at)
{
	struct qp_group *g = *at;

	*at = g->next;
	for (unsigned i = 0; i < g->n; i++)
		net_group(g->dev, g->mgid, g->ifindex[i], g->uid, false);
	bill_close(&g->bill);
	free(g);
}

/* The program is attached all the same where the host cannot be in the group; not so where the user has too many. */
static int join(struct ctx_qp *qp, const uint8_t *mgid)
{
	struct qp_group *g;
	struct cost cost = { { [QUOTA_FDS] = 1, [QUOTA_HEAP] = sizeof(*g) + HCA_OBJ_LEN } };
	int err;

	if (*find(qp, mgid))
		return 0;
	g = calloc(1, sizeof(*g));
	err = g ? bill_open(&g->bill, qp->obj.ctx->uid, &cost) : ENOMEM;
	if (err) {
		free(g);
		return err;
	}
	err = ENODEV;
	g->uid = qp->obj.ctx->uid;
	g->dev = qp->obj.ctx->dev;
	memcpy(g->mgid, mgid, 16);
	for (unsigned i = 0; i < RDMAD_GIDS && g->n < JOINS; i++) {
		const struct gid_row *r = &g->dev->gid[i];

		if (!r->ifindex || !r->wire || gid_is_v4(r->gid) != gid_is_v4(mgid) || has(g, r->ifindex))
			continue;
		err = net_group(g->dev, mgid, r->ifindex, g->uid, true);
		if (err == ENOMEM) {
			drop(&g);
			return err;
		}
		if (!err)
			g->ifindex[g->n++] = r->ifindex;
	}
	if (!g->n)
		log_info("%s: a QP is in a multicast group that the host is not in: %s", g->dev->name, strerror(err));
	g->next = qp->groups;
	qp->groups = g;
	return 0;
}

static int mcast_job(struct job *j)
{
	struct ctx *c = j->call->s->ctx;
	const struct msg_req *req = j->call->req;

	j->obj = obj_get(c, OBJ_QP, req->mcast.qpn);
	if (!j->obj)
		return EINVAL;
	return req->op == MSG_MCAST_ATTACH ? hca_mcast_attach(c->hca, req->mcast.qpn, req->mcast.gid)
					   : hca_mcast_detach(c->hca, req->mcast.qpn, req->mcast.gid);
}

static int mcast_undo(struct job *j)
{
	const struct msg_req *req = j->call->req;

	return hca_mcast_detach(j->call->s->ctx->hca, req->mcast.qpn, req->mcast.gid);
}

int verb_mcast(struct call *call)
{
	struct job j = { .call = call };
	const uint8_t *mgid = call->req->mcast.gid;
	int err = job_run(&j, mcast_job);

	if (err)
		return err;
	if (call->req->op == MSG_MCAST_ATTACH) {
		err = join(j.obj, mgid);
		if (err)
			job_run(&j, mcast_undo);
		return err;
	}
	if (*find(j.obj, mgid))
		drop(find(j.obj, mgid));
	return 0;
}

void mcast_forget(struct ctx_qp *qp)
{
	while (qp->groups)
		drop(&qp->groups);
}
