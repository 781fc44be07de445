/* SPDX-License-Identifier: MIT */
/* resp.h - the responder: RC and XRC (resp.c, resp_tx.c), UC (uc.c), UD (ud.c). */
#ifndef PROTO_RESP_H
#define PROTO_RESP_H

#include <stdbool.h>
#include <stdint.h>

#include "burst.h"
#include "qp.h"

struct hca;

void resp_rx(struct hca *, struct qp *, const struct burst *);
bool resp_tx(struct hca *, struct qp *, struct burst *);
void uc_rx(struct hca *, struct qp *, const struct burst *);
void ud_rx(struct hca *, struct qp *, const struct burst *);

#endif
