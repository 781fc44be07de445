/* SPDX-License-Identifier: MIT */
/*
 * ah.c - address handles: nothing but an address vector, copied into each datagram's work request.
 */
#include "ah.h"
#include "pd.h"
#include "query.h"

#include <rdmad/gid.h>
#include <rdmad/keep.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <stdlib.h>

#define LID_HOPS 64u /* a subnet of InfiniBand may be several of IP */

/* Without a GRH, or with one that says no more than that there is one: the GIDs of rows 0. */
static bool lid_leads(const struct ibv_ah_attr *a)
{
	return !a->is_global || (gid_is_v6_link_local(a->grh.dgid.raw) && a->dlid && a->dlid <= GID_LID_MOST);
}

/* Of a port that has a LID: the address that the peer's stands for. */
static int av_from_lid(struct rd_ctx *c, struct av *av, const struct ibv_ah_attr *a)
{
	struct msg_req req = { .op = MSG_QUERY_LID, .gid = { a->port_num, a->dlid } };
	struct msg_rep rep;
	int err = ctx_call(c, &req, &rep);

	if (err)
		return err;
	*av = (struct av){ .sgid_index = (uint8_t)rep.gid.index, .hop_limit = LID_HOPS, .sl = a->sl };
	if (a->is_global)
		av->tclass = a->grh.traffic_class;
	memcpy(av->dgid, rep.gid.gid, sizeof(av->dgid));
	return 0;
}

int av_from_attr(struct rd_ctx *c, struct av *av, const struct ibv_ah_attr *a)
{
	if (a->port_num != 1)
		return EINVAL;
	if (c->attr.lids && lid_leads(a))
		return av_from_lid(c, av, a);
	if (!a->is_global)
		return EINVAL;
	memset(av, 0, sizeof(*av));
	memcpy(av->dgid, a->grh.dgid.raw, sizeof(av->dgid));
	av->flow_label = a->grh.flow_label & 0xfffff;
	av->sgid_index = a->grh.sgid_index | (c->attr.gid_pairs ? 1 : 0);
	av->hop_limit = a->grh.hop_limit;
	av->tclass = a->grh.traffic_class;
	av->sl = a->sl;
	return 0;
}

int av_refuse(struct rd_ctx *c, uint32_t qpn, const char *verb, const struct ibv_ah_attr *a)
{
	if (!a->is_global && c->attr.lids && a->port_num == 1)
		return refuse(c, qpn, verb, EINVAL, "dlid 0x%x is no LID of a port; give 0x1 to 0x%x", a->dlid,
			      GID_LID_MOST);
	if (!a->is_global && !c->attr.lids)
		return refuse(c, qpn, verb, EINVAL,
			      "is_global is 0: RoCE needs a GRH: address peers by GID, not LID "
			      "(qperf: -cm 1; pingpongs: -g N), or take a port with LIDs: rdmad-run --as ib");
	return refuse(c, qpn, verb, EINVAL, "port_num of the address is %u: there is port 1 only",
		      (unsigned)a->port_num);
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct msg_gid gid;
	struct rd_ah *ah;
	struct av av;
	int err = av_from_attr(to_ctx(pd->context), &av, attr);

	if (err)
		return err_null(av_refuse(to_ctx(pd->context), 0, "ibv_create_ah", attr));
	err = gid_get(to_ctx(pd->context), 1, av.sgid_index, &gid);
	if (!err && gid_is_empty(gid.gid))
		err = EINVAL;
	if (err)
		return err_null(refuse(to_ctx(pd->context), 0, "ibv_create_ah", err,
				       "sgid_index %u is an empty row of the GID table",
				       (unsigned)attr->grh.sgid_index));
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return err_null(ENOMEM);
	ah->ah.context = pd->context;
	ah->ah.pd = pd;
	ah->av = av;
	pd_use(to_pd(pd), 1);
	return &ah->ah;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	pd_use(to_pd(ah->pd), -1);
	keep_free(to_ah(ah));
	return 0;
}

/* ---- the sender of a datagram ------------------------------------------------- */

static void gid_from_ip4(uint8_t *gid, const struct in_addr *a)
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, a, 4);
}

/* An IPv4 header in the last 20 of the 40 bytes, with a good checksum. */
static bool grh_is_ip4(const uint8_t *grh)
{
	const uint8_t *ip = grh + 20;
	uint32_t sum = 0;

	if (ip[0] != 0x45)
		return false;
	for (unsigned i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Fills the route back; *own is the GID that the datagram was sent to. */
static int grh_reverse(const uint8_t *grh, struct ibv_ah_attr *a, uint8_t *own)
{
	const struct ip *ip = (const struct ip *)(grh + 20);
	uint32_t vtf;

	if (grh_is_ip4(grh)) {
		if (IN_MULTICAST(ntohl(ip->ip_dst.s_addr)))
			return EINVAL;
		gid_from_ip4(a->grh.dgid.raw, &ip->ip_src);
		gid_from_ip4(own, &ip->ip_dst);
		a->grh.hop_limit = ip->ip_ttl;
		a->grh.traffic_class = ip->ip_tos;
		return 0;
	}
	if (grh[0] >> 4 != 6)
		return EPROTONOSUPPORT;
	memcpy(&vtf, grh, sizeof(vtf));
	memcpy(a->grh.dgid.raw, grh + 8, 16);
	memcpy(own, grh + 24, 16);
	a->grh.flow_label = ntohl(vtf) & 0xfffff;
	a->grh.traffic_class = (uint8_t)(ntohl(vtf) >> 20);
	a->grh.hop_limit = grh[7];
	return 0;
}

static int gid_find(struct rd_ctx *c, uint32_t port, const uint8_t *gid, uint8_t *index)
{
	struct msg_gid m;
	int err = 0;

	for (uint32_t i = 0; i < RDMAD_GIDS && !(err = gid_get(c, port, i, &m)); i++) {
		if (gid_same(m.gid, gid)) {
			*index = (uint8_t)i;
			return 0;
		}
	}
	return err && err != EINVAL ? err : ENOENT;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			       struct ibv_ah_attr *a)
{
	uint8_t own[16];
	int err;

	memset(a, 0, sizeof(*a));
	a->dlid = wc->slid;
	a->sl = wc->sl;
	a->src_path_bits = wc->dlid_path_bits;
	a->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	a->is_global = 1;
	err = grh_reverse((const uint8_t *)grh, a, own);
	if (!err)
		err = gid_find(to_ctx(context), port, own, &a->grh.sgid_index);
	if (err)
		return errno = err, -1;
	return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr a;

	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &a) ? NULL : ibv_create_ah(pd, &a);
}
