/* SPDX-License-Identifier: MIT */
/* outlet.c - channels that are full: what is written when one of them can be, and what the control thread is told. */
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/shard/ctx.h"
#include "daemon/shard/hooks.h"
#include "daemon/shard/publish.h"
#include "t/suite.h"

#define CHANNELS 3u

static unsigned told;

static void tell(void) { told++; }

static struct ctx c;
static struct channel ch[CHANNELS];
static struct ctx_cq cq[CHANNELS];
static int theirs[CHANNELS];

static unsigned waiting(void)
{
	unsigned n = 0;

	for (const struct outlet *o = c.stuck; o; o = o->stuck_next)
		n++;
	return n;
}

/* How many events its reader finds; it reads all. */
static unsigned events(unsigned i)
{
	uint64_t cookie;
	unsigned n = 0;

	while (recv(theirs[i], &cookie, sizeof(cookie), MSG_DONTWAIT) == sizeof(cookie))
		n++;
	return n;
}

static void fill(unsigned i)
{
	ch[i].obj.ctx = cq[i].obj.ctx = &c;
	cq[i].channel = &ch[i];
	ck_assert_int_eq(client_pair(&ch[i].out.fd, &theirs[i]), 0);
	while (!cq[i].due)
		publish_event(&cq[i]);
	publish_event(&cq[i]); /* is told once */
}

START_TEST(one_by_one)
{
	unsigned n[CHANNELS];

	hooks.outlet_stuck = tell;
	for (unsigned i = 0; i < CHANNELS; i++)
		fill(i);
	ck_assert_uint_eq(told, CHANNELS);
	ck_assert_uint_eq(waiting(), CHANNELS);
	c.stuck = NULL; /* the control thread has taken them */
	for (unsigned i = 0; i < CHANNELS; i++) {
		n[i] = events(i);
		ck_assert_uint_gt(n[i], 0);
	}
	outlet_retry(&c, &ch[1].out);
	for (unsigned i = 0; i < CHANNELS; i++) {
		ck_assert_uint_eq(events(i), i == 1);
		ck_assert_int_eq(cq[i].due, i != 1);
	}
	outlet_retry(&c, &ch[0].out);
	ck_assert_uint_eq(events(0), 1);
	ck_assert_uint_eq(events(2), 0);
	ck_assert_uint_eq(waiting(), 0);
}
END_TEST

/* One that is full still waits again. */
START_TEST(again)
{
	struct ctx_cq second = { .obj.ctx = &c, .channel = &ch[0] };

	hooks.outlet_stuck = tell;
	fill(0);
	publish_event(&second);
	ck_assert(second.due);
	ck_assert_uint_eq(told, 1);
	c.stuck = NULL;
	outlet_retry(&c, &ch[0].out);
	ck_assert_uint_eq(told, 2);
	ck_assert_uint_eq(waiting(), 1);
	c.stuck = NULL;
	ck_assert_uint_gt(events(0), 0);
	outlet_retry(&c, &ch[0].out);
	ck_assert_uint_eq(events(0), 2);
	ck_assert_uint_eq(told, 2);
}
END_TEST

TEST_MAIN("outlets", one_by_one, again)
