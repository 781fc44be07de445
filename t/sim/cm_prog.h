/* SPDX-License-Identifier: MIT */
/*
 * cm_prog.h - programs that connect, over a network that loses; and a model of what they may be told.
 *
 *	CALLING -> UP -> CLOSED -> over		or REFUSED, TIMED_OUT, LOST (torn though it was up), KILLED
 *	CALLED ---^
 *
 * An event that does not fit the phase of its call ends the simulation, as does a call that does not end.
 */
#ifndef SIM_CM_PROG_H
#define SIM_CM_PROG_H

#include "t/cm_net.h"
#include "sim/rng.h"

#define CALLS 256u

enum closer { CLOSE_ACTIVE, CLOSE_PASSIVE, CLOSE_BOTH };

/* The behaviour of the two programs of one call. */
struct plan {
	bool sidr;
	bool refuse; /* the one who is called */
	bool kill;   /* closes by cm_id_free() */
	enum closer closer;
	uint64_t think_ns; /* before it accepts, refuses or goes on */
	uint64_t stay_ns;  /* up */
	uint64_t dies_ns;  /* active program ends after this, whatever state; 0: never */
	uint8_t retries;
	uint8_t answer; /* time of either for an answer, as a REQ says it; 0: 20 */
	uint8_t data; /* packets that the active program sends as soon as it is up, one each ms: the first is like an RTU */
};

enum phase { CALLING, CALLED, ACCEPTED, ANSWERED, UP, CLOSING, CLOSED, REFUSED, TIMED_OUT, LOST, KILLED, PHASES };

struct call {
	struct cm_end *end;
	uint32_t id;
	bool active, up, over; /* up: it was; over: freed */
	enum phase phase;
	struct plan plan;
	unsigned number; /* of the plan */
	mono_t act, die; /* when the program does something by itself */
	mono_t send;     /* when it sends data */
};

struct world {
	struct cm_net net;
	struct plan plan[CALLS]; /* of the call with QPN 0x100 + index */
	struct call call[CALLS];
	unsigned calls;
	uint32_t listener[2];
	struct rng rng;
	uint32_t loss_ppm, dup_ppm;
	uint64_t delay_ns;                            /* at most */
	uint64_t late_ns;                             /* each MAD comes a second time, so late; 0: not */
	uint32_t mask;                                /* bit i: MAD i is lost */
	uint64_t hash;                                /* of all that was told */
	unsigned reached[CM_STATES][CM_SIDR_REP + 1]; /* messages by the state that they found */
};

void world_init(struct world *, uint64_t seed);
void world_call(struct world *, unsigned from, unsigned plan); /* now */
/* To the end of everything; verifies that nothing is left. */
void world_end(struct world *);
/* How many calls of that kind ended so; up: that had been up. */
unsigned world_count(const struct world *, bool active, enum phase, bool up);

#endif
