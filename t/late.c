/* SPDX-License-Identifier: MIT */
/* late.c - see late.h. */
#include "late.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "suite.h"

_Thread_local struct late *late;

static void stand(const struct late *l)
{
	while (!l->open)
		usleep(1000);
}

static __typeof__(ppoll) *real;

/* Not in the call: AddressSanitizer takes what a thread that is cancelled there has left on its stack for in use. */
__attribute__((constructor)) static void real_find(void) { *(void **)&real = dlsym(RTLD_NEXT, "ppoll"); }

/* One that is to come back late has no time limit. */
static int late_call(struct late *l, struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	int ret;

	l->calls++;
	if (!t)
		l->limit_ns = INT64_MAX;
	else if (t->tv_sec * INT64_C(1000000000) + t->tv_nsec > l->limit_ns)
		l->limit_ns = t->tv_sec * INT64_C(1000000000) + t->tv_nsec;
	l->came = true;
	if (l->in)
		stand(l);
	ret = real(fds, n, l->out ? NULL : t, mask);
	l->revents = fds[n - 1].revents;
	l->back = true;
	if (l->out)
		stand(l);
	return ret;
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	return late && late->fds == n ? late_call(late, fds, n, t, mask) : real(fds, n, t, mask);
}

void late_wait(const atomic_bool *b)
{
	for (int i = 0; !*b; i++) {
		ck_assert_int_lt(i, PATIENCE_MS);
		usleep(1000);
	}
}

static long call_of(pid_t tid)
{
	char path[64];
	long nr = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%ld", &nr) != 1)
		nr = -1; /* it runs */
	fclose(f);
	return nr;
}

long sleeps_in_either(const pid_t *tid, long nr, long other)
{
	for (int i = 0;; i++) {
		long now = call_of(__atomic_load_n(tid, __ATOMIC_ACQUIRE));

		if (now == nr || now == other)
			return now;
		ck_assert_int_lt(i, PATIENCE_MS);
		usleep(1000);
	}
}

void sleeps_in(const pid_t *tid, long nr) { sleeps_in_either(tid, nr, nr); }

static bool others_sleep(long nr)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	bool all = true;

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d)))
		if (*e->d_name != '.' && atoi(e->d_name) != gettid())
			all &= call_of(atoi(e->d_name)) == nr;
	closedir(d);
	return all;
}

void others_sleep_in(long nr)
{
	for (int i = 0; !others_sleep(nr); i++) {
		ck_assert_int_lt(i, PATIENCE_MS);
		usleep(1000);
	}
}

static bool sleep_so(const pid_t *a, long a_nr, const pid_t *b, long b_nr)
{
	return call_of(__atomic_load_n(a, __ATOMIC_ACQUIRE)) == a_nr &&
	       call_of(__atomic_load_n(b, __ATOMIC_ACQUIRE)) == b_nr;
}

void sleep_in(const pid_t *a, const pid_t *b, long nr, long other)
{
	for (int i = 0; !sleep_so(a, nr, b, other) && !sleep_so(a, other, b, nr); i++) {
		ck_assert_int_lt(i, PATIENCE_MS);
		usleep(1000);
	}
}
