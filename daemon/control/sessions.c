/* SPDX-License-Identifier: MIT */
/* sessions.c - the list. */
#include "sessions.h"

struct session *sessions;
unsigned sessions_n, holds_n, sessions_refused;

void sessions_add(struct session *s)
{
	s->next = sessions;
	if (s->next)
		s->next->prev = s;
	sessions = s;
	sessions_n++;
	sessions_refused += s->refused != 0;
}

void sessions_del(struct session *s)
{
	if (s->hold)
		holds_n--;
	if (s->prev)
		s->prev->next = s->next;
	else
		sessions = s->next;
	if (s->next)
		s->next->prev = s->prev;
	sessions_n--;
	sessions_refused -= s->refused != 0;
}
