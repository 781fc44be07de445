/* SPDX-License-Identifier: MIT */
/* cong.c - see cong.h. */
#include "cong.h"

#define GAIN         48u /* alpha moves by 1/48 of what is missing, in CONG_TIMER_NS: the paper's g, 1/256 in 55 us */
#define METER_NS     1000000u   /* the meter is read after so long */
#define METER_MIN_NS 100000u    /* a burst is not the rate of a second */
#define MOST         500000000u /* kbit/s */

static uint32_t kbps_of(uint64_t bytes, uint64_t ns)
{
	uint64_t kbps = bytes * 8000000 / ns;

	return kbps < MOST ? (uint32_t)kbps : MOST;
}

static uint32_t measured(const struct cong *c, mono_t now)
{
	uint64_t ns = mono_since(now, c->since);
	uint32_t kbps = kbps_of(c->sent, ns > METER_MIN_NS ? ns : METER_MIN_NS);

	return kbps > c->seen ? kbps : c->seen;
}

/* One more stage of the timer or of the byte counter. */
static void increase(struct cong *c)
{
	uint32_t most = c->timer > c->bytes ? c->timer : c->bytes, least = c->timer < c->bytes ? c->timer : c->bytes;

	if (least > CONG_FAST)
		c->target += CONG_HAI * (least - CONG_FAST);
	else if (most > CONG_FAST)
		c->target += CONG_AI;
	if (c->target > MOST)
		c->target = MOST;
	c->limit = (c->limit + c->target + 1) / 2;
	if (c->limit >= 2 * c->start || c->limit >= MOST)
		c->limit = 0;
}

void cong_sent(struct cong *c, mono_t now, uint64_t n)
{
	uint64_t ns = mono_since(now, c->since);

	if (ns >= METER_NS) {
		c->seen = kbps_of(c->sent, ns);
		c->sent = 0;
		c->since = now;
	}
	c->sent += n;
	if (!c->limit)
		return;
	for (c->counted += n; c->limit && c->counted >= CONG_BYTES; c->counted -= CONG_BYTES) {
		c->bytes++;
		increase(c);
	}
}

uint32_t cong_recover(struct cong *c, mono_t now)
{
	while (c->limit && mono_since(now, c->stepped) >= CONG_TIMER_NS) {
		c->stepped = mono_add(c->stepped, CONG_TIMER_NS);
		c->alpha -= c->alpha / GAIN;
		c->timer++;
		increase(c);
	}
	return c->limit;
}

void cong_markable(struct cong *c, mono_t now, uint32_t n)
{
	c->marked_n = c->marked_n + n < CONG_PKTS ? c->marked_n + n : CONG_PKTS;
	c->open = c->open + n < CONG_OPEN ? c->open + n : CONG_OPEN;
	c->marked_at = now;
}

/* Can it be an answer? */
static bool answers(struct cong *c, mono_t now)
{
	if (!c->open || mono_since(now, c->marked_at) >= CONG_AGE_NS) {
		c->doubt = mono_add(now, CONG_DOUBT_NS);
		return false;
	}
	c->open--;
	return c->marked_n >= (mono_before(now, c->doubt) ? CONG_PKTS : 1);
}

enum cong_cnp cong_cnp(struct cong *c, mono_t now)
{
	if (c->limit && mono_since(now, c->cut) < CONG_CUT_NS)
		return CONG_SAME;
	if (!answers(c, now))
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
	c->timer = c->bytes = 0;
	c->counted = 0;
	c->stepped = c->cut = now;
	return CONG_CUT;
}
