/* SPDX-License-Identifier: MIT */
/*
 * neigh.h - does the next hop to an address answer (ARP, neighbour discovery)?
 */
#ifndef DAEMON_NEIGH_H
#define DAEMON_NEIGH_H

#include <stdbool.h>

#include <rdmad/cmmsg.h>

/*
 * False: the host does not know yet, or not any more; ask again later.  It is made to ask, which takes an
 * empty datagram to the discard port.  True also where there is nobody to ask: loopback, tunnels, groups, and
 * hosts that do not tell their tables.
 */
bool neigh_answers(const union cmm_addr *src, const union cmm_addr *dst);

#endif
