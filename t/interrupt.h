/* SPDX-License-Identifier: MIT */
/* interrupt.h - a call that a signal interrupts while it sleeps: with SA_RESTART it goes on, without it is EINTR. */
#ifndef T_INTERRUPT_H
#define T_INTERRUPT_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "late.h"
#include "suite.h"

struct interrupt {
	int (*call)(int fd); /* it blocks */
	int fd, ret, err;
	pid_t tid;
};

static atomic_int interrupts;
static bool interrupt_dozing; /* also one that sleeps in a futex first, as for a stream */
static bool interrupt_early;  /* that futex was a lock's, before the call waited: a second signal ended it */

static void interrupt_count(int sig) { interrupts += sig == SIGUSR1; }

static void *interrupt_run(void *arg)
{
	struct interrupt *i = arg;

	__atomic_store_n(&i->tid, gettid(), __ATOMIC_RELEASE);
	i->ret = i->call(i->fd);
	i->err = errno;
	return NULL;
}

/* Check's handlers are no concern of the program's; one for crashes, as of a runtime's, is none of the call's. */
static void interrupt_handler(int flags)
{
	struct sigaction a;

	for (int i = 1; i <= SIGRTMAX; i++)
		if (!sigaction(i, NULL, &a) && a.sa_handler != SIG_IGN && a.sa_handler != SIG_DFL)
			signal(i, SIG_DFL);
	a = (struct sigaction){ .sa_handler = interrupt_count, .sa_flags = flags };
	ck_assert_int_eq(sigaction(SIGUSR1, &a, NULL), 0);
	a = (struct sigaction){ .sa_handler = interrupt_count, .sa_flags = (int)SA_RESETHAND };
	ck_assert_int_eq(sigaction(SIGSEGV, &a, NULL), 0);
}

static void interrupt_join(pthread_t t)
{
	struct timespec until;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		if (pthread_timedjoin_np(t, NULL, &until) != ETIMEDOUT)
			return;
		ck_assert_int_eq(pthread_kill(t, SIGUSR1), 0); /* the test has a limit of time */
		interrupt_early = true;
	}
}

/* A signal interrupts call(fd); release(arg) makes that it returns.  Its result: -errno, or what it returned. */
static int interrupted(int flags, int (*call)(int fd), int fd, void (*release)(void *), void *arg)
{
	struct interrupt i = { .call = call, .fd = fd };
	pthread_t t;

	interrupt_handler(flags);
	interrupts = 0;
	ck_assert_int_eq(pthread_create(&t, NULL, interrupt_run, &i), 0);
	interrupt_dozing = sleeps_in_either(&i.tid, SYS_ppoll, interrupt_dozing ? SYS_futex : SYS_ppoll) == SYS_futex;
	ck_assert_int_eq(pthread_kill(t, SIGUSR1), 0);
	for (int k = 0; !interrupts; k++) {
		ck_assert_int_lt(k, PATIENCE_MS);
		usleep(1000);
	}
	interrupt_early = false;
	if (flags & SA_RESTART)
		release(arg);
	if (interrupt_dozing)
		interrupt_join(t);
	else
		ck_assert_int_eq(pthread_join(t, NULL), 0);
	return i.ret < 0 ? -i.err : i.ret;
}

#endif
