/* SPDX-License-Identifier: MIT */
/*
 * query.c - what a device and its port can do.
 *
 * Limits, addresses and the port's state come from the daemon; the rest says what this implementation is: one
 * Ethernet port, no LIDs, completion times in nanoseconds of the monotonic clock.
 */
#include "ctx.h"
#include "flow.h"
#include "query.h"
#include "slots.h"

#include <endian.h>
#include <net/if.h>
#include <stdio.h>
#include <time.h>

#include <rdmad/feature.h>
#include <rdmad/gid.h>
#include <rdmad/steer.h>

#define CAP_FLUSH_GLOBAL (1ull << 38) /* of rdma-core 45: IBV_DEVICE_FLUSH_GLOBAL, ... */
#define CAP_ATOMIC_WRITE (1ull << 40) /* ... IBV_DEVICE_ATOMIC_WRITE */
#define ODP_FLUSH        (1u << 6)    /* IBV_ODP_SUPPORT_FLUSH, */
#define ODP_ATOMIC_WRITE (1u << 7)    /* IBV_ODP_SUPPORT_ATOMIC_WRITE */

/* Flags of features come with these. */
static unsigned int cap_flags(uint64_t no)
{
	static const struct {
		uint64_t without;
		unsigned int flags;
	} rows[] = {
		{ NO(SRQ), IBV_DEVICE_SRQ_RESIZE },
		{ NO(RAW), IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_RAW_IP_CSUM },
		{ NO(MW), IBV_DEVICE_MEM_WINDOW },
		{ NO(MW2), IBV_DEVICE_MEM_WINDOW_TYPE_2B },
		{ NO(XRC), IBV_DEVICE_XRC },
		{ NO(LOCAL_INV) | NO(SEND_INV), IBV_DEVICE_MEM_MGT_EXTENSIONS },
		{ NO(UD), IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_UD_AV_PORT_ENFORCE },
		{ NO(RC), IBV_DEVICE_RC_RNR_NAK_GEN },
		{ 0, IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
			     IBV_DEVICE_SYS_IMAGE_GUID },
	};
	unsigned int flags = 0;

	for (unsigned i = 0; i < ARRAY_N(rows); i++)
		if (!(no & rows[i].without))
			flags |= rows[i].flags;
	return flags;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *a)
{
	const struct msg_device_attr *m = &to_ctx(context)->attr;

	*a = (struct ibv_device_attr){
		.node_guid = htobe64(m->guid),
		.sys_image_guid = htobe64(m->sys_guid),
		.max_mr_size = m->max_mr_size,
		.page_size_cap = ~UINT64_C(0xfff),
		.vendor_id = m->vendor_id,
		.vendor_part_id = m->part_id,
		.hw_ver = m->hw_ver,
		.max_qp = (int)m->max_qp,
		.max_qp_wr = (int)m->max_qp_wr,
		.device_cap_flags = cap_flags(m->no),
		.max_sge = (int)m->max_sge,
		.max_sge_rd = (int)m->max_sge_rd,
		.max_cq = (int)m->max_cq,
		.max_cqe = (int)m->max_cqe,
		.max_mr = (int)m->max_mr,
		.max_mw = (int)m->max_mw,
		.max_pd = (int)m->max_pd,
		.max_qp_rd_atom = (int)m->max_rd_atom,
		.max_res_rd_atom = (int)m->max_res_rd_atom,
		.max_qp_init_rd_atom = (int)m->max_init_rd_atom,
		.atomic_cap = m->no & NO(ATOMICS) ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA,
		.max_mcast_grp = (int)m->max_mcast_grp,
		.max_mcast_qp_attach = (int)m->max_mcast_qp_attach,
		.max_total_mcast_qp_attach = (int)(m->max_mcast_grp * m->max_mcast_qp_attach),
		.max_ah = (int)m->max_ah,
		.max_srq = (int)m->max_srq,
		.max_srq_wr = (int)m->max_srq_wr,
		.max_srq_sge = (int)m->max_srq_sge,
		.max_pkeys = (uint16_t)m->max_pkeys,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
	snprintf(a->fw_ver, sizeof(a->fw_ver), "%.*s", (int)sizeof(m->fw_ver) - 1, m->fw_ver);
	return 0;
}

static void odp_caps(struct ibv_device_attr_ex *a, uint64_t no)
{
	const uint32_t ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t uc = ud | IBV_ODP_SUPPORT_WRITE;
	const uint32_t rc = uc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | (no & NO(FLUSH) ? 0 : ODP_FLUSH) |
			    (no & NO(ATOMIC_WRITE) ? 0 : ODP_ATOMIC_WRITE);

	a->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	a->odp_caps.per_transport_caps.rc_odp_caps = rc;
	a->odp_caps.per_transport_caps.uc_odp_caps = uc;
	a->odp_caps.per_transport_caps.ud_odp_caps = ud;
	a->xrc_odp_caps = rc;
}

/* Of RAW_PACKET queue pairs. */
static void raw_caps(struct ibv_device_attr_ex *a, bool tso)
{
	uint32_t n = a->orig_attr.max_qp > 0 ? (uint32_t)a->orig_attr.max_qp : 0;

	if (tso)
		a->tso_caps = (struct ibv_tso_caps){ .max_tso = RD_MAX_TSO,
						     .supported_qpts = 1u << IBV_QPT_RAW_PACKET };
	a->rss_caps = (struct ibv_rss_caps){
		.supported_qpts = 1u << IBV_QPT_RAW_PACKET,
		.max_rwq_indirection_tables = n,
		.max_rwq_indirection_table_size = 1u << STEER_WQ_LOG,
		.rx_hash_fields_mask = RSS_FIELDS,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
	a->max_wq_type_rq = n;
	a->raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM;
}

static void attr_ex(struct ibv_device_attr_ex *a, uint64_t no)
{
	const uint32_t types = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD | 1u << IBV_QPT_RAW_PACKET |
			       1u << IBV_QPT_XRC_SEND;

	a->device_cap_flags_ex = (uint32_t)a->orig_attr.device_cap_flags | (no & NO(FLUSH) ? 0 : CAP_FLUSH_GLOBAL) |
				 (no & NO(ATOMIC_WRITE) ? 0 : CAP_ATOMIC_WRITE);
	a->phys_port_cnt_ex = a->orig_attr.phys_port_cnt;
	if (!(no & NO(TIMESTAMPS))) {
		a->completion_timestamp_mask = UINT64_MAX;
		a->hca_core_clock = 1000000; /* kHz */
	}
	if (!(no & NO(ODP)))
		odp_caps(a, no);
	if (!(no & NO(CQ_MODERATION)))
		a->cq_mod_caps.max_cq_count = a->cq_mod_caps.max_cq_period = UINT16_MAX;
	if (!(no & NO(RATE)))
		a->packet_pacing_caps = (struct ibv_packet_pacing_caps){ .qp_rate_limit_min = RD_RATE_MIN,
									 .qp_rate_limit_max = UINT32_MAX,
									 .supported_qpts = types };
	if (!(no & NO(RAW)))
		raw_caps(a, !(no & NO(TSO)));
}

/* The caller's struct may be an older or a newer one: len says how much of it there is. */
int device_query_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in,
		    struct ibv_device_attr_ex *attr, size_t len)
{
	struct ibv_device_attr_ex full = { 0 };
	int err;

	if (in && in->comp_mask)
		return EINVAL;
	if (len < sizeof(full.orig_attr))
		return EOPNOTSUPP;
	err = ibv_query_device(context, &full.orig_attr);
	if (err)
		return err;
	attr_ex(&full, to_ctx(context)->attr.no);
	full.max_dm_size = to_ctx(context)->attr.max_dm;
	memset(attr, 0, len);
	memcpy(attr, &full, len < sizeof(full) ? len : sizeof(full));
	return 0;
}

int rt_values_query(struct ibv_context *, struct ibv_values_ex *v)
{
	uint32_t asked = v->comp_mask;

	v->comp_mask = asked & IBV_VALUES_MASK_RAW_CLOCK;
	return v->comp_mask && clock_gettime(CLOCK_MONOTONIC, &v->raw_clock) ? errno : 0;
}

static int port_get(struct ibv_context *context, uint8_t port, struct msg_port_attr *attr)
{
	struct msg_req req = { .op = MSG_QUERY_PORT, .gid.port = port };
	struct msg_rep rep;
	int err = ctx_call(to_ctx(context), &req, &rep);

	if (!err)
		*attr = rep.port;
	return err;
}

int port_query(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
	struct ibv_port_attr full;
	struct msg_port_attr m;
	int err = port_get(context, port, &m);

	if (err)
		return err;
	memset(&full, 0, sizeof(full));
	full.state = m.state;
	full.max_mtu = m.max_mtu;
	full.active_mtu = m.active_mtu;
	full.gid_tbl_len = (int)m.gid_n;
	full.port_cap_flags = IBV_PORT_CM_SUP | (m.lid ? 0 : IBV_PORT_IP_BASED_GIDS);
	full.max_msg_sz = m.max_msg;
	full.bad_pkey_cntr = m.bad_pkey;
	full.qkey_viol_cntr = m.qkey_viol;
	full.pkey_tbl_len = (uint16_t)m.pkey_n;
	full.max_vl_num = 1;
	full.active_width = m.active_width;
	full.active_speed = m.active_speed;
	full.phys_state = m.phys_state;
	full.link_layer = m.link_layer;
	full.lid = full.sm_lid = (uint16_t)m.lid; /* nobody else manages this subnet */
	full.flags = m.lid ? 0 : IBV_QPF_GRH_REQUIRED;
	memset(attr, 0, len);
	memcpy(attr, &full, len < sizeof(full) ? len : sizeof(full));
	return 0;
}

/* Called by programs older than the inline in verbs.h: their struct ended with link_layer and one reserved
 * byte. */
EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return port_query(context, port, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, flags) + 1);
}

/*
 * Of rdma-core 62, so that the headers may declare it or not: its name in C differs.  In units of 100 Mb/s; a link that has
 * less has one.
 */
EXPORT int port_speed_query(struct ibv_context *, uint32_t port, uint64_t *speed) __asm__("ibv_query_port_speed");

int port_speed_query(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	struct msg_req req = { .op = MSG_PORT_SPEED, .gid.port = port };
	struct msg_rep rep;
	int err = ctx_call(to_ctx(context), &req, &rep);

	if (!err)
		*speed = rep.speed.mbps < 100 ? 1 : rep.speed.mbps / 100;
	return err;
}

/* ---- gids ---------------------------------------------------------------------- */

int gid_get(struct rd_ctx *c, uint32_t port, uint32_t index, struct msg_gid *gid)
{
	struct msg_req req = { .op = MSG_QUERY_GID, .gid = { port, index } };
	struct msg_rep rep;
	int err = ctx_call(c, &req, &rep);

	if (!err)
		*gid = rep.gid;
	return err;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	struct msg_gid m;
	int err = gid_get(to_ctx(context), port, (uint32_t)index, &m);

	if (err)
		return errno = err, -1;
	memcpy(gid->raw, m.gid, sizeof(m.gid));
	return 0;
}

static void entry_fill(struct ibv_gid_entry *e, uint32_t port, const struct msg_gid *m)
{
	memcpy(e->gid.raw, m->gid, sizeof(m->gid));
	e->gid_index = m->index;
	e->port_num = port;
	e->gid_type = m->type;
	e->ndev_ifindex = m->ndev_ifindex;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
			     uint32_t flags, size_t entry_size)
{
	struct msg_gid m;
	int err;

	if (flags || entry_size < sizeof(*entry))
		return EINVAL;
	err = gid_get(to_ctx(context), port, index, &m);
	if (err)
		return err;
	if (gid_is_empty(m.gid))
		return ENODATA;
	memset(entry, 0, entry_size);
	entry_fill(entry, port, &m);
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
				    uint32_t flags, size_t entry_size)
{
	size_t n = 0;
	struct msg_gid m;
	int err = 0;

	if (flags || entry_size < sizeof(*entries))
		return -EINVAL;
	for (uint32_t i = 0; i < RDMAD_GIDS && !(err = gid_get(to_ctx(context), 1, i, &m)); i++) {
		char *at = (char *)entries + n * entry_size;

		if (gid_is_empty(m.gid))
			continue;
		if (n++ == max)
			return -EINVAL;
		memset(at, 0, entry_size);
		entry_fill((struct ibv_gid_entry *)at, 1, &m);
	}
	return err && err != EINVAL ? -err : (ssize_t)n; /* EINVAL: the end of a shorter table */
}

/* The type as sysfs has it: 0 is RoCE v1 or InfiniBand, 1 is RoCE v2. */
int gid_type_query(struct ibv_context *context, uint8_t port, unsigned int index, unsigned int *type)
{
	struct msg_gid m;
	int err = gid_get(to_ctx(context), port, index, &m);

	if (err)
		return errno = err, -1;
	*type = m.type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

/* ---- pkeys ------------------------------------------------------------------- */

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	struct msg_port_attr attr;
	int err = port_get(context, port, &attr);

	if (!err && (index < 0 || (uint32_t)index >= attr.pkey_n))
		err = EINVAL;
	if (err)
		return errno = err, -1;
	*pkey = htobe16(attr.pkey[index]);
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	struct msg_port_attr attr;
	int err = port_get(context, port, &attr);

	for (uint32_t i = 0; !err && i < attr.pkey_n; i++)
		if (htobe16(attr.pkey[i]) == pkey)
			return (int)i;
	return errno = err ? err : EINVAL, -1;
}
