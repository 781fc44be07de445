/* SPDX-License-Identifier: MIT */
/*
 * drain.c - what a change of a queue pair's state takes from the rings: all of that queue pair's, nothing of others; and what is
 * sent by whoever takes nothing.
 */
#include "daemon/shard/drain.h"
#include "daemon/base/clock.h"
#include "daemon/shard/hooks.h"
#include "daemon/shard/io.h"
#include "daemon/shard/net.h"
#include "daemon/shard/publish.h"
#include "daemon/shard/share.h"
#include "daemon/shard/turn.h"
#include "program.h"
#include "proto/why.h"
#include "t/nap.h"
#include "t/suite.h"

static struct program a, b;

static void set_up(void)
{
	shard_begin();
	program_begin(&a);
	program_begin(&b);
}

static void tear_down(void)
{
	program_end(&b);
	program_end(&a);
	shard_end();
}

static void post(struct program *p, uint32_t n) { program_post(p, n, n); }

START_TEST(own_only)
{
	set_up();
	post(&a, 3);
	post(&b, 3);
	program_to(&a, QPS_SQD, 0);
	ck_assert_uint_eq(program_sent(&a), 3);
	ck_assert_uint_eq(program_received(&a), 3);
	ck_assert_msg(!program_sent(&b) && !program_received(&b), "another program's queues were taken");
	tear_down();
}
END_TEST

/* However many there are, they were posted in the state before. */
START_TEST(all_of_it)
{
	set_up();
	post(&a, PROGRAM_SLOTS);
	program_to(&a, QPS_SQD, 0);
	ck_assert_uint_eq(program_sent(&a), PROGRAM_SLOTS);
	ck_assert_uint_eq(program_received(&a), PROGRAM_SLOTS);
	tear_down();
}
END_TEST

/* An index out of range breaks this queue pair, and no other. */
START_TEST(nonsense)
{
	set_up();
	post(&a, 1);
	RING_STORE(&a.qp.sq.hdr->prod, 3 * PROGRAM_SLOTS);
	program_to(&a, QPS_ERR, 0);
	ck_assert(a.qp.sq_broken && !b.qp.sq_broken);
	program_to(&a, QPS_RESET, 0);
	ck_assert(!a.qp.sq_broken);
	tear_down();
}
END_TEST

static struct ctx more[63];

/* A user with 64 programs gets what one could have, unless he is alone; the other one's program is served as ever. */
START_TEST(shares)
{
	set_up();
	a.c.uid = 1;
	b.c.uid = 2;
	ck_assert_int_eq(share_join(&a.c), 0);
	for (unsigned i = 0; i < 63; i++) {
		more[i] = (struct ctx){ .shard = &shard, .uid = 1 };
		ck_assert_int_eq(share_join(&more[i]), 0);
	}
	ck_assert_uint_eq(share_of(&a.c, 1024), 1024);
	ck_assert_int_eq(share_join(&b.c), 0);
	ck_assert_uint_eq(share_of(&a.c, 1024), 16);
	ck_assert_uint_eq(share_of(&a.c, 64), 8);
	ck_assert_uint_eq(share_of(&b.c, 1024), 1024);
	post(&a, PROGRAM_SLOTS);
	post(&b, PROGRAM_SLOTS);
	for (unsigned i = 0, sends; i < 4; i++) /* the first ones have many receives to take */
		ctx_drain(&shard, &sends, (mono_t){ 1 });
	ck_assert_uint_ge(program_sent(&b), 128);
	ck_assert_uint_le(program_sent(&a), 64);
	for (unsigned i = 0; i < 63; i++)
		share_leave(&more[i]);
	share_leave(&b.c);
	ck_assert_uint_eq(share_of(&a.c, 1024), 1024);
	share_leave(&a.c);
	ck_assert_ptr_null(shard.shares);
	tear_down();
}
END_TEST

static bool no_agents(struct shard *, mono_t) { return false; }
static mono_t never(const struct shard *) { return MONO_NEVER; }

static void drop_causes(struct shard *s, unsigned device)
{
	struct why w;

	while (hca_why(s->hca[device], &w))
		;
}

static struct hooks hooks_were;
static struct io *io;

/* With what a guest's turn needs. */
static void guest_begin(void)
{
	set_up();
	hooks_were = hooks;
	hooks.agents_turn = no_agents;
	hooks.agents_deadline = never;
	hooks.why_collect = drop_causes;
	shard.sleeps_until = MONO_NEVER;
	ck_assert_int_eq(io_new(&io, IO_EPOLL), 0);
	ck_assert_int_eq(net_new(&shard.net, &shard, io), 0);
}

static void guest_end(void)
{
	net_free(shard.net);
	io_free(io);
	tear_down();
	hooks = hooks_were;
}

/*
 * A guest takes no receives, so it sends nothing that may be for one: with a send in the queue the shard is woken.  For a queue pair
 * that is connected with an empty queue it is not.
 */
START_TEST(guest)
{
	struct burst burst;
	unsigned sends;

	guest_begin();
	ck_assert_msg(turn_guest(&shard), "the shard is woken for queue pairs that have nothing to send");
	program_to(&a, QPS_SQD, 0);
	program_post(&a, 1, 0);
	ctx_drain(&shard, &sends, clock_now());
	ck_assert_uint_eq(sends, 1);
	program_post(&a, 0, 1);
	program_to(&a, QPS_RTS, 0);
	ck_assert(!turn_guest(&shard));
	ck_assert_uint_eq(RING_LOAD(&a.cq.ring.hdr->prod), 0);
	ck_assert(hca_tx(shard.hca[0], &burst, clock_now()));
	guest_end();
}
END_TEST

/* The shard wakes up late, and its answers wait in the socket, which a guest does not read: nothing times out by its turn. */
START_TEST(guest_reads_nothing)
{
	unsigned sends, waited = 0;
	struct burst burst;
	struct hca *hca;
	bool alone;

	guest_begin();
	hca = shard.hca[0];
	program_post(&a, 1, 0);
	program_post(&b, 0, 1);
	ctx_drain(&shard, &sends, clock_now());
	ck_assert(hca_tx(hca, &burst, clock_now()));
	shard.sleeps_until = hca_deadline(hca);
	while (mono_before(clock_now(), shard.sleeps_until))
		nap(&waited);
	program_to(&b, QPS_ERR, 0);
	alone = turn_guest(&shard);
	ck_assert_uint_eq(hca_stat(hca, HCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	ck_assert_msg(alone, "the shard is woken for what it is about to wake up for");
	ck_assert_uint_eq(RING_LOAD(&b.cq.ring.hdr->prod), 1);
	hca_tick(hca, clock_now());
	ck_assert_uint_eq(hca_stat(hca, HCA_STAT_LOCAL_ACK_TIMEOUT), 1);
	guest_end();
}
END_TEST

static unsigned causes, shown;

/* How many completions there were to be seen when causes came. */
static void note_causes(struct shard *s, unsigned device)
{
	struct why w;

	while (hca_why(s->hca[device], &w)) {
		causes++;
		shown += RING_LOAD(&a.cq.ring.hdr->prod);
	}
}

/* A program that has seen an error may end all that it was about: by then the control thread has heard of it. */
START_TEST(why_first)
{
	unsigned sends;

	guest_begin();
	hooks.why_collect = note_causes;
	program_to(&a, QPS_ERR, 0);
	program_post(&a, 1, 0);
	ctx_drain(&shard, &sends, clock_now());
	ctx_publish(&shard, clock_now());
	ck_assert_uint_eq(RING_LOAD(&a.cq.ring.hdr->prod), 1);
	ck_assert_uint_eq(causes, 1);
	ck_assert_uint_eq(shown, 0);
	guest_end();
}
END_TEST

TEST_MAIN("drain", why_first, shares, own_only, all_of_it, nonsense, guest, guest_reads_nothing)
