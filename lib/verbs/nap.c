/* SPDX-License-Identifier: MIT */
/* nap.c - see nap.h. */
#include "nap.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/own.h>
#include <rdmad/slice.h>

#include "cq.h"
#include "crowd.h"

#define DEEP_WRS 8u
#define PACE_NS  10000000u /* for one: slower than that was a pause of the program */

uint64_t pace_backlog(const struct pace *p)
{
	if (p->left < DEEP_WRS || p->took >= p->done * (uint64_t)PACE_NS)
		return 0;
	return p->left * p->took / p->done;
}

#define LONG_NS   1000000u
#define SPELL_MIN 4000000u
#define SPELL_MAX 128000000u
#define RECENT    4u /* times as long as it was, since its end */
#define OTHERS    8u
#define NEAR      64u    /* a thread's yields may be long and short by turns */
#define NAP_NS    100000 /* the other CQs of the context, and memory, are to be looked at as well */

static _Thread_local struct {
	uint64_t until;   /* of the last spell of naps */
	uint64_t last_ns; /* how long it was; 0: none, or it is forgotten */
	uint64_t brief;   /* until then slices are short: the neighbour may come back */
	const void *by;   /* the CQ that slept last: the others are polled once before the next nap */
	unsigned others;
	unsigned near; /* so many yields are still to be measured, as one that was not may have been long */
} spell;

_Thread_local uint64_t nap_slice;

static uint64_t slice_keep_errno(uint64_t ns)
{
	int err = errno;
	uint64_t was = slice_set(ns);

	errno = err;
	return was;
}

static void slice_own(uint64_t now)
{
	int err = errno;

	if (!nap_slice || now < spell.brief)
		return;
	if (slice_back(nap_slice))
		nap_slice = 0;
	else
		spell.brief = now + SPELL_MAX;
	errno = err;
}

/* A child inherits it, and what that executes. */
static void fork_before(void)
{
	spell.brief = 0;
	slice_own(0);
}

__attribute__((constructor)) static void fork_watch(void) { pthread_atfork(fork_before, NULL, NULL); }

static bool is_long(uint64_t from, uint64_t now) { return now >= from + LONG_NS; }

/* A short yield says little: it may be one in which the daemon had the core, not the neighbour. */
static bool is_recent(uint64_t now) { return now < spell.until + RECENT * spell.last_ns; }

bool nap_beside(void) { return spell.last_ns; }

void nap_slept(uint64_t from, uint64_t now)
{
	if (!is_long(from, now) || crowd_late(now))
		return;
	spell.last_ns = is_recent(now) ? 2 * spell.last_ns : SPELL_MIN;
	if (spell.last_ns > SPELL_MAX)
		spell.last_ns = SPELL_MAX;
	spell.until = now + spell.last_ns;
	spell.brief = spell.until + SPELL_MIN;
	if (!nap_slice)
		nap_slice = slice_keep_errno(SLICE_SHORT_NS);
}

bool nap_near(void) { return spell.near || spell.last_ns || nap_slice; }

/* The time of the last tick. */
static struct timespec tick(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return t;
}

void nap_yield(void)
{
	struct timespec before = tick(), after;

	sched_yield();
	after = tick();
	if (after.tv_nsec != before.tv_nsec || after.tv_sec != before.tv_sec)
		spell.near = NEAR;
	else
		crowd_in_time();
}

void nap_yielded(uint64_t from, uint64_t now)
{
	spell.near -= spell.near > 0;
	if (is_long(from, now)) {
		nap_slept(from, now);
		return;
	}
	crowd_in_time();
	if (!is_recent(now))
		spell.last_ns = 0;
	slice_own(now);
}

bool nap_is_on(uint64_t now) { return now < spell.until || crowd_is_on(now); }

void nap_found(uint64_t now) { slice_own(now); }

bool nap(struct rd_cq *cq, uint64_t now)
{
	struct bell *b = to_ctx(cq->cq.context)->bell;
	const long most[2] = { 0, NAP_NS }; /* as SYS_futex has it, with 32 bits, too */
	int err = errno;
	uint64_t was = 0;

	if (!nap_is_on(now))
		return false;
	if (spell.by && spell.by != cq && spell.others++ < OTHERS)
		return true;
	spell.by = cq;
	spell.others = 0;
	/* A thread that keeps its core has its own slice while it does, or nobody who is woken would get in. */
	if (!nap_slice && crowd_is_on(now))
		was = slice_set(SLICE_SHORT_NS);
	word_sleep(&b->naps);
	if (!rdmad_cq_since(&cq->cq))
		syscall(SYS_futex, &b->naps, FUTEX_WAIT, 1, most, NULL, 0);
	if (was)
		slice_back(was);
	errno = err;
	return true;
}
