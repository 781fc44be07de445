/* SPDX-License-Identifier: MIT */
/*
 * alone.h - a lock that a program of one thread does without: it is a tenth of all that its part of a message takes.
 *
 * Only where nothing that the program wrote is called in between: that could make a second thread, which would find the lock free.
 */
#ifndef VERBS_ALONE_H
#define VERBS_ALONE_H

#include <pthread.h>
#include <stdbool.h>

extern const char *alone_flag __attribute__((visibility("hidden"))); /* the C library's */

static inline bool alone(void) { return *alone_flag; }

/* The result is for lock_leave(): the program may be alone again by then. */
static inline bool lock_enter(pthread_mutex_t *m)
{
	if (alone())
		return false;
	pthread_mutex_lock(m);
	return true;
}

static inline void lock_leave(pthread_mutex_t *m, bool entered)
{
	if (entered)
		pthread_mutex_unlock(m);
}

#endif
