/* SPDX-License-Identifier: MIT */
/*
 * rs_exit.c - at exit(): what was sent on streams that are not closed shall arrive, and their peers see an end, as of TCP.
 *
 * The daemon drops what is under way when the process has gone.
 */
#include "rs.h"

#include <time.h>
#include <unistd.h>

enum { EXIT_MS = 10000, TAKEN_MS = 500, LOOK_NS = 100000 };

static bool has_event(const struct rsock *rs)
{
	struct pollfd p = { .fd = rs->fd, .events = POLLIN };

	return rs->state == RS_CONNECTED && ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0;
}

/* Whether there is nothing left to do: the end is said, and has arrived with all that was before it. */
static bool said(struct rsock *rs)
{
	const struct linger *l = &rs->opts.linger;

	if (conn_gone(&to_chan(rs->ch)->conn))
		return true;
	rs_progress(rs);
	if (rs->state == RS_ACCEPTING || has_event(rs)) /* the peer may have gone */
		rs_events(rs);
	if (!rs_sends(rs) || (l->l_onoff && l->l_linger <= 0))
		return true;
	if (!rs->end_said && rs->link.ctl_free)
		rs->end_said = !rs_push_ctl(rs, rs_msg(RS_OP_CTL, RS_CTL_DISCONNECT), NULL, 0, 0, 0);
	return rs->end_said && rs_sent_all(rs);
}

/*
 * A lock that is taken, *since when: whether to try it again.  Another thread gives it back soon; one that was stopped in a locked
 * call, as by a handler that calls exit(), never does.
 */
static bool taken(int64_t *since)
{
	int64_t now = rs_now_ms();

	if (!*since)
		*since = now;
	return now - *since < TAKEN_MS;
}

static void look(struct rsock *rs, void *left)
{
	if (rs->ds || rs->owner != getpid()) /* the child of a fork would say it for its parent */
		return;
	if (pthread_mutex_trylock(&rs->lock)) {
		*(int *)left += taken(&rs->taken_ms);
		return;
	}
	rs->taken_ms = 0;
	*(int *)left += !said(rs);
	pthread_mutex_unlock(&rs->lock);
}

__attribute__((destructor)) static void streams_end(void)
{
	int64_t until = rs_now_ms() + EXIT_MS, table_taken = 0;
	int left;

	do {
		left = 0;
		if (rs_each(look, &left))
			table_taken = 0;
		else
			left = taken(&table_taken);
		if (left)
			nanosleep(&(struct timespec){ 0, LOOK_NS }, NULL);
	} while (left && rs_now_ms() < until);
}
