/* SPDX-License-Identifier: MIT */
/*
 * fault.h - the network made worse on purpose: rdmad --fault loss=1%,dup=1%,seed=7
 *
 * Each datagram that is about to leave by UDP may be lost, doubled, damaged, overtaken or late.  It
 * is about the wire: what devices of one daemon send to each other passes none of this.
 * The same seed and the same datagrams give the same faults.
 */
#ifndef DAEMON_FAULT_H
#define DAEMON_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fault_conf {
	bool on;
	double loss, dup, reorder, corrupt;	/* probabilities, 0..1 */
	uint64_t delay_ns, jitter_ns;		/* every datagram is late by delay_ns, and up to jitter_ns more */
	uint64_t seed;
};

extern struct fault_conf fault_conf;	/* set before the first shard starts */

/*
 * "loss=1%,dup=0.5%,reorder=1%,corrupt=0.1%,delay=2ms,jitter=100us,seed=7", each of them optional.
 * A probability is a number from 0 to 1 or a percentage; a time has a unit: ns, us, ms, s.  NULL: fault_conf
 * is set; else what is wrong with it, as a text.
 */
const char *fault_parse(const char *spec);

/* One shard's dice. */
struct fault {
	uint64_t state;
};

struct fate {
	bool lost, twice;
	int flip;		/* the bit to turn over; -1: none */
	uint64_t late_ns;
};

void fault_init(struct fault *, unsigned shard);
struct fate fault_draw(struct fault *, size_t len);

#endif
