/* SPDX-License-Identifier: MIT */
/*
 * dress.h - the Ethernet frame that a packet would be: MAC, IP and UDP header before the UDP payload, with lengths and
 * checksums.  MAC addresses are made from the IP addresses, the same for the same:
 *
 *	10.0.0.1	02:00:0a:00:00:01		IPv6		06: and a hash
 *	multicast	01:00:5e... and 33:33:..., as the RFCs have it
 */
#ifndef LAB_DRESS_H
#define LAB_DRESS_H

#include <stddef.h>
#include <stdint.h>

#include "../proto/burst.h"

#define DRESS_MAX 62u /* bytes of headers, at most */

struct dress {
	const struct route *route;
	uint16_t sport, ip_id;
	const uint8_t *data; /* the UDP payload ... */
	size_t caplen;       /* ... as far as it is there ... */
	size_t len;          /* ... and as long as it was */
	uint16_t sum;        /* if not all is there: of all of it */
};

/* The frame, caplen and the headers, in out with room for it; its length. */
size_t dress_put(uint8_t *out, const struct dress *);

/* The bytes as words of the Internet checksum, added up; not inverted. */
uint16_t dress_sum(const uint8_t *data, size_t len);

#endif
