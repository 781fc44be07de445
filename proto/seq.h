/* SPDX-License-Identifier: MIT */
/*
 * seq.h - packet sequence numbers: 24-bit serial numbers.
 *
 * A struct, so that a < b does not compile: two PSNs are compared by the sign of their
 * distance in the half window of 2^23 (protocol rule 4.1).
 */
#ifndef PROTO_SEQ_H
#define PROTO_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#define PSN_MASK 0xffffffu
#define PSN_HALF (1 << 23)

typedef struct {
	uint32_t v;
} psn_t;

static inline psn_t psn(uint32_t v) { return (psn_t){ v & PSN_MASK }; }
static inline psn_t psn_add(psn_t a, uint32_t n) { return psn(a.v + n); }
static inline psn_t psn_sub(psn_t a, uint32_t n) { return psn(a.v - n); }
static inline bool psn_eq(psn_t a, psn_t b) { return a.v == b.v; }

/* How many PSNs lie from a up to b, which is not before it. */
static inline uint32_t psn_dist(psn_t a, psn_t b) { return (b.v - a.v) & PSN_MASK; }

/* a - b, in -2^23 .. 2^23-1; positive: a is newer */
static inline int32_t psn_diff(psn_t a, psn_t b) { return (int32_t)((a.v - b.v) << 8) >> 8; }

static inline bool psn_before(psn_t a, psn_t b) { return psn_diff(a, b) < 0; }

#endif
