/* SPDX-License-Identifier: MIT */
/*
 * way.h - a thread that waits on the daemon's core goes to another one (rdmad/cores.h); or to it, where all cores have neighbours.
 *
 * It may run where it might before: the scheduler can bring it back, and it goes again after WAY_NS.  Where it goes to there may be
 * a neighbour that computes, beside which to wait takes milliseconds (nap.h).  Then it was better off with the daemon, and stays
 * there for twice as long each time, up to WAY_MAX_NS.
 *
 * Beside such a neighbour a thread that is woken has the core at once only if it has had less than its share of it; else it is thought of
 * again when another one is woken there, or at the kernel's next tick, milliseconds later.  To wake somebody on another core takes
 * longest, and is time of that share.  So a thread that meets a neighbour goes to the daemon's core, as its peer does.
 *
 * All is the calling thread's own.  Times are CLOCK_MONOTONIC's, ns.
 */
#ifndef VERBS_WAY_H
#define VERBS_WAY_H

#include <stdbool.h>
#include <stdint.h>

#define WAY_NS     4000000u
#define WAY_MAX_NS 128000000u

struct bell;

/* Is the daemon on another core?  It need not say where it is. */
bool way_is_free(const struct bell *);
/* The thread waits: it goes, if it is on the daemon's core. */
void way_make(const struct bell *);
/* It meets a neighbour that computes: it goes there, if it may. */
void way_join(const struct bell *);
/* It gave its core away until now, and had it back late. */
void way_was_bad(const struct bell *, uint64_t now);

#endif
