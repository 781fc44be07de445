/* SPDX-License-Identifier: MIT */
/* clock.h - what a clock says, in ns.  Any thread. */
#ifndef RDMAD_CLOCK_H
#define RDMAD_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
