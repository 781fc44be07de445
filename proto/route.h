/* SPDX-License-Identifier: MIT */
/*
 * route.h - from an address vector to what the IP header says.
 *
 * Traffic class, flow label and hop limit are the program's.  Where it left the traffic class open, the port's owner may have
 * decided: by service level, and whether marks of congestion are welcome (struct marks).
 */
#ifndef PROTO_ROUTE_H
#define PROTO_ROUTE_H

#include "hca_in.h"

#define HOPS_DEFAULT 64u

/* slowed: a CNP will slow the queue pair, so its packets may be marked. */
void route_set(const struct hca *, struct route *, const struct av *, bool slowed);

#endif
