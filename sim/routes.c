/* SPDX-License-Identifier: MIT */
/* routes.c - see routes.h: a search from each destination, breadth first. */
#include "routes.h"

#include <stdlib.h>

#include "say.h"

#define FAR UINT32_MAX

/* Links from each switch to switch to. */
static void distances(const struct sw *sw, uint32_t n, uint32_t first, uint32_t to, uint32_t *far, uint32_t *todo)
{
	uint32_t head = 0, tail = 0;

	for (uint32_t i = 0; i < n; i++)
		far[i] = FAR;
	far[to] = 0;
	todo[tail++] = to;
	while (head < tail) {
		const struct sw *s = &sw[todo[head++]];

		for (uint32_t k = 0; k < s->port_n; k++) {
			uint32_t other = s->port[k].other;

			if (other < first || far[other - first] != FAR)
				continue;
			far[other - first] = far[s->node - first] + 1;
			todo[tail++] = other - first;
		}
	}
}

static void choose(struct sw *s, uint32_t first, uint32_t to, const uint32_t *far)
{
	uint32_t at = s->next_at[to], here = far[s->node - first];

	s->next = room_for(s->next, at + s->port_n, sizeof(*s->next));
	for (uint32_t k = 0; k < s->port_n; k++) {
		uint32_t other = s->port[k].other;

		if (here != FAR && other >= first && far[other - first] + 1 == here)
			s->next[at++] = (uint16_t)k;
	}
	s->next_at[to + 1] = at;
}

void routes_make(struct sw *sw, uint32_t n, uint32_t first)
{
	uint32_t *far = room_new(n, sizeof(*far)), *todo = room_new(n, sizeof(*todo));

	for (uint32_t i = 0; i < n; i++)
		sw[i].next_at = room_new(n + 1, sizeof(*sw[i].next_at));
	for (uint32_t to = 0; to < n; to++) {
		distances(sw, n, first, to, far, todo);
		for (uint32_t i = 0; i < n; i++)
			choose(&sw[i], first, to, far);
	}
	free(far);
	free(todo);
}

void routes_free(struct sw *sw, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(sw[i].next);
		free(sw[i].next_at);
	}
}
