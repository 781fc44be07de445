/* SPDX-License-Identifier: MIT */
/* hash.c - a table that grows: what is in it is found, and no chain gets long. */
#include "lib/verbs/hash.h"
#include "t/suite.h"

#include <stdint.h>
#include <stdlib.h>

#define MANY 100000u

static struct hash_node node[MANY];

/* QPNs and keys go up in steps. */
static uint64_t key_of(unsigned i, unsigned step) { return 0x1234 + (uint64_t)i * step; }

static unsigned longest(const struct hash *h)
{
	unsigned most = 0, n;

	for (uint32_t i = 0; h->chain && i <= h->mask; i++) {
		n = 0;
		for (const struct hash_node *at = h->chain[i]; at; at = at->next)
			n++;
		most = n > most ? n : most;
	}
	return most;
}

START_TEST(grows)
{
	static const unsigned step[] = { 1, 2, 64, 256, 4096, 65536 };
	struct hash h = { 0 };

	for (unsigned s = 0; s < sizeof(step) / sizeof(*step); s++) {
		for (unsigned i = 0; i < MANY; i++)
			hash_add(&h, &node[i], key_of(i, step[s]));
		for (unsigned i = 0; i < MANY; i++)
			ck_assert_ptr_eq(hash_find(&h, key_of(i, step[s])), &node[i]);
		ck_assert_ptr_null(hash_find(&h, 1));
		ck_assert_ptr_nonnull(h.chain);
		ck_assert_uint_le(longest(&h), 12);
		for (unsigned i = 0; i < MANY; i += 2)
			hash_del(&h, &node[i]);
		for (unsigned i = 0; i < MANY; i++)
			ck_assert_ptr_eq(hash_find(&h, key_of(i, step[s])), i & 1 ? &node[i] : NULL);
		for (unsigned i = 1; i < MANY; i += 2)
			hash_del(&h, &node[i]);
		ck_assert_uint_eq(h.n, 0);
		hash_free(&h);
	}
}
END_TEST

/* A queue pair whose two completion queues are one; and what is not there. */
START_TEST(twice)
{
	struct hash h = { 0 };

	for (unsigned i = 0; i < 20; i++)
		hash_add(&h, &node[i], 7);
	for (unsigned i = 0; i < 20; i++)
		hash_del(&h, &node[i]);
	hash_del(&h, &node[0]);
	ck_assert_ptr_null(hash_find(&h, 7));
	ck_assert_uint_eq(h.n, 0);
	hash_free(&h);
}
END_TEST

TEST_MAIN("hash", grows, twice)
