/* SPDX-License-Identifier: MIT */
/* linger.c - behind a request the control loop looks again without sleeping, and then it sleeps. */
#include "daemon/base/clock.h"
#include "daemon/control/linger.h"
#include "t/suite.h"

#define TRIES 10000000u

START_TEST(looks_then_sleeps)
{
	struct ev_loop *loop = ev_loop_new(0);
	bool looked = false;

	ck_assert_ptr_nonnull(loop);
	ck_assert(!ev_run(loop, EVRUN_NOWAIT));           /* nothing keeps it */
	for (unsigned i = 0; i < TRIES && !looked; i++) { /* not where a neighbour keeps the core */
		linger(loop, clock_now());
		linger(loop, clock_now());
		looked = ev_run(loop, EVRUN_NOWAIT);
		ck_assert(!ev_run(loop, 0)); /* until it would sleep for ever: it has nobody else to wait for */
	}
	ck_assert(looked);
	ev_loop_destroy(loop);
}
END_TEST

TEST_MAIN("linger", looks_then_sleeps)
