/* SPDX-License-Identifier: MIT */
/* dice.c - what becomes of a frame. */
#include "dice.h"

#define REORDER_NS 200000u /* an overtaken frame comes up to this much later */

/* splitmix64: every state is good, so is any seed. */
static uint64_t draw(struct dice *f)
{
	uint64_t z = f->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static bool chance(struct dice *f, double share) { return (double)(draw(f) >> 11) * 0x1p-53 < share; }
static uint64_t below(struct dice *f, uint64_t n) { return n ? draw(f) % n : 0; }

void dice_init(struct dice *f, uint64_t seed, unsigned way) { f->state = seed + (uint64_t)way * 0x100000001b3u; }

/* The same number of draws whatever comes of them, so that one probability does not shift the others' luck. */
struct fate dice_throw(struct dice *f, const struct impair_spec *c, size_t len)
{
	struct fate fate = { .flip = -1 };
	uint64_t bit = below(f, len * 8), behind = below(f, REORDER_NS), jitter = below(f, c->jitter_ns);

	fate.lost = chance(f, c->loss);
	fate.twice = chance(f, c->dup);
	if (chance(f, c->corrupt))
		fate.flip = (int)bit;
	fate.delay_ns = c->delay_ns + jitter;
	if (chance(f, c->reorder))
		fate.delay_ns += behind + 1;
	return fate;
}
