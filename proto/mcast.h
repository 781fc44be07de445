/* SPDX-License-Identifier: MIT */
/* mcast.h - multicast groups: which UD QPs take datagrams to a multicast GID. */
#ifndef PROTO_MCAST_H
#define PROTO_MCAST_H

#include <stdint.h>

#include "link.h"

struct hca;
struct qp;
struct burst;

#define MCAST_HASH 256u
#define MCAST_QPS  256u /* of an owner in a group: each of them gets a copy of what anybody sends there */

struct mcast {
	struct mcast *next;
	uint8_t mgid[16];
	struct link members; /* of struct mcast_member */
};

struct mcast_member {
	struct link in_group, of_qp;
	struct mcast *group;
	struct qp *qp;
};

struct mcasts {
	struct mcast *head[MCAST_HASH];
};

void mcast_rx(struct hca *, const struct burst *);
void mcast_leave(struct hca *, struct qp *); /* all its groups */

#endif
