/* SPDX-License-Identifier: MIT */
/*
 * steer.h - what the daemon does with the frames of a RAW_PACKET QP besides giving them to it: it counts those of
 * flows with counters, and spreads them over WQs.
 *
 *	| struct steer | flow_n struct steer_hit | code_n struct steer_insn |
 *
 * A memfd that the library makes, sealed against shrinking (MSG_RAW_STEER).  The daemon copies all but the hits, which it
 * writes.  The code is the QP's socket filter in the kernel's own form (classic BPF) but for what it returns.
 */
#ifndef RDMAD_STEER_H
#define RDMAD_STEER_H

#include <stdint.h>

#define STEER_CODE   8192u /* instructions, at most */
#define STEER_FLOWS  1024u
#define STEER_WQ_LOG 7u /* of the table of WQs */
#define STEER_KEY    40u
#define RULE_TAKE \
	0x80000000u /* returned: the frame is the QP's; the rest is the number of the flow plus 1; 0: nobody's */

struct steer {
	uint32_t code_n; /* 0: all frames that come are the QP's */
	uint32_t flow_n;
	uint32_t wq_n;   /* a power of two; 0: the frames are the QP's own */
	uint32_t fields; /* that the hash is of: enum ibv_rx_hash_fields */
	uint8_t key[STEER_KEY];
	uint32_t wq[1u << STEER_WQ_LOG];
};

struct steer_hit {
	uint64_t packets, bytes;
};

struct steer_insn {
	uint16_t code;
	uint8_t jt, jf;
	uint32_t k;
};

#endif
