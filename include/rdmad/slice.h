/* SPDX-License-Identifier: MIT */
/* slice.h - how long an ordinary thread runs before others may: a part of what sched_setattr(2) sets, since Linux 6.12. */
#ifndef RDMAD_SLICE_H
#define RDMAD_SLICE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Before Linux 6.12 nobody gets it.  So a thread is woken in the middle of a neighbour's slice, and loses little when it gives
 * its core away.
 */
#define SLICE_SHORT_NS 100000u

/* The kernel's struct sched_attr: its header does not go together with <sched.h>. */
struct slice_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* The calling thread's, and that of those that it makes from now on; what it was.  0: nothing was changed, somebody chose a policy. */
static inline uint64_t slice_set(uint64_t ns)
{
	struct slice_attr a = { .size = sizeof(a) };
	uint64_t was;

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) || a.policy != SCHED_OTHER)
		return 0;
	was = a.runtime;
	a.runtime = ns;
	return syscall(SYS_sched_setattr, 0, &a, 0) ? 0 : was;
}

/*
 * The same, if it is still the short one: somebody may have chosen another.  false: under the policy of now it cannot be set, but will
 * be there again under another one.
 */
static inline bool slice_back(uint64_t ns)
{
	struct slice_attr a = { .size = sizeof(a) };

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0))
		return true;
	if (a.policy != SCHED_OTHER && a.policy != SCHED_BATCH)
		return false;
	if (a.runtime != SLICE_SHORT_NS)
		return true;
	a.runtime = ns;
	syscall(SYS_sched_setattr, 0, &a, 0);
	return true;
}

#endif
