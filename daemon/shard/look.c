/* SPDX-License-Identifier: MIT */
/* look.c - each slot of io.h that is ready has its reader; none of them does more than take note. */
#include "look.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../base/log.h"
#include "bells.h"
#include "inbox.h"
#include "net.h"
#include "raw.h"

#define TAKE 64u

static void kicks_read(struct shard *s)
{
	uint64_t count;

	if (read(s->kick_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
		s->count.kicks += count;
	else if (errno != EAGAIN)
		log_err("cannot read the kicks of a shard: %s", strerror(errno));
}

static void ready_tell(struct shard *s, unsigned slot)
{
	if (slot >= IO_FILES || slot == BELLS_SLOT)
		bells_ready(s, slot);
	else if (slot == KICK_SLOT)
		kicks_read(s);
	else if (slot == SEND_SLOT)
		net_room_ready(s->net);
	else if (slot >= RAW_SLOT)
		raw_ready(s, slot);
	else
		net_ready(s->net, slot, clock_now());
}

void look_wait(struct shard *s, uint64_t timeout_ns)
{
	unsigned ready[TAKE], n;

	if (timeout_ns)
		inbox_lend(s->inbox);
	n = io_wait(s->io, timeout_ns, ready, TAKE);
	if (timeout_ns)
		inbox_take(s->inbox);
	for (unsigned i = 0; i < n; i++)
		ready_tell(s, ready[i]);
}

unsigned look_kicks(struct shard *s)
{
	unsigned ready[TAKE], n = io_look(s->io, ready, TAKE);

	for (unsigned i = 0; i < n; i++)
		ready_tell(s, ready[i]);
	return n;
}
