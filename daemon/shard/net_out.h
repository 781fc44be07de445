/* SPDX-License-Identifier: MIT */
/* net_out.h - the sockets that the packets of a GID leave by.  Shard thread. */
#ifndef DAEMON_NET_OUT_H
#define DAEMON_NET_OUT_H

#include "net_priv.h"

/* Fills in s->out, once s is bound: 0, or ENOMEM. */
int net_out_open(const struct net *, struct net_sock *);
void net_out_close(struct net_sock *);

/* The one for packets of this flow: 0 ... out_n - 1. */
unsigned net_out_of(const struct net_sock *, uint32_t flow_label, uint32_t sqpn, uint32_t dqpn);
/* The one with this port, or out_n: there is none. */
unsigned net_out_at(const struct net_sock *, uint16_t port);

/* The flow label of the IPv6 header: as the program asked, else one of the port's. */
uint32_t net_out_label(const struct net_sock *, const struct net_out *, uint32_t flow_label);

#endif
