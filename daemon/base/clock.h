/* SPDX-License-Identifier: MIT */
/* clock.h - the time of the core, in nanoseconds.  Any thread. */
#ifndef DAEMON_CLOCK_H
#define DAEMON_CLOCK_H

#include "../../proto/mono.h"

mono_t clock_now(void);

#endif
