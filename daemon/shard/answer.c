/* SPDX-License-Identifier: MIT */
#include "answer.h"

#define RUN_MIN    8u
#define STALL_NS   500000u
#define STALLS_MIN 3u
#define STALLS_NS  200000000u
#define KEEP_NS    1000000000u

bool answer_awaited(struct answer *a, uint32_t heard, mono_t now)
{
	a->heard = heard;
	a->at = now;
	a->open = true;
	return a->run >= RUN_MIN && !mono_reached(now, a->until);
}

static void stalled(struct answer *a, mono_t now)
{
	if (!a->stalls || mono_reached(now, mono_add(a->stalls_at, STALLS_NS))) {
		a->stalls_at = now;
		a->stalls = 0;
	}
	if (++a->stalls < STALLS_MIN)
		return;
	a->stalls = 0;
	a->until = mono_add(now, KEEP_NS);
}

void answer_posted(struct answer *a, uint32_t heard, mono_t now)
{
	if (!a->open)
		return;
	a->open = false;
	if (heard == a->heard) {
		a->run = a->stalls = 0;
		return;
	}
	if (a->run < RUN_MIN)
		a->run++;
	if (a->run >= RUN_MIN && mono_reached(now, mono_add(a->at, STALL_NS)))
		stalled(a, now);
}
