/* SPDX-License-Identifier: MIT */
/*
 * gid.h - what a GID of RoCE v2 says: it is an IPv6 address, or an IPv4 one as ::ffff:a.b.c.d.  16 bytes, in network order.
 */
#ifndef RDMAD_GID_H
#define RDMAD_GID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ROCE_PORT 4791u /* UDP, of RoCEv2 */
#define GID_V4_AT 12u   /* where the IPv4 address begins; before it stands gid_v4_prefix */

static const uint8_t gid_v4_prefix[GID_V4_AT] = { [10] = 0xff, [11] = 0xff };

static inline bool gid_same(const uint8_t a[16], const uint8_t b[16]) { return !memcmp(a, b, 16); }

/* All zero: no GID. */
static inline bool gid_is_empty(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return gid_same(gid, zero);
}

static inline bool gid_is_v4(const uint8_t gid[16]) { return !memcmp(gid, gid_v4_prefix, GID_V4_AT); }

/* ::1. */
static inline bool gid_is_v6_loopback(const uint8_t gid[16])
{
	static const uint8_t one[16] = { [15] = 1 };

	return gid_same(gid, one);
}

/* 127.0.0.0/8, or ::1. */
static inline bool gid_is_loopback(const uint8_t gid[16])
{
	return gid_is_v4(gid) ? gid[GID_V4_AT] == 127 : gid_is_v6_loopback(gid);
}

/* fe80::/10. */
static inline bool gid_is_v6_link_local(const uint8_t gid[16]) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

/* The LID of a port that has this address, for programs of InfiniBand: its last 15 bits, which are those of no multicast LID. */
#define GID_LID_MOST 0x7fffu

static inline uint16_t gid_lid(const uint8_t gid[16])
{
	return (uint16_t)(((unsigned)gid[14] << 8 | gid[15]) & GID_LID_MOST);
}

static inline void gid_lid_set(uint8_t gid[16], uint16_t lid)
{
	gid[14] = (uint8_t)((gid[14] & 0x80) | lid >> 8);
	gid[15] = (uint8_t)lid;
}

/* A multicast group: ff00::/8, or 224.0.0.0/4. */
static inline bool gid_is_group(const uint8_t gid[16])
{
	return gid[0] == 0xff || (gid_is_v4(gid) && (gid[GID_V4_AT] & 0xf0) == 0xe0);
}

/* Not that of a host: ::, 0.0.0.0, 255.255.255.255, and groups. */
static inline bool gid_is_nobody(const uint8_t gid[16])
{
	static const uint8_t all[4] = { 0xff, 0xff, 0xff, 0xff }, none[4];

	return gid_is_empty(gid) || gid_is_group(gid) ||
	       (gid_is_v4(gid) && (!memcmp(gid + GID_V4_AT, none, 4) || !memcmp(gid + GID_V4_AT, all, 4)));
}

#endif
