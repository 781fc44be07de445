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
