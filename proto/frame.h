/* SPDX-License-Identifier: MIT */
/*
 * frame.h - Ethernet frames of RAW_PACKET QPs: what is in them, their checksums, TCP cut into segments, a hash to spread
 * them by.  Bytes in, bytes out.
 */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_IP4 4u
#define FRAME_IP6 6u
#define FRAME_TCP 6u
#define FRAME_UDP 17u

/* Offsets into the frame. */
struct frame {
	uint8_t ip;      /* FRAME_IP4, FRAME_IP6; 0: something else */
	uint8_t proto;   /* FRAME_TCP, FRAME_UDP; 0: something else, or a fragment */
	uint32_t l3, l4; /* IP header, what is behind it and its options */
	uint32_t data;   /* behind the header of TCP or UDP */
	uint32_t end;    /* of the IP packet: the frame may be longer */
};

/* A tag of 802.1Q may be there.  len: 2^17 at most. */
void frame_look(struct frame *, const uint8_t *frame, size_t len);

/* Makes the checksums of IPv4, and of TCP or UDP, what they should be; leaves alone what has none. */
void frame_sum(uint8_t *frame, size_t len);
/* IPv4 with TCP or UDP, and both checksums are right. */
bool frame_sum_ok(const uint8_t *frame, size_t len);

/* Are these len bytes all headers of a frame of TCP, and can mss bytes be behind them? */
bool frame_tso_ok(const uint8_t *hdr, size_t len, uint32_t mss);
/*
 * The headers of one segment in out, len bytes of them: hdr for the n bytes at data, which were at off in the whole; the
 * segments are number i, i+1 ...  last: none follows.
 */
void frame_segment(uint8_t *out, const uint8_t *hdr, size_t len, unsigned i, uint32_t off, const uint8_t *data,
		   uint32_t n, bool last);

/* The fields that a hash is made of. */
enum frame_hash { /* enum ibv_rx_hash_fields */
		  HASH_SRC_IP4 = 1 << 0,
		  HASH_DST_IP4 = 1 << 1,
		  HASH_SRC_IP6 = 1 << 2,
		  HASH_DST_IP6 = 1 << 3,
		  HASH_SRC_TCP = 1 << 4,
		  HASH_DST_TCP = 1 << 5,
		  HASH_SRC_UDP = 1 << 6,
		  HASH_DST_UDP = 1 << 7,
};
#define HASH_KEY 40u
#define HASH_ALL 0xffu

/* Toeplitz' of those fields that the frame has, addresses before ports; 0: it has none of them. */
uint32_t frame_hash(const uint8_t *frame, size_t len, const uint8_t key[HASH_KEY], uint32_t fields);

#endif
