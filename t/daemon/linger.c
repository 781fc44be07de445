/* SPDX-License-Identifier: MIT */
/* linger.c - behind a request the control loop looks again without sleeping, and then it sleeps. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/control/linger.h"
#include "daemon/control/mail.h"
#include "t/suite.h"

#define TRIES 10000000u
#define TURNS 1000u

static unsigned looks, requests;

/* In place of mail.c's. */
unsigned mail_turn(struct ev_loop *)
{
	looks++;
	return 0;
}

bool mail_rest(void) { return true; }

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

static void on_request(struct ev_loop *, ev_io *, int) { requests++; }

/* A socket with one request more each time is no reason not to look into mailboxes. */
START_TEST(looks_beside_sockets)
{
	struct ev_loop *loop = ev_loop_new(0);
	int fd = eventfd(1, EFD_CLOEXEC);
	ev_io io;

	ck_assert_ptr_nonnull(loop);
	ck_assert_int_ge(fd, 0);
	ev_io_init(&io, on_request, fd, EV_READ);
	ev_io_start(loop, &io);
	ck_assert(linger(loop, clock_now()));
	for (unsigned i = 0; i < TURNS; i++)
		ck_assert(ev_run(loop, EVRUN_NOWAIT));
	ck_assert_uint_eq(requests, TURNS);
	ck_assert_uint_ge(looks, TURNS);
	linger_stop(loop);
	ev_io_stop(loop, &io);
	ck_assert(!ev_run(loop, EVRUN_NOWAIT));
	ev_loop_destroy(loop);
	close(fd);
}
END_TEST

TEST_MAIN("linger", looks_then_sleeps, looks_beside_sockets)
