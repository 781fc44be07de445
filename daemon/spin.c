/* SPDX-License-Identifier: MIT */
/*
 * spin.c - two signs that spinning harms, and the penalty: for 4 ms, doubling up to 128 ms while it recurs, the
 * shard sleeps whenever it has nothing to do.
 *
 * 1. A sched_yield() that comes back after more than a millisecond: a neighbour on this core spins and
 *    never yields, and each turn of ours costs a time slice.
 *
 * 2. Yields that come back without the core having been given to anybody, while more threads want to run than there
 *    are cores.  The scheduler yields within a group only, and each session (autogroup) or service (cgroup)
 *    is a group of its own: there a yielding spinner is one that never yields.
 *
 * A sleeper must be woken fast: a short time slice of its own lets a thread preempt a neighbour in the
 * middle of his (EEVDF, Linux 6.12; before it the request is ignored).
 */
#include "spin.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shard.h"

#define YIELD_LONG_NS	1000000u
#define PENALTY_MIN_NS	4000000u
#define PENALTY_MAX_NS	128000000u
#define LOOK_NS		1000000u
#define LOOK_YIELDS	32u
#define SLICE_NS	100000u

/* The kernel's struct sched_attr: its header does not go together with <sched.h>. */
struct slice_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static long switches_now(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_THREAD, &ru) < 0 ? 0 : ru.ru_nivcsw + ru.ru_nvcsw;
}

/* Threads that run or want to, on the whole machine; 0: not known.  "0.20 0.18 0.12 1/80 11206" */
static long running_now(const struct spin *s)
{
	char buf[128];
	ssize_t n = s->load_fd < 0 ? -1 : pread(s->load_fd, buf, sizeof(buf) - 1, 0);
	long running;

	if (n <= 0)
		return 0;
	buf[n] = '\0';
	return sscanf(buf, "%*s %*s %*s %ld", &running) == 1 ? running : 0;
}

void spin_init(struct spin *s)
{
	struct slice_attr attr = { .size = sizeof(attr), .policy = SCHED_OTHER, .runtime = SLICE_NS,
				   .nice = getpriority(PRIO_PROCESS, 0) };

	syscall(SYS_sched_setattr, 0, &attr, 0);
	*s = (struct spin){ .load_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC),
			    .cores = sysconf(_SC_NPROCESSORS_ONLN), .switches = switches_now() };
}

void spin_end(struct spin *s)
{
	if (s->load_fd >= 0)
		close(s->load_fd);
}

static void penalty(struct spin *s, mono_t now)
{
	bool again = s->penalty_ns && mono_before(now, mono_add(s->sleep_until, 4 * s->penalty_ns));

	s->penalty_ns = again ? 2 * s->penalty_ns : PENALTY_MIN_NS;
	if (s->penalty_ns > PENALTY_MAX_NS)
		s->penalty_ns = PENALTY_MAX_NS;
	s->sleep_until = mono_add(now, s->penalty_ns);
}

static void neighbours_look(struct spin *s, mono_t now)
{
	long switches = switches_now();
	bool given = (switches - s->switches) * 4 >= (long)s->yields;

	if (!given && running_now(s) > s->cores)
		penalty(s, now);
	s->switches = switches;
	s->yields = 0;
	s->look_at = mono_add(now, LOOK_NS);
}

void spin_turn(struct spin *s, mono_t now)
{
	mono_t after;

	sched_yield();
	after = shard_now();
	s->yields++;
	if (after.ns - now.ns >= YIELD_LONG_NS)
		penalty(s, after);
	else if (s->yields >= LOOK_YIELDS && mono_reached(after, s->look_at))
		neighbours_look(s, after);
}
