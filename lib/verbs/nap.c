/* SPDX-License-Identifier: MIT */
/* nap.c - see nap.h. */
#include "nap.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/own.h>
#include <rdmad/slice.h>

#include "cq.h"

#define LONG_NS   1000000u
#define SPELL_MIN 4000000u
#define SPELL_MAX 128000000u
#define OTHERS    8u
#define NAP_NS    100000 /* the other CQs of the context, and memory, are to be looked at as well */

static _Thread_local struct {
	uint64_t until;   /* of this spell of naps; 0: none */
	uint64_t last_ns; /* how long the last one was */
	uint64_t slice;   /* the thread's own; 0: as it is */
	const void
		*by; /* the CQ that it polled when it slept last: the others are polled once before it sleeps again */
	unsigned others;
} spell;

_Thread_local bool nap_is_on;

static void slice_own(void)
{
	if (spell.slice)
		slice_set(spell.slice);
	spell.slice = 0;
	nap_is_on = false;
}

static void spell_begin(uint64_t now)
{
	spell.last_ns = spell.last_ns ? 2 * spell.last_ns : SPELL_MIN;
	if (spell.last_ns > SPELL_MAX)
		spell.last_ns = SPELL_MAX;
	spell.until = now + spell.last_ns;
	if (!spell.slice)
		spell.slice = slice_set(SLICE_SHORT_NS);
	nap_is_on = true;
}

void nap_slept(uint64_t from, uint64_t now)
{
	int err = errno;

	if (now - from >= LONG_NS)
		spell_begin(now);
	errno = err;
}

void nap_yielded(uint64_t from, uint64_t now)
{
	int err = errno;

	if (now - from >= LONG_NS) {
		spell_begin(now);
	} else if (spell.last_ns) {
		spell.until = spell.last_ns = 0;
		slice_own();
	}
	errno = err;
}

void nap_found(void)
{
	struct timespec ts;
	int err = errno;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	if ((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec >= spell.until)
		slice_own();
	errno = err;
}

bool nap(struct rd_cq *cq, uint64_t now)
{
	struct bell *b = to_ctx(cq->cq.context)->bell;
	const long most[2] = { 0, NAP_NS }; /* as SYS_futex has it, with 32 bits, too */
	int err = errno;

	if (now >= spell.until)
		return false;
	if (spell.by && spell.by != cq && spell.others++ < OTHERS)
		return true;
	spell.by = cq;
	spell.others = 0;
	bell_nap(b);
	if (rdmad_cq_quiet(&cq->cq))
		syscall(SYS_futex, &b->naps, FUTEX_WAIT, 1, most, NULL, 0);
	errno = err;
	return true;
}
