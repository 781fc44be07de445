/* SPDX-License-Identifier: MIT */
/*
 * peers.h - which QP each QP of this daemon is connected to, for the other shards.
 *
 * A packet of RC or UC does not say which QP it is from.  Within a shard the core knows; between shards packets go by
 * UDP, so the shard that sends asks here whether the QP they are for is connected to the one that they are from.  One
 * entry for each QPN, written by the QP's shard and read by all, without a lock.  With one shard there is no table.
 */
#ifndef DAEMON_PEERS_H
#define DAEMON_PEERS_H

#include <stdbool.h>
#include <stdint.h>

int peers_start(void); /* before the first shard; shards_n is known.  0 or errno */
/* Shard thread: a QP is made (to: 0), or connected.  The entry of a QP stays until its number is used again. */
void peers_set(uint32_t qpn, uint32_t to);
/* Any shard: is qpn connected to the QP from? */
bool peers_is(uint32_t qpn, uint32_t from);

#endif
