/* SPDX-License-Identifier: MIT */
/* linger.h - the control thread looks for requests a moment longer before it sleeps.  Control thread only. */
#ifndef DAEMON_LINGER_H
#define DAEMON_LINGER_H

#include <ev.h>

/* A request was served. */
void linger(struct ev_loop *);

#endif
