/* SPDX-License-Identifier: MIT */
/* mcast.h - multicast groups: which UD QPs take datagrams to a multicast GID. */
#ifndef PROTO_MCAST_H
#define PROTO_MCAST_H

#include <stdint.h>

struct hca;
struct qp;
struct burst;

struct mcast {
	uint8_t mgid[16];
	struct qp **qp;
	uint32_t n, max;
};

struct mcasts {
	struct mcast *v;
	uint32_t n, max;
};

void mcast_rx(struct hca *, const struct burst *);
void mcast_leave(struct hca *, const struct qp *); /* all its groups */
void mcast_fini(struct hca *);

#endif
