/* SPDX-License-Identifier: MIT */
/* rs_signal.c - handlers that run while a thread waits, and is not in the kernel: librspreload knows of them (rdmad/own.h). */
#include "rs.h"

#include <signal.h>

#include <rdmad/own.h>

static enum rdmad_signal (*ran)(void); /* atomic; NULL: nobody knows */

EXPORT void rdmad_rs_signals(enum rdmad_signal (*fn)(void)) { __atomic_store_n(&ran, fn, __ATOMIC_RELEASE); }

enum rdmad_signal rs_signal(void)
{
	enum rdmad_signal (*fn)(void) = __atomic_load_n(&ran, __ATOMIC_ACQUIRE);

	return fn ? fn() : RDMAD_SIGNAL_NONE;
}

int rs_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, enum rdmad_signal least)
{
	sigset_t all, old;
	int ret, err;

	if (!__atomic_load_n(&ran, __ATOMIC_ACQUIRE) || (t && !t->tv_sec && !t->tv_nsec))
		return ppoll(p, n, t, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = rs_signal() >= least ? fail(EINTR) : ppoll(p, n, t, &old);
	err = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = err;
	return ret;
}
