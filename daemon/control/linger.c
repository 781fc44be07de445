/* SPDX-License-Identifier: MIT */
/*
 * linger.c - who makes a connection, or opens a device, asks many times in a row, and each time a sleeping thread and the core that
 * sleeps under it would have to be woken.  How long it looks, and when not: spin.h.
 */
#include "linger.h"

#include "../base/clock.h"
#include "../shard/spin.h"
#include "mail.h"

static struct spin spin;
static ev_idle idle; /* while it is active the loop does not sleep */
static mono_t ended; /* when it was stopped last */

#define LOOKS 4u /* at mailboxes for each one at descriptors */

static void on_idle(struct ev_loop *loop, ev_idle *w, int)
{
	mono_t now = clock_now();

	for (unsigned i = 0; i < LOOKS; i++) {
		if (mail_turn(loop)) {
			spin_found(&spin);
			spin_busy(&spin, now);
		}
		now = spin_turn(&spin, now);
	}
	ended = now;
	if (spin_may(&spin, ended) || !mail_rest())
		return;
	spin_rest(&spin);
	ev_idle_stop(loop, w);
}

bool linger(struct ev_loop *loop, mono_t came)
{
	bool looks = ev_is_active(&idle);
	mono_t now = clock_now();

	if (looks)
		spin_found(&spin);
	else
		spin_slept(&spin, ended, came, true);
	spin_busy(&spin, now);
	if (looks || !spin_may(&spin, now))
		return looks;
	ev_idle_init(&idle, on_idle);
	ev_idle_start(loop, &idle);
	return true;
}

void linger_begin(void) { spin_init(&spin); }

void linger_stop(struct ev_loop *loop) { ev_idle_stop(loop, &idle); }
