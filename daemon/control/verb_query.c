/* SPDX-License-Identifier: MIT */
/*
 * verb_query.c - queries of a device and its port.  All of it belongs to the control thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "../shard/inbox.h"
#include "call.h"

/* Of objects that the HCA has so many of: as many as this user can have, and the daemon can map. */
static uint32_t most(const struct call *call, enum quota q, uint64_t n)
{
	uint64_t may = quota_most(call->s->uid, q), maps = quota_most(call->s->uid, QUOTA_MAPS);

	n = n < may ? n : may;
	return (uint32_t)(q == QUOTA_MRS || n < maps ? n : maps);
}

int verb_query_device(struct call *call)
{
	struct msg_device_attr *a = &call->rep->device;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	/* The HCA's defaults, and what the layouts of abi.h allow. */
	*a = (struct msg_device_attr){
		.guid = call->s->ctx->dev->guid,
		.max_mr_size = UINT64_MAX,
		.max_qp = most(call, QUOTA_QPS, 65536),
		.max_qp_wr = RD_MAX_WR,
		.max_sge = RD_MAX_SGE,
		.max_cq = most(call, QUOTA_CQS, 65536),
		.max_cqe = RD_MAX_CQE,
		.max_mr = most(call, QUOTA_MRS, 524287),
		.max_mw = 524287,
		.max_pd = 65536,
		.max_rd_atom = RD_MAX_RD_ATOM,
		.max_res_rd_atom = most(call, QUOTA_QPS, 65536) * RD_MAX_RD_ATOM,
		.max_ah = INT32_MAX,                     /* the library's alone: as many as fit into the program */
		.max_srq = most(call, QUOTA_CQS, 65536), /* each has a CQ, or a mapping at least */
		.max_srq_wr = RD_MAX_WR,
		.max_srq_sge = RD_MAX_SGE,
		.max_inline = RD_MAX_INLINE,
		.max_dm = RD_MAX_DM,
		.max_pkeys = call->s->ctx->dev->pkey_n,
		.max_mcast_grp = 8192,
		.max_mcast_qp_attach = 56,
		.comp_vectors = cores > 0 ? (uint32_t)cores : 1,
	};
	snprintf(a->fw_ver, sizeof(a->fw_ver), "%s", PACKAGE_VERSION);
	return 0;
}

#define MBPS_UNKNOWN 100000u /* the loopback device has no speed */

/* As rxe shows the speed of the interface; the products are those of the InfiniBand rates. */
static void speed_set(struct msg_port_attr *a, uint32_t mbps)
{
	static const struct {
		uint32_t mbps;
		uint8_t speed, width;
	} steps[] = {
		{ 1000, 1, 1 },   /* SDR 1x */
		{ 10000, 8, 1 },  /* FDR10 1x */
		{ 20000, 2, 2 },  /* DDR 4x */
		{ 25000, 32, 1 }, /* EDR 1x */
		{ 40000, 8, 2 },  /* FDR10 4x */
	};

	a->active_speed = 32; /* EDR 4x: MBPS_UNKNOWN */
	a->active_width = 2;
	for (size_t i = 0; mbps && i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (mbps <= steps[i].mbps) {
			a->active_speed = steps[i].speed;
			a->active_width = steps[i].width;
			return;
		}
	}
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
		.max_mtu = 5,
		.active_mtu = dev->mtu,
		.gid_n = RDMAD_GIDS,
		.pkey_n = dev->pkey_n,
		.max_msg = RD_MAX_MSG,
		.bad_pkey = violations(dev, HCA_STAT_BAD_PKEY),
		.qkey_viol = violations(dev, HCA_STAT_BAD_QKEY),
	};
	memcpy(a->pkey, dev->pkey, sizeof(a->pkey));
	speed_set(a, dev->link_mbps);
	return 0;
}

int verb_port_speed(struct call *call)
{
	const struct device *dev = call->s->ctx->dev;

	if (call->req->gid.port != 1)
		return EINVAL;
	call->rep->speed.mbps = dev->link_mbps ? dev->link_mbps : MBPS_UNKNOWN;
	return 0;
}

int verb_query_gid(struct call *call)
{
	const struct device *dev = call->s->ctx->dev;
	uint32_t i = call->req->gid.index;
	struct msg_gid *g = &call->rep->gid;

	if (call->req->gid.port != 1 || i >= RDMAD_GIDS)
		return EINVAL;
	memcpy(g->gid, dev->gid[i].gid, sizeof(g->gid));
	g->index = i;
	g->ndev_ifindex = dev->gid[i].ifindex;
	g->type = 2;
	return 0;
}
