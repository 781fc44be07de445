/* SPDX-License-Identifier: MIT */
/*
 * net_late.h - datagrams that their socket has no room for.  Shard thread.
 *
 * They wait in order, and only the flows of that socket with them.  A queue pair that gives more meanwhile is held back; what has
 * waited too long with nothing of its kind sent, or is too much, is lost, as on any wire.
 *
 * The kernel keeps what goes to a neighbour that answers no ARP for seconds, and it takes room in the socket.  So half of a socket is for
 * peers that have been heard, and who was not heard yet has the other half alone, and no one else waits for it.
 */
#ifndef DAEMON_NET_LATE_H
#define DAEMON_NET_LATE_H

#include "net_priv.h"

/* Something came from there: it exists. */
void net_hear(struct net *, const uint8_t gid[16]);
/* May a socket that has room take b, too? */
bool late_may(const struct net *, const struct batch *);

/* Does something wait that b may not overtake? */
bool late_before(const struct net *, const struct batch *);
/* Keeps a copy. */
void late_put(struct net *, const struct batch *, const uint8_t *data);
/* hca has given more of that QP for where b goes, and it may wait: nothing else of it is taken until then. */
void late_hold(struct net *, struct hca *, uint32_t qpn, const struct batch *b);
/* The socket is going away. */
void late_drop(struct net *, const struct net_sock *);

#endif
