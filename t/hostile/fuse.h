/* SPDX-License-Identifier: MIT */
/*
 * fuse.h - a file whose server is a process of the attacker: it opens it, and answers nothing that comes later.
 */
#ifndef T_HOSTILE_FUSE_H
#define T_HOSTILE_FUSE_H

#include <stdbool.h>

/* Can one be had?  Asked in a child, whose mount goes with it. */
bool fuse_is_here(void);
/*
 * Called by root: the process becomes UID_ATTACKER, in a mount namespace of its own.  note 2 counts those whose close
 * waits for the server in vain, note 4 the reads, note 3 is the server's pid: kill it before its clients, who wait for it.  -1: cannot.
 */
int fuse_file(void);

#endif
