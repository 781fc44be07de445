/* SPDX-License-Identifier: MIT */
/*
 * impair_spec.h - the network made worse on purpose, in a word: rdmad --fault loss=1%,dup=1%,seed=7
 *
 * It is short for rules (impair.c) about each packet that leaves by UDP.
 */
#ifndef DAEMON_IMPAIR_SPEC_H
#define DAEMON_IMPAIR_SPEC_H

#include <stdbool.h>
#include <stdint.h>

struct impair_spec {
	double loss, dup, reorder, corrupt; /* probabilities, 0..1 */
	uint64_t delay_ns, jitter_ns;       /* every packet is delayed by delay_ns, and up to jitter_ns more */
	uint64_t seed;
};

/*
 * "loss=1%,dup=0.5%,reorder=1%,corrupt=0.1%,delay=2ms,jitter=100us,seed=7", each of them optional.
 * A probability is a number from 0 to 1 or a percentage; a time has a unit: ns, us, ms, s.  NULL: *to
 * is set; else what is wrong with it, as a text.
 */
const char *impair_spec_parse(const char *spec, struct impair_spec *to);

#endif
