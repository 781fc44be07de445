/* SPDX-License-Identifier: MIT */
/* hash.c - chains, of which there are as many as nodes. */
#include "hash.h"

#include <stdlib.h>

#define FEW 8u /* in one chain, before there are more */

static struct hash_node **head(const struct hash *h, uint64_t key)
{
	if (!h->chain)
		return (struct hash_node **)&h->few;
	key *= 0x9e3779b97f4a7c15u;
	key = (key ^ key >> 32) * 0x9e3779b97f4a7c15u;
	return &h->chain[(uint32_t)(key >> 32) & h->mask];
}

static void put(struct hash *h, struct hash_node *n)
{
	struct hash_node **first = head(h, n->key);

	n->next = *first;
	*first = n;
}

static void grow(struct hash *h)
{
	struct hash wide = { .mask = h->chain ? h->mask * 2 + 1 : 2 * FEW - 1, .n = h->n };

	wide.chain = calloc(wide.mask + 1u, sizeof(*wide.chain));
	if (!wide.chain)
		return;
	for (uint32_t i = 0; i <= h->mask; i++) {
		for (struct hash_node *n = h->chain ? h->chain[i] : h->few, *next; n; n = next) {
			next = n->next;
			put(&wide, n);
		}
	}
	free(h->chain);
	*h = wide;
}

void hash_add(struct hash *h, struct hash_node *n, uint64_t key)
{
	if (h->n >= FEW && h->n > h->mask)
		grow(h);
	n->key = key;
	put(h, n);
	h->n++;
}

void hash_del(struct hash *h, struct hash_node *n)
{
	struct hash_node **p = head(h, n->key);

	while (*p && *p != n)
		p = &(*p)->next;
	if (!*p)
		return;
	*p = n->next;
	h->n--;
}

struct hash_node *hash_find(const struct hash *h, uint64_t key)
{
	struct hash_node *n = *head(h, key);

	while (n && n->key != key)
		n = n->next;
	return n;
}

void hash_free(struct hash *h)
{
	free(h->chain);
	*h = (struct hash){ 0 };
}
