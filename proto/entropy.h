/* SPDX-License-Identifier: MIT */
/*
 * entropy.h - which way packets go where a network has several: 14 bits, the same for all packets that must stay in order.
 *
 * They become the UDP source port (rule 1.2), by which routers, link aggregation and receivers with several queues choose.
 */
#ifndef PROTO_ENTROPY_H
#define PROTO_ENTROPY_H

#include <stdint.h>

#define ENTROPY_PORT 0xc000u /* the first of 2^14 source ports */
#define ENTROPY_BITS 14u

static inline uint32_t entropy_of(uint64_t what)
{
	return (uint32_t)(what * 0x9e3779b97f4a7c15u >> (64 - ENTROPY_BITS));
}

/* From one queue pair to another. */
static inline uint32_t entropy_pair(uint32_t sqpn, uint32_t dqpn) { return entropy_of((uint64_t)sqpn << 24 | dqpn); }

/* As the program asked by a flow label (0: it did not), else by the queue pairs. */
static inline uint32_t entropy(uint32_t flow_label, uint32_t sqpn, uint32_t dqpn)
{
	return flow_label ? entropy_of(flow_label) : entropy_pair(sqpn, dqpn);
}

#endif
