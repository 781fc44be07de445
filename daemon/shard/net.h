/* SPDX-License-Identifier: MIT */
/*
 * net.h - the UDP edge of a shard: RoCEv2 datagrams to bursts (net_rx.h) and back (net_tx.h).
 *
 * One socket per GID that is on the wire receives, bound to its address and port 4791; some more send, from ports of
 * their own (net_out.c).  All of it is called in the shard's thread, but what says so.
 */
#ifndef DAEMON_NET_H
#define DAEMON_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../proto/burst.h"
#include "../base/device.h"
#include "io.h"
#include "shard.h"

struct net;

/* Before the first shard.  0 or errno. */
int net_start(void);
int net_new(struct net **, struct shard *, struct io *);
void net_free(struct net *);

/* Row of the device's table as it is now: opens, closes or leaves its socket. */
int net_row_set(struct net *, struct device *, unsigned row);

/* The device of this daemon that has this GID; NULL: none. */
struct device *net_device(const struct net *, const uint8_t gid[16]);
/* The same, quicker if it is asked for the one that it was asked for before.  Shard thread. */
struct device *net_device_to(struct net *, const uint8_t gid[16]);

bool net_hot(const struct net *, mono_t now); /* some socket is read in each turn */
/* io_wait() said that this slot is ready; SEND_SLOT is. */
void net_ready(struct net *, unsigned slot, mono_t now);
void net_room_ready(struct net *);

/* Of all descriptors that the daemon may have, one of so many may be that of a socket for source ports, or of a spare one. */
#define NET_FDS_PART 4u

extern uint32_t net_rcvbuf;    /* what is asked for, bytes; set before there are shards */
extern struct marks net_marks; /* of packets; the same */
extern unsigned net_ports;     /* how many source ports; 0: packets go from ROCE_PORT; the same */

/* The room in a socket of ours as the kernel counts it, and the largest number of bytes that should be in flight to a peer. */
uint32_t net_room(void);
uint32_t net_window(uint32_t room);

/* Control thread: row of the device's table changed (already in device->gid): sockets and HCAs of all shards follow. */
int net_gid_changed(struct device *, unsigned row);

#endif
