/* SPDX-License-Identifier: MIT */
/* thread.h - the threads of the shards come and go.  Control thread. */
#ifndef DAEMON_THREAD_H
#define DAEMON_THREAD_H

#include "../base/conf.h"
#include "shard.h"

/*
 * Makes shards[index] with an HCA for each device; 0 or errno.  Before the first one devices[], devices_n and
 * shards_n (how many there will be) are set; index 0, 1, ... in turn.
 */
int shard_start(unsigned index, enum io_kind);
void shards_stop(void); /* all of them: joins their threads, frees all */

#endif
