/* SPDX-License-Identifier: MIT */
/* agenda.c - see agenda.h. */
#include "agenda.h"

#include <stdlib.h>

#include "say.h"

#define CHILDREN 4u /* of a parent in a heap: they lie in a line or two of the cache */

/* ---- heaps -------------------------------------------------------------- */

static bool before(const struct agenda_row *a, const struct agenda_row *b)
{
	return a->ns != b->ns ? a->ns < b->ns : a->order < b->order;
}

static void heap_add(struct agenda_rows *r, struct moment *m)
{
	struct agenda_row row = { .ns = m->ns, .order = m->order, .moment = m };
	uint32_t i = r->n;

	if (r->n == r->max) {
		r->max = r->max ? 2 * r->max : 16;
		r->v = room_for(r->v, r->max, sizeof(*r->v));
	}
	r->n++;
	while (i && before(&row, &r->v[(i - 1) / CHILDREN])) {
		r->v[i] = r->v[(i - 1) / CHILDREN];
		i = (i - 1) / CHILDREN;
	}
	r->v[i] = row;
}

/* The first row is gone, and the last one looks for its place. */
static void heap_drop(struct agenda_rows *r)
{
	struct agenda_row row = r->v[--r->n];
	uint32_t i = 0;

	for (;;) {
		uint32_t first = i * CHILDREN + 1, end = first + CHILDREN, least = first;

		if (first >= r->n)
			break;
		if (end > r->n)
			end = r->n;
		for (uint32_t c = first + 1; c < end; c++)
			if (before(&r->v[c], &r->v[least]))
				least = c;
		if (!before(&r->v[least], &row))
			break;
		r->v[i] = r->v[least];
		i = least;
	}
	r->v[i] = row;
}

/* ---- near, slots, far ------------------------------------------------------------------------------ */

static void unslot(struct agenda *a, struct moment *m)
{
	link_del(&m->slot);
	m->slot.next = m->slot.prev = NULL;
	a->slotted--;
}

static void place(struct agenda *a, struct moment *m)
{
	uint64_t slot = m->ns >> AGENDA_SHIFT;

	if (slot <= a->slot_now) {
		heap_add(&a->near, m);
	} else if (slot < a->slot_now + AGENDA_SLOTS) {
		link_add_tail(&a->slot[slot % AGENDA_SLOTS], &m->slot);
		a->slotted++;
	} else {
		heap_add(&a->far, m);
	}
}

/* To the next slot, or to that of the first far row if nothing is nearer; false: there is nothing at all. */
static bool next_slot(struct agenda *a)
{
	struct link *list;

	if (!a->slotted && !a->far.n)
		return false;
	a->slot_now = a->slotted ? a->slot_now + 1 : a->far.v[0].ns >> AGENDA_SHIFT;
	list = &a->slot[a->slot_now % AGENDA_SLOTS];
	while (!link_empty(list)) {
		struct moment *m = LINK_OF(list->next, struct moment, slot);

		unslot(a, m);
		heap_add(&a->near, m);
	}
	while (a->far.n && a->far.v[0].ns >> AGENDA_SHIFT < a->slot_now + AGENDA_SLOTS) {
		struct agenda_row row = a->far.v[0];

		heap_drop(&a->far);
		if (row.moment->order == row.order)
			place(a, row.moment);
	}
	return true;
}

void agenda_init(struct agenda *a)
{
	*a = (struct agenda){ 0 };
	for (unsigned i = 0; i < AGENDA_SLOTS; i++)
		link_init(&a->slot[i]);
}

void agenda_set(struct agenda *a, struct moment *m, uint64_t ns)
{
	if (m->slot.next)
		unslot(a, m);
	m->ns = ns > a->now_ns ? ns : a->now_ns;
	m->order = ++a->order;
	place(a, m);
}

struct moment *agenda_next(struct agenda *a, uint64_t until_ns)
{
	for (;;) {
		struct agenda_row row;

		while (!a->near.n)
			if (!next_slot(a))
				return NULL;
		row = a->near.v[0];
		if (row.ns > until_ns)
			return NULL;
		heap_drop(&a->near);
		if (row.moment->order != row.order)
			continue;
		a->now_ns = row.ns;
		row.moment->order = 0;
		return row.moment;
	}
}

void agenda_fini(struct agenda *a)
{
	free(a->near.v);
	free(a->far.v);
}
