/* SPDX-License-Identifier: MIT */
/*
 * cpu.h - the core on which a busy shard runs, where the scheduler's choice is a bad one.
 *
 * Two daemons that talk to each other and a program that polls want three cores.  Where there are two, the scheduler
 * sees three threads that never sleep and leaves them as they lie: also if both shards share one core and the program,
 * which gives the other one away at each turn, has it for itself.  That looks even to the scheduler, and costs half of
 * the bandwidth.  So a shard that has to wait for its core much of the time tries another one for a while.  One thread.
 */
#ifndef DAEMON_CPU_H
#define DAEMON_CPU_H

#include <sched.h>
#include <stdbool.h>

#include "../../proto/mono.h"

#define CPU_LOOK_NS 4000000u

struct cpu {
	int fd; /* schedstat of the thread; -1: unknown here */
	mono_t look_at;
	mono_t seen_at;       /* the last look; of ran and waited */
	uint64_t ran, waited; /* ns */
	uint64_t pause_ns;    /* between two looks; doubled where moving does not help */
	mono_t held_until;    /* MONO_NEVER: not held on a core */
	cpu_set_t allowed;
};

void cpu_init(struct cpu *); /* in the thread concerned */
void cpu_end(struct cpu *);
void cpu_look(struct cpu *, mono_t now);

/* Of wall ns the thread ran and waited for its core: so long that it should try another one? */
bool cpu_is_bad(uint64_t wall, uint64_t ran, uint64_t waited);

/* Each busy turn. */
static inline void cpu_busy(struct cpu *p, mono_t now)
{
	if (mono_reached(now, p->look_at))
		cpu_look(p, now);
}

#endif
