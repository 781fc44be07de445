/* SPDX-License-Identifier: MIT */
/*
 * host.h - a host: an HCA of proto/, the one that the daemon has, and the port that it sends by.
 *
 * The port asks the HCA for the next burst when it has nothing to send: so a link that is slow, or paused, holds the HCA
 * back, as it does in an adapter.  Memory has addresses but no bytes: that each byte arrives once, in order, and where it
 * belongs is seen from the addresses alone, flow by flow.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "proto/hca.h"

#include "port.h"

struct fabric;
struct flow;

struct host {
	struct fabric *fabric;
	struct hca *hca;
	struct port port;
	struct cong_law law;
	struct moment tick;
	struct flow *arrived; /* a message of it did just now */
	uint32_t i, pdn, cqn, key;
	uint8_t gid[16];
	uint64_t seen_cnps, seen_retrans; /* of the HCA's counters, at the last sample */
};

void host_init(struct fabric *, struct host *, uint32_t i);
void host_fini(struct host *);
/* A queue pair for so many requests, connected once both ends are there. */
uint32_t host_qp(struct host *, uint32_t depth);
void host_connect(struct host *, uint32_t qpn, const struct host *peer, uint32_t peer_qpn, uint32_t psn,
		  uint32_t peer_psn);
/* size bytes of the flow's memory to the same place of the peer's. */
void host_write(struct host *, uint32_t qpn, uint32_t flow, uint32_t size, const struct host *peer);

void host_rx(struct host *, struct packet *);
/* Whatever is to be done now; its port is asked to send. */
void host_turn(struct host *);

#endif
