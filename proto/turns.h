/* SPDX-License-Identifier: MIT */
/*
 * turns.h - those who wait take turns: first their owners, then what each owner has in the queue.
 *
 *	turns --- owner 7 --- owner 3 --- (round)	a ring of lanes
 *	             |           |
 *	          qp qp qp       qp			a list in each
 *
 * So an owner with a thousand queue pairs gets as much as one with a single one.  An owner is any number that the host gives
 * (struct qp_init); who that is, the core does not know.
 */
#ifndef PROTO_TURNS_H
#define PROTO_TURNS_H

#include <stdint.h>

#include "link.h"

/* One owner's part of the queue; there as long as anything of the owner may be put in. */
struct lane {
	struct lane *next;
	uint32_t owner, users;
	struct link turn; /* in turns.ring: list may have something */
	struct link list;
};

struct turns {
	struct link ring;
	struct lane *lanes;
};

static inline void turns_init(struct turns *t)
{
	link_init(&t->ring);
	t->lanes = NULL;
}

/* One more user of the owner's lane; NULL: no memory. */
struct lane *lane_get(struct turns *, uint32_t owner);
void lane_put(struct turns *, struct lane *); /* none of its users is in it */

/* m is in no list; link_del() takes it out again. */
static inline void turns_put(struct turns *t, struct lane *l, struct link *m)
{
	link_add_tail(&l->list, m);
	if (link_empty(&l->turn))
		link_add_tail(&t->ring, &l->turn);
}

/* Lanes whose members have left are taken out of the ring on the way. */
static inline bool turns_empty(struct turns *t)
{
	while (!link_empty(&t->ring)) {
		struct lane *l = LINK_OF(t->ring.next, struct lane, turn);

		if (!link_empty(&l->list))
			return false;
		link_del(&l->turn);
	}
	return true;
}

/* The next one, and its owner's turn is over; NULL: nobody waits. */
static inline struct link *turns_take(struct turns *t)
{
	struct lane *l;
	struct link *m;

	if (turns_empty(t))
		return NULL;
	l = LINK_OF(t->ring.next, struct lane, turn);
	m = l->list.next;
	link_del(m);
	link_del(&l->turn);
	if (!link_empty(&l->list))
		link_add_tail(&t->ring, &l->turn);
	return m;
}

/* The last one taken had no use for the turn: its owner is the next one again, if there is more of his. */
static inline void turns_unused(struct turns *t, struct lane *l)
{
	if (link_empty(&l->turn))
		return;
	link_del(&l->turn);
	link_add_tail(t->ring.next, &l->turn);
}

#endif
