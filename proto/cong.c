/* SPDX-License-Identifier: MIT */
/* cong.c - see cong.h. */
#include "cong.h"

#define METER_NS     1000000u /* the meter is read after so long */
#define METER_MIN_NS 100000u  /* a burst is not the rate of a second */
#define START_MIN    100000u  /* kbit/s: who sends less is not slowed below half of it by one CNP */

const struct cong_law cong_law = {
	.cut_ns = 300000,   /* what is on its way when a CNP comes causes more of them: they count as one */
	.timer_ns = 300000, /* adapters: rpg_time_reset */
	.bytes = 10000000,  /* the paper's byte counter, 10 MB */
	.fast = 5,          /* the paper's F */
	.ai = 5000,         /* adapters: rpg_ai_rate */
	.hai = 50000,       /* adapters: rpg_hai_rate */
	.gain = 48,         /* the paper's g, 1/256 in 55 us */
	.min = 8000,
};

static uint32_t kbps_of(uint64_t bytes, uint64_t ns)
{
	uint64_t kbps = bytes * 8000000 / ns;

	return kbps < CONG_MOST ? (uint32_t)kbps : CONG_MOST;
}

static uint32_t measured(const struct cong *c, mono_t now)
{
	uint64_t ns = mono_since(now, c->since);
	uint32_t kbps = kbps_of(c->sent, ns > METER_MIN_NS ? ns : METER_MIN_NS);

	return kbps > c->seen ? kbps : c->seen;
}

/* One more stage of the timer or of the byte counter. */
static void increase(struct cong *c, const struct cong_law *l)
{
	uint32_t most = c->timer > c->bytes ? c->timer : c->bytes, least = c->timer < c->bytes ? c->timer : c->bytes;
	uint32_t end = l->line ? l->line : CONG_MOST;

	if (c->target < end && least > l->fast)
		c->target += l->hai * (least - l->fast);
	else if (c->target < end && most > l->fast)
		c->target += l->ai;
	if (c->target > end)
		c->target = end;
	c->limit = (c->limit + c->target + 1) / 2;
	if (c->limit > end)
		c->limit = end;
	if (!l->line && (c->limit >= 2 * c->start || c->limit >= CONG_MOST))
		c->limit = 0;
}

void cong_sent(struct cong *c, const struct cong_law *l, mono_t now, uint64_t n)
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
	for (c->counted += n; c->limit && c->counted >= l->bytes; c->counted -= l->bytes) {
		c->bytes++;
		increase(c, l);
	}
}

uint32_t cong_recover(struct cong *c, const struct cong_law *l, mono_t now)
{
	while (c->limit && mono_since(now, c->stepped) >= l->timer_ns) {
		if (c->limit == l->line && c->alpha < l->gain) { /* more of them change nothing */
			c->stepped = now;
			break;
		}
		c->stepped = mono_add(c->stepped, l->timer_ns);
		c->alpha -= c->alpha / l->gain;
		c->timer++;
		increase(c, l);
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
	return !mono_before(now, c->doubt) || c->marked_n >= CONG_PKTS;
}

enum cong_cnp cong_cnp(struct cong *c, const struct cong_law *l, mono_t now)
{
	if (c->limit && mono_since(now, c->cut) < l->cut_ns)
		return CONG_SAME;
	if (!answers(c, now))
		return CONG_STRANGE;
	c->marked_n = 0;
	if (!c->limit) {
		c->start = l->line ? l->line : measured(c, now);
		if (!l->line && c->start < START_MIN)
			c->start = START_MIN;
		c->limit = c->start;
		c->alpha = CONG_ONE;
	}
	c->target = c->limit;
	c->limit -= (uint32_t)((uint64_t)c->limit * c->alpha / (2 * CONG_ONE));
	if (c->limit < l->min)
		c->limit = l->min;
	c->alpha += (CONG_ONE - c->alpha) / l->gain;
	c->timer = c->bytes = 0;
	c->counted = 0;
	c->stepped = c->cut = now;
	return CONG_CUT;
}
