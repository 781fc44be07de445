/* SPDX-License-Identifier: MIT */
/* apart.h - threads that nobody waits for, as their work may never end.  Any thread. */
#ifndef RDMAD_APART_H
#define RDMAD_APART_H

#include <pthread.h>
#include <signal.h>

/* Runs fn(arg) in a thread of its own, which takes no signals and leaves nothing when fn returns.  0 or errno. */
static inline int apart_run(void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t t;
	int err = pthread_attr_init(&attr);

	if (err)
		return err;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the other threads */
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&t, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

#endif
