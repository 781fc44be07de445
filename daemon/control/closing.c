/* SPDX-License-Identifier: MIT */
/* closing.c - bills are closed, and sessions that waited for room read on. */
#include "closing.h"

#include <ev.h>

#include "../base/foreign.h"
#include "sessions.h"

#define AGAIN_S 0.1 /* then there may be a thread */

static struct {
	struct ev_loop *loop;
	ev_async due;
	ev_timer again;
} closing;

static void settle(void)
{
	if (!foreign_settle() && !ev_is_active(&closing.again)) {
		ev_timer_set(&closing.again, AGAIN_S, 0.);
		ev_timer_start(closing.loop, &closing.again);
	}
	for (struct session *s = sessions; s; s = s->next)
		session_again(closing.loop, s);
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
