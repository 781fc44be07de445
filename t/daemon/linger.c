/* SPDX-License-Identifier: MIT */
/* linger.c - behind a request the control loop looks again without sleeping, and then it sleeps. */
#include "daemon/control/linger.h"
#include "t/suite.h"

START_TEST(looks_then_sleeps)
{
	struct ev_loop *loop = ev_loop_new(0);

	ck_assert_ptr_nonnull(loop);
	ck_assert(!ev_run(loop, EVRUN_NOWAIT)); /* nothing keeps it */
	for (unsigned i = 0; i < 3; i++) {
		linger(loop);
		linger(loop);
		ck_assert(ev_pending_count(loop) == 0);
		ck_assert(!ev_run(loop, 0)); /* until it would sleep for ever: it has nobody else to wait for */
	}
	ev_loop_destroy(loop);
}
END_TEST

TEST_MAIN("linger", looks_then_sleeps)
