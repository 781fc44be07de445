/* SPDX-License-Identifier: MIT */
/*
 * net_refusal.h - what hosts and routers say by ICMP of packets that were sent: nobody takes them, there is no way, they are too
 * long.  It changes nothing of what the transport does; it is for who asks why.  Shard thread.
 */
#ifndef DAEMON_NET_REFUSAL_H
#define DAEMON_NET_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "../../proto/mono.h"

struct net;
struct net_out;
struct net_sock;

struct refusal {
	uint8_t dgid[16], by[16]; /* by: all zero, it is not said */
	uint32_t dqpn;            /* of the packet; 0: the message has too little of it */
	bool here;                /* by this host's kernel: nobody answers for the address */
	bool prohibited;          /* by a firewall */
	int err;                  /* the errno that the kernel makes of it; 0: the place is free */
	uint32_t mtu;             /* EMSGSIZE: what the way takes, as an IP packet */
	mono_t at;                /* it was read: when the next packet went that way, or when somebody asked */
};

/* Of a socket that only sends. */
void refusal_wanted(int fd, bool ipv6);
/* Reads what came for this socket; false: no ICMP message.  Until it is read the next send fails with it, whomever that is to. */
bool refusals_read(struct net *, const struct net_sock *, const struct net_out *);
/* Reads what came for all: who asks why wants to know of now. */
void refusals_look(struct net *);
/* The last one of packets from one to the other, to that queue pair, if since then. */
bool refusal_find(struct net *, const uint8_t sgid[16], const uint8_t dgid[16], uint32_t dqpn, mono_t since,
		  struct refusal *);

#endif
