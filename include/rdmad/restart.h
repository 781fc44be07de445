/* SPDX-License-Identifier: MIT */
/*
 * restart.h - a wait that a signal has ended: whether it goes on, as a socket's does without a time limit (signal(7)).
 *
 * ppoll() does not say whose handler ran: it goes on if all handlers of the program's have SA_RESTART, but for those of signals that
 * a fault raises, which interrupt no wait.
 */
#ifndef RDMAD_RESTART_H
#define RDMAD_RESTART_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static inline bool signal_of_fault(int sig)
{
	static const int of_fault[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT };

	for (size_t i = 0; i < sizeof(of_fault) / sizeof(*of_fault); i++)
		if (of_fault[i] == sig)
			return true;
	return false;
}

static inline bool restart_after_signal(void)
{
	struct sigaction a;

	for (int i = 1; i <= SIGRTMAX; i++) {
		if (signal_of_fault(i) || sigaction(i, NULL, &a)) /* the C library's */
			continue;
		if (a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN && !(a.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

#endif
