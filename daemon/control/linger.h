/* SPDX-License-Identifier: MIT */
/* linger.h - the control thread looks for requests a moment longer before it sleeps.  Control thread only. */
#ifndef DAEMON_LINGER_H
#define DAEMON_LINGER_H

#include <stdbool.h>

#include <ev.h>

#include "../../proto/mono.h"

/* Before the loop is run, in its thread. */
void linger_begin(void);
/* A request that came then was served.  Does it? */
bool linger(struct ev_loop *, mono_t came);
/* Before the loop is destroyed. */
void linger_stop(struct ev_loop *);

#endif
