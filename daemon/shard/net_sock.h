/* SPDX-License-Identifier: MIT */
/* net_sock.h - sockets, one for each GID on the wire and each multicast group.  Shard thread. */
#ifndef DAEMON_NET_SOCK_H
#define DAEMON_NET_SOCK_H

#include "net_priv.h"

/* Options of a new socket that receives (s->fd), of one that only sends from its address; and the address. */
int sock_options(const struct net *, const struct net_sock *);
int sock_options_out(const struct net *, const struct net_sock *, int fd);
int sock_bind(const struct net_sock *, int fd, uint16_t port);

/* Into the tables, and out of them, closed and freed. */
int sock_add(struct net *, struct net_sock *);
void sock_close(struct net *, struct net_sock *);

/* The socket of a row of the device's table. */
int sock_open(struct net *, struct device *, unsigned row);

#endif
