/* SPDX-License-Identifier: MIT */
/* way.c - when a thread that waits leaves the daemon's core or goes there, by cores and times that are made up; who kicks tells its own. */
#include "lib/verbs/way.h"
#include "lib/verbs/ctx.h"
#include "t/suite.h"

#include <rdmad/own.h>
#include <rdmad/ring.h>

#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#define MS     1000000u
#define DAEMON 0
#define OTHER  1

static uint64_t at = 1000ull * MS;
static int core = DAEMON;
static unsigned moves;
static bool may_join = true, held;

/* In place of libc's. */
int sched_getcpu(void) { return core; }

int clock_gettime(clockid_t, struct timespec *t)
{
	*t = (struct timespec){ (time_t)(at / 1000000000), (long)(at % 1000000000) };
	return 0;
}

int sched_getaffinity(pid_t, size_t len, cpu_set_t *may)
{
	CPU_ZERO_S(len, may);
	if (may_join)
		CPU_SET(DAEMON, may);
	CPU_SET(OTHER, may);
	return 0;
}

/* Each move sets it twice: to one core, and back to all. */
int sched_setaffinity(pid_t, size_t len, const cpu_set_t *may)
{
	held = CPU_COUNT_S(len, may) == 1;
	if (held) {
		core = CPU_ISSET(OTHER, may) ? OTHER : DAEMON;
		moves++;
	}
	return 0;
}

static struct bell bell = { .core = 1 + DAEMON };

/* The scheduler has brought the thread back, and it waits at least until it goes: so long did it stay, in ms. */
static unsigned stays(void)
{
	const uint64_t from = at;
	const unsigned was = moves;

	core = DAEMON;
	for (way_make(&bell); moves == was; way_make(&bell)) {
		ck_assert_uint_lt(at, from + 1000ull * MS);
		at += MS;
	}
	ck_assert(core == OTHER && !held);
	return (unsigned)((at - from) / MS);
}

START_TEST(comes_back)
{
	ck_assert(!way_is_free(&bell));
	ck_assert_uint_eq(stays(), 0);
	ck_assert(way_is_free(&bell));
	way_make(&bell); /* it is there */
	ck_assert_uint_eq(moves, 1);
	ck_assert_uint_eq(stays(), 4);
	ck_assert_uint_eq(stays(), 4);
	at += 1000ull * MS;
	ck_assert_uint_eq(stays(), 0);
}
END_TEST

START_TEST(daemon_says_nothing)
{
	struct bell none = { 0 };

	ck_assert(way_is_free(&none));
	way_make(&none);
	ck_assert_uint_eq(moves, 0);
}
END_TEST

/* A neighbour computes where it goes to. */
START_TEST(bad_way)
{
	ck_assert_uint_eq(stays(), 0);
	for (unsigned ms = 8; ms <= 512; ms *= 2) {
		way_was_bad(&bell, at);
		way_was_bad(&bell, at); /* counts once */
		ck_assert_uint_eq(stays(), ms < 128 ? ms : 128);
	}
	ck_assert_uint_eq(stays(), 4); /* it is gone */
	way_was_bad(&bell, at);
	ck_assert_uint_eq(stays(), 8);
}
END_TEST

/* It has not gone anywhere, or is beside the daemon: that is no reason to stay there. */
START_TEST(not_of_the_way)
{
	way_was_bad(&bell, at);
	ck_assert_uint_eq(stays(), 0);
	at += 4ull * MS;
	core = DAEMON;
	way_was_bad(&bell, at);
	ck_assert_uint_eq(stays(), 0);
}
END_TEST

/* Where all cores have neighbours it goes to the daemon; brought away from there, not at once again. */
START_TEST(join)
{
	core = OTHER;
	way_join(&bell);
	ck_assert(core == DAEMON && !held);
	ck_assert_uint_eq(moves, 1);
	way_join(&bell); /* it is there */
	ck_assert_uint_eq(moves, 1);
	core = OTHER;
	at += 3ull * MS;
	way_join(&bell);
	ck_assert_uint_eq(moves, 1);
	at += 2ull * MS;
	way_join(&bell);
	ck_assert(core == DAEMON && moves == 2);
}
END_TEST

START_TEST(join_where_it_may)
{
	struct bell none = { 0 };

	core = OTHER;
	way_join(&none);
	may_join = false;
	way_join(&bell);
	ck_assert(core == OTHER && !moves);
}
END_TEST

/* ctx.c needs them besides. */
int conn_call(struct conn *, struct msg_req *, struct msg_rep *, int, int *, unsigned) { abort(); }
int conn_call_may(struct conn *, struct msg_req *, struct msg_rep *, int, int *) { abort(); }
bool conn_gone(const struct conn *) { abort(); }
void slab_gone(struct rd_ctx *, uint64_t) { abort(); }

START_TEST(kicker)
{
	struct rd_ctx c = { .bell = &bell, .kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	eventfd_t n;

	ck_assert_int_ge(c.kick_fd, 0);
	core = OTHER;
	ctx_ring(&c, 0);
	ck_assert_uint_eq(bell.kicker, 0); /* the daemon was awake */
	bell_sleep(&bell, BELL_FD);
	ctx_ring(&c, 0);
	ck_assert_uint_eq(bell.kicker, 1 + OTHER);
	ck_assert_int_eq(eventfd_read(c.kick_fd, &n), 0);
}
END_TEST

TEST_MAIN("way", comes_back, daemon_says_nothing, bad_way, not_of_the_way, join, join_where_it_may, kicker)
