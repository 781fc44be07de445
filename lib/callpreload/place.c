/* SPDX-License-Identifier: MIT */
/* place.c - memory that data went to or came from. */
#include "place.h"

uint64_t place_seq(void)
{
	static uint64_t seq;

	return ++seq;
}

void place_add(struct places *l, const char *at, size_t len)
{
	unsigned i = l->n++ % PLACES;

	l->row[i].at = at;
	l->row[i].len = len;
	l->row[i].seq = place_seq();
}

bool place_has(const struct places *l, uint64_t since, const char *at, size_t len)
{
	uint64_t from = l->n > PLACES ? l->n - PLACES : 0;

	if (from && l->row[from % PLACES].seq > since)
		return true;
	for (uint64_t i = from; i < l->n; i++)
		if (l->row[i % PLACES].seq > since && overlap(l->row[i % PLACES].at, l->row[i % PLACES].len, at, len))
			return true;
	return false;
}
