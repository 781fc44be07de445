/* SPDX-License-Identifier: MIT */
/*
 * hold.h - this process's other threads stand still for a moment.
 */
#ifndef VERBS_HOLD_H
#define VERBS_HOLD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Part of a work that needs it; false: that was all of it.  It takes no lock and no memory, as a thread that stands still may
 * have what it would wait for, and makes system calls by syscall(), as programs replace mmap() and its like by their own.
 */
typedef bool hold_step(void *arg);

/*
 * Calls step(arg) until it returns false.  Meanwhile no other thread of the process is in user mode or inside of a system call, and
 * all signals that have an effect are blocked; they go on for a while every few milliseconds, between two steps.  false: they cannot be
 * held (any more): a debugger is attached, tracing is forbidden, one of them waits for a disk; the work is not done, or in part.
 * One call at a time.
 */
bool hold_run(hold_step *step, void *arg);
/* The same for what cannot be left: tried for some seconds, also soon after they could not be held. */
bool hold_insist(hold_step *step, void *arg);
/* The same where there is but one thread, as in a forked child; needs no descriptor. */
void hold_alone(hold_step *step, void *arg);

/* Another number in each of those whiles: between two of them the others have run. */
unsigned hold_turn(void);

/* Lets this process trace us where Yama lets only ancestors.  hold_run() needs that name, and gives it back. */
void hold_tracer(pid_t);

/* A number of /proc/self/status; name: "\nThreads:".  otherwise: it is not there.  One call at a time, too. */
unsigned long hold_status(const char *name, unsigned long otherwise);

#endif
