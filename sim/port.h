/* SPDX-License-Identifier: MIT */
/*
 * port.h - one end of a link: what waits to be sent, what is on the wire to the other end, and what PFC says.
 *
 *	queue of PAUSE |
 *	queue of CNP   |--> sender, one packet at a time, at the link's rate --> wire, delay --> peer
 *	queue of DATA  |      (DATA not while the peer says pause)
 *
 * A switch counts here, too, what came in by the port and still lies in its buffer.
 */
#ifndef SIM_PORT_H
#define SIM_PORT_H

#include "agenda.h"
#include "packet.h"
#include "topology.h"

struct fifo {
	struct packet *head, *tail;
	uint64_t len; /* bytes */
};

/* Since the last sample. */
struct port_log {
	uint64_t sent_len, pkts, marks, drops, pauses, paused_ns, most;
	unsigned __int128 area; /* bytes of queue times ns */
};

struct port {
	struct moment sent, arrived;
	struct port *peer;
	uint32_t node, other; /* whose it is, and whose the peer is: hosts, then switches */
	uint16_t index;       /* among those of its node */
	bool busy, paused;
	uint64_t rate; /* bits a second */
	uint64_t delay_ns;
	uint64_t rest; /* of the division that makes times of bytes: no rate is off in the long run */
	struct fifo queue[CLASSES], wire;

	/* The packet that is being sent, if it lies in a switch's buffer. */
	uint32_t out_len;
	uint16_t out_in;
	bool out_spare;

	/* Of the switch: bytes that came in here and are not sent yet, in the shared part, and in what is kept for it. */
	uint64_t held, spare, room;
	bool pausing; /* the peer was told to stop */

	uint64_t paused_at, changed_at;
	const struct ecn *ecn; /* NULL: a host's */
	uint64_t band_ns[3];   /* how long the queue was below kmin, up to kmax, above */
	struct port_log log, all;
};

/* Behind what waits already; and the port begins to send if it can. */
void port_put(struct agenda *, struct port *, struct packet *);
/* The moment "sent" has come: what was being sent is on the wire. */
void port_sent(struct agenda *, struct port *);
/* The moment "arrived": the packet that is now at the peer. */
struct packet *port_arrived(struct agenda *, struct port *);
/* The peer said so. */
void port_pause(struct agenda *, struct port *, bool pause);
/* Brings the log up to now; then adds it to all and begins a new one. */
void port_log_now(const struct agenda *, struct port *);
void port_log_next(struct port *);
/* Packets that wait or are on the wire, but those of PFC. */
uint64_t port_pkts(const struct port *);
void port_fini(struct packets *, struct port *);

#endif
