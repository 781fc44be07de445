/* SPDX-License-Identifier: MIT */
/*
 * rules.h - what the daemon does with the frames of a RAW_PACKET QP besides giving them to it: it counts those of
 * flows with counters, and spreads them over WQs.
 *
 *	| struct rules | flow_n struct rule_hit | code_n struct rule_insn |
 *
 * A memfd that the library makes, sealed against shrinking (MSG_RAW_RULES).  The daemon copies all but the hits, which it
 * writes.  The code is the QP's socket filter in the kernel's own form (classic BPF) but for what it returns.
 */
#ifndef RDMAD_RULES_H
#define RDMAD_RULES_H

#include <stdint.h>

#define RULES_CODE	8192u		/* instructions, at most */
#define RULES_FLOWS	1024u
#define RULES_WQ_LOG	7u		/* of the table of WQs */
#define RULES_KEY	40u
#define RULE_TAKE	0x80000000u	/* returned: the frame is the QP's; the rest is the number of the flow plus 1; 0: nobody's */

struct rules {
	uint32_t code_n;	/* 0: all frames that come are the QP's */
	uint32_t flow_n;
	uint32_t wq_n;		/* a power of two; 0: the frames are the QP's own */
	uint32_t fields;	/* that the hash is of: enum ibv_rx_hash_fields */
	uint8_t key[RULES_KEY];
	uint32_t wq[1u << RULES_WQ_LOG];
};

struct rule_hit { uint64_t packets, bytes; };

struct rule_insn { uint16_t code; uint8_t jt, jf; uint32_t k; };

#endif
