/* SPDX-License-Identifier: MIT */
/* touch.c - the steps of a mapping, and the reads. */
#include "touch.h"

#include <stdlib.h>

size_t touch_cost(size_t len) { return sizeof(struct touch) + len / TOUCH_STEP / 8 + 1; }

struct touch *touch_new(uint8_t *base, size_t len)
{
	struct touch *t = calloc(1, touch_cost(len));

	if (t)
		t->base = base;
	return t;
}

void touch_first(struct touch *t, const uint8_t *at, size_t len)
{
	const size_t last = (size_t)(at + len - 1 - t->base) / TOUCH_STEP;

	for (size_t i = (size_t)(at - t->base) / TOUCH_STEP; i <= last; i++) {
		const uint8_t bit = (uint8_t)(1u << i % 8), *start = t->base + i * TOUCH_STEP;

		if (!(__atomic_fetch_or(&t->was[i / 8], bit, __ATOMIC_RELAXED) & bit))
			(void)*(const volatile uint8_t *)(at > start ? at : start);
	}
}
