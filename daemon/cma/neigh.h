/* SPDX-License-Identifier: MIT */
/*
 * neigh.h - does the next hop to an address answer (ARP, neighbour discovery)?
 */
#ifndef DAEMON_NEIGH_H
#define DAEMON_NEIGH_H

#include <rdmad/cmmsg.h>

/* Before the first question, and after the last.  All of these by one thread. */
void neigh_begin(void);
void neigh_end(void);

/*
 * EAGAIN: the host does not know yet, or not any more; ask again later.  It is made to ask, which takes an
 * empty datagram to the discard port.  ENETUNREACH, EHOSTUNREACH: it has no route from there to there.  0: yes, and also where
 * there is nobody to ask: loopback, tunnels, groups, and hosts that do not tell their tables.
 */
int neigh_answers(const union cmm_addr *src, const union cmm_addr *dst);

/* The interface by which packets go from src to dst; 0: they do not leave the host, or it is not known. */
unsigned neigh_interface(const union cmm_addr *src, const union cmm_addr *dst);

#endif
