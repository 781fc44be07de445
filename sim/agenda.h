/* SPDX-License-Identifier: MIT */
/*
 * agenda.h - what happens when, in virtual time: moments, each embedded in what it is about.
 *
 *	near: a heap, the slot that time is in | 255 slots of 32 ns, each a list in no order | far: a heap of all the rest
 *
 * Almost all moments are less than 8 us ahead: they are put into a slot, and sorted with the few others of it when time gets
 * there.  So what a moment costs does not grow with their number.  Moments at the same time come in the order in which they
 * were set, so that a seed is a run.
 *
 * One that is set anew leaves its row in a heap behind, which is passed over when it comes up.
 */
#ifndef SIM_AGENDA_H
#define SIM_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/link.h"

#define AGENDA_SLOTS 256u
#define AGENDA_SHIFT 5 /* of ns to a slot */

enum moment_kind { AT_SENT, AT_ARRIVED, AT_TICK, AT_START, AT_STOP };

struct moment {
	uint64_t ns, order; /* order: of the row that counts; 0: it is not set */
	struct link slot;   /* if it is in one; else both are NULL */
	uint8_t kind;       /* enum moment_kind */
};

struct agenda_rows {
	struct agenda_row {
		uint64_t ns, order;
		struct moment *moment;
	} * v;
	uint32_t n, max;
};

struct agenda {
	struct agenda_rows near, far;
	struct link slot[AGENDA_SLOTS];
	uint64_t slot_now, slotted; /* the slot that time is in; moments in all the others */
	uint64_t now_ns, order;
};

void agenda_init(struct agenda *);
/* Not earlier than now.  One that is set already is moved.  Ends the program if there is no memory. */
void agenda_set(struct agenda *, struct moment *, uint64_t ns);
/* The next one up to that time, which becomes now; NULL: none. */
struct moment *agenda_next(struct agenda *, uint64_t until_ns);
void agenda_fini(struct agenda *);

static inline bool moment_is_set(const struct moment *m) { return m->order; }
static inline uint64_t moment_ns(const struct moment *m) { return m->order ? m->ns : UINT64_MAX; }

#endif
