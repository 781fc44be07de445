/* SPDX-License-Identifier: MIT */
/* closing.c - bills are closed, and sessions that waited for room read on. */
#include "closing.h"

#include <ev.h>

#include "../base/foreign.h"
#include "sessions.h"

#define AGAIN_S 0.1 /* then there may be a thread, or who waits for room has waited long enough */

static struct {
	struct ev_loop *loop;
	ev_async due;
	ev_timer again;
} closing;

void closing_later(void)
{
	if (ev_is_active(&closing.again))
		return;
	ev_timer_set(&closing.again, AGAIN_S, 0.);
	ev_timer_start(closing.loop, &closing.again);
}

static void settle(void)
{
	bool all = foreign_settle();

	for (struct session *s = sessions, *next; s; s = next) {
		next = s->next;
		all &= session_again(closing.loop, s);
	}
	if (!all)
		closing_later();
}

static void on_due(struct ev_loop *, ev_async *, int) { settle(); }
static void on_again(struct ev_loop *, ev_timer *, int) { settle(); }

/* Any thread. */
static void due(void) { ev_async_send(closing.loop, &closing.due); }

void closing_start(struct ev_loop *loop)
{
	closing.loop = loop;
	ev_async_init(&closing.due, on_due);
	ev_async_start(loop, &closing.due);
	ev_init(&closing.again, on_again);
	foreign_begin(due);
}

void closing_stop(void)
{
	foreign_end();
	ev_async_stop(closing.loop, &closing.due);
	ev_timer_stop(closing.loop, &closing.again);
}
