/* SPDX-License-Identifier: MIT */
/* stop.c - shards end: while one of them still works the others are there, as it may have packets for them. */
#include "daemon/shard/thread.h"

#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/profile.h"
#include "daemon/shard/inbox.h"
#include "t/suite.h"

#define LOOKS 100u

static bool works, kept; /* atomic: works */

static unsigned threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void nap(void) { nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); }

/* In shard 0: until the thread of shard 1 has ended, and for some time after it. */
static void work(struct shard *, void *)
{
	static const uint8_t packet[64];
	const struct route route = { .hop_limit = 1 };
	unsigned before = threads();

	__atomic_store_n(&works, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < PATIENCE_MS && threads() == before; i++)
		nap();
	kept = true;
	for (unsigned i = 0; i < LOOKS && kept; i++) {
		kept = __atomic_load_n(&shards[1], __ATOMIC_ACQUIRE);
		if (kept)
			inbox_put(shards[1], &devices[0], &route, packet, sizeof(packet));
		nap();
	}
}

static void *call(void *)
{
	shard_call(shards[0], work, NULL);
	return NULL;
}

START_TEST(others)
{
	pthread_t caller;

	devices_n = 1;
	devices[0].profile = profile_own();
	shards_n = 2;
	for (unsigned i = 0; i < shards_n; i++)
		ck_assert_int_eq(shard_start(i, IO_EPOLL), 0);
	ck_assert_int_eq(pthread_create(&caller, NULL, call, NULL), 0);
	while (!__atomic_load_n(&works, __ATOMIC_ACQUIRE))
		nap();
	shards_stop();
	pthread_join(caller, NULL);
	ck_assert_msg(kept, "shard 1 was freed while shard 0 worked");
	ck_assert(!shards[0] && !shards[1]);
}
END_TEST

TEST_MAIN("stop", others)
