/* SPDX-License-Identifier: MIT */
/* clock.c - the clock of all threads of the daemon. */
#include "clock.h"

#include <rdmad/clock.h>

mono_t clock_now(void) { return (mono_t){ clock_ns(CLOCK_MONOTONIC) }; }
