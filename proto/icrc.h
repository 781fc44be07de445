/* SPDX-License-Identifier: MIT */
/*
 * icrc.h - the invariant CRC at the end of every RoCEv2 packet (protocol section 2).
 *
 *	8 x ff | IP header | UDP header | BTH | ext. headers | payload | pad ]  ICRC
 *	         masked      masked       byte 4 is ff                          little-endian
 *
 * The CRC-32 of Ethernet over all of this, with ones where routers may write.  It covers the IPv4
 * identification, which an ordinary UDP socket neither chooses nor shows.  As a sender one
 * knows it: an unconnected socket with IP_MTU_DISCOVER = DO or PROBE writes 0, and with UDP_SEGMENT
 * segment i has i.  As a receiver one solves for it: see icrc_check().
 *
 * Pure functions of their arguments; nothing here allocates.
 */
#ifndef PROTO_ICRC_H
#define PROTO_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "burst.h"
#include "hdr.h"

/* ---- one direction between two addresses --------------------------------- */

#define ICRC_IP4_LEN 28u /* IP and UDP header */
#define ICRC_IP6_LEN 48u
#define ICRC_SAME    8u

/* The IP and UDP headers of a flow, masked; lengths and identification are filled in per packet. */
struct icrc_flow {
	bool ipv6;
	uint8_t len; /* of head */
	uint8_t head[ICRC_IP6_LEN];
	/* Common to all packets of one length; filled in by icrc_pkt(). */
	struct icrc_same {
		uint32_t len;  /* 0: empty */
		uint32_t head; /* the CRC of the IP and UDP headers with identification 0 */
		uint32_t mask; /* what ones in byte 4 of the BTH change in the CRC, where there are zeros */
	} same[ICRC_SAME];
};

/* Both GIDs IPv4-mapped: IPv4, else IPv6.  df: the Don't Fragment bit (every RoCE sender sets it); IPv4 only. */
void icrc_flow_init(struct icrc_flow *, const uint8_t sgid[16], const uint8_t dgid[16], uint16_t sport, uint16_t dport,
		    bool df);

/* ---- computing ----------------------------------------------------------- */

/*
 * Begins with IP, UDP, BTH and extended headers: hdr as burst_hdr() wrote it, hdr_len <= PKT_HDR_MAX.
 * udp_len: bytes of UDP payload of this packet - hdr_len, payload, pad and ICRC.
 */
uint32_t icrc_head(const struct icrc_flow *, uint16_t ip_id, size_t udp_len, const uint8_t *hdr, size_t hdr_len);
/* Goes on with len bytes of payload: any number of pieces of any length. */
uint32_t icrc_data(uint32_t crc, const void *data, size_t len);
/* Goes on with n (0..3) pad bytes. */
uint32_t icrc_pad(uint32_t crc, unsigned n);
/* The result: the last 4 bytes of the packet. */
static inline void icrc_put(uint8_t *p, uint32_t crc) { le32_put(p, crc); }

/*
 * All in one, for a packet that lies in one piece: len bytes (12 at least) from the BTH to the pad, without the ICRC.
 * The quick way: for the second packet of a length and all that follow the CRC runs over the packet once.
 */
uint32_t icrc_pkt(struct icrc_flow *, uint16_t ip_id, const uint8_t *pkt, size_t len);
/*
 * The same for a packet whose payload, pay bytes at from, is not there yet: it is copied behind the headers.  What lies behind it (the
 * pad) is there.
 */
uint32_t icrc_pkt_copy(struct icrc_flow *, uint16_t ip_id, uint8_t *pkt, size_t hdr_len, const uint8_t *from,
		       size_t pay, size_t len);

/* ---- checking ------------------------------------------------------------ */

#define ICRC_WAYS 8u

/*
 * Kept between two checks: powers of x, and for the last few packet lengths the
 * matrix that undoes the way from the identification to the ICRC.  About 3 KiB; one per thread.
 */
struct icrc_rx {
	uint32_t lo[256], hi[258]; /* x^(-8 i) and x^(-8 * 256 i) */
	struct icrc_way {
		uint32_t dist; /* bytes between; 0: empty */
		uint32_t col[32];
	} way[ICRC_WAYS];
	uint16_t guess; /* the next identification, if they are counted, as in a GSO train */
};

void icrc_rx_init(struct icrc_rx *);

/*
 * Is the ICRC of this UDP payload (len bytes, ICRC included) right?  IPv6: it is the one computed.  IPv4: it
 * is the one computed with some identification, which is put to *ip_id (0 for IPv6).
 *
 * The CRC is linear: ICRC(id) = ICRC(0) ^ L(id).  L is multiplication by a power of x, so the
 * difference times the inverse power must be a polynomial of degree < 16: the identification itself.  That
 * leaves 16 bits of strength against random damage; a host that sees the identification, or
 * expects a certain one, can compare *ip_id.
 */
bool icrc_check(struct icrc_rx *, struct icrc_flow *, const uint8_t *pkt, size_t len, uint16_t *ip_id);

#endif
