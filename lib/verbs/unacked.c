/* SPDX-License-Identifier: MIT */
/* unacked.c - waits for acknowledgements of events, and says so. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "unacked.h"

static void tell(struct unacked *u, uint32_t n)
{
	struct msg_req req = { .op = MSG_WAITS, .refused = { .err = !!n } };
	bool more = (int32_t)n < 0;
	uint32_t by = more ? -n : n;
	char of[16] = "";
	struct msg_rep rep;

	if (u->handle)
		snprintf(of, sizeof(of), " of 0x%x", (unsigned)u->handle);
	snprintf(req.refused.verb, sizeof(req.refused.verb), "%s%s", u->verb, of);
	snprintf(req.refused.text, sizeof(req.refused.text), "%u event%s %s (%s)", (unsigned)by, by == 1 ? "" : "s",
		 more ? "acknowledged that the program did not get" : "not acknowledged", u->by);
	if (conn_mine(u->conn))
		conn_call(u->conn, &req, &rep, -1, NULL, 0);
	u->told = n;
}

void unacked_wait(struct unacked *u, pthread_cond_t *cond, pthread_mutex_t *lock, uint32_t n)
{
	struct timespec end;

	if (u->told) {
		pthread_cond_wait(cond, lock);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec++;
	if (pthread_cond_timedwait(cond, lock, &end) != ETIMEDOUT)
		return;
	pthread_mutex_unlock(lock);
	tell(u, n);
	pthread_mutex_lock(lock);
}

void unacked_end(struct unacked *u)
{
	if (u->told)
		tell(u, 0);
}
