/* SPDX-License-Identifier: MIT */
/*
 * watch.h - rdmad-run as the program's parent, if there is something to do after its end: --timeout, --report, --leaks.
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
	int64_t took_ms;
};

/* Runs the program to its end, or for so many ms (0: no limit); its descendants end with it if time is up: up(arg) comes first. */
void watch_program(char **argv, int64_t limit_ms, struct outcome *, void (*up)(void *), void *arg);

/* The exit status: the program's, 128 and the signal's number, or RUN_TIMED_OUT. */
int outcome_status(const struct outcome *);

/* The number of processes that the program started and that still run; each() is called for every one. */
void watch_left(void (*each)(pid_t, void *), void *arg);

#endif
