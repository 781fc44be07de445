/* SPDX-License-Identifier: MIT */
/*
 * ghost.h - what stays of an RC QP, or an XRC target, that its program has destroyed: it acknowledges again, and
 * nothing else.
 *
 *	peer    SEND 7 --->		executed, completed; the program is content and destroys its QP
 *		     x-- ACK 7		lost
 *		SEND 7 --->  ghost	a duplicate of what was executed
 *		     <-- ACK 7
 *		SEND 8 --->  ghost	never executed: no answer, as from any QP that does not exist
 *
 * Without it the peer would send into nothing until its retries are exhausted, although all that it asked for was
 * done: whose ACK is lost last cannot be agreed on by packets that are lost themselves.  A ghost holds
 * no object and no memory of anyone; READs and atomics it does not answer, since their data is gone.
 * A QP whose program was killed leaves none: its peers are to see that.
 *
 * The table has a slot for each of the last GHOSTS numbers, more or less; a newer one takes the slot of an older.
 */
#ifndef PROTO_GHOST_H
#define PROTO_GHOST_H

#include <stdbool.h>
#include <stdint.h>

#include "burst.h"
#include "link.h"
#include "mono.h"
#include "seq.h"

struct hca;
struct qp;

#define GHOSTS 1024u

struct ghost {
	uint32_t qpn;  /* 0: the slot is free */
	uint32_t dqpn; /* of the peer */
	uint8_t svc;   /* SVC_... */
	uint16_t pkey;
	psn_t end; /* all before it was executed, and answered but for ACKs */
	uint32_t msn;
	struct route route; /* of packets sent */
	mono_t until;
	struct link ready; /* in ghosts.ready: an ACK is to be sent */
};

struct ghosts {
	struct ghost *v; /* by (qpn >> qpn_low_bits) % GHOSTS */
	struct link ready;
};

int ghosts_init(struct hca *);
void ghosts_fini(struct hca *);

/* The QP goes to ERR by the will of its program. */
void qp_part(struct qp *);
/* The QP is about to be destroyed by its program: a ghost takes its place, if it has executed something. */
void ghost_leave(struct hca *, struct qp *);
/* Is the number still answered for? */
bool ghost_has(const struct hca *, uint32_t qpn);
/* A burst for a QP that does not exist.  true: it was acknowledged once more. */
bool ghost_rx(struct hca *, const struct burst *);
static inline bool ghosts_wait(const struct ghosts *g) { return !link_empty(&g->ready); }
void ghost_tx(struct hca *, struct burst *); /* the next ACK: there is one */

#endif
