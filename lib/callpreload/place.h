/* SPDX-License-Identifier: MIT */
/* place.h - where data went to and came from lately: the last PLACES of each.  With check_lock. */
#ifndef CALLPRELOAD_PLACE_H
#define CALLPRELOAD_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACES 1024u

struct places {
	struct {
		const char *at;
		size_t len;
		uint64_t seq;
	} row[PLACES];
	uint64_t n;
};

static inline bool overlap(const char *a, size_t a_len, const char *b, size_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

/* The number of this moment, greater than all before it. */
uint64_t place_seq(void);
void place_add(struct places *, const char *at, size_t len);
/* Was there anything since then, or is that not known any more? */
bool place_has(const struct places *, uint64_t since, const char *at, size_t len);

#endif
