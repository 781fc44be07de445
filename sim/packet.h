/* SPDX-License-Identifier: MIT */
/*
 * packet.h - a packet on its way: what the sender's HCA said of it, and no byte of payload.
 *
 * It goes from port to port by reference; one that has arrived, or was dropped, is used again.
 */
#ifndef SIM_PACKET_H
#define SIM_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/burst.h"

#define PACKET_SPANS 2u
/* Of a packet beside its BTH, headers and payload: preamble and gap, Ethernet and FCS, IPv4, UDP, ICRC. */
#define PACKET_AROUND (20u + 18u + 20u + 8u + 4u)
#define PACKET_PAUSE  84u /* a PFC frame on the wire */

/* A port sends the lower ones first.  PFC is about the last of them. */
enum packet_class { CLASS_PAUSE, CLASS_CNP, CLASS_DATA, CLASSES };

struct packet {
	struct packet *next;
	uint64_t arrive_ns;
	uint32_t len;       /* on the wire */
	uint32_t path;      /* hash of addresses and source port, for ECMP */
	uint32_t to;        /* host */
	uint16_t in;        /* port of the switch that it lies in, by which it came */
	uint8_t class;      /* enum packet_class */
	bool spare;         /* it lies in the headroom of that port */
	bool pause;         /* PAUSE: stop, else go on */
	struct burst burst; /* of one packet */
	struct span span[PACKET_SPANS];
};

struct packets {
	struct packet *free;
};

struct packet *packet_get(struct packets *);
void packet_put(struct packets *, struct packet *);
void packets_fini(struct packets *); /* those that were put back */

/* The bytes that packet i of the burst takes on the wire. */
uint32_t packet_wire_len(const struct burst *, uint32_t i);

#endif
