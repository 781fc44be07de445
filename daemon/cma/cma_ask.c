/* SPDX-License-Identifier: MIT */
/*
 * cma_ask.c - ids whose next hop does not answer yet: it is asked for again, less and less often, until it does or the time is
 * over.
 *
 *	id --its timer--> due, by user --a few each millisecond, users in turn--> neigh_answers()
 *
 * A question takes a dozen system calls, and a user may have tens of thousands of ids with all the time in the world: neither
 * they nor the others' requests wait for more than a few.
 */
#include <errno.h>

#include "../../proto/turns.h"
#include "cma.h"
#include "neigh.h"

#define ASK_MIN_S 0.001
#define ASK_MAX_S 1.0
#define TURN_S    0.001
#define TURN_ASKS 8u

static struct ev_loop *loop;
static struct turns due; /* ids to be asked for now */
static ev_timer turn;    /* runs until there were none for a millisecond */

static void wait_more(struct cma_id *id)
{
	ev_tstamp left = id->ask_until - ev_now(loop), after = id->ask_s < left ? id->ask_s : left;

	ev_timer_set(&id->asking, after > 0 ? after : 0, 0);
	ev_timer_start(loop, &id->asking);
	id->ask_s = 2 * id->ask_s < ASK_MAX_S ? 2 * id->ask_s : ASK_MAX_S;
}

static int neighbour(const struct cma_id *id)
{
	int err = neigh_answers(&id->src, &id->dst);

	return id->dst_here && err != EAGAIN ? 0 : err;
}

static void ask(struct cma_id *id)
{
	int err = neighbour(id);

	if (err == EAGAIN && ev_now(loop) < id->ask_until) {
		wait_more(id);
		return;
	}
	cma_ask_stop(id);
	id->asked(id, err == EAGAIN ? ETIMEDOUT : err);
}

static void on_turn(struct ev_loop *, ev_timer *w, int)
{
	for (unsigned i = 0; i < TURN_ASKS; i++) {
		struct link *next = turns_take(&due);

		if (!next && !i)
			ev_timer_stop(loop, w);
		if (!next)
			return;
		ask(LINK_OF(next, struct cma_id, in_due));
	}
}

static void on_due(struct ev_loop *, ev_timer *w, int)
{
	struct cma_id *id = w->data;

	turns_put(&due, id->ask_lane, &id->in_due);
	if (ev_is_active(&turn))
		return;
	ev_timer_set(&turn, 0, TURN_S);
	ev_timer_start(loop, &turn);
}

void cma_ask_start(struct ev_loop *l)
{
	loop = l;
	turns_init(&due);
	ev_init(&turn, on_turn);
}

void cma_ask_end(void) { ev_timer_stop(loop, &turn); }

int cma_ask(struct cma_id *id, uint32_t timeout_ms, bool (*asked)(struct cma_id *, int err))
{
	int err = neighbour(id);

	if (!err)
		return asked(id, 0) ? 0 : ENOMEM;
	if (err != EAGAIN)
		return err;
	id->ask_lane = lane_get(&due, id->ch->who.uid);
	if (!id->ask_lane)
		return ENOMEM;
	id->asked = asked;
	id->state = CMA_ADDR_QUERY;
	ev_now_update(loop);
	id->ask_until = ev_now(loop) + timeout_ms / 1e3;
	id->ask_s = ASK_MIN_S;
	link_init(&id->in_due);
	ev_init(&id->asking, on_due);
	id->asking.data = id;
	wait_more(id);
	return 0;
}

void cma_ask_stop(struct cma_id *id)
{
	if (!id->ask_lane)
		return;
	ev_timer_stop(loop, &id->asking);
	link_del(&id->in_due);
	lane_put(&due, id->ask_lane);
	id->ask_lane = NULL;
}
