/* SPDX-License-Identifier: MIT */
/*
 * nap.h - a program that polls for a completion that takes long, for it waits for a timer, lets others have the processor: what
 * it would do in that time is nothing.  Its count of polls that found nothing begins at 0 with each wait.
 */
#ifndef T_NAP_H
#define T_NAP_H

#include <time.h>

#define NAP_AFTER 1000u /* polls: what comes at once, or is already here, is found without */
#define NAP_NS    200000L

static inline void nap(unsigned *empty_n)
{
	if (++*empty_n > NAP_AFTER)
		nanosleep(&(struct timespec){ 0, NAP_NS }, NULL);
}

#endif
