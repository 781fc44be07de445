/* SPDX-License-Identifier: MIT */
/*
 * stranger.h - a neighbour on the network who sends anything from any address, by dice.
 *
 * Of root, in the network namespace of the test.  It sees the packets of the others, so that it knows their QPNs and PSNs
 * better than any stranger could; but it forges the address of an honest peer only where the promise of SECURITY.md
 * holds without a secret: on RC, with PSNs far from those in use.
 */
#ifndef T_HOSTILE_STRANGER_H
#define T_HOSTILE_STRANGER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/icrc.h"

#define STRANGER_SRC  16 /* addresses that it sends from and never answers what comes back: forged ones */
#define STRANGER_SEEN 64
#define STRANGER_PKT  2048

/* An address that is nobody's, and what went through it: bytes of IP packets. */
struct stranger_src {
	struct in_addr addr;
	int fd;
	uint64_t sent, got;
};

struct stranger_seen {
	struct in_addr from, to;
	uint32_t len; /* of pkt: BTH to ICRC */
	uint8_t pkt[STRANGER_PKT];
};

struct stranger {
	uint64_t dice;
	struct in_addr honest[2]; /* devices of the daemons */
	uint16_t port;            /* of the RDMA CM on the first */
	int raw, tap;
	struct stranger_src src[STRANGER_SRC];
	struct stranger_src mirror; /* sends back what it gets */
	struct stranger_seen seen[STRANGER_SEEN];
	unsigned seen_n;
	struct icrc_rx icrc;
	uint64_t packets;
};

/* honest: addresses of the daemons, net: 127.A.B.0, from which the stranger takes its own.  The errno. */
int stranger_open(struct stranger *, uint64_t seed, const struct in_addr honest[2], struct in_addr net, uint16_t port);
void stranger_step(struct stranger *);  /* one packet, or some */
void stranger_count(struct stranger *); /* takes what has come for its addresses */

#endif
