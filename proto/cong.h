/* SPDX-License-Identifier: MIT */
/*
 * cong.h - how fast a QP may send once its peer has said that the network on the way is congested (CNP).
 *
 * There is no limit at first.  The first CNP sets one, from what was really sent recently; the rest is a plain DCQCN:
 *
 *	CNP, once in CONG_STEP_NS	target = limit;  limit -= limit * alpha / 2;  alpha += (1 - alpha) / 16
 *	CONG_STEP_NS without one	limit = (limit + target) / 2;  alpha -= alpha / 16
 *	  from the 6th of these on	before that: target += (steps - 5) * start / 64
 *
 *	rate
 *	 start |----.              . . . no limit
 *	       |    |     ______..'
 *	       |    | .-''   5 steps: back to half of what is missing, each; then on, faster and faster
 *	       |    |'
 *	       +----CNP------------------> time
 *
 * alpha is 1 at the start: the first CNP halves.  At twice the rate it started from the limit is gone.  No timer runs for
 * it: the steps that are over are made up for when the QP is about to send (rate.h).
 */
#ifndef PROTO_CONG_H
#define PROTO_CONG_H

#include <stdbool.h>
#include <stdint.h>

#include "mono.h"

#define CONG_STEP_NS   1000000u /* what is on its way when a CNP comes causes more of them: they count as one */
#define CONG_START_MIN 100000u  /* kbit/s: who sends less is not slowed below half of it by one CNP */
#define CONG_MIN       8000u

struct cong {
	uint32_t limit; /* kbit/s; 0: none */
	uint32_t target, start;
	uint32_t alpha; /* of CONG_ONE */
	uint32_t steps; /* since the last CNP */
	mono_t stepped; /* when the last one was over */
	uint64_t sent;  /* bytes since then; kbit/s before */
	uint32_t seen;
	mono_t since;
};

#define CONG_ONE 1024u

void cong_sent(struct cong *, mono_t now, uint64_t n);
uint32_t cong_recover(struct cong *, mono_t now); /* the steps that are over are made up for: the limit now */
bool cong_cnp(struct cong *, mono_t now);         /* behind cong_recover(); false: it counts as one with the last */

#endif
