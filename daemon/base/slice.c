/* SPDX-License-Identifier: MIT */
/* slice.c - the slice is part of what sched_setattr(2) sets for ordinary threads. */
#include "slice.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 100000u

/* The kernel's struct sched_attr: its header does not go together with <sched.h>. */
struct slice_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

void slice_short(void)
{
	struct slice_attr attr = {
		.size = sizeof(attr), .policy = SCHED_OTHER, .runtime = SLICE_NS, .nice = getpriority(PRIO_PROCESS, 0)
	};

	if (sched_getscheduler(0) == SCHED_OTHER) /* else somebody chose */
		syscall(SYS_sched_setattr, 0, &attr, 0);
}
