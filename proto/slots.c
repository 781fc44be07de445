/* SPDX-License-Identifier: MIT */
/* slots.c - a growing array of pointers with a queue of its free slots. */
#include "slots.h"

#include <errno.h>
#include <stdlib.h>

#define FREE_WAIT 64u /* so many freed numbers before the first is used again */

void slots_init(struct slots *s, uint32_t max) { *s = (struct slots){ .max = max, .top = 1 }; }

void slots_fini(struct slots *s)
{
	free(s->v);
	free(s->next);
	*s = (struct slots){ 0 };
}

static int grow(struct slots *s)
{
	uint32_t size = s->size ? s->size * 2 : 64;
	void **v = realloc(s->v, size * sizeof(*v));
	uint32_t *next;

	if (!v)
		return ENOMEM;
	s->v = v;
	next = realloc(s->next, size * sizeof(*next));
	if (!next)
		return ENOMEM;
	s->next = next;
	for (uint32_t i = s->size; i < size; i++)
		v[i] = NULL;
	s->size = size;
	return 0;
}

int slots_add(struct slots *s, void *obj, uint32_t *index)
{
	uint32_t i;

	if (s->free_n && (s->free_n > FREE_WAIT || s->top > s->max)) {
		i = s->free_head;
		s->free_head = s->next[i];
		s->free_n--;
	} else {
		if (s->top > s->max || (s->top >= s->size && grow(s)))
			return ENOMEM;
		i = s->top++;
	}
	s->v[i] = obj;
	s->live++;
	*index = i;
	return 0;
}

void slots_del(struct slots *s, uint32_t i)
{
	s->v[i] = NULL;
	s->live--;
	if (s->free_n++)
		s->next[s->free_tail] = i;
	else
		s->free_head = i;
	s->free_tail = i;
}
