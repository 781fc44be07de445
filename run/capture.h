/* SPDX-License-Identifier: MIT */
/*
 * capture.h - `rdmactl capture` beside the program: begun before it runs, ended and complete when it has ended.
 *
 * It is no child of ours: whatever waits for the program's processes does not meet it.  It lives as long as our end of a
 * socket between the two is open, and ends with us, however we end.
 */
#ifndef RUN_CAPTURE_H
#define RUN_CAPTURE_H

#include "run.h"

/* The socket, or -1: said why. */
int capture_begin(const struct install *, const char *addr, const struct options *);
void capture_end(int sock, const char *file);

#endif
