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
bool net_blocked(const struct net *); /* something waits for room */
void net_send_await(struct net *);    /* so that it becomes known when there is some.  Not while the shard sleeps */
void net_send_retry(struct net *);    /* if a socket has become ready: sends what waited */
/* The socket is going away: what waits for it is dropped. */
void net_send_drop(struct net *, const struct net_sock *);

#endif
