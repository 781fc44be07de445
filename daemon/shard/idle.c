/* SPDX-License-Identifier: MIT */
/*
 * idle.c - contexts fall idle and wake up.
 *
 *	awake --- IDLE_NS without a post, a completion or a verb; bell_sleep(); its bell is silent ---> idle
 *	  ^                                                                                              |
 *	  +--- a kick; a completion for it, as an answer is likely; a verb; a kick that was lost --------+
 *
 * A receive that was posted before a send is there before it (drain.c), and so a kick that came before that send has to be seen
 * before it.  io_uring leaves a flag before the kick's system call returns: one load.  Where kicks can be seen only by a system
 * call, as with epoll, it costs more than to look at some contexts: there nobody is idle among HIDDEN_FEW.
 *
 * A program that turns its bell to awake and does not kick - it was stopped, or its thread was cancelled in between, or it is
 * no library of ours - harms itself only; it is found by the round.
 */
#include "idle.h"

#include <rdmad/ring.h>

#include "bells.h"
#include "look.h"

#define IDLE_NS    4000000u
#define HIDDEN_FEW 32u
#define ROUND_NS   50000u /* between two contexts: each is out of the cache */
#define LOOKS_MAX  64u    /* on end, however many kick */

static void awake_put(struct ctx *c)
{
	struct shard *s = c->shard;

	c->awake_prev = NULL;
	c->awake_next = s->awake;
	if (c->awake_next)
		c->awake_next->awake_prev = c;
	s->awake = c;
}

static void awake_take(struct ctx *c)
{
	if (c->awake_prev)
		c->awake_prev->awake_next = c->awake_next;
	else
		c->shard->awake = c->awake_next;
	if (c->awake_next)
		c->awake_next->awake_prev = c->awake_prev;
}

void idle_add(struct ctx *c, mono_t now)
{
	c->stirred = now;
	c->idle = false;
	c->shard->ctx_n++;
	RING_STORE(&c->bell->core, c->shard->core);
	awake_put(c);
}

void idle_del(struct ctx *c)
{
	struct shard *s = c->shard;

	if (s->round == c)
		s->round = c->next;
	s->ctx_n--;
	if (c->idle)
		s->idle_n--;
	else
		awake_take(c);
}

void idle_stir(struct ctx *c, mono_t now)
{
	c->stirred = now;
	if (!c->idle)
		return;
	c->idle = false;
	c->shard->idle_n--;
	RING_STORE(&c->bell->core, c->shard->core);
	awake_put(c);
	bell_away(c->bell, false);
	if (!c->shard->asleep)
		bells_wake(c);
}

static bool is_silent(const struct ctx *c, mono_t now)
{
	return mono_reached(now, mono_add(c->stirred, IDLE_NS)) && !ctx_pends(c);
}

static void fall_idle(struct ctx *c)
{
	bell_away(c->bell, true);
	bells_sleep(c);
	if (bell_any(c->bell, c->queue_n)) {
		bell_away(c->bell, false);
		bells_wake(c);
		return;
	}
	awake_take(c);
	c->idle = true;
	c->shard->idle_n++;
}

static void round_step(struct shard *s, mono_t now)
{
	struct ctx *c = s->round ? s->round : s->ctxs;

	if (!s->idle_n || !mono_reached(now, s->round_at))
		return;
	s->round_at = mono_add(now, ROUND_NS);
	s->round = c->next;
	if (!c->idle)
		return;
	RING_STORE(&c->bell->core, s->core);
	if (bells_touched(c))
		idle_stir(c, now);
}

bool idle_is_hidden(const struct shard *s) { return s->idle_n && io_rung(s->io) == IO_UNKNOWN; }

void idle_sweep(struct shard *s, mono_t now)
{
	struct ctx *next;

	round_step(s, now);
	if (s->ctx_n <= HIDDEN_FEW && io_rung(s->io) == IO_UNKNOWN)
		return;
	for (struct ctx *c = s->awake; c; c = next) {
		next = c->awake_next;
		if (is_silent(c, now))
			fall_idle(c);
	}
}

bool idle_kicked(const struct shard *s) { return s->idle_n && io_rung(s->io) == IO_RUNG; }

bool idle_kicks(struct shard *s, bool urgent)
{
	unsigned before = s->idle_n;

	if (urgent && idle_is_hidden(s))
		bells_ready(s, BELLS_SLOT); /* which has them all: such a way has no words */
	for (unsigned i = 0; i < LOOKS_MAX && idle_kicked(s); i++)
		if (!look_kicks(s)) /* all that was there is known */
			break;
	return s->idle_n != before;
}
