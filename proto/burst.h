/* SPDX-License-Identifier: MIT */
/*
 * burst.h - the burst: a run of packets of one message with consecutive PSNs.
 *
 *	packet 0        packet 1         ...      packet n-1
 *	op_first        middle of kind            op_last
 *	|<--- mtu --->| |<--- mtu --->|           |<- rest ->|      of payload
 *
 * It is the unit of both directions: what hca_tx() hands out and what hca_rx_burst()
 * takes.  A wire edge turns it into datagrams (burst_hdr) and joins datagrams into one
 * (burst_parse, burst_join); a local link passes it on as it is, so that a message
 * between two devices of one daemon is one copy and no header is ever written.
 */
#ifndef PROTO_BURST_H
#define PROTO_BURST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmad/gid.h>

#include "mem.h"
#include "opcode.h"
#include "seq.h"

#define PKT_HDR_MAX 60u /* the longest BTH with extended headers, rounded up */
#define QPN_MCAST   0xffffffu

/* Where a packet comes from and goes to: what the IP header says. */
struct route {
	uint8_t sgid[16];
	uint8_t dgid[16];
	uint32_t flow_label;
	uint8_t tclass; /* with the ECN bits */
	uint8_t hop_limit;
	uint8_t sl; /* what the program asked for; no packet says it */
};

/* From where packets of the other one go to where they come from? */
static inline bool route_is_back(const struct route *a, const struct route *b)
{
	return gid_same(a->sgid, b->dgid) && gid_same(a->dgid, b->sgid);
}

#define SLS 16u

/* Marks of packets where programs say nothing, and their priority in this host (the business of the edge); by SL. */
struct marks {
	uint8_t ect;           /* 1 or 2: RC and UC welcome marks of congestion; 0: no */
	uint8_t tclass[SLS];   /* the traffic class instead of 0 */
	uint8_t priority[SLS]; /* SO_PRIORITY */
	bool prioritized;      /* one of them is not 0 */
};

struct burst {
	struct route route;

	bool raw;     /* of a RAW_PACKET QP, sqpn: the payload is an Ethernet frame, and there is no more to it; but */
	bool raw_sum; /* its checksums are to be made */
	uint32_t raw_hdr,
		raw_mss;  /* raw_mss not 0: it becomes segments of so many bytes, raw_hdr bytes are headers of each */
	uint8_t op_first; /* the full opcode byte of packet 0 */
	uint8_t op_last;  /* of packet n-1; equal to op_first if n is 1 */
	bool se, ackreq;  /* of the last packet (joined: ackreq of any) */
	bool migreq;
	uint16_t pkey;
	uint32_t dqpn;
	psn_t psn;    /* of packet 0 */
	uint32_t n;   /* packets, >= 1 */
	uint32_t mtu; /* payload of each packet but the last */

	/* The extended headers; each valid if the opcode of the packet it stands in has it. */
	struct {
		uint32_t srqn;       /* XRCETH: every request packet */
		uint32_t qkey, sqpn; /* DETH, packet 0.  sqpn: set in all that hca_tx() gives; else 0: not known */
		uint64_t va;
		uint32_t rkey, dma_len;     /* RETH, AtomicETH: packet 0 */
		uint64_t swap_add, compare; /* AtomicETH */
		uint8_t syndrome;
		uint32_t msn;      /* AETH: READ_RESP FIRST and LAST carry the same */
		uint64_t orig;     /* AtomicAckETH */
		uint32_t imm;      /* ImmDt, as the program gave it (network order); last packet */
		uint32_t inv_rkey; /* IETH; last packet */
		uint32_t feth;
	};

	uint64_t payload_len;    /* of all packets, without pads */
	const struct span *span; /* the payload; owned by who made the burst, good until the next call into it */
	unsigned span_n;
};

/* The opcode of packet i. */
uint8_t burst_opcode(const struct burst *, uint32_t i);

/* Payload bytes of packet i, and where in the payload they start. */
static inline uint64_t burst_pkt_off(const struct burst *b, uint32_t i) { return (uint64_t)i * b->mtu; }
static inline uint32_t burst_pkt_len(const struct burst *b, uint32_t i)
{
	assert(i < b->n);
	return i < b->n - 1 ? b->mtu : (uint32_t)(b->payload_len - burst_pkt_off(b, i));
}

/* Does the message go on behind its last packet? */
static inline bool burst_open(const struct burst *b) { return !(opcode_get(b->op_last)->place & PLACE_LAST); }

/* Writes BTH and extended headers of packet i, with PadCnt, to hdr (PKT_HDR_MAX bytes of room); their length. */
size_t burst_hdr(const struct burst *, uint32_t i, uint8_t *hdr);

/*
 * One UDP payload without its ICRC (which the edge has checked) as a burst of one packet; route is
 * left alone.  *span is set to the payload and b->span to span.  0, or the reason why it is malformed:
 * opcode unknown, too short, TVer not 0, PadCnt or payload against the opcode's rule (PAY_FULL and the
 * upper bounds are checked by the QP, which knows its PMTU).  dqpn, psn and the rest are as in the packet.
 */
enum parse_err { PARSE_OK, PARSE_SHORT, PARSE_TVER, PARSE_OPCODE, PARSE_PAD, PARSE_PAYLOAD, PARSE_QPN0 };
enum parse_err burst_parse(struct burst *b, struct span *span, const uint8_t *data, size_t len);

/*
 * If packet p (a burst of one) continues b - same route, service, kind, QP and P_Key, next PSN, b's last packet is
 * FIRST or MIDDLE and as long as its others, p is MIDDLE and just as long, or LAST and not longer - takes it in
 * and says true.  So in a joined burst of n > 1 every FIRST and MIDDLE has mtu bytes.
 * p's span is put behind b's: b->span must be an array with room (max spans in all), which p's follow.
 * AckReq in the middle moves to the end: an ACK of the last packet covers it (rule 4.3).
 */
bool burst_join(struct burst *b, const struct burst *p, struct span *spans, unsigned max);

/*
 * The quick way for the inside of a burst: if the UDP payload data (len bytes, without its ICRC) is a MIDDLE like the
 * packet at prev, which was parsed and is the last of b, and continues it - as burst_parse() and burst_join() would
 * find - takes it in and says true.  Same flow; b->span is an array with room for max spans in all.
 */
bool burst_continue(struct burst *b, const uint8_t *prev, const uint8_t *data, size_t len, struct span *spans,
		    unsigned max);

/* Packets from..from+n-1 of b as a burst of their own in *out, its spans in spans (max of them; enough: b->span_n). */
void burst_slice(const struct burst *b, uint32_t from, uint32_t n, struct burst *out, struct span *spans);

#endif
