/* SPDX-License-Identifier: MIT */
/* peers.c - a sparse array: pages of it that no QPN falls into are never there. */
#include "peers.h"

#include <errno.h>
#include <sys/mman.h>

#include "shard.h"

#define QPNS (1u << 24)

static uint32_t *peer; /* NULL: one shard */

int peers_start(void)
{
	void *p;

	if (shards_n == 1)
		return 0;
	p = mmap(NULL, QPNS * sizeof(*peer), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		 0);
	if (p == MAP_FAILED)
		return errno;
	peer = p;
	return 0;
}

void peers_set(uint32_t qpn, uint32_t to)
{
	if (peer)
		__atomic_store_n(&peer[qpn & (QPNS - 1)], to, __ATOMIC_RELEASE);
}

bool peers_is(uint32_t qpn, uint32_t from)
{
	return !peer || __atomic_load_n(&peer[qpn & (QPNS - 1)], __ATOMIC_ACQUIRE) == from;
}
