/* SPDX-License-Identifier: MIT */
/*
 * remark.h - remarks about a packet, in words: retransmissions, NAKs and why, waits, how the receiver treated a
 * duplicate.
 *
 * The HCA is not asked how it treated a packet: its counters are compared before and after it.  So the transport does
 * nothing for this, whether anybody looks or not.
 */
#ifndef LAB_REMARK_H
#define LAB_REMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../proto/fault.h"
#include "../proto/hca.h"

#define REMARK_LEN 512u

struct remark_text {
	char s[REMARK_LEN]; /* lines between '\n's; not ended by 0 */
	size_t n;
};

/* One more line, if none begins so already; what does not fit is cut. */
void remark_add(struct remark_text *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The counters of an HCA at a moment. */
struct remark_mark {
	uint64_t stat[HCA_STATS];
	uint64_t fault[FAULT_END];
};

struct remark; /* of one shard: remembers for each QP what the next NAK is about */

struct remark *remark_new(void); /* NULL: no memory */
void remark_free(struct remark *);

/* A packet that the HCA sends; times: it was sent so often before. */
void remark_out(struct remark *, const struct hca *, unsigned device, uint32_t qpn, const struct burst *,
		unsigned times, struct remark_text *);
/* A packet that comes in: before the HCA has it, and after. */
void remark_before(struct remark_mark *, const struct hca *);
void remark_after(struct remark *, const struct remark_mark *, const struct hca *, unsigned device, uint32_t qpn,
		  const struct burst *, struct remark_text *);

#endif
