/* SPDX-License-Identifier: MIT */
/* limits.h - what the profile of a device (profile.h) refuses. */
#ifndef DAEMON_LIMITS_H
#define DAEMON_LIMITS_H

#include "call.h"

/*
 * Control thread, before the handler of a verb of a context: 0, or the errno with which an adapter refuses it, and the reason is
 * said (refuse()).
 */
int limits_check(struct call *);

/* Takes off what the peer of a queue pair may not do either. */
uint32_t limits_access(const struct profile *, uint32_t access);

#endif
