/* SPDX-License-Identifier: MIT */
/*
 * watch.h - rdmad-run as the program's parent, if there is something to do after its end: --timeout, --report, --leaks ...
 *
 * Otherwise rdmad-run becomes the program (run.h).
 */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "run.h"

struct outcome {
	pid_t pid;
	int status; /* as wait(2) has it */
	bool timed_out;
	bool hurry; /* a signal came after its end: there is no more grace for what it left */
	int64_t took_ms;
};

struct watch {
	int64_t limit_ms; /* the program and its descendants are ended after so long; 0: never */
	int64_t grace_ms; /* descendants that outlive it, after so long; below 0: never.  Helpers are left alone */
	/* Each is called before the signals: time is up; this one has outlived the program, and its grace. */
	void (*up)(void *arg);
	void (*outlived)(pid_t, const char *name, void *arg);
	void *arg;
};
/* Runs the program to its end. */
void watch_program(char **argv, const struct watch *, struct outcome *);

/* Its name, or "?". */
void watch_name(pid_t, char name[32]);
/* Of a process that no program left behind: a daemon of rdmad, or one that goes with it. */
bool watch_is_helper(const char *name);

/* The exit status: the program's, 128 and the signal's number, or RUN_TIMED_OUT. */
int outcome_status(const struct outcome *);

/* The number of processes that the program started and that still run; each() is called for every one. */
void watch_left(void (*each)(pid_t, void *), void *arg);

#endif
