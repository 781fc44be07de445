/* SPDX-License-Identifier: MIT */
/* forge.h - RoCEv2 packets out of an ordinary UDP socket, from any address and port that the host lets its user have. */
#ifndef T_HOSTILE_FORGE_H
#define T_HOSTILE_FORGE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/cm_msg.h"
#include "proto/icrc.h"

#define FORGE_MAX 512u

struct forge {
	int fd;
	struct sockaddr_in to; /* port 4791 */
	struct route route;
	struct icrc_flow flow;
};

/* The GID of an IPv4 address. */
void forge_gid(const char *address, uint8_t gid[16]);
/*
 * From src to dst, both IPv4.  own_port: the source port is 4791 as that of every rdmad, got by a bind to another address
 * and said otherwise with each packet; false: some port.
 */
void forge_open(struct forge *, const char *src, const char *dst, bool own_port);
/* A packet of b.op_first, with headers of b, and payload (len a multiple of 4); its length.  pkt: FORGE_MAX bytes. */
size_t forge_pkt(struct forge *, struct burst *, const void *payload, size_t len, uint8_t *pkt);
size_t forge_mad(struct forge *, const struct cm_msg *, uint8_t *pkt);
void forge_send(struct forge *, const uint8_t *pkt, size_t len);
void forge_close(struct forge *);

#endif
