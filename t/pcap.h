/* SPDX-License-Identifier: MIT */
/*
 * pcap.h - recorded Ethernet frames for tests: pcap files (little-endian, as tcpdump writes them here), and
 * text files with one frame in hex a line.  A file that cannot be read ends the test program.
 */
#ifndef T_PCAP_H
#define T_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pcap {
	uint8_t *data; /* the frames, one behind the other */
	size_t *start; /* n + 1 of them */
	size_t n;
};

/* name is relative to t/data in the source tree. */
void pcap_read(struct pcap *, const char *name);
void pcap_free(struct pcap *);

/* A RoCEv2 packet, seen in a frame. */
struct roce {
	uint8_t sgid[16], dgid[16];
	uint16_t sport, dport;
	uint16_t ip_id;
	bool ipv6, df;
	uint8_t *pkt; /* the UDP payload, from the BTH to the ICRC */
	size_t len;
};

/* false: frame i is something else. */
bool pcap_roce(const struct pcap *, size_t i, struct roce *);

/* The whole file t/data/<name>; malloc'd. */
uint8_t *data_read(const char *name, size_t *len);

#endif
