/* SPDX-License-Identifier: MIT */
/*
 * places.h - objects under numbers that say nothing: those of memory regions and windows, which stand in their keys.
 *
 * A number has PLACES_BITS random bits.  Its low ones are the place of the object in a table that is at most half full, and a
 * number whose place is taken is not given out: so a lookup is one index and one comparison.
 */
#ifndef PROTO_PLACES_H
#define PROTO_PLACES_H

#include <stdint.h>

#define PLACES_BITS 23u

struct secret;

struct place {
	void *obj; /* NULL: free */
	uint32_t number;
};

struct places {
	struct place *v;
	uint32_t mask; /* size - 1 */
	uint32_t max, live;
};

int places_init(struct places *, uint32_t max); /* max at most 2^(PLACES_BITS - 2); 0 or ENOMEM */
void places_fini(struct places *);              /* the objects are the caller's */
int places_add(struct places *, struct secret *, void *obj, uint32_t *number); /* 0 or ENOMEM */
void places_del(struct places *, uint32_t number);

/* NULL: there is none of that number. */
static inline void *places_get(const struct places *p, uint32_t number)
{
	const struct place *at = &p->v[number & p->mask];

	return at->number == number ? at->obj : 0;
}

#endif
