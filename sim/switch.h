/* SPDX-License-Identifier: MIT */
/*
 * switch.h - a switch: ports, and one buffer for all of them.
 *
 *	packet --> route: by destination, ECMP by its hash --> admitted? --> marked? --> queue of the port out
 *
 * Admitted, without PFC: if the queue out is shorter than alpha times what is free.  With PFC: always; beyond alpha times
 * what is free a packet lies in the headroom of the port that it came in by, and that port's peer is told to pause.  As the
 * headroom is what can still come in after that, nothing is dropped.
 *
 * CNPs and pauses are few and small: they take no room and are never dropped.
 */
#ifndef SIM_SWITCH_H
#define SIM_SWITCH_H

#include "port.h"
#include "topology.h"

struct fabric;

struct sw {
	const struct group *group;
	struct port *port;
	uint32_t node, port_n, salt;
	uint64_t shared; /* of the buffer, without headroom */
	uint64_t used;   /* of that */
	/* By destination, a switch: ports next[next_at[i]..next_at[i + 1]) lead there by the fewest links. */
	uint32_t *next_at;
	uint16_t *next;
};

/* It came in by that port. */
void switch_rx(struct fabric *, struct sw *, struct port *in, struct packet *);
/* The packet that the port was sending has left the buffer: to be called before port_sent(). */
void switch_sent(struct fabric *, struct sw *, struct port *out);

#endif
