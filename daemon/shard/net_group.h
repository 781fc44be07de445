/* SPDX-License-Identifier: MIT */
/* net_group.h - multicast groups. */
#ifndef DAEMON_NET_GROUP_H
#define DAEMON_NET_GROUP_H

#include "../base/device.h"

/* Control thread: a member more (in) or less of a multicast group, on this interface.  0 or errno. */
int net_group(struct device *, const uint8_t *mgid, unsigned ifindex, bool in);

struct net;
void net_groups_free(struct net *); /* shard thread: the sockets are closed elsewhere */

#endif
