/* SPDX-License-Identifier: MIT */
/*
 * rs_ds_wire.h - what two datagram rsockets say to each other (rdma-core's format).
 *
 * A datagram is a UD message: the header, which is the sender's address, and the data.  Of its peer a socket
 * knows no more than the UDP address, until it has a UDP packet from there: that tells the peer's QP, by a
 * header of its own kind.  Data go by UDP, behind that header, as long as the QP is not known; a socket that receives
 * such data answers with a header alone.
 */
#ifndef RDMACM_RS_DS_WIRE_H
#define RDMACM_RS_DS_WIRE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

union ds_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

enum {
	DS_HDR_MAX = 24,     /* 8 for IPv4 */
	DS_UDP_HDR_MAX = 28, /* 16 for IPv4 */
	DS_MSG_MAX = 2048,   /* with header, either way: rdma-core receives no more */
	DS_UDP_TAG = 0x55555555,
};
enum ds_udp_op { DS_UDP_DATA = 0, DS_UDP_CTL = 7 };

socklen_t ds_addr_len(const union ds_addr *);
bool ds_addr_same(const union ds_addr *, const union ds_addr *); /* with the port */
bool ds_addr_any(const union ds_addr *);

/* How many bytes. */
size_t ds_hdr_make(uint8_t hdr[DS_HDR_MAX], const union ds_addr *from);
size_t ds_udp_hdr_make(uint8_t hdr[DS_UDP_HDR_MAX], const union ds_addr *from, enum ds_udp_op, uint32_t qpn);
/* The same; 0 if it is none. */
size_t ds_hdr_parse(const uint8_t *, size_t len, union ds_addr *from);
size_t ds_udp_hdr_parse(const uint8_t *, size_t len, sa_family_t, enum ds_udp_op *, uint32_t *qpn);

#endif
