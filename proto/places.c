/* SPDX-License-Identifier: MIT */
/* places.c - a table that grows so that half of it stays free. */
#include "places.h"

#include <errno.h>
#include <stdlib.h>

#include "secret.h"

#define SIZE_FIRST 64u

int places_init(struct places *p, uint32_t max)
{
	*p = (struct places){ .v = calloc(SIZE_FIRST, sizeof(*p->v)), .mask = SIZE_FIRST - 1, .max = max };
	return p->v ? 0 : ENOMEM;
}

void places_fini(struct places *p)
{
	free(p->v);
	*p = (struct places){ 0 };
}

/* Places that differ in their low bits still do with one bit more. */
static int grow(struct places *p)
{
	uint32_t mask = 2 * p->mask + 1;
	struct place *v = calloc((size_t)mask + 1, sizeof(*v));

	if (!v)
		return ENOMEM;
	for (uint32_t i = 0; i <= p->mask; i++)
		if (p->v[i].obj)
			v[p->v[i].number & mask] = p->v[i];
	free(p->v);
	p->v = v;
	p->mask = mask;
	return 0;
}

int places_add(struct places *p, struct secret *secret, void *obj, uint32_t *number)
{
	uint32_t n;

	if (p->live >= p->max || (2 * p->live > p->mask && grow(p)))
		return ENOMEM;
	do
		n = (uint32_t)secret_next(secret) & ((1u << PLACES_BITS) - 1);
	while (!n || p->v[n & p->mask].obj);
	p->v[n & p->mask] = (struct place){ obj, n };
	p->live++;
	*number = n;
	return 0;
}

void places_del(struct places *p, uint32_t number)
{
	p->v[number & p->mask] = (struct place){ 0 };
	p->live--;
}
