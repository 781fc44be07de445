/* SPDX-License-Identifier: MIT */
/* clock.c - the clock of all threads of the daemon. */
#include "clock.h"

#include <time.h>

mono_t clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (mono_t){ (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec };
}
