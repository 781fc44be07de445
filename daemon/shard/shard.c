/* SPDX-License-Identifier: MIT */
/* shard.c - the table of shards. */
#include "shard.h"

struct shard *shards[SHARDS_MAX];
unsigned shards_n;

static unsigned log2_up(unsigned n)
{
	unsigned bits = 0;

	while (1u << bits < n)
		bits++;
	return bits;
}

unsigned shard_bits(void) { return log2_up(shards_n); }
unsigned device_bits(void) { return log2_up(devices_n); }
