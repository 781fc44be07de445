/* SPDX-License-Identifier: MIT */
/*
 * outlet.c - channels that are full: what is written when one of them can be, and what the control thread is told; and thousands of
 * CQs whose events wait.
 */
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/shard/ctx.h"
#include "daemon/shard/hooks.h"
#include "daemon/shard/publish.h"
#include "t/suite.h"

#define CHANNELS 3u
#define FEW      1024u
#define MANY     (8 * FEW)

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

static double used(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void forget(struct ctx_cq *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		publish_forget_cq(&v[i]);
}

/* All wait for the same channel. */
static double due(struct ctx_cq *v, unsigned n)
{
	double from;

	for (unsigned i = 0; i < n; i++) {
		cq_begin(&v[i], &ch[0]);
		publish_event(&v[i]);
		ck_assert(is_due(&v[i]));
	}
	from = used();
	forget(v, n);
	return used() - from;
}

/* All wait for a time that does not come; each turn asks for the first of them. */
static double moderated(struct ctx_cq *v, unsigned n)
{
	static struct {
		struct ring_hdr hdr;
		struct cqe slot[4];
	} ring;
	double from;

	ck_assert_int_eq(heap_reserve(&s.moderated, n), 0);
	for (unsigned i = 0; i < n; i++) {
		cq_begin(&v[i], &ch[0]);
		ring_attach(&v[i].ring, &ring, 4, sizeof(struct cqe));
		publish_moderate(&v[i], 100, 1000000000000u + i % 7);
		v[i].batch_n = 1;
		publish_kept(&v[i]);
	}
	from = used();
	for (unsigned i = 0; i < n; i++)
		ck_assert(!mono_is_never(ctx_deadline(&s)));
	forget(v, n);
	ck_assert(mono_is_never(ctx_deadline(&s)));
	return used() - from;
}

/* Eight times as many may take eight times as long, and not 64 times. */
static void linear(double (*play)(struct ctx_cq *, unsigned))
{
	struct ctx_cq *v = calloc(MANY, sizeof(*v));
	double few, many, second;

	hooks.outlet_stuck = tell;
	fill(0);
	few = play(v, FEW);
	second = play(v, FEW);
	few = second < few ? second : few;
	many = play(v, MANY);
	ck_assert_msg(many < 24 * few, "%u take %.2f ms, %u take %.2f", FEW, few * 1e3, MANY, many * 1e3);
	free(v);
}

START_TEST(crowd)
{
	linear(due);
	linear(moderated);
}
END_TEST

TEST_MAIN("outlets", one_by_one, again, crowd)
