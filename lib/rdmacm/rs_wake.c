/* SPDX-License-Identifier: MIT */
/*
 * rs_wake.c - counts the threads that sleep on a socket, and wakes them.
 *
 * The eventfd stays readable until every thread that slept at the time of the kick has seen it.
 */
#include "rs.h"

#include <sys/eventfd.h>

#include <rdmad/own.h>

void rs_wake(struct rsock *rs)
{
	rs->news++;
	if (rs->dozers)
		rdmad_cq_rouse(rs->link.cq);
	if (!rs->sleepers)
		return;
	rs->stale += rs->sleepers;
	rs->sleepers = 0;
	rs->gen++;
	eventfd_write(rs->kick, 1);
}

void rs_sleeper_gone(struct rsock *rs, uint32_t gen)
{
	eventfd_t n;

	if (gen == rs->gen)
		rs->sleepers--;
	else if (!--rs->stale)
		eventfd_read(rs->kick, &n);
}

uint32_t rs_sleeper_add(struct rsock *rs)
{
	rs->sleepers++;
	return rs->gen;
}
