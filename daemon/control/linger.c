/* SPDX-License-Identifier: MIT */
/*
 * linger.c - who makes a connection, or opens a device, asks many times in a row, and each time a sleeping thread and the core that
 * sleeps under it would have to be woken.  How long it looks, and when not: spin.h.
 */
#include "linger.h"

#include "../base/clock.h"
#include "../shard/spin.h"

static struct spin spin;
static ev_idle idle; /* while it is active the loop does not sleep */

static void on_idle(struct ev_loop *loop, ev_idle *w, int)
{
	mono_t now = spin_turn(&spin, clock_now());

	if (!spin_may(&spin, now))
		ev_idle_stop(loop, w);
}

void linger(struct ev_loop *loop)
{
	mono_t now = clock_now();

	spin_busy(&spin, now);
	if (ev_is_active(&idle) || !spin_may(&spin, now))
		return;
	ev_idle_init(&idle, on_idle);
	ev_idle_start(loop, &idle);
}
