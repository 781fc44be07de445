/* SPDX-License-Identifier: MIT */
/* net_send.h - datagrams that are ready to be sent.  Shard thread. */
#ifndef DAEMON_NET_SEND_H
#define DAEMON_NET_SEND_H

#include "net.h"

struct batch;
struct net_sock;

int net_priority(const struct route *); /* of a socket that sends there: a batch has one */
/* Sends it, or keeps a copy until there is room.  What cannot be sent at all is counted. */
void net_send(struct net *, struct batch *, uint8_t *data);
/* The same at once: 0, EAGAIN (*b, *data: what is left), or an error, then counted. */
int batch_send(struct net *, struct batch *, uint8_t **data);

/* Sends what waits for room (net_late.c), if there may be some by now; and when that is to be tried, MONO_NEVER. */
void net_send_retry(struct net *, mono_t now);
mono_t net_send_deadline(const struct net *);
void net_send_await(struct net *); /* so that it becomes known when there is some.  Not while the shard sleeps */

#endif
