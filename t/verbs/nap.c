/* SPDX-License-Identifier: MIT */
/* nap.c - when a thread that polls in vain sleeps, and when it yields, by times that are made up. */
#include "lib/verbs/nap.h"
#include "lib/verbs/cq.h"
#include "lib/verbs/crowd.h"
#include "t/suite.h"

#include <rdmad/own.h>
#include <rdmad/slice.h>

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define US 1000u
#define MS 1000000u
#define AT (1000ull * MS) /* when the thread begins to yield */

/* In place of cq.c's: something has come, so that no nap lasts. */
int64_t rdmad_cq_since(struct ibv_cq *) { return 1; }

static uint64_t tick_ns = AT;
static bool long_yield;

/* In place of libc's: the kernel's ticks are made up. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	if (id != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, id, t);
	*t = (struct timespec){ (time_t)(tick_ns / 1000000000), (long)(tick_ns % 1000000000) };
	return 0;
}

int sched_yield(void)
{
	tick_ns += long_yield ? 4 * MS : 0;
	return 0;
}

static struct bell bell;
static struct rd_ctx ctx = { .bell = &bell };
static struct rd_cq cq = { .cq.context = &ctx.v.context };

static uint64_t backlog(uint32_t left, uint32_t done, uint64_t took)
{
	return pace_backlog(&(struct pace){ left, done, took });
}

START_TEST(pace)
{
	ck_assert_uint_eq(backlog(24, 40, 40 * 100 * US), 24 * 100 * US);
	ck_assert_uint_eq(backlog(24, 3, 300 * US), 24 * 100 * US);
	ck_assert_uint_eq(backlog(7, 40, 40 * 100 * US), 0); /* few */
	ck_assert_uint_eq(backlog(64, 0, 0), 0);             /* not known */
	ck_assert_uint_eq(backlog(64, 1, 11 * MS), 0);       /* the program paused */
}
END_TEST

/* While the daemon has enough to do for the thread, a long yield is no sign of a neighbour that computes: the next one is a yield. */
START_TEST(stream)
{
	const uint64_t work = backlog(24, 40, 40 * 100 * US); /* 2.4 ms */

	nap_yielded(AT + work, AT + 2 * MS);
	ck_assert(!nap(&cq, AT + 2 * MS));
	nap_yielded(AT + work, AT + work + 900 * US);
	ck_assert(!nap(&cq, AT + work + 900 * US));
	ck_assert_uint_eq(nap_slice, 0);
}
END_TEST

/* Of this thread; 0: the kernel has none to tell. */
static uint64_t slice(void)
{
	struct slice_attr a = { .size = sizeof(a) };

	ck_assert_int_eq(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0), 0);
	return a.runtime;
}

/* One that is long beyond that is a sign; the naps end after a while, and one yield tries how it is then. */
START_TEST(neighbour)
{
	const uint64_t work = backlog(24, 40, 40 * 100 * US), then = AT + work + 2 * MS;

	nap_yielded(AT + work, then);
	ck_assert(nap(&cq, then) && nap(&cq, then + 3 * MS));
	ck_assert(!nap(&cq, then + 5 * MS));
	nap_yielded(then + 5 * MS, then + 8 * MS); /* still there: twice as long */
	ck_assert(nap(&cq, then + 15 * MS));
	ck_assert(!nap(&cq, then + 17 * MS));
	nap_yielded(then + 17 * MS, then + 17 * MS + 10 * US); /* gone */
	ck_assert(!nap(&cq, then + 17 * MS + 10 * US));
	ck_assert(nap_beside());
	nap_yielded(then + 60 * MS, then + 60 * MS + 10 * US);
	ck_assert(!nap_beside());
	nap_found(then + 400 * MS);
	ck_assert_uint_eq(nap_slice, 0);
}
END_TEST

/* A short yield behind a spell does not say that it is gone: slices are short until it has stayed away. */
START_TEST(neighbour_comes_back)
{
	const uint64_t usual = slice(), then = AT + 2 * MS, later = then + 1000 * MS;

	nap_yielded(AT, then);
	nap_yielded(then + 5 * MS, then + 5 * MS + 10 * US);
	ck_assert(!nap(&cq, then + 5 * MS + 10 * US));
	nap_found(then + 6 * MS);
	if (usual)
		ck_assert_uint_eq(slice(), SLICE_SHORT_NS);
	nap_yielded(later, later + 10 * US);
	ck_assert_uint_eq(slice(), usual);
}
END_TEST

/* A try costs milliseconds where it is still there, so the next one is later; one that comes much later is another one. */
START_TEST(longer_each_time)
{
	uint64_t then = AT + 2 * MS;

	nap_yielded(AT, then);
	for (unsigned ms = 4; ms < 300; ms *= 2) {
		uint64_t end = then + (ms < 128 ? ms : 128) * MS;

		ck_assert(nap(&cq, end - 1) && !nap(&cq, end));
		nap_yielded(end, end + 10 * US);
		ck_assert(!nap(&cq, end + 10 * US));
		then = end + 3 * MS;
		nap_yielded(end + 10 * US, then);
	}
	then += 1000 * MS;
	nap_yielded(then - 2 * MS, then);
	ck_assert(nap(&cq, then + 3 * MS) && !nap(&cq, then + 5 * MS));
}
END_TEST

/* From here on this thread has short slices. */
static void spell_begin(uint64_t then)
{
	nap_yielded(AT, then);
	ck_assert_uint_eq(slice(), SLICE_SHORT_NS);
}

/* A slice that somebody chooses meanwhile is not taken back. */
START_TEST(chosen_meanwhile)
{
	const uint64_t then = AT + 2 * MS, later = then + 1000 * MS;

	if (!slice())
		return;
	spell_begin(then);
	slice_set(5 * MS);
	nap_yielded(later, later + 10 * US);
	ck_assert_uint_eq(slice(), 5 * MS);
	ck_assert_uint_eq(nap_slice, 0);
}
END_TEST

static void *waits(void *)
{
	crowd_waits();
	return NULL;
}

/* Another thread polls in vain, and ends. */
static void other_waits(void)
{
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, waits, NULL), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
}

/* n yields that are late, one behind the other, which end in as many times 10 ms; meanwhile: another thread polls in each of them. */
static void late(unsigned n, bool meanwhile)
{
	while (n--) {
		crowd_waits();
		if (meanwhile)
			other_waits();
		tick_ns += 10 * MS;
		nap_yielded(tick_ns - 10 * MS, tick_ns);
	}
}

/* Where threads of the program keep the core, and do not poll, all of them nap, longer each time. */
START_TEST(crowd)
{
	crowd_waits();
	other_waits();
	late(2, false);
	ck_assert(!crowd_was());
	late(1, false);
	ck_assert(crowd_is_on(tick_ns + 63 * MS) && !crowd_is_on(tick_ns + 65 * MS));
	ck_assert(nap(&cq, tick_ns + 63 * MS));
	other_waits();
	late(1, false);
	ck_assert(crowd_is_on(tick_ns + 127 * MS) && !crowd_is_on(tick_ns + 129 * MS));
}
END_TEST

/* One thread alone has neighbours, and threads that all poll wait for each other: no crowd. */
START_TEST(no_crowd)
{
	late(10, false);
	other_waits();
	late(10, true);
	tick_ns += 1000 * MS;
	late(10, false);
	ck_assert(!crowd_was());
}
END_TEST

/* Threads that wait by turns, and for a while behind that. */
START_TEST(crowd_by_turns)
{
	crowd_waits();
	ck_assert(!crowd_mixed(tick_ns));
	other_waits();
	crowd_waits();
	ck_assert(crowd_mixed(tick_ns + 200 * MS) && !crowd_mixed(tick_ns + 300 * MS));
	tick_ns += 1000 * MS;
	crowd_waits();
	ck_assert(!crowd_mixed(tick_ns));
}
END_TEST

/* One late yield among many is chance. */
START_TEST(crowd_seldom)
{
	for (unsigned i = 0; i < 10; i++) {
		other_waits();
		late(1, false);
		for (unsigned j = 0; j < 8; j++)
			nap_yield();
	}
	ck_assert(!crowd_was());
}
END_TEST

static int policy_set(int policy) { return sched_setscheduler(0, policy, &(struct sched_param){ 0 }); }

/* The slice goes with the thread through its policies; under some there is none to be set. */
START_TEST(another_policy)
{
	const uint64_t usual = slice(), then = AT + 2 * MS, later = then + 1000 * MS, last = later + 1000 * MS;

	if (!usual)
		return;
	spell_begin(then);
	ck_assert_int_eq(policy_set(SCHED_BATCH), 0);
	nap_yielded(later, later + 10 * US);
	ck_assert_uint_eq(slice(), usual);
	ck_assert_int_eq(policy_set(SCHED_OTHER), 0);
	ck_assert_uint_eq(slice(), usual);
	spell_begin(then);
	ck_assert_int_eq(policy_set(SCHED_IDLE), 0);
	nap_yielded(later, later + 10 * US);
	if (policy_set(SCHED_OTHER)) /* not who may not be nicer */
		return;
	nap_yielded(last, last + 10 * US);
	ck_assert_uint_eq(slice(), usual);
}
END_TEST

START_TEST(forked)
{
	const uint64_t usual = slice();
	int status;
	pid_t pid;

	if (!usual)
		return;
	spell_begin(AT + 2 * MS);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(slice() != usual);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* Another CQ is polled before the next nap. */
START_TEST(another_cq)
{
	struct rd_cq other = cq;

	nap_yielded(AT, AT + 2 * MS);
	bell.naps = 0;
	ck_assert(nap(&cq, AT + 2 * MS) && bell.naps);
	bell.naps = 0;
	ck_assert(nap(&other, AT + 2 * MS) && !bell.naps);
	ck_assert(nap(&cq, AT + 2 * MS) && bell.naps);
}
END_TEST

static void yield_that_is(bool is_long)
{
	long_yield = is_long;
	nap_yield();
}

/*
 * Yields are measured once a tick has fallen into one, for as long as they may be long and short by turns; and from a long one on
 * until one is short.
 */
START_TEST(measured_if_near)
{
	const uint64_t later = AT + 1000ull * MS;
	unsigned n = 0;

	yield_that_is(false);
	ck_assert(!nap_near());
	yield_that_is(true);
	for (; nap_near(); n++) {
		ck_assert_uint_lt(n, 1000);
		nap_yielded(AT, AT + 3 * US);
	}
	ck_assert_uint_gt(n, 8);
	yield_that_is(true);
	nap_yielded(AT, AT + 2 * MS);
	for (unsigned i = 0; i < 1000; i++) {
		nap_slept(AT, AT + 50 * US);
		ck_assert(nap_near());
	}
	while (--n) { /* the long one was one of them */
		ck_assert(nap_near());
		nap_yielded(later, later + 3 * US);
	}
	ck_assert(!nap_near());
}
END_TEST

TEST_MAIN("nap", measured_if_near, pace, stream, neighbour, neighbour_comes_back, longer_each_time, chosen_meanwhile,
	  another_policy, forked, another_cq, crowd, no_crowd, crowd_by_turns, crowd_seldom)
