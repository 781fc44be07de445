/* SPDX-License-Identifier: MIT */
/* apart.h - threads for work that may never return: nobody waits for them.  Any thread. */
#ifndef DAEMON_APART_H
#define DAEMON_APART_H

/* Runs fn(arg) in a thread of its own, which takes no signals and leaves nothing when fn returns.  0 or errno. */
int apart_run(void *(*fn)(void *), void *arg);

#endif
