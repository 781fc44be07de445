/* SPDX-License-Identifier: MIT */
/* gid_text.h - a GID as people write its address, and read: 10.0.0.1, fe80::1. */
#ifndef RDMAD_GID_TEXT_H
#define RDMAD_GID_TEXT_H

#include <arpa/inet.h>
#include <netinet/in.h>

#include <rdmad/gid.h>

/* buf has INET6_ADDRSTRLEN bytes, and is returned. */
static inline const char *gid_text(const uint8_t gid[16], char *buf)
{
	return gid_is_v4(gid) ? inet_ntop(AF_INET, gid + GID_V4_AT, buf, INET_ADDRSTRLEN)
			      : inet_ntop(AF_INET6, gid, buf, INET6_ADDRSTRLEN);
}

/* false: it is no address. */
static inline bool gid_read(const char *text, uint8_t gid[16])
{
	memcpy(gid, gid_v4_prefix, GID_V4_AT);
	return inet_pton(AF_INET, text, gid + GID_V4_AT) == 1 || inet_pton(AF_INET6, text, gid) == 1;
}

#endif
