/* SPDX-License-Identifier: MIT */
/*
 * idle.h - which contexts a turn looks at: those that are awake.  Shard thread.
 *
 * A context that was silent for a while is idle: its bell says so, and its program kicks when it posts next, as all do when the
 * shard sleeps.  However many idle ones there are, they cost a turn nothing.
 */
#ifndef DAEMON_IDLE_H
#define DAEMON_IDLE_H

#include "ctx.h"

void idle_add(struct ctx *, mono_t now); /* a new one, awake */
void idle_del(struct ctx *);

/* It does, or is about to do, something: it is awake from now on, and for a while. */
void idle_stir(struct ctx *, mono_t now);

/* Now and then: who was silent for long is idle now; a kick that was lost is found. */
void idle_sweep(struct shard *, mono_t now);

/*
 * Wakes those that have kicked, at least all whose kick was over before a load that the caller has made.  true: there were some.
 * urgent: also where to find out takes a system call each time.
 */
bool idle_kicks(struct shard *, bool urgent);
bool idle_kicked(const struct shard *); /* there may be one; without a system call */
/* Kicks do not make themselves noticed on the way: they must be looked for. */
bool idle_is_hidden(const struct shard *);

#endif
