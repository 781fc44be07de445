/* SPDX-License-Identifier: MIT */
/*
 * cm_msg.h - the messages of the communication manager, decoded; rules 7.1, 7.2, 7.4.
 *
 * Each kind is a struct of plain numbers; cm_msg.c has a table of where each lies in the MAD, and one
 * function each way that follows it.  data[] is always the whole field of the message, zeros behind what the
 * sender gave: that is what the wire has and what programs are shown.
 */
#ifndef PROTO_CM_MSG_H
#define PROTO_CM_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "gsi.h"

#define MAD_CLASS_CM 0x07 /* byte 1 of the MAD */

/* clang-format off */
enum cm_attr {			/* attribute ID of the MAD */
	CM_REQ = 0x10, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP,
	CM_SIDR_REQ, CM_SIDR_REP, CM_LAP, CM_APR,
};
/* clang-format on */

enum { /* private data, bytes */
       CM_REQ_DATA = 92,
       CM_MRA_DATA = 222,
       CM_REJ_DATA = 148,
       CM_REP_DATA = 196,
       CM_RTU_DATA = 224,
       CM_DREQ_DATA = 220,
       CM_DREP_DATA = 224,
       CM_SIDR_REQ_DATA = 216,
       CM_SIDR_REP_DATA = 136,
       CM_ARI = 72,
       CM_IP_LEN = 36, /* of which the RDMA IP CM takes these (REQ, SIDR_REQ) */
};

enum cm_transport { CM_RC = 0, CM_UC = 1, CM_RD = 2, CM_XRC = 3 };

/* clang-format off */
enum cm_rej_reason {		/* rule 7.10 */
	REJ_NO_QP = 1, REJ_NO_RESOURCES = 3, REJ_TIMEOUT = 4, REJ_UNSUPPORTED = 5, REJ_COMM_ID = 6,
	REJ_COMM_INSTANCE = 7, REJ_SERVICE_ID = 8, REJ_TRANSPORT = 9, REJ_STALE = 10, REJ_GID = 12,
	REJ_MTU = 26, REJ_CONSUMER = 28, REJ_DUP_ID = 30,
};
/* clang-format on */

enum cm_rej_msg { REJ_OF_REQ = 0, REJ_OF_REP = 1, REJ_OF_OTHER = 2 }; /* MRA: the same, 2 is LAP */

enum cm_sidr_status {
	SIDR_OK = 0,
	SIDR_SERVICE_ID = 1,
	SIDR_REJECT = 2,
	SIDR_NO_QP = 3,
	SIDR_REDIRECT = 4,
	SIDR_VERSION = 5,
};

/* A path as a REQ says it: from its sender to its receiver. */
struct cm_path {
	uint16_t slid, dlid; /* 0xffff on RoCE */
	uint8_t sgid[16], dgid[16];
	uint32_t flow_label;
	uint8_t rate, tclass, hop_limit, sl, subnet_local;
	uint8_t ack_timeout; /* 4.096 us << this */
};

/* Comm ids (local_id, remote_id) and the REQ's ca_guid are filled in by the agent (cm.h). */
struct cm_req {
	uint32_t local_id;
	uint32_t vendor_id, ece; /* ECE: whose options, and which (the MAD's attribute modifier); 0: none */
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey, qpn;
	uint8_t resp_res, init_depth; /* READs and atomics that the sender serves, and starts, at a time */
	uint32_t local_eecn, remote_eecn;
	uint8_t remote_timeout; /* for the receiver's answer; 4.096 us << this; 20 */
	uint8_t transport;      /* enum cm_transport; CM_XRC: with ext_transport 1 */
	uint8_t flow_ctrl;
	uint32_t psn;          /* the first that the sender expects */
	uint8_t local_timeout; /* for the sender's own answers; 20 */
	uint8_t retry_cnt, rnr_retry;
	uint16_t pkey;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t rdc;
	uint8_t max_retries; /* of CM messages; 15 */
	uint8_t srq;
	uint8_t ext_transport;
	struct cm_path path;
	struct cm_path alt; /* all 0 on RoCE */
	uint8_t alt_sap;
	uint8_t data[CM_REQ_DATA];
};

struct cm_mra {
	uint32_t local_id, remote_id;
	uint8_t msg;     /* enum cm_rej_msg */
	uint8_t timeout; /* the receiver waits 4.096 us << this longer */
	uint8_t data[CM_MRA_DATA];
};

struct cm_rej {
	uint32_t local_id, remote_id; /* local_id 0: there is none */
	uint8_t msg;                  /* enum cm_rej_msg */
	uint8_t ari_len;
	uint16_t reason; /* enum cm_rej_reason */
	uint8_t ari[CM_ARI];
	uint8_t data[CM_REJ_DATA];
};

struct cm_rep {
	uint32_t local_id, remote_id;
	uint32_t qkey, qpn; /* qpn 0 for XRC: eecn has it */
	uint32_t eecn;
	uint32_t psn; /* the first that the sender expects */
	uint8_t resp_res, init_depth;
	uint8_t ack_delay; /* the sender's target ACK delay */
	uint8_t failover, flow_ctrl, rnr_retry, srq;
	uint8_t vendor[3]; /* as in the REQ, its highest byte first */
	uint32_t ece;
	uint64_t ca_guid;
	uint8_t data[CM_REP_DATA];
};

struct cm_rtu {
	uint32_t local_id, remote_id;
	uint8_t data[CM_RTU_DATA];
};

struct cm_dreq {
	uint32_t local_id, remote_id;
	uint32_t qpn; /* the receiver's */
	uint8_t data[CM_DREQ_DATA];
};

struct cm_drep {
	uint32_t local_id, remote_id;
	uint8_t data[CM_DREP_DATA];
};

struct cm_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
	uint8_t data[CM_SIDR_REQ_DATA];
};

struct cm_sidr_rep {
	uint32_t request_id;
	uint8_t status; /* enum cm_sidr_status */
	uint8_t info_len;
	uint32_t qpn, qkey;
	uint64_t service_id;
	uint8_t info[CM_ARI];
	uint8_t data[CM_SIDR_REP_DATA];
};

struct cm_msg {
	uint16_t attr; /* enum cm_attr: which of the union */
	uint64_t tid;
	union {
		struct cm_req req;
		struct cm_mra mra;
		struct cm_rej rej;
		struct cm_rep rep;
		struct cm_rtu rtu;
		struct cm_dreq dreq;
		struct cm_drep drep;
		struct cm_sidr_req sidr_req;
		struct cm_sidr_rep sidr_rep;
	};
};

/*
 * Decode a MAD; false: not a CM message that is sent (base version, class, class version, method, attribute).
 * LAP and APR are decoded to their attr alone.  Encode writes all of MAD_LEN bytes; of LAP and APR the
 * header.
 */
bool cm_msg_get(struct cm_msg *, const uint8_t *mad);
uint16_t cm_msg_attr(const uint8_t *mad); /* 0: not one of these */
void cm_msg_put(uint8_t *mad, const struct cm_msg *);
const char *cm_attr_name(uint16_t attr); /* "REQ"; "?" */

/* The communication ids of an exchange as the sender of a message has them; of SIDR the request's; 0: it has none. */
struct cm_ids {
	uint32_t local, remote;
};
struct cm_ids cm_msg_ids(const struct cm_msg *);

/* ---- RDMA IP CM (rule 7.4) ---------------------------------------------- */

enum cm_port_space { CM_PS_IPOIB = 0x0002, CM_PS_TCP = 0x0106, CM_PS_UDP = 0x0111, CM_PS_IB = 0x013f };

static inline uint64_t cm_service_id(uint16_t space, uint16_t port) { return (uint64_t)space << 16 | port; }

/* The first CM_IP_LEN bytes of the private data of a REQ or SIDR_REQ: who calls whom. */
struct cm_ip {
	uint8_t version; /* 4 or 6 */
	uint16_t sport;
	uint8_t src[16], dst[16]; /* GIDs: an IPv4 address is ::ffff:a.b.c.d */
};
void cm_ip_put(uint8_t *data, const struct cm_ip *);
bool cm_ip_get(struct cm_ip *, const uint8_t *data); /* false: header or IP version unknown */

/* ---- times (rules 7.5, 7.6) --------------------------------------------- */

/* 4.096 us << t, as CMs count it: in ms, at least 1. */
static inline uint64_t cm_timeout_ns(uint8_t t) { return (1ull << (t > 8 ? t - 8u : 0u)) * 1000000u; }
/* A REQ whose sender goes another way if there is no answer at once: it gets one, where another one would wait. */
#define CM_HASTE_NS 50000000u
static inline bool cm_req_hasty(const struct cm_req *r) { return cm_timeout_ns(r->remote_timeout) < CM_HASTE_NS; }
/* The local ACK timeout of a path of packet life time plt to or from a port with this ACK delay. */
uint8_t cm_ack_timeout(uint8_t ack_delay, uint8_t plt);
/* The flow label of an IPv4 connection (rule 7.5), ports in host order. */
static inline uint32_t cm_flow_label(uint16_t sport, uint16_t dport) { return (sport * 31u + dport) & 0xfffffu; }

#endif
