/* SPDX-License-Identifier: MIT */
/* impair_lock.c - the set of rules and its lock, apart from what needs shards. */
#include <pthread.h>

#include "impair.h"

struct rules impair_rules;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct rules *impair_lock(void)
{
	pthread_mutex_lock(&lock);
	return &impair_rules;
}

void impair_unlock(void) { pthread_mutex_unlock(&lock); }

unsigned impair_wedged(unsigned device, mono_t *since)
{
	const struct rules *rs = impair_lock();
	unsigned rule = rs->until[STATE_WEDGED][device].ns ? rs->by[STATE_WEDGED][device] : 0;

	*since = rs->since[STATE_WEDGED][device];
	impair_unlock();
	return rule;
}
