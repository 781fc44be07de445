/* SPDX-License-Identifier: MIT */
/* apart.c - see apart.h. */
#include "apart.h"

#include <pthread.h>
#include <signal.h>

int apart_run(void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t t;
	int err = pthread_attr_init(&attr);

	if (err)
		return err;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the control thread's */
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&t, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err;
}
