/* SPDX-License-Identifier: MIT */
/* hooks.h - the control half, as the data path knows it. */
#ifndef DAEMON_CONTROL_HOOKS_H
#define DAEMON_CONTROL_HOOKS_H

/* Fills in the hooks of ../shard/hooks.h and ../cma/cma.h.  Before there are shards. */
void control_hooks(void);

#endif
