/* SPDX-License-Identifier: MIT */
/* net_rx.h - from sockets to the HCAs.  Shard thread. */
#ifndef DAEMON_NET_RX_H
#define DAEMON_NET_RX_H

#include "net.h"

/*
 * In each turn net_rx_begin(), then while net_read(): datagrams were read from a socket that had something lately, and
 * net_give() hands them to the HCAs.
 */
void net_rx_begin(struct net *);
bool net_read(struct net *, mono_t now);
void net_give(struct net *, mono_t now);

int net_rx_init(struct net *); /* 0 or errno */
void net_rx_free(struct net *);

#endif
