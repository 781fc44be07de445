/* SPDX-License-Identifier: MIT */
/*
 * fork.c - programs may fork() as they like.
 *
 * The daemon reaches memory by address through the process that registered it, so copy-on-write in a parent
 * does no harm, and no memory has to be marked.  mem_fork.c takes care of memory that the daemon maps.
 */
#include "base.h"

EXPORT int ibv_fork_init(void) { return 0; }
EXPORT enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }

/* Declared in no public header; vendor libraries call them. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
EXPORT int ibv_dontfork_range(void *, size_t) { return 0; }
EXPORT int ibv_dofork_range(void *, size_t) { return 0; }
