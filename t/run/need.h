/* SPDX-License-Identifier: MIT */
/* need.h - what has to succeed, so that a program comes to its bug at all; else its exit status is 99. */
#ifndef T_RUN_NEED_H
#define T_RUN_NEED_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline void need(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(99);
}

#endif
