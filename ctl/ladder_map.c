/* SPDX-License-Identifier: MIT */
/* ladder_map.c - keys to rungs: a table of pairs (key, rung + 1), open addressing; the newest rung of a key counts. */
#include <stdlib.h>

#include "ladder.h"

static uint64_t *slot(uint64_t *map, uint32_t cap, uint64_t key)
{
	uint64_t h = key * 0x9e3779b97f4a7c15u;
	uint32_t i = (uint32_t)(h >> 32) & (cap - 1);

	while (map[2 * i + 1] && map[2 * i] != key)
		i = (i + 1) & (cap - 1);
	return &map[2 * i];
}

uint32_t map_get(const struct ladder *l, uint64_t key)
{
	return l->map_cap ? (uint32_t)slot(l->map, l->map_cap, key)[1] - 1 : NOWHERE;
}

static bool grow(struct ladder *l)
{
	uint32_t cap = l->map_cap ? 2 * l->map_cap : 1024;
	uint64_t *map = calloc(cap, 2 * sizeof(*map)), *to;

	if (!map)
		return false;
	for (uint32_t i = 0; i < l->map_cap; i++)
		if (l->map[2 * i + 1]) {
			to = slot(map, cap, l->map[2 * i]);
			to[0] = l->map[2 * i];
			to[1] = l->map[2 * i + 1];
		}
	free(l->map);
	l->map = map;
	l->map_cap = cap;
	return true;
}

void map_put(struct ladder *l, uint64_t key, uint32_t rung)
{
	uint64_t *to;

	if (2 * l->map_n >= l->map_cap && !grow(l)) {
		l->no_memory = true;
		return;
	}
	to = slot(l->map, l->map_cap, key);
	l->map_n += !to[1];
	to[0] = key;
	to[1] = (uint64_t)rung + 1;
}
