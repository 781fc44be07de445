/* SPDX-License-Identifier: MIT */
/*
 * verb_query.c - queries of a device and its port.  All of it belongs to the control thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../base/profile.h"
#include "call.h"
#include "port.h"

/* Of objects that the HCA has so many of: as many as this user can have. */
static uint32_t most(const struct call *call, enum quota q, uint64_t n)
{
	uint64_t may = quota_most(call->s->uid, q);

	return (uint32_t)(n < may ? n : may);
}

/* The numbers of its profile; of objects no more than the user may have. */
int verb_query_device(struct call *call)
{
	struct msg_device_attr *a = &call->rep->device;
	const struct device *dev = call->s->ctx->dev;
	const struct profile *p = dev->profile;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	*a = (struct msg_device_attr){
		.guid = dev->guid,
		.sys_guid = device_adapter(dev)->guid,
		.no = p->no,
		.vendor_id = p->vendor,
		.part_id = p->part,
		.hw_ver = p->hw_ver,
		.max_msg = (uint32_t)p->max_msg,
		.max_mr_size = p->max_mr_size,
		.max_qp = most(call, QUOTA_QPS, p->max_qp),
		.max_qp_wr = (uint32_t)p->max_qp_wr,
		.max_sge = (uint32_t)p->max_sge,
		.max_sge_rd = (uint32_t)p->max_sge_rd,
		.max_cq = most(call, QUOTA_CQS, p->max_cq),
		.max_cqe = (uint32_t)p->max_cqe,
		.max_mr = most(call, QUOTA_MRS, p->max_mr),
		.max_mw = most(call, QUOTA_MWS, p->max_mw),
		.max_pd = most(call, QUOTA_PDS, p->max_pd),
		.max_rd_atom = (uint32_t)p->max_qp_rd_atom,
		.max_init_rd_atom = (uint32_t)p->max_qp_init_rd_atom,
		.max_ah = (uint32_t)p->max_ah, /* the library's alone: as many as fit into the program */
		.max_srq = most(call, QUOTA_SRQS, p->max_srq),
		.max_srq_wr = (uint32_t)p->max_srq_wr,
		.max_srq_sge = (uint32_t)p->max_srq_sge,
		.max_inline = (uint32_t)p->max_inline,
		.max_dm = (uint32_t)p->max_dm,
		.max_pkeys = (uint32_t)p->max_pkeys,
		.gid_pairs = p->gids == GIDS_PAIRS,
		.lids = profile_has_lids(p),
		.max_mcast_grp = (uint32_t)p->max_mcast_grp,
		.max_mcast_qp_attach = (uint32_t)p->max_mcast_qp_attach,
		.comp_vectors = cores > 0 ? (uint32_t)cores : 1,
	};
	a->max_res_rd_atom = a->max_qp * a->max_rd_atom;
	if (a->max_res_rd_atom > p->max_res_rd_atom)
		a->max_res_rd_atom = (uint32_t)p->max_res_rd_atom;
	if (profile_is_own(p))
		a->max_pkeys = dev->pkey_n;
	else
		snprintf(a->profile, sizeof(a->profile), "%s", p->name);
	if (p->comp_vectors < UINT32_MAX)
		a->comp_vectors = (uint32_t)p->comp_vectors;
	snprintf(a->fw_ver, sizeof(a->fw_ver), "%s", p->fw);
	return 0;
}

/* Of all shards, none of which is asked.  A port's counters of violations have 16 bits, and stay at the most that these can say. */
static uint32_t violations(const struct device *dev, enum hca_stat stat)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < shards_n; i++)
		n += hca_stat(dev->hca[i], stat);
	return n < 0xffff ? (uint32_t)n : 0xffff;
}

int verb_query_port(struct call *call)
{
	const struct device *dev = call->s->ctx->dev;
	struct msg_port_attr *a = &call->rep->port;

	if (call->req->gid.port != 1)
		return EINVAL;
	*a = (struct msg_port_attr){
		.state = dev->up ? 4 : 1,      /* ACTIVE, DOWN */
		.phys_state = dev->up ? 5 : 2, /* LinkUp, Polling */
		.max_mtu = mtu_code(dev->profile->max_mtu),
		.active_mtu = dev->mtu,
		.gid_n = (uint32_t)dev->profile->gid_tbl_len,
		.pkey_n = dev->pkey_n,
		.max_msg = (uint32_t)dev->profile->max_msg,
		.link_layer = profile_link_layer(dev->profile),
		.bad_pkey = violations(dev, HCA_STAT_BAD_PKEY),
		.qkey_viol = violations(dev, HCA_STAT_BAD_QKEY),
		.lid = device_lid(dev),
	};
	memcpy(a->pkey, dev->pkey, sizeof(a->pkey));
	port_lanes(dev, &a->active_speed, &a->active_width);
	return 0;
}

int verb_port_speed(struct call *call)
{
	const struct device *dev = call->s->ctx->dev;

	if (call->req->gid.port != 1)
		return EINVAL;
	call->rep->speed.mbps = dev->link_mbps;
	return 0;
}

int verb_query_gid(struct call *call)
{
	const struct device *dev = call->s->ctx->dev;
	uint32_t i = call->req->gid.index;
	struct msg_gid *g = &call->rep->gid;
	const struct gid_row *row;

	if (call->req->gid.port != 1 || i >= dev->profile->gid_tbl_len)
		return EINVAL;
	row = device_gid(dev, i, &g->type);
	memcpy(g->gid, row->gid, sizeof(g->gid));
	g->index = i;
	g->ndev_ifindex = device_gid_interface(dev, row);
	return 0;
}

int verb_query_lid(struct call *call)
{
	const struct device *dev = call->s->ctx->dev;
	const uint32_t lid = call->req->gid.index;
	struct msg_gid *g = &call->rep->gid;

	if (call->req->gid.port != 1 || !profile_has_lids(dev->profile) || !lid || lid > GID_LID_MOST)
		return EINVAL;
	g->index = device_lid_row(dev);
	memcpy(g->gid, dev->gid[g->index].gid, sizeof(g->gid));
	gid_lid_set(g->gid, (uint16_t)lid);
	if (device_of_gid(g->gid) >= 0)
		return 0;
	for (unsigned i = 0; i < devices_n; i++) { /* ours may have other addresses */
		if (device_lid(&devices[i]) == lid) {
			memcpy(g->gid, devices[i].gid[device_lid_row(&devices[i])].gid, sizeof(g->gid));
			return 0;
		}
	}
	return 0;
}
