/* SPDX-License-Identifier: MIT */
/* agenda.c - see agenda.h. */
#include "agenda.h"

#include <stdlib.h>

#include "say.h"

#define CHILDREN 4u /* of a parent in the heap: they lie in a line or two of the cache */

/* ---- the heap ----------------------------------------------------------- */

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

/* ---- near, far -------------------------------------------------------------------------------------- */

static void near_add(struct agenda *a, struct moment *m)
{
	uint32_t i = m->ns % AGENDA_NEAR;

	link_add_tail(&a->near[i], &m->near);
	a->some[i / 64] |= 1ull << i % 64;
	a->near_n++;
}

static void near_del(struct agenda *a, struct moment *m)
{
	uint32_t i = m->ns % AGENDA_NEAR;

	link_del(&m->near);
	m->near.next = m->near.prev = NULL;
	if (link_empty(&a->near[i]))
		a->some[i / 64] &= ~(1ull << i % 64);
	a->near_n--;
}

/* The first ns that has something; there is something. */
static uint64_t near_ns(const struct agenda *a)
{
	uint32_t base = a->base % AGENDA_NEAR, i = base / 64;
	uint64_t bits = a->some[i] & ~0ull << base % 64;

	while (!bits) {
		i = (i + 1) % (AGENDA_NEAR / 64);
		bits = a->some[i];
	}
	return a->base + (i * 64 + (uint32_t)__builtin_ctzll(bits) - base) % AGENDA_NEAR;
}

/* The first ns of those that are far; false: there is none. */
static bool far_ns(struct agenda *a, uint64_t *ns)
{
	while (a->far.n && a->far.v[0].moment->order != a->far.v[0].order)
		heap_drop(&a->far);
	if (!a->far.n)
		return false;
	*ns = a->far.v[0].ns;
	return true;
}

/* Those that are near now were set before any that will be put there: so all stay in order. */
static void go_to(struct agenda *a, uint64_t ns)
{
	a->base = ns;
	while (a->far.n && a->far.v[0].ns - ns < AGENDA_NEAR) {
		struct agenda_row row = a->far.v[0];

		heap_drop(&a->far);
		if (row.moment->order == row.order)
			near_add(a, row.moment);
	}
}

void agenda_init(struct agenda *a)
{
	*a = (struct agenda){ 0 };
	for (unsigned i = 0; i < AGENDA_NEAR; i++)
		link_init(&a->near[i]);
}

void agenda_set(struct agenda *a, struct moment *m, uint64_t ns)
{
	if (m->near.next)
		near_del(a, m);
	m->ns = ns > a->now_ns ? ns : a->now_ns;
	m->order = ++a->order;
	if (m->ns - a->base < AGENDA_NEAR)
		near_add(a, m);
	else
		heap_add(&a->far, m);
}

struct moment *agenda_next(struct agenda *a, uint64_t until_ns)
{
	struct moment *m;
	uint64_t ns;

	if (a->near_n)
		ns = near_ns(a);
	else if (!far_ns(a, &ns))
		return NULL;
	if (ns > until_ns)
		return NULL;
	if (ns != a->base)
		go_to(a, ns);
	m = LINK_OF(a->near[ns % AGENDA_NEAR].next, struct moment, near);
	near_del(a, m);
	a->now_ns = ns;
	m->order = 0;
	return m;
}

void agenda_fini(struct agenda *a) { free(a->far.v); }
