/* SPDX-License-Identifier: MIT */
/*
 * clock.c - a gettimeofday() by which time passes FASTER times as fast.  lab.py preloads it into perftest, where nobody asks for
 * the time of day but the part that learns how many cycles a microsecond has: it spins for a fifth of a second by this clock
 * behind each row of results, at either end.  The rates and times that perftest prints are in error; no test looks at them.
 */
#include <sys/time.h>
#include <time.h>

#define FASTER 20

int gettimeofday(struct timeval *restrict tv, void *restrict tz);

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec now;
	long long us;

	(void)tz;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	us = now.tv_sec * 1000000LL * FASTER + now.tv_nsec * FASTER / 1000;
	*tv = (struct timeval){ us / 1000000, us % 1000000 };
	return 0;
}
