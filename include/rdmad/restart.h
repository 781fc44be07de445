/* SPDX-License-Identifier: MIT */
/*
 * restart.h - a wait that a signal has ended: whether it goes on, as a socket's does without a time limit (signal(7)).
 *
 * ppoll() does not say whose handler ran: it goes on if all handlers of the program's have SA_RESTART.
 */
#ifndef RDMAD_RESTART_H
#define RDMAD_RESTART_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static inline bool restart_after_signal(void)
{
	struct sigaction a;

	for (int i = 1; i <= SIGRTMAX; i++) {
		if (sigaction(i, NULL, &a)) /* the C library's */
			continue;
		if (a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN && !(a.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

#endif
