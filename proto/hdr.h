/* SPDX-License-Identifier: MIT */
/*
 * hdr.h - where the fields of the BTH and of the extended headers are (protocol sections 3.1 and 3.2).
 *
 *	BTH	0 opcode | 1 SE M PadCnt TVer | 2 P_Key | 4 F B rsv | 5 DestQP | 8 A rsv | 9 PSN
 *
 * The extended headers of a packet stand in one order, whatever the opcode:
 * XRCETH, DETH, FETH, RETH, AtomicETH, AETH, AtomicAckETH, ImmDt, IETH.
 */
#ifndef PROTO_HDR_H
#define PROTO_HDR_H

#include <stdbool.h>

#include "bytes.h"

/* BTH */
enum {
	BTH_OPCODE = 0,
	BTH_FLAGS = 1,
	BTH_PKEY = 2,
	BTH_ECN = 4,
	BTH_DQPN = 5,
	BTH_ACK = 8,
	BTH_PSN = 9,
	BTH_LEN = 12,
};

#define BTH_SE        0x80u /* of BTH_FLAGS */
#define BTH_MIGREQ    0x40u
#define BTH_PAD       0x30u
#define BTH_PAD_SHIFT 4
#define BTH_TVER      0x0fu
#define BTH_FECN      0x80u /* of BTH_ECN; the whole byte is outside of the ICRC */
#define BTH_BECN      0x40u
#define BTH_ACKREQ    0x80u /* of BTH_ACK */

#define PKEY_FULL 0x8000u /* a full member of the partition that the other bits name; else a limited one */
#define PKEY_PART 0x7fffu

/* Rule 1.9: the same partition, and two limited members do not talk. */
static inline bool pkey_match(uint32_t a, uint32_t b) { return ((a ^ b) & PKEY_PART) == 0 && ((a | b) & PKEY_FULL); }

/* Extended headers: field offsets and lengths. */
enum {
	XRCETH_SRQN = 1,
	XRCETH_LEN = 4,

	DETH_QKEY = 0,
	DETH_SQPN = 5,
	DETH_LEN = 8,

	RETH_VA = 0,
	RETH_RKEY = 8,
	RETH_DMA_LEN = 12,
	RETH_LEN = 16,

	ATOMIC_VA = 0,
	ATOMIC_RKEY = 8,
	ATOMIC_SWAP_ADD = 12,
	ATOMIC_COMPARE = 20,
	ATOMIC_LEN = 28,

	AETH_SYNDROME = 0,
	AETH_MSN = 1,
	AETH_LEN = 4,

	ATOMIC_ACK_LEN = 8,
	IMM_LEN = 4,
	IETH_LEN = 4,
	FETH_LEN = 4,
	CNP_LEN = 16,
};

/* FETH */
#define FETH_PLT        0x0fu /* placement */
#define FETH_GLOBAL     0x01u
#define FETH_PERSISTENT 0x02u
#define FETH_SEL_SHIFT  4
#define FETH_SEL        0x30u /* 0 the range, 1 the whole region */

#define ICRC_LEN 4u

/* PadCnt of a payload, and the value of the pad bytes is 0. */
static inline uint32_t pad_len(uint64_t payload_len) { return (uint32_t)-payload_len & 3; }

#endif
