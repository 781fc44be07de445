/* SPDX-License-Identifier: MIT */
/* fault.h - fault.def as numbers, and the one function that carries a row out. */
#ifndef PROTO_FAULT_H
#define PROTO_FAULT_H

#include <stdint.h>

struct hca;
struct qp;

enum fault {
	FAULT_NONE, /* nothing wrong; the rows are counted from 1 */
#define FAULT(name, nak, swc, rwc, qp, event, stat, text) FAULT_##name,
#include "fault.def"
#undef FAULT
	FAULT_END
};
#define FAULT_N (FAULT_END - 1)

/*
 * Carries out the row: counts it, makes the NAK pending (with the expected PSN), completes the WR at
 * the head of the send queue and the receive WR in use as the row says, raises the event,
 * changes the state of the QP.
 */
void fault_act(struct hca *, struct qp *, enum fault);

/* Its text in fault.def. */
const char *fault_text(enum fault);

#endif
