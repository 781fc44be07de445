/* SPDX-License-Identifier: MIT */
/* fault.h - fault.def as numbers, and the one function that carries a row out. */
#ifndef PROTO_FAULT_H
#define PROTO_FAULT_H

#include <stdint.h>

struct hca;
struct qp;

enum fault {
	FAULT_NONE,		/* nothing wrong; the rows are counted from 1 */
#define FAULT(name, nak, swc, rwc, qp, event, stat, text) FAULT_##name,
#include "fault.def"
#undef FAULT
	FAULT_END
};
#define FAULT_N	(FAULT_END - 1)

/*
 * Carries out the row: counts it, makes the NAK pending (with the expected PSN), completes the WR at
 * the head of the send queue and the receive WR in use as the row says, raises the event,
 * changes the state of the QP.
 */
void fault_act(struct hca *, struct qp *, enum fault);

/* What it will do to this QP: the state that it is in then; the status of the WR concerned, WC_SUCCESS if none is. */
uint8_t fault_to(const struct qp *, enum fault);
uint8_t fault_status(const struct qp *, enum fault);
/* Its text in fault.def. */
const char *fault_text(enum fault);

#endif
