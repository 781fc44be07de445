/* SPDX-License-Identifier: MIT */
/* rs_ds_wire.c - the headers of datagram rsockets. */
#include "rs_ds_wire.h"

#include <arpa/inet.h>
#include <string.h>

/*
 * Before a datagram		By UDP
 *  0 version: 4, 6		 0 tag
 *  1 length of this		 4 version: 4, 6
 *  2 port			 5 op
 *  4 address, IPv4		 6 length of this
 *  4 flow, IPv6		 8 QPN, in the low 24 bits
 *  8 address, IPv6		12 address, IPv4 or IPv6
 */
enum { V4_LEN = 8, V6_LEN = 24, UDP_V4_LEN = 16, UDP_V6_LEN = 28 };

static void put32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return ntohl(v);
}

socklen_t ds_addr_len(const union ds_addr *a) { return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6); }

bool ds_addr_same(const union ds_addr *a, const union ds_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_port == b->in.sin_port && a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return a->in6.sin6_port == b->in6.sin6_port && !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16);
}

bool ds_addr_any(const union ds_addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
}

size_t ds_hdr_make(uint8_t h[DS_HDR_MAX], const union ds_addr *a)
{
	bool v4 = a->sa.sa_family == AF_INET;

	memset(h, 0, DS_HDR_MAX);
	h[0] = v4 ? 4 : 6;
	h[1] = v4 ? V4_LEN : V6_LEN;
	if (v4) {
		memcpy(h + 2, &a->in.sin_port, 2);
		memcpy(h + 4, &a->in.sin_addr, 4);
	} else {
		memcpy(h + 2, &a->in6.sin6_port, 2);
		memcpy(h + 4, &a->in6.sin6_flowinfo, 4);
		memcpy(h + 8, &a->in6.sin6_addr, 16);
	}
	return h[1];
}

size_t ds_hdr_parse(const uint8_t *h, size_t len, union ds_addr *a)
{
	memset(a, 0, sizeof(*a));
	if (len >= V4_LEN && h[0] == 4 && h[1] == V4_LEN) {
		a->in.sin_family = AF_INET;
		memcpy(&a->in.sin_port, h + 2, 2);
		memcpy(&a->in.sin_addr, h + 4, 4);
		return V4_LEN;
	}
	if (len >= V6_LEN && h[0] == 6 && h[1] == V6_LEN) {
		a->in6.sin6_family = AF_INET6;
		memcpy(&a->in6.sin6_port, h + 2, 2);
		memcpy(&a->in6.sin6_flowinfo, h + 4, 4);
		memcpy(&a->in6.sin6_addr, h + 8, 16);
		return V6_LEN;
	}
	return 0;
}

size_t ds_udp_hdr_make(uint8_t h[DS_UDP_HDR_MAX], const union ds_addr *a, enum ds_udp_op op, uint32_t qpn)
{
	bool v4 = a->sa.sa_family == AF_INET;

	memset(h, 0, DS_UDP_HDR_MAX);
	put32(h, DS_UDP_TAG);
	h[4] = v4 ? 4 : 6;
	h[5] = (uint8_t)op;
	h[6] = v4 ? UDP_V4_LEN : UDP_V6_LEN;
	put32(h + 8, qpn & 0xffffff);
	if (v4)
		memcpy(h + 12, &a->in.sin_addr, 4);
	else
		memcpy(h + 12, &a->in6.sin6_addr, 16);
	return h[6];
}

size_t ds_udp_hdr_parse(const uint8_t *h, size_t len, sa_family_t family, enum ds_udp_op *op, uint32_t *qpn)
{
	size_t want = family == AF_INET ? UDP_V4_LEN : UDP_V6_LEN;

	if (len < want || get32(h) != DS_UDP_TAG || h[4] != (family == AF_INET ? 4 : 6) || h[6] != want)
		return 0;
	if (h[5] != DS_UDP_DATA && h[5] != DS_UDP_CTL)
		return 0;
	*op = h[5];
	*qpn = get32(h + 8) & 0xffffff;
	return want;
}
