/* SPDX-License-Identifier: MIT */
/* heap.c - a binary heap of timers by key; see heap.h for why the key may be behind. */
#include "heap.h"

#include <errno.h>
#include <stdlib.h>

int heap_reserve(struct heap *h, uint32_t n)
{
	struct timer **v;
	uint32_t max = h->max ? h->max : 16;

	if (n <= h->max)
		return 0;
	while (max < n)
		max *= 2;
	v = realloc(h->v, max * sizeof(*v));
	if (!v)
		return ENOMEM;
	h->v = v;
	h->max = max;
	return 0;
}

void heap_fini(struct heap *h)
{
	free(h->v);
	*h = (struct heap){ 0 };
}

static void put(struct heap *h, uint32_t i, struct timer *t)
{
	h->v[i] = t;
	t->pos = i + 1;
}

static void up(struct heap *h, uint32_t i)
{
	struct timer *t = h->v[i];

	while (i > 0 && mono_before(t->key, h->v[(i - 1) / 2]->key)) {
		put(h, i, h->v[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	put(h, i, t);
}

static void down(struct heap *h, uint32_t i)
{
	struct timer *t = h->v[i];

	for (;;) {
		uint32_t c = 2 * i + 1;

		if (c >= h->n)
			break;
		if (c + 1 < h->n && mono_before(h->v[c + 1]->key, h->v[c]->key))
			c++;
		if (!mono_before(h->v[c]->key, t->key))
			break;
		put(h, i, h->v[c]);
		i = c;
	}
	put(h, i, t);
}

void timer_init(struct timer *t)
{
	t->at = t->key = MONO_NEVER;
	t->pos = 0;
	t->of = TIMER_QP;
}

void timer_set(struct heap *h, struct timer *t, mono_t at)
{
	t->at = at;
	if (!t->pos) {
		t->key = at;
		put(h, h->n++, t);
		up(h, h->n - 1);
	} else if (mono_before(at, t->key)) {
		t->key = at;
		up(h, t->pos - 1);
	}
}

void timer_stop(struct timer *t) { t->at = MONO_NEVER; }

void timer_del(struct heap *h, struct timer *t)
{
	uint32_t i = t->pos - 1;

	if (!t->pos)
		return;
	t->pos = 0;
	h->n--;
	if (i == h->n)
		return;
	put(h, i, h->v[h->n]);
	up(h, i);
	down(h, h->v[i]->pos - 1);
}

struct timer *heap_due(struct heap *h, mono_t now)
{
	while (h->n && mono_reached(now, h->v[0]->key)) {
		struct timer *t = h->v[0];

		if (mono_reached(now, t->at) || mono_is_never(t->at)) {
			bool fires = !mono_is_never(t->at);

			timer_del(h, t);
			t->at = MONO_NEVER;
			if (fires)
				return t;
		} else {
			t->key = t->at;
			down(h, 0);
		}
	}
	return NULL;
}
