/* SPDX-License-Identifier: MIT */
/*
 * hash.h - a table of nodes that live in their objects, by a number.  It grows with what is in it; without memory for that it
 * gets slow, and nothing else.  Zeros are an empty one.  The caller has the lock.
 */
#ifndef VERBS_HASH_H
#define VERBS_HASH_H

#include <stdint.h>

struct hash_node {
	struct hash_node *next;
	uint64_t key;
};

struct hash {
	struct hash_node **chain; /* mask + 1 of them; NULL: the one is few */
	struct hash_node *few;
	uint32_t mask, n;
};

void hash_add(struct hash *, struct hash_node *, uint64_t key); /* keys need not differ */
void hash_del(struct hash *, struct hash_node *);               /* nothing, if it is not there */
struct hash_node *hash_find(const struct hash *, uint64_t key);
void hash_free(struct hash *); /* what is in it stays as it is */

#endif
