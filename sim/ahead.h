/* SPDX-License-Identifier: MIT */
/*
 * ahead.h - memory is asked early for what the next moments need.
 *
 *	next moment   +1     +2    +3    +4         +5            +6
 *	   now <---- slots <- QP <- HCA <- packet <- port, host <- the moment itself
 *
 * With thousands of hosts what a moment is about has left the cache since it was last used, and one pointer behind the other
 * leads there.  So with every moment that passes each of the next few is followed one pointer further, and the processor waits
 * for many lines at once, not for one after the other.  Nothing here changes a run.
 */
#ifndef SIM_AHEAD_H
#define SIM_AHEAD_H

#include <stdint.h>

#include "agenda.h"

struct fabric;

#define AHEAD       7u
#define AHEAD_HOSTS 250u /* with fewer all is in the cache */

struct ahead {
	struct moment *v[AHEAD]; /* in the order in which they are to come; those that were set later may be missing */
	uint32_t n;
};

/* The agenda has just come to m. */
void ahead_turn(struct fabric *, const struct moment *m);

#endif
