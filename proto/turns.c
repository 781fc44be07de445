/* SPDX-License-Identifier: MIT */
/* turns.c - see turns.h. */
#include "turns.h"

#include <stdlib.h>

struct lane *lane_get(struct turns *t, uint32_t owner)
{
	struct lane *l = t->lanes;

	while (l && l->owner != owner)
		l = l->next;
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			return NULL;
		l->owner = owner;
		link_init(&l->turn);
		link_init(&l->list);
		l->next = t->lanes;
		t->lanes = l;
	}
	l->users++;
	return l;
}

void lane_put(struct turns *t, struct lane *l)
{
	struct lane **at = &t->lanes;

	if (--l->users)
		return;
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	link_del(&l->turn);
	free(l);
}
