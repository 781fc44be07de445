/* SPDX-License-Identifier: MIT */
/* net_gid.h - the GIDs of this daemon, by hash.  Shard thread. */
#ifndef DAEMON_NET_GID_H
#define DAEMON_NET_GID_H

#include "net_priv.h"

unsigned gid_hash(const uint8_t gid[16]); /* below GIDS_HASH */
/* NULL: no device of this daemon has this GID. */
const struct gid_slot *net_gid_find(const struct net *, const uint8_t gid[16]);
/* The same, quicker if it is *last, the one that was found before; net_gids_rebuild() forgets those of net. */
const struct gid_slot *net_gid_again(const struct net *, const struct gid_slot **last, const uint8_t gid[16]);
/* The devices' tables, or the sockets, have changed. */
void net_gids_rebuild(struct net *);

#endif
