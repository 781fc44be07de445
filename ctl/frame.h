/* SPDX-License-Identifier: MIT */
/*
 * frame.h - a captured frame, down to the UDP payload of RoCEv2.
 *
 * Link layers: Ethernet, raw IP, the loopback headers of BSD, the "cooked" ones of Linux; with VLAN tags.
 */
#ifndef CTL_FRAME_H
#define CTL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame {
	uint64_t no; /* in its file, from 1; set by the caller */
	uint64_t ns; /* when; set by the caller */
	uint8_t sgid[16], dgid[16];
	bool df;        /* IPv4 */
	uint16_t ip_id; /* IPv4 */
	uint8_t tos;
	uint16_t sport;
	const uint8_t *data; /* the UDP payload, ICRC included */
	size_t len;
	size_t whole; /* FRAME_CUT: the length that it had; len of it are there */
};

enum frame_kind {
	FRAME_OTHER, /* not UDP to port 4791 */
	FRAME_ROCE,
	FRAME_FRAGMENT, /* the first of a datagram that is RoCE: no data is filled in */
	FRAME_LENGTHS,  /* the length in the UDP header is not one that fits into the IP packet: no data is filled in */
	FRAME_CUT,      /* the capture does not have all of it: len may be less than any header */
};

/* Fills in all but no and ns; data points into the frame.  link: a LINKTYPE_ number of the pcap formats. */
enum frame_kind frame_get(struct frame *, int link, const uint8_t *frame, size_t len);
bool frame_link_known(int link);
#define FRAME_LINK_UNKNOWN "link type %d is not supported; capture on an Ethernet interface" /* of an int */
/* The interface that it was seen on, if the link layer tells of many ("any"); 0: it does not. */
uint32_t frame_index(int link, const uint8_t *frame, size_t len);

/*
 * A datagram longer than a packet is a train that was captured before the kernel cut it: all segments have the same length but the last, which
 * may be shorter.  That length, found by the ICRC of the first; f->len if it is one packet (or nothing fits).
 * Segment i has IP identification f->ip_id + i; if packets were joined on their way in, it may be f->ip_id in all.
 */
size_t frame_segment(const struct frame *f);

/* Equal for equal packets: len bytes of it, without the ICRC, and the addresses. */
uint64_t frame_id(const struct frame *, const uint8_t *data, size_t len);

/*
 * The ICRC that segment i of this frame, len bytes from data on with the ICRC, should have.  Segments that were packets with one
 * identification before the receiver joined them have that of the first.
 */
uint32_t frame_icrc(const struct frame *f, unsigned i, const uint8_t *data, size_t len);
bool frame_icrc_good(const struct frame *f, unsigned i, const uint8_t *data, size_t len);

#endif
