/* SPDX-License-Identifier: MIT */
/* look.h - what a shard's files and words have to say goes to whom it concerns.  Shard thread. */
#ifndef DAEMON_LOOK_H
#define DAEMON_LOOK_H

#include "shard.h"

/* Waits as io_wait() does. */
void look_wait(struct shard *, uint64_t timeout_ns);
/* Without waiting: of kicks all, of the others what there is.  How many had something to say. */
unsigned look_kicks(struct shard *);

#endif
