/* SPDX-License-Identifier: MIT */
/*
 * net.h - the UDP edge of a shard: bursts to RoCEv2 datagrams and back.
 *
 * One socket per GID that is on the wire, bound to its address and port 4791.  All of it is called in
 * the shard's thread, but net_room().
 */
#ifndef DAEMON_NET_H
#define DAEMON_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../proto/burst.h"
#include "device.h"
#include "io.h"
#include "shard.h"

#define ROCE_PORT	4791u

struct net;

int net_new(struct net **, struct shard *, struct io *);
void net_free(struct net *);

/* Row of the device's table as it is now: opens, closes or leaves its socket. */
int net_row_set(struct net *, struct device *, unsigned row);

/* Control thread: a member more (in) or less of a multicast group, on this interface.  0 or errno. */
int net_group(struct device *, const uint8_t *mgid, unsigned ifindex, bool in);

/* Which device of this daemon has this GID; NULL: none. */
struct device *net_device(const struct net *, const uint8_t gid[16]);

/* Reads sockets that had something lately (all: every one) and hands what came to the HCAs.  false: nothing came. */
bool net_rx(struct net *, bool all, mono_t now);
bool net_hot(const struct net *, mono_t now);	/* some socket is read in each turn */
/* io_wait() said that this slot is ready. */
void net_ready(struct net *, unsigned slot);

/*
 * Sends a burst of hca, or keeps its packets for a train with the next ones until net_flush().
 * After either, if net_blocked(), no burst may be handed in before it is over.
 */
void net_tx(struct net *, struct hca *, const struct burst *, mono_t now);
/* One packet as bytes with its ICRC, for an IP identification of 0: while the tap is on (tap.h). */
void net_tx_bytes(struct net *, struct hca *, const struct route *, const uint8_t *data, size_t len, mono_t now);
void net_flush(struct net *);
bool net_blocked(const struct net *);

extern uint32_t net_rcvbuf;	/* what is asked for, bytes; set before there are shards */

/* What a socket of ours can take in, in the kernel's reckoning; and the largest number of bytes that should be in flight to a peer. */
uint32_t net_room(void);
uint32_t net_window(uint32_t room);

/* ---- shard.c ------------------------------------------------------------- */

struct net *shard_net(const struct shard *);

/* QPN: ... | device | shard */
unsigned shard_bits(void);
unsigned device_bits(void);
static inline unsigned qpn_shard(uint32_t qpn, unsigned bits) { return qpn & ((1u << bits) - 1); }

/* Hands a datagram (without ICRC) to another shard.  Dropped if that one is too far behind. */
void shard_inbox_put(struct shard *to, struct device *, const struct route *, const uint8_t *data, size_t len);

#endif
