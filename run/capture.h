/* SPDX-License-Identifier: MIT */
/*
 * capture.h - `rdmactl capture` beside the program: begun before it runs, ended and complete when it has ended.
 *
 * It is no child of ours, so that nobody who waits for the program's processes meets it.  A socket between us holds it: it
 * ends when our end is closed, whatever closes it.
 */
#ifndef RUN_CAPTURE_H
#define RUN_CAPTURE_H

#include "run.h"

/* The socket, or -1: said why. */
int capture_begin(const struct install *, const char *addr, const char *file);
void capture_end(int sock, const char *file);

#endif
