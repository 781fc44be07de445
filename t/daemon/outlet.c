/* SPDX-License-Identifier: MIT */
/*
 * outlet.c - channels that are full: what is written when one of them can be, and what the control thread is told; and thousands of
 * CQs whose events wait.
 */
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/shard/ctx.h"
#include "daemon/shard/hooks.h"
#include "daemon/shard/publish.h"
#include "t/suite.h"

#define CHANNELS 3u
#define MANY     8192u

static unsigned told;

static void tell(void) { told++; }

static struct shard s;
static struct bell bell;
static struct ctx c = { .shard = &s, .bell = &bell };
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

static void cq_begin(struct ctx_cq *q, struct channel *channel)
{
	*q = (struct ctx_cq){ .obj.ctx = &c, .channel = channel };
	link_init(&q->in_due);
	timer_init(&q->mod.timer);
}

static bool is_due(const struct ctx_cq *q) { return !link_empty(&q->in_due); }

static void fill(unsigned i)
{
	ch[i].obj.ctx = &c;
	link_init(&ch[i].due);
	cq_begin(&cq[i], &ch[i]);
	ck_assert_int_eq(client_pair(&ch[i].out.fd, &theirs[i]), 0);
	while (!is_due(&cq[i]))
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
		ck_assert_int_eq(is_due(&cq[i]), i != 1);
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
	struct ctx_cq second;

	hooks.outlet_stuck = tell;
	fill(0);
	cq_begin(&second, &ch[0]);
	publish_event(&second);
	ck_assert(is_due(&second));
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

/* ---- thousands of them ------------------------------------------------------------------- */

/* All wait for the same channel, and go in any order: every third, then the others. */
START_TEST(crowd_due)
{
	struct ctx_cq *v = calloc(MANY, sizeof(*v));

	hooks.outlet_stuck = tell;
	fill(0);
	for (unsigned i = 0; i < MANY; i++) {
		cq_begin(&v[i], &ch[0]);
		publish_event(&v[i]);
		ck_assert(is_due(&v[i]));
	}
	for (unsigned i = 0; i < MANY; i += 3)
		publish_forget_cq(&v[i]);
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_int_eq(is_due(&v[i]), i % 3 != 0);
		publish_forget_cq(&v[i]);
	}
	ck_assert_ptr_eq(ch[0].due.next, &cq[0].in_due);
	ck_assert_ptr_eq(ch[0].due.prev, &cq[0].in_due);
	free(v);
}
END_TEST

/* All wait for a time, which is that of the first of those that are left. */
START_TEST(crowd_moderated)
{
	struct ctx_cq *v = calloc(MANY, sizeof(*v));
	static struct {
		struct ring_hdr hdr;
		struct cqe slot[4];
	} ring;
	mono_t first, next;

	hooks.outlet_stuck = tell;
	fill(0);
	ck_assert_int_eq(heap_reserve(&s.moderated, MANY), 0);
	for (unsigned i = 0; i < MANY; i++) {
		cq_begin(&v[i], &ch[0]);
		ring_attach(&v[i].ring, &ring, 4, sizeof(struct cqe));
		publish_moderate(&v[i], 100, 1000000000000u * (1 + i % 7));
		v[i].batch_n = 1;
		publish_kept(&v[i]);
	}
	first = ctx_deadline(&s);
	for (unsigned i = 0; i < MANY; i += 7)
		publish_forget_cq(&v[i]);
	next = ctx_deadline(&s);
	ck_assert(mono_before(first, next) && !mono_is_never(next));
	for (unsigned i = 0; i < MANY; i++)
		publish_forget_cq(&v[i]);
	ck_assert(mono_is_never(ctx_deadline(&s)));
	heap_fini(&s.moderated);
	free(v);
}
END_TEST

TEST_MAIN("outlets", one_by_one, again, crowd_due, crowd_moderated)
