/* SPDX-License-Identifier: MIT */
/* net_tx.h - from bursts to datagrams.  Shard thread. */
#ifndef DAEMON_NET_TX_H
#define DAEMON_NET_TX_H

#include "net.h"

struct net_sock;

/* Sends a burst of hca, or keeps its packets for a train with the next ones until net_flush(). */
void net_tx(struct net *, struct hca *, const struct burst *, mono_t now);
/* One packet as bytes with its ICRC, for an IP identification of 0 and that source port: while the tap is on (tap.h). */
void net_tx_bytes(struct net *, struct hca *, const struct route *, uint16_t port, const uint8_t *data, size_t len);
/* A device of this daemon that a packet for that QP reaches as a letter, which nobody checks the ICRC of; NULL: it goes by a socket. */
const struct device *net_by_letter(const struct net *, const struct route *, uint32_t dqpn);
/* The source port that net_tx() would have b sent from; *flow_label, b's, becomes that of the packets. */
uint16_t net_port(struct net *, const struct burst *b, uint32_t *flow_label);
void net_flush(struct net *);

int net_tx_init(struct net *); /* 0 or errno */
void net_tx_free(struct net *);
/* The socket is going away: what waits for it is dropped. */
void net_tx_drop(struct net *, const struct net_sock *);

#endif
