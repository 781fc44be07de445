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
static ev_idle idle;   /* while it is active the loop does not sleep; it has a turn when nothing else has */
static ev_check check; /* and as long as this one, which has one each time */
static mono_t ended;   /* when they were stopped last */

#define LOOKS 4u /* at mailboxes for each one at descriptors */

static void mails_serve(struct ev_loop *loop, mono_t now)
{
	if (!mail_turn(loop))
		return;
	spin_found(&spin);
	spin_busy(&spin, now);
}

/* Sockets in which there is always one request more do not keep those that ask by mail waiting. */
static void on_check(struct ev_loop *loop, ev_check *, int) { mails_serve(loop, clock_now()); }

static void on_idle(struct ev_loop *loop, ev_idle *w, int)
{
	mono_t now = clock_now();

	for (unsigned i = 0; i < LOOKS; i++) {
		mails_serve(loop, now);
		now = spin_turn(&spin, now);
	}
	ended = now;
	if (spin_may(&spin, ended) || !mail_rest())
		return;
	spin_rest(&spin);
	ev_idle_stop(loop, w);
	ev_check_stop(loop, &check);
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
	ev_check_init(&check, on_check);
	ev_check_start(loop, &check);
	return true;
}

void linger_begin(void) { spin_init(&spin); }

void linger_stop(struct ev_loop *loop)
{
	ev_idle_stop(loop, &idle);
	ev_check_stop(loop, &check);
}
