/* SPDX-License-Identifier: MIT */
/*
 * slots.h - numbered objects: PDs, CQs, SRQs, MRs.
 *
 * A number is an index from 1.  Freed numbers wait in a queue, so that one is not given out again
 * while a stale message about it may still be under way.
 */
#ifndef PROTO_SLOTS_H
#define PROTO_SLOTS_H

#include <stdint.h>

struct slots {
	void **v;       /* by index; NULL: free */
	uint32_t *next; /* queue of the free ones */
	uint32_t size;  /* of v and next */
	uint32_t top;   /* the lowest index never used */
	uint32_t max;   /* the largest index */
	uint32_t live;
	uint32_t free_n, free_head, free_tail;
};

void slots_init(struct slots *, uint32_t max);
void slots_fini(struct slots *);                           /* the objects are the caller's */
int slots_add(struct slots *, void *obj, uint32_t *index); /* 0 or ENOMEM */
void slots_del(struct slots *, uint32_t index);

static inline void *slots_get(const struct slots *s, uint32_t index) { return index < s->size ? s->v[index] : 0; }

#endif
