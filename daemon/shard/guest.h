/* SPDX-License-Identifier: MIT */
/*
 * guest.h - the control thread in the place of a shard that sleeps: a wake-up and back would take 15 to 60 us.  Control thread.
 *
 * For all that the shard's io (io.h) is not asked for anything: that is its own thread's.
 */
#ifndef DAEMON_GUEST_H
#define DAEMON_GUEST_H

#include "shard.h"

/*
 * As shard_call(), but if the shard sleeps fn runs here, and then what it has made to do; the shard goes on sleeping, unless
 * something is left, or due sooner than it would wake up.
 */
void guest_call(struct shard *, void (*fn)(struct shard *, void *), void *arg);
/* Something is to be done, and nobody waits for it: it is, or the shard is woken. */
void guest_turn(struct shard *);

#endif
