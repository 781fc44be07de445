/* SPDX-License-Identifier: MIT */
/*
 * cma_mcast.c - ids in multicast groups.  There is nobody to ask on Ethernet: the host joins the IP group on
 * the id's interface (protocol 7.12), and what comes in goes to the QPs that are attached to the MGID.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid.h>

#include "../../proto/burst.h"
#include "cma.h"
#include "../shard/net_group.h"

#define FULL_MEMBER 0u /* enum rdma_cm_mc_join_flags */
#define SEND_ONLY   1u

static struct slots groups;

static void group_free(struct cma_group *g)
{
	if (g->joined)
		net_group(g->dev, g->mgid, g->ifindex, g->uid, false);
	link_del(&g->link);
	slots_del(&groups, g->number);
	cma_count.groups--;
	bill_close(&g->bill);
	free(g);
}

static void joined(struct cma_id *id, struct cma_group *g, int err)
{
	struct cma_record *r = cma_event_put(id, err ? CMA_EV_MULTICAST_ERROR : CMA_EV_MULTICAST_JOIN, -err);

	if (!r)
		return;
	r->group = g;
	g->record = r;
	r->ev.group = g->number;
	r->ev.group_cookie = g->cookie;
	r->ev.ud = 1;
	r->ev.conn.qp_num = QPN_MCAST;
	r->ev.conn.qkey = id->qkey;
	cma_path_av(id, &r->ev.av);
	r->ev.av.flow_label = 0;
	memcpy(r->ev.av.dgid, g->mgid, 16);
}

int cma_join(struct cma_id *id, const union cmm_addr *a, uint32_t flags, uint64_t cookie, uint32_t *group)
{
	struct cost cost = {
		{ [QUOTA_CM_IDS] = 1, [QUOTA_FDS] = flags == FULL_MEMBER, [QUOTA_HEAP] = sizeof(struct cma_group) }
	};
	struct cma_group *g;
	int err = 0;

	if (!id->dev || id->qp_type != QPT_UD || (id->state != CMA_BOUND && id->state != CMA_ADDR_RESOLVED) ||
	    !cma_addr_ok(a) || flags > SEND_ONLY)
		return EINVAL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return ENOMEM;
	cma_addr_gid(a, g->mgid);
	if (!gid_is_group(g->mgid)) {
		free(g);
		return EINVAL;
	}
	if (!groups.max)
		slots_init(&groups, 1000000);
	err = bill_open(&g->bill, id->ch->who.uid, &cost);
	if (!err && slots_add(&groups, g, &g->number))
		err = ENOMEM;
	if (err) {
		bill_close(&g->bill);
		free(g);
		return err;
	}
	if (!id->qkey)
		id->qkey = CMA_UDP_QKEY;
	g->id = id;
	g->uid = id->ch->who.uid; /* ids move between channels */
	g->cookie = cookie;
	g->dev = id->dev;
	g->ifindex = id->dev->gid[id->sgid_index].ifindex;
	link_add_tail(&id->groups, &g->link);
	cma_count.groups++;
	if (flags == FULL_MEMBER) {
		err = net_group(g->dev, g->mgid, g->ifindex, g->uid, true);
		g->joined = !err;
		if (err == ENOMEM) {
			group_free(g);
			return err;
		}
	}
	joined(id, g, err);
	*group = g->number;
	return 0;
}

int cma_leave(struct cma_id *id, uint32_t number, uint32_t *told)
{
	struct cma_group *g = slots_get(&groups, number);

	if (!g || g->id != id)
		return ENOENT;
	if (g->record)
		cma_event_drop(g->record);
	*told = g->told;
	group_free(g);
	return 0;
}

/* The id's records are gone. */
void cma_leave_all(struct cma_id *id)
{
	while (!link_empty(&id->groups))
		group_free(LINK_OF(id->groups.next, struct cma_group, link));
}
