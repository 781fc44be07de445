/* SPDX-License-Identifier: MIT */
/*
 * bells.h - how a program wakes its shard: the futex in its bell page, or an eventfd.
 *
 * Nothing of it is shared between two programs, or with the daemon's own threads.  Shard thread.
 */
#ifndef DAEMON_BELLS_H
#define DAEMON_BELLS_H

#include "ctx.h"

/* Before the first bell, with the shard's io; 0 or errno. */
int bells_begin(struct shard *);
void bells_end(struct shard *); /* after it nothing waits */

/* The context's bell wakes the shard from now on; 0 or errno. */
int bells_add(struct ctx *);
void bells_del(struct ctx *);

/* BELLS_SLOT (io.h) is ready: takes note of who kicked. */
void bells_ready(struct shard *);

#endif
