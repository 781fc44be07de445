/* SPDX-License-Identifier: MIT */
/*
 * cpu.c - the look, every 4 ms of traffic: how long did this thread run, and how long did it wait for its core?
 *
 *	free  --- waited a third of the time, heads ---> held on the next core for 200 ms ---> free
 *	held  --- still waits ------------------------> free, and the next look is twice as far away
 *
 * Two shards on one core see the same and would both go: each tosses a coin.  While it is held the
 * scheduler cannot pull it back to the core of the peer that wakes it.
 */
#include "cpu.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <rdmad/cores.h>

#define HOLD_NS      200000000u
#define PAUSE_MAX_NS 1000000000u

static bool schedstat(const struct cpu *p, uint64_t *ran, uint64_t *waited)
{
	char buf[96];
	unsigned long long a, b;
	ssize_t n = p->fd < 0 ? -1 : pread(p->fd, buf, sizeof(buf) - 1, 0);

	if (n <= 0)
		return false;
	buf[n] = '\0';
	if (sscanf(buf, "%llu %llu", &a, &b) != 2)
		return false;
	*ran = a;
	*waited = b;
	return true;
}

void cpu_init(struct cpu *p)
{
	*p = (struct cpu){ .fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC),
			   .pause_ns = CPU_LOOK_NS,
			   .held_until = MONO_NEVER };
	if (sched_getaffinity(0, sizeof(p->allowed), &p->allowed) < 0 || CPU_COUNT(&p->allowed) < 2 ||
	    !schedstat(p, &p->ran, &p->waited)) {
		cpu_end(p);
		p->look_at = MONO_NEVER;
	}
}

void cpu_end(struct cpu *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

bool cpu_is_bad(uint64_t wall, uint64_t ran, uint64_t waited) { return waited * 3 > wall && ran * 4 > wall; }

static void hold(struct cpu *p, mono_t now)
{
	if (!cores_leave(&p->allowed, sched_getcpu()))
		p->held_until = mono_add(now, HOLD_NS);
}

static void let_go(struct cpu *p)
{
	sched_setaffinity(0, sizeof(p->allowed), &p->allowed);
	p->held_until = MONO_NEVER;
}

void cpu_look(struct cpu *p, mono_t now)
{
	uint64_t ran = p->ran, waited = p->waited, wall = mono_since(now, p->seen_at);
	bool held = !mono_is_never(p->held_until), bad;

	if (!schedstat(p, &p->ran, &p->waited)) {
		p->look_at = MONO_NEVER;
		return;
	}
	bad = cpu_is_bad(wall, p->ran - ran, p->waited - waited);
	if (held && (bad || mono_reached(now, p->held_until))) {
		let_go(p);
		p->pause_ns = !bad ? CPU_LOOK_NS : p->pause_ns < PAUSE_MAX_NS ? 2 * p->pause_ns : PAUSE_MAX_NS;
	} else if (bad && !held && (now.ns >> 8 & 1)) {
		hold(p, now);
	}
	p->seen_at = now;
	p->look_at = mono_add(now, mono_is_never(p->held_until) ? p->pause_ns : CPU_LOOK_NS);
}
