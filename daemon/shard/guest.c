/* SPDX-License-Identifier: MIT */
/* guest.c - see guest.h. */
#include "guest.h"

#include "inbox.h"
#include "turn.h"

static void leave(struct shard *s)
{
	bool done = turn_guest(s);

	inbox_lend(s->inbox);
	if (!done)
		inbox_wake(s);
}

void guest_call(struct shard *s, void (*fn)(struct shard *, void *), void *arg)
{
	if (!inbox_borrow(s->inbox)) {
		shard_call(s, fn, arg);
		return;
	}
	fn(s, arg);
	leave(s);
}

void guest_turn(struct shard *s)
{
	if (inbox_borrow(s->inbox))
		leave(s);
	else
		inbox_wake(s);
}
