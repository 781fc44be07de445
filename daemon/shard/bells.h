/* SPDX-License-Identifier: MIT */
/*
 * bells.h - how a program kicks its shard: the futex in its bell page, or an eventfd.
 *
 * Nothing of it is shared between two programs, or with the daemon's own threads.  Shard thread.
 */
#ifndef DAEMON_BELLS_H
#define DAEMON_BELLS_H

#include "ctx.h"

/* Before the first bell, with the shard's io; 0 or errno. */
int bells_begin(struct shard *);
void bells_end(struct shard *); /* after it nothing waits */

/* The context's kicks are known from now on; 0 or errno. */
int bells_add(struct ctx *);
void bells_del(struct ctx *);

/* Its program is told to kick, and the shard waits for that; or both end. */
void bells_sleep(struct ctx *);
void bells_wake(struct ctx *);
/* Its page does not have any more what bells_sleep() wrote: a kick is under way, or was lost, or the program scribbles. */
bool bells_touched(const struct ctx *);

/* BELLS_SLOT, or the slot of a word (io.h), is ready: who kicked is not idle any more. */
void bells_ready(struct shard *, unsigned slot);

#endif
