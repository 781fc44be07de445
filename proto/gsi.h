/* SPDX-License-Identifier: MIT */
/*
 * gsi.h - QP1: management datagrams (MADs) in and out of an HCA (rule 7.1).
 *
 * The HCA keeps two short FIFOs.  MADs that come in and do not fit are lost, as on any wire: a peer that sends MADs
 * repeats them.
 */
#ifndef PROTO_GSI_H
#define PROTO_GSI_H

#include <stdbool.h>
#include <stdint.h>

#include "burst.h"

#define MAD_LEN  256u
#define QPN_GSI  1u
#define QKEY_GSI 0x80010000u
#define GSI_FIFO 256u /* MADs; a power of two */

/* A MAD and its way: received, route.sgid is the peer's; to be sent, route.dgid is. */
struct gsi {
	struct route route;
	uint32_t sqpn; /* received: who sent it, 1 always for CM; ignored when sent */
	uint8_t mad[MAD_LEN];
};

/* ---- within the core; a host uses hca_gsi_rx() and hca_gsi_send() (hca.h) ---- */

struct hca;

struct gsi_fifo {
	struct gsi *v;
	uint32_t head, tail; /* numbered on without end; tail is the next to be put in */
};

struct gsi_qp {
	struct gsi_fifo rx, tx;
	struct gsi out; /* in the burst handed out last */
	psn_t psn;
};

int gsi_init(struct hca *); /* 0 or ENOMEM */
void gsi_fini(struct hca *);
void gsi_rx(struct hca *, const struct burst *); /* a burst to QPN_GSI */
static inline bool gsi_waits(const struct gsi_qp *g) { return g->tx.head != g->tx.tail; }
void gsi_tx(struct hca *, struct burst *); /* the next one to send: there is one */

#endif
