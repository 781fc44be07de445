/* SPDX-License-Identifier: MIT */
/*
 * cma_turn.c - events of the CM come in thousands: the control loop takes a few, and then others have their turn.  This file stands
 * for the agents.
 */
#include "daemon/cma/cma.h"
#include "daemon/cma/cma_agent.h"
#include "t/suite.h"

#include <errno.h>
#include <unistd.h>

#define EVENTS 1000u
#define BATCH  32u

static void (*spoke)(void);
static unsigned left;

/* ---- the agents ----------------------------------------------------------------- */

int agents_start(void (*wake)(void))
{
	spoke = wake;
	return 0;
}

void agents_stop(void) {}

/* Of an id that was destroyed meanwhile. */
bool agent_event(struct device **dev, struct cm_event *ev)
{
	if (!left)
		return false;
	left--;
	*dev = &devices[0];
	*ev = (struct cm_event){ .type = CM_EV_RTU, .id = 12345 };
	return true;
}

int agent_call(struct device *, int (*)(struct cm *, void *, mono_t), void *) { return ENODEV; }
int agent_ask(struct device *, int (*)(struct cm *, void *, mono_t), void *) { return ENODEV; }
void agent_id_free(struct device *, uint32_t) {}
void agent_request_drop(struct device *, uint32_t) {}
void agent_counts(struct device *, struct cm_count *n) { *n = (struct cm_count){ 0 }; }

/* ---- the loop ---------------------------------------------------------------------- */

static unsigned others; /* turns of a session that has something to say all the time */

static void on_other(struct ev_loop *, ev_io *, int) { others++; }

START_TEST(batches)
{
	struct ev_loop *loop = ev_loop_new(0);
	ev_io other;
	int says[2];

	ck_assert_ptr_nonnull(loop);
	ck_assert_int_eq(cma_start(loop), 0);
	ck_assert_int_eq(pipe(says), 0);
	ck_assert_int_eq(write(says[1], "", 1), 1);
	ev_io_init(&other, on_other, says[0], EV_READ);
	ev_io_start(loop, &other);
	for (unsigned run = 0; run < 2; run++) {
		unsigned turns = 0;

		left = EVENTS;
		others = 0;
		spoke();
		while (left) {
			unsigned before = left;

			ev_run(loop, EVRUN_ONCE);
			ck_assert_msg(before - left <= BATCH, "%u events in one turn", before - left);
			ck_assert_msg(++turns < 10 * EVENTS, "%u events are not fetched", left);
		}
		ck_assert_msg(others >= EVENTS / BATCH - 1, "the others had %u turns meanwhile", others);
	}
	ev_io_stop(loop, &other);
	close(says[0]);
	close(says[1]);
	cma_stop(loop);
	ev_loop_destroy(loop);
}
END_TEST

TEST_MAIN("cma turn", batches)
