/* SPDX-License-Identifier: MIT */
/* req.h - the requester: cuts bursts out of the send queue (req.c), hears responses (ack.c). */
#ifndef PROTO_REQ_H
#define PROTO_REQ_H

#include <stdbool.h>
#include <stdint.h>

#include "hca_in.h"
#include "req_flight.h"

bool req_tx(struct hca *, struct qp *, struct burst *);
void req_progress(struct hca *, struct qp *); /* after sq.head moved: faults and the drained state come up */
void req_timer(struct hca *, struct qp *);    /* it fired */
void req_tx_fault(struct hca *, struct qp *, uint32_t index);
void req_done(struct hca *); /* and with it its WR */
/* The burst handed out last has gone. */
static inline void req_settle(struct hca *h)
{
	if (h->taken.done)
		req_done(h);
	h->taken.qp = NULL;
}
void ack_rx(struct hca *, struct qp *, const struct burst *);

/* A call of the host begins: the burst handed out last has gone. */
static inline void hca_begin(struct hca *h, mono_t now)
{
	hca_clock(h, now);
	req_settle(h);
}

#endif
