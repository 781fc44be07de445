/* SPDX-License-Identifier: MIT */
/*
 * signals.c - a call that waits ends when a handler runs (signal(7)).  Ours look for news before they sleep, and between two sleeps:
 * what runs then interrupts nothing that the kernel knows of.  So the program's handlers are called by one of ours, which counts them:
 * but for those of signals that a fault raises, and those that it sets by system calls of its own.
 */
#include "pre.h"

#include <rdmad/own.h>
#include <rdmad/restart.h>

#define STATIC_TLS __attribute__((tls_model("initial-exec"))) /* no memory is allocated for it in a handler */

typedef void function(int, siginfo_t *, void *);

static struct {
	function *fn; /* the program's; atomic, as the rest is */
	bool info;    /* it was given with SA_SIGINFO */
	bool restarts;
} known[NSIG];

static _Thread_local struct heed ran STATIC_TLS; /* in all */
static _Thread_local struct heed since STATIC_TLS;

struct heed heed_begin(void)
{
	struct heed before = since;

	since = ran;
	since.on = true;
	return before;
}

void heed_end(const struct heed *before) { since = *before; }

static enum rdmad_signal heeded(void)
{
	if (!since.on || since.all == ran.all)
		return RDMAD_SIGNAL_NONE;
	return since.ending == ran.ending ? RDMAD_SIGNAL_RESTARTS : RDMAD_SIGNAL_ENDS;
}

bool heed_ended(void) { return heeded() != RDMAD_SIGNAL_NONE; }

bool heed_restarts(void)
{
	enum rdmad_signal s = heeded();

	if (s == RDMAD_SIGNAL_NONE)
		return restart_after_signal();
	since.all = ran.all;
	return s == RDMAD_SIGNAL_RESTARTS;
}

static void handler(int sig, siginfo_t *info, void *context)
{
	function *fn = __atomic_load_n(&known[sig].fn, __ATOMIC_ACQUIRE);

	ran.all++;
	ran.ending += !known[sig].restarts;
	if (known[sig].info)
		fn(sig, info, context);
	else
		((void (*)(int))(void (*)(void))fn)(sig);
}

static bool has_function(const struct sigaction *a)
{
	return a && a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN && a->sa_sigaction != handler;
}

static void know(int sig, function *fn, bool info, bool restarts)
{
	known[sig].info = info;
	known[sig].restarts = restarts;
	__atomic_store_n(&known[sig].fn, fn, __ATOMIC_RELEASE);
}

/* (It is called in handlers, too: no lock is taken.) */
EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	const bool counted = has_function(act);
	struct sigaction ours;
	function *fn;
	bool info, restarts;
	int ret;

	if (sig <= 0 || sig >= NSIG || signal_of_fault(sig))
		return real()->sigaction(sig, act, old);
	fn = __atomic_load_n(&known[sig].fn, __ATOMIC_ACQUIRE);
	info = known[sig].info;
	restarts = known[sig].restarts;
	if (counted) {
		rdmad_rs_signals(heeded);
		know(sig, act->sa_sigaction, act->sa_flags & SA_SIGINFO, act->sa_flags & SA_RESTART);
		ours = *act;
		ours.sa_sigaction = handler;
		ours.sa_flags |= SA_SIGINFO;
	}
	ret = real()->sigaction(sig, counted ? &ours : act, old);
	if (ret && counted)
		know(sig, fn, info, restarts);
	if (ret || !old || old->sa_sigaction != handler)
		return ret;
	old->sa_sigaction = fn;
	if (!info)
		old->sa_flags &= ~SA_SIGINFO;
	return ret;
}

/* ---- the C library's other calls for it, whose way to sigaction() is its own ------------------------------- */

static sigset_t interrupting; /* of siginterrupt() */

static sighandler_t set(int sig, sighandler_t to, int flags, bool blocks)
{
	struct sigaction a = { .sa_handler = to, .sa_flags = flags }, old;

	if (to == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (blocks)
		sigaddset(&a.sa_mask, sig);
	return sigaction(sig, &a, &old) ? SIG_ERR : old.sa_handler;
}

EXPORT sighandler_t signal(int sig, sighandler_t to)
{
	return set(sig, to, sigismember(&interrupting, sig) > 0 ? 0 : SA_RESTART, true);
}

sighandler_t bsd_signal(int sig, sighandler_t to);
EXPORT sighandler_t bsd_signal(int sig, sighandler_t to) { return signal(sig, to); }

EXPORT sighandler_t ssignal(int sig, sighandler_t to) { return signal(sig, to); }

EXPORT sighandler_t sysv_signal(int sig, sighandler_t to)
{
	return set(sig, to, (int)(SA_RESETHAND | SA_NODEFER), false);
}

EXPORT sighandler_t __sysv_signal(int sig, sighandler_t to) { return sysv_signal(sig, to); }

EXPORT int siginterrupt(int sig, int on)
{
	struct sigaction a;

	if (sigaction(sig, NULL, &a))
		return -1;
	if (on) {
		sigaddset(&interrupting, sig);
		a.sa_flags &= ~SA_RESTART;
	} else {
		sigdelset(&interrupting, sig);
		a.sa_flags |= SA_RESTART;
	}
	return sigaction(sig, &a, NULL);
}
