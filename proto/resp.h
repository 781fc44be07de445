/* SPDX-License-Identifier: MIT */
/* resp.h - the responder: RC and XRC (resp.c, resp_tx.c), UC (uc.c), UD (ud.c). */
#ifndef PROTO_RESP_H
#define PROTO_RESP_H

#include <stdbool.h>
#include <stdint.h>

#include "aeth.h"
#include "burst.h"
#include "fault.h"
#include "qp.h"

struct hca;

/* Is a NAK of a gap waiting to be sent? */
static inline bool resp_refuses(const struct resp *r) { return r->nak == aeth_nak(NAK_PSN_SEQ); }

void resp_rx(struct hca *, struct qp *, const struct burst *);
/* A request without an opcode that RC has, or with a payload that its opcode does not: n is 1, and there are no spans. */
void resp_rx_bad(struct hca *, struct qp *, const struct burst *, enum fault);
bool resp_tx(struct hca *, struct qp *, struct burst *);
void uc_rx(struct hca *, struct qp *, const struct burst *);
void ud_rx(struct hca *, struct qp *, const struct burst *);

#endif
