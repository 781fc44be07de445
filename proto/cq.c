/* SPDX-License-Identifier: MIT */
/* cq.c - the FIFO that completions wait in. */
#include "cq.h"

#include <errno.h>
#include <stdlib.h>

int comp_reserve(struct comp_fifo *f, uint32_t n)
{
	uint64_t need = f->need + n;
	uint64_t max = f->max ? f->max : 256;
	struct cqe *v;

	/* The FIFO is drained from the front but filled at the back until it is empty: room for both. */
	if (2 * need > f->max) {
		while (max < 2 * need)
			max *= 2;
		if (max > UINT32_MAX)
			return ENOMEM;
		v = realloc(f->v, max * sizeof(*v));
		if (!v)
			return ENOMEM;
		f->v = v;
		f->max = (uint32_t)max;
	}
	f->need = need;
	return 0;
}

void comp_release(struct comp_fifo *f, uint32_t n) { f->need -= n; }

void comp_compact(struct comp_fifo *f)
{
	for (uint32_t i = f->head; i < f->tail; i++)
		f->v[i - f->head] = f->v[i];
	f->tail -= f->head;
	f->head = 0;
}
