/* SPDX-License-Identifier: MIT */
/* cong.c - see cong.h. */
#include "cong.h"

#define FAST_STEPS   5u
#define GAIN         16u        /* alpha moves by 1/16 of what is missing */
#define MORE         64u        /* target grows by 1/64 of start, 2/64, ... */
#define METER_MIN_NS 100000u    /* a burst is not the rate of a second */
#define MOST         500000000u /* kbit/s */

static uint32_t kbps_of(uint64_t bytes, uint64_t ns)
{
	uint64_t kbps = bytes * 8000000 / ns;

	return kbps < MOST ? (uint32_t)kbps : MOST;
}

/* The meter is read anew each step. */
static uint32_t measured(const struct cong *c, mono_t now)
{
	uint64_t ns = mono_since(now, c->since);
	uint32_t kbps = kbps_of(c->sent, ns > METER_MIN_NS ? ns : METER_MIN_NS);

	return kbps > c->seen ? kbps : c->seen;
}

void cong_sent(struct cong *c, mono_t now, uint64_t n)
{
	uint64_t ns = mono_since(now, c->since);

	if (ns >= CONG_STEP_NS) {
		c->seen = kbps_of(c->sent, ns);
		c->sent = 0;
		c->since = now;
	}
	c->sent += n;
}

uint32_t cong_recover(struct cong *c, mono_t now)
{
	while (c->limit && mono_since(now, c->stepped) >= CONG_STEP_NS) {
		c->stepped = mono_add(c->stepped, CONG_STEP_NS);
		c->alpha -= c->alpha / GAIN;
		if (++c->steps > FAST_STEPS)
			c->target += c->start / MORE * (c->steps - FAST_STEPS);
		c->limit = (c->limit + c->target) / 2;
		if (c->limit >= 2 * c->start)
			c->limit = 0;
	}
	return c->limit;
}

void cong_markable(struct cong *c, mono_t now, uint32_t n)
{
	c->marked_n = c->marked_n < CONG_PKTS ? c->marked_n + n : CONG_PKTS;
	c->marked_at = now;
}

enum cong_cnp cong_cnp(struct cong *c, mono_t now)
{
	if (c->limit && !c->steps && mono_since(now, c->stepped) < CONG_STEP_NS)
		return CONG_SAME;
	if (c->marked_n < CONG_PKTS || mono_since(now, c->marked_at) >= CONG_AGE_NS)
		return CONG_STRANGE;
	c->marked_n = 0;
	if (!c->limit) {
		c->start = measured(c, now);
		if (c->start < CONG_START_MIN)
			c->start = CONG_START_MIN;
		c->limit = c->start;
		c->alpha = CONG_ONE;
	}
	c->target = c->limit;
	c->limit -= (uint32_t)((uint64_t)c->limit * c->alpha / (2 * CONG_ONE));
	if (c->limit < CONG_MIN)
		c->limit = CONG_MIN;
	c->alpha += (CONG_ONE - c->alpha) / GAIN;
	c->steps = 0;
	c->stepped = now;
	return CONG_CUT;
}
