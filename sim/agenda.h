/* SPDX-License-Identifier: MIT */
/*
 * agenda.h - what happens when, in virtual time: moments, each embedded in what it is about.
 *
 *	near: 8192 ns from the last moment on, a list for each, and a bit whether it is empty | far: a heap of all the rest
 *
 * Almost all moments are less than 8 us ahead: each is put at the end of its list, and taken from the head of it.  So what a
 * moment costs does not grow with their number, not even if those of all hosts are in one ns.  Moments at the same time come
 * in the order in which they were set, so that a seed is a run.
 *
 * One that is set anew leaves its row in the heap behind, which is passed over when it comes up.
 */
#ifndef SIM_AGENDA_H
#define SIM_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/link.h"

#define AGENDA_NEAR 8192u /* ns; a power of two */

enum moment_kind { AT_SENT, AT_ARRIVED, AT_TICK, AT_START, AT_STOP };

struct moment {
	uint64_t ns, order; /* order: of the row that counts; 0: it is not set */
	struct link near;   /* in a list of these; else both are NULL */
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
	struct link near[AGENDA_NEAR];   /* by ns % AGENDA_NEAR: from base on, in the order in which they were set */
	uint64_t some[AGENDA_NEAR / 64]; /* a bit for each of them: there is something in it */
	uint64_t near_n, base;
	struct agenda_rows far; /* base + AGENDA_NEAR and later */
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
