/* SPDX-License-Identifier: MIT */
/* net_group.h - multicast groups. */
#ifndef DAEMON_NET_GROUP_H
#define DAEMON_NET_GROUP_H

#include <sys/types.h>

#include "../base/device.h"

/*
 * Control thread: a member more (in) or less of a multicast group, on this interface, a user's, who is charged for his first.
 * 0 or errno; ENOMEM: he has as many as he may, or there are no more.
 */
int net_group(struct device *, const uint8_t *mgid, unsigned ifindex, uid_t, bool in);

struct net;
void net_groups_free(struct net *); /* shard thread: the sockets are closed elsewhere */

#endif
