/* SPDX-License-Identifier: MIT */
/*
 * touch.h - memory that is about to be written to for the first time is read before.
 *
 * The kernel maps a page that is written to alone, but one that is read with all of its neighbours that are there
 * (fault-around): the pages of buffers that the program has filled since it registered them, or put its own words into, come
 * with a fifth of the time.  Pages that are not there do not come to be there by that, but for the one that is needed.
 */
#ifndef DAEMON_TOUCH_H
#define DAEMON_TOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOUCH_STEP 65536u /* bytes that come together: what the kernel does if nobody tells it otherwise */

/* The steps of a mapping that were written to.  Any thread may ask and tell. */
struct touch {
	uint8_t *base;
	uint8_t was[]; /* atomic: a bit for each */
};

/* Of the len bytes that are mapped at base.  NULL: no memory.  To be freed by free(). */
struct touch *touch_new(uint8_t *base, size_t len);
size_t touch_cost(size_t len); /* bytes of heap of one */

/* [at, at+len) of the mapping, of which some step has not been written to. */
void touch_first(struct touch *, const uint8_t *at, size_t len);

static inline bool touch_was(const struct touch *t, size_t step)
{
	return __atomic_load_n(&t->was[step / 8], __ATOMIC_RELAXED) >> step % 8 & 1;
}

/* Before [at, at+len) of the mapping, not empty, is written to.  Of long ones only the ends are looked at: all came together. */
static inline void touch(struct touch *t, const uint8_t *at, size_t len)
{
	const size_t first = (size_t)(at - t->base) / TOUCH_STEP, last = (size_t)(at + len - 1 - t->base) / TOUCH_STEP;

	if (!touch_was(t, first) || (last != first && !touch_was(t, last)))
		touch_first(t, at, len);
}

#endif
