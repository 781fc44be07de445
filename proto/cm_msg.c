/* SPDX-License-Identifier: MIT */
/*
 * cm_msg.c - CM messages between MAD and struct, by tables.
 *
 *	0          4           8          16        18         20          24
 *	| 01 07 02 03 | 0 | 0  |   TID    |  attr   |    0     | modifier  | the message ...
 *
 * A row says where a member of the struct lies: byte, first bit of that byte (0: its highest), width in bits.
 * Rows are in the order of the wire; what no row names is reserved, and zero.
 */
#include "cm_msg.h"

#include <stddef.h>
#include <string.h>

#include "bytes.h"

#define MAD_HDR       24u
#define MAD_BASE      0x01 /* base version */
#define MAD_CLASS_VER 0x02
#define MAD_SEND      0x03 /* method */

struct field {
	uint16_t off; /* in the message */
	uint8_t bit;
	uint16_t width; /* bits; of an array: 8 times its bytes */
	uint16_t at;    /* in struct cm_msg */
	uint16_t size;  /* of the member */
	bool array;
};

#define MEMBER(m) offsetof(struct cm_msg, m), sizeof(((struct cm_msg *)0)->m)
#define N(off, bit, width, m)                     \
	{                                         \
		off, bit, width, MEMBER(m), false \
	}
#define A(off, m)                                                            \
	{                                                                    \
		off, 0, 8 * sizeof(((struct cm_msg *)0)->m), MEMBER(m), true \
	}

#define PATH(off, p)                                                                                              \
	N((off) + 0, 0, 16, p.slid), N((off) + 2, 0, 16, p.dlid), A((off) + 4, p.sgid), A((off) + 20, p.dgid),    \
		N((off) + 36, 0, 20, p.flow_label), N((off) + 39, 2, 6, p.rate), N((off) + 40, 0, 8, p.tclass),   \
		N((off) + 41, 0, 8, p.hop_limit), N((off) + 42, 0, 4, p.sl), N((off) + 42, 4, 1, p.subnet_local), \
		N((off) + 43, 0, 5, p.ack_timeout)

/* clang-format off */
static const struct field req_fields[] = {
	N(0, 0, 32, req.local_id), N(5, 0, 24, req.vendor_id), N(8, 0, 64, req.service_id),
	N(16, 0, 64, req.ca_guid), N(28, 0, 32, req.qkey), N(32, 0, 24, req.qpn),
	N(35, 0, 8, req.resp_res), N(36, 0, 24, req.local_eecn), N(39, 0, 8, req.init_depth),
	N(40, 0, 24, req.remote_eecn), N(43, 0, 5, req.remote_timeout), N(43, 5, 2, req.transport),
	N(43, 7, 1, req.flow_ctrl), N(44, 0, 24, req.psn), N(47, 0, 5, req.local_timeout),
	N(47, 5, 3, req.retry_cnt), N(48, 0, 16, req.pkey), N(50, 0, 4, req.mtu), N(50, 4, 1, req.rdc),
	N(50, 5, 3, req.rnr_retry), N(51, 0, 4, req.max_retries), N(51, 4, 1, req.srq),
	N(51, 5, 3, req.ext_transport), PATH(52, req.path), PATH(96, req.alt),
	N(139, 5, 1, req.alt_sap), A(140, req.data),
};
/* clang-format on */

static const struct field mra_fields[] = {
	N(0, 0, 32, mra.local_id), N(4, 0, 32, mra.remote_id), N(8, 0, 2, mra.msg), N(9, 0, 5, mra.timeout),
	A(10, mra.data),
};

static const struct field rej_fields[] = {
	N(0, 0, 32, rej.local_id), N(4, 0, 32, rej.remote_id), N(8, 0, 2, rej.msg),
	N(9, 0, 7, rej.ari_len),   N(10, 0, 16, rej.reason),   A(12, rej.ari),
	A(84, rej.data),
};

static const struct field rep_fields[] = {
	N(0, 0, 32, rep.local_id),  N(4, 0, 32, rep.remote_id),  N(8, 0, 32, rep.qkey),
	N(12, 0, 24, rep.qpn),      N(15, 0, 8, rep.vendor[0]),  N(16, 0, 24, rep.eecn),
	N(19, 0, 8, rep.vendor[1]), N(20, 0, 24, rep.psn),       N(23, 0, 8, rep.vendor[2]),
	N(24, 0, 8, rep.resp_res),  N(25, 0, 8, rep.init_depth), N(26, 0, 5, rep.ack_delay),
	N(26, 5, 2, rep.failover),  N(26, 7, 1, rep.flow_ctrl),  N(27, 0, 3, rep.rnr_retry),
	N(27, 3, 1, rep.srq),       N(28, 0, 64, rep.ca_guid),   A(36, rep.data),
};

static const struct field rtu_fields[] = {
	N(0, 0, 32, rtu.local_id),
	N(4, 0, 32, rtu.remote_id),
	A(8, rtu.data),
};

static const struct field dreq_fields[] = {
	N(0, 0, 32, dreq.local_id),
	N(4, 0, 32, dreq.remote_id),
	N(8, 0, 24, dreq.qpn),
	A(12, dreq.data),
};

static const struct field drep_fields[] = {
	N(0, 0, 32, drep.local_id),
	N(4, 0, 32, drep.remote_id),
	A(8, drep.data),
};

static const struct field sidr_req_fields[] = {
	N(0, 0, 32, sidr_req.request_id),
	N(4, 0, 16, sidr_req.pkey),
	N(8, 0, 64, sidr_req.service_id),
	A(16, sidr_req.data),
};

/* clang-format off */
static const struct field sidr_rep_fields[] = {
	N(0, 0, 32, sidr_rep.request_id), N(4, 0, 8, sidr_rep.status), N(5, 0, 8, sidr_rep.info_len),
	N(8, 0, 24, sidr_rep.qpn), N(12, 0, 64, sidr_rep.service_id), N(20, 0, 32, sidr_rep.qkey),
	A(24, sidr_rep.info), A(96, sidr_rep.data),
};

#define MSG(name, fields)	{ name, fields, sizeof(fields) / sizeof(fields[0]) }
/* clang-format on */

static const struct {
	const char *name;
	const struct field *fields;
	size_t n;
} msgs[] = {
	[CM_REQ - CM_REQ] = MSG("REQ", req_fields),
	[CM_MRA - CM_REQ] = MSG("MRA", mra_fields),
	[CM_REJ - CM_REQ] = MSG("REJ", rej_fields),
	[CM_REP - CM_REQ] = MSG("REP", rep_fields),
	[CM_RTU - CM_REQ] = MSG("RTU", rtu_fields),
	[CM_DREQ - CM_REQ] = MSG("DREQ", dreq_fields),
	[CM_DREP - CM_REQ] = MSG("DREP", drep_fields),
	[CM_SIDR_REQ - CM_REQ] = MSG("SIDR_REQ", sidr_req_fields),
	[CM_SIDR_REP - CM_REQ] = MSG("SIDR_REP", sidr_rep_fields),
	[CM_LAP - CM_REQ] = { "LAP", NULL, 0 },
	[CM_APR - CM_REQ] = { "APR", NULL, 0 },
};

static bool known(uint32_t attr) { return attr >= CM_REQ && attr <= CM_APR; }

const char *cm_attr_name(uint16_t attr) { return known(attr) ? msgs[attr - CM_REQ].name : "?"; }

/* ---- one field ------------------------------------------------------------ */

/* The bytes that hold the field, as a number; at most 8 of them, as each wide field is aligned. */
static uint32_t span_of(const struct field *f) { return (f->bit + f->width + 7u) / 8u; }
static uint32_t shift_of(const struct field *f) { return span_of(f) * 8u - f->bit - f->width; }
static uint64_t mask_of(const struct field *f) { return UINT64_MAX >> (64 - f->width); }

static uint64_t wire_load(const uint8_t *p, uint32_t n)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void field_get(void *msg, const uint8_t *wire, const struct field *f)
{
	void *m = (char *)msg + f->at;
	uint64_t v;

	if (f->array) {
		memcpy(m, wire + f->off, f->size);
		return;
	}
	v = wire_load(wire + f->off, span_of(f)) >> shift_of(f) & mask_of(f);
	switch (f->size) {
	case 1: *(uint8_t *)m = (uint8_t)v; break;
	case 2: *(uint16_t *)m = (uint16_t)v; break;
	case 4: *(uint32_t *)m = (uint32_t)v; break;
	default: *(uint64_t *)m = v;
	}
}

static void field_put(uint8_t *wire, const void *msg, const struct field *f)
{
	const void *m = (const char *)msg + f->at;
	uint32_t n = span_of(f);
	uint64_t v;

	if (f->array) {
		memcpy(wire + f->off, m, f->size);
		return;
	}
	switch (f->size) {
	case 1: v = *(const uint8_t *)m; break;
	case 2: v = *(const uint16_t *)m; break;
	case 4: v = *(const uint32_t *)m; break;
	default: v = *(const uint64_t *)m;
	}
	v = (v & mask_of(f)) << shift_of(f);
	for (uint32_t i = n; i-- > 0; v >>= 8)
		wire[f->off + i] |= (uint8_t)v;
}

/* ---- a message ------------------------------------------------------------- */

#define MODIFIER 20u /* of the attribute: of REQ and REP it has the ECE options */

uint16_t cm_msg_attr(const uint8_t *mad)
{
	uint16_t attr = (uint16_t)be16_get(mad + 16);

	if (mad[0] != MAD_BASE || mad[1] != MAD_CLASS_CM || mad[2] != MAD_CLASS_VER || mad[3] != MAD_SEND)
		return 0;
	return known(attr) ? attr : 0;
}

bool cm_msg_get(struct cm_msg *m, const uint8_t *mad)
{
	uint16_t attr = cm_msg_attr(mad);

	if (!attr)
		return false;
	memset(m, 0, sizeof(*m));
	m->attr = attr;
	m->tid = be64_get(mad + 8);
	for (size_t i = 0; i < msgs[attr - CM_REQ].n; i++)
		field_get(m, mad + MAD_HDR, &msgs[attr - CM_REQ].fields[i]);
	if (attr == CM_REQ)
		m->req.ece = be32_get(mad + MODIFIER);
	else if (attr == CM_REP)
		m->rep.ece = be32_get(mad + MODIFIER);
	return true;
}

void cm_msg_put(uint8_t *mad, const struct cm_msg *m)
{
	memset(mad, 0, MAD_LEN);
	mad[0] = MAD_BASE;
	mad[1] = MAD_CLASS_CM;
	mad[2] = MAD_CLASS_VER;
	mad[3] = MAD_SEND;
	be64_put(mad + 8, m->tid);
	be16_put(mad + 16, m->attr);
	if (!known(m->attr))
		return;
	for (size_t i = 0; i < msgs[m->attr - CM_REQ].n; i++)
		field_put(mad + MAD_HDR, m, &msgs[m->attr - CM_REQ].fields[i]);
	if (m->attr == CM_REQ)
		be32_put(mad + MODIFIER, m->req.ece);
	else if (m->attr == CM_REP)
		be32_put(mad + MODIFIER, m->rep.ece);
}

/* ---- RDMA IP CM ------------------------------------------------------------- */

/*
 *	0         1              2        4               20              36
 *	| version | IP version,0 |  port  | source        | destination   |	IPv4: in the last 4 of 16
 */
static void ip_put(uint8_t *p, const uint8_t *gid, uint8_t version)
{
	if (version == 4)
		memcpy(p + 12, gid + 12, 4);
	else
		memcpy(p, gid, 16);
}

static void ip_get(uint8_t *gid, const uint8_t *p, uint8_t version)
{
	memcpy(gid, p, 16);
	if (version != 4)
		return;
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
}

void cm_ip_put(uint8_t *data, const struct cm_ip *ip)
{
	memset(data, 0, CM_IP_LEN);
	data[1] = (uint8_t)(ip->version << 4);
	be16_put(data + 2, ip->sport);
	ip_put(data + 4, ip->src, ip->version);
	ip_put(data + 20, ip->dst, ip->version);
}

bool cm_ip_get(struct cm_ip *ip, const uint8_t *data)
{
	uint8_t version = data[1] >> 4;

	if (data[0] || (version != 4 && version != 6))
		return false;
	ip->version = version;
	ip->sport = (uint16_t)be16_get(data + 2);
	ip_get(ip->src, data + 4, version);
	ip_get(ip->dst, data + 20, version);
	return true;
}

uint8_t cm_ack_timeout(uint8_t ack_delay, uint8_t plt)
{
	unsigned t = plt + 1u, d = ack_delay;

	/* 2^t + 2^d, rounded up to a power of two where d is near t. */
	if (t >= d)
		t += d + 1 >= t;
	else
		t = d + (t + 1 >= d);
	return (uint8_t)(t < 31 ? t : 31);
}

struct cm_ids cm_msg_ids(const struct cm_msg *m)
{
	switch (m->attr) {
	case CM_REQ: return (struct cm_ids){ m->req.local_id, 0 };
	case CM_MRA: return (struct cm_ids){ m->mra.local_id, m->mra.remote_id };
	case CM_REJ: return (struct cm_ids){ m->rej.local_id, m->rej.remote_id };
	case CM_REP: return (struct cm_ids){ m->rep.local_id, m->rep.remote_id };
	case CM_RTU: return (struct cm_ids){ m->rtu.local_id, m->rtu.remote_id };
	case CM_DREQ: return (struct cm_ids){ m->dreq.local_id, m->dreq.remote_id };
	case CM_DREP: return (struct cm_ids){ m->drep.local_id, m->drep.remote_id };
	case CM_SIDR_REQ: return (struct cm_ids){ m->sidr_req.request_id, 0 };
	case CM_SIDR_REP: return (struct cm_ids){ 0, m->sidr_rep.request_id };
	}
	return (struct cm_ids){ 0, 0 };
}
