/* SPDX-License-Identifier: MIT */
/*
 * gsi.h - QP1: management datagrams (MADs) in and out of an HCA (rule 7.1).
 *
 * The HCA keeps two short FIFOs.  What does not fit is lost, as on any wire: who sends MADs repeats them.
 */
#ifndef PROTO_GSI_H
#define PROTO_GSI_H

#include <stdint.h>

#include "burst.h"

#define MAD_LEN		256u

/* A MAD and its way.  Received: route.sgid is the peer's.  To be sent: route.dgid is the peer's, sgid ours. */
struct gsi {
	struct route route;
	uint32_t sqpn;		/* received: who sent it, 1 always for CM; ignored when sent */
	uint8_t mad[MAD_LEN];
};

#endif
