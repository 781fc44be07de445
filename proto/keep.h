/* SPDX-License-Identifier: MIT */
/*
 * keep.h - requests that came behind a gap are kept until what is missing has come (rule 4.2).
 *
 *	epsn 20       22 23 24          27
 *	  |  lost  |  k  k  k  |  lost  |  k  |		kept: a slot for each packet, by its PSN
 *
 * So the requester may send again what was lost and nothing else: when 20 and 21 have come, 22 to 24 are carried out behind
 * them as if they came now, and the next NAK is about 25.  Nothing shows in the program's memory before its turn.
 *
 * An HCA has a few rooms, one for each QP with a gap.  A QP that finds none drops what is behind its gap, as HCAs
 * without rooms do; a room that has not been used for a while is taken away.  Its memory is not touched before it is needed.
 */
#ifndef PROTO_KEEP_H
#define PROTO_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "burst.h"
#include "mono.h"

struct hca;
struct qp;

#define KEEP_ROOMS 8u
#define KEEP_LEN   (1u << 20)       /* payload bytes in a room: what a requester has in flight at most */
#define KEEP_SLOTS (KEEP_LEN / 256) /* with the least MTU */
#define KEEP_GAP   32u              /* PSNs that may be missing in a row: for one who forges packets few will do */
#define KEEP_JOIN  16u              /* packets that are carried out at once */

struct kept {
	struct burst b; /* one packet */
	struct span span;
};

struct room {
	struct qp *qp; /* NULL: free */
	uint32_t n;    /* packets in it */
	uint32_t mask; /* slots, less one: by the QP's MTU */
	psn_t end;     /* behind the newest packet */
	mono_t used;
	bool on[KEEP_SLOTS]; /* which slots have a packet */
	struct kept *kept;
	uint8_t *payload;
};

struct keep {
	struct room *room; /* KEEP_ROOMS; NULL: the HCA keeps nothing */
	struct span span[KEEP_JOIN];
};

int keep_init(struct hca *);
void keep_fini(struct hca *);

/* The packets of a burst behind the gap that there is room for. */
void keep_put(struct hca *, struct qp *, const struct burst *);
/* Takes out those that are next (KEEP_JOIN at most): a burst that is good until the next keep_put(); false: there is none. */
bool keep_take(struct hca *, struct qp *, struct burst *);
/* All of the QP's are lost. */
void keep_drop(struct qp *);

#endif
