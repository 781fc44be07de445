/* SPDX-License-Identifier: MIT */
/* mr.c - MRs, and the checks of every access to a program's memory. */
#include "mr.h"

#include <errno.h>
#include <stdlib.h>

#include "hca.h"
#include "secret.h"

#define ACC_KNOWN                                                                                                  \
	(ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC | ACC_MW_BIND | ACC_ZERO_BASED | \
	 ACC_ON_DEMAND | ACC_HUGETLB | ACC_FLUSH_GLOBAL | ACC_FLUSH_PERSISTENT)
#define ACC_OPTIONAL 0x3ff00000u /* hints that may be ignored (IBV_ACCESS_OPTIONAL_RANGE) */

static int attr_check(const struct mr_attr *a)
{
	if ((a->access & ~(ACC_KNOWN | ACC_OPTIONAL)) || a->addr + a->len < a->addr || a->iova + a->len < a->iova)
		return EINVAL;
	/* A region that others may write must be writable by its owner (ib_check_mr_access). */
	if ((a->access & (ACC_REMOTE_WRITE | ACC_REMOTE_ATOMIC)) && !(a->access & ACC_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

static void fill(struct mr *mr, uint32_t key, struct pd *pd, const struct mr_attr *a)
{
	*mr = (struct mr){ .key = key,
			   .access = a->access,
			   .pd = pd,
			   .owner = pd,
			   .iova = a->iova,
			   .len = a->len,
			   .addr = a->addr,
			   .region = a->region };
	pd->users++;
}

int mr_reg(struct keys *keys, struct secret *secret, struct pd *pd, const struct mr_attr *a, uint32_t *key)
{
	struct mr *mr;
	uint32_t number;

	if (!pd || attr_check(a))
		return EINVAL;
	mr = calloc(1, sizeof(*mr));
	if (!mr || places_add(&keys->mr, secret, mr, &number)) {
		free(mr);
		return ENOMEM;
	}
	fill(mr, number << 8 | (secret_next(secret) & 0xff), pd, a);
	*key = mr->key;
	return 0;
}

int keys_init(struct keys *k, uint32_t max_mr, uint32_t max_mw)
{
	k->past = calloc(KEYS_USERS, sizeof(*k->past));
	return !k->past || places_init(&k->mr, max_mr) || places_init(&k->mw, max_mw) ? ENOMEM : 0;
}

void keys_fini(struct keys *k)
{
	for (uint32_t i = 0; k->mr.v && i <= k->mr.mask; i++)
		free(k->mr.v[i].obj);
	for (uint32_t i = 0; k->mw.v && i <= k->mw.mask; i++)
		free(k->mw.v[i].obj);
	places_fini(&k->mw);
	places_fini(&k->mr);
	free(k->past);
}

/* ---- keys that have ended ------------------------------------------------- */

/* That of a user; if he has none yet and all are taken, that of the user who ended none for longest. */
static struct key_ring *ring_of(struct keys *keys, uint32_t owner)
{
	struct key_ring *r = &keys->past[0];

	for (unsigned i = 0; i < KEYS_USERS; i++) {
		struct key_ring *x = &keys->past[i];

		if (x->n && x->owner == owner)
			return x;
		if (r->n && (!x->n || mono_before(x->last, r->last)))
			r = x;
	}
	keys->past_lost |= r->n > 0;
	r->owner = owner;
	r->n = 0;
	return r;
}

void key_ended(struct keys *keys, const struct pd *pd, const struct key_past *p)
{
	struct key_ring *r = ring_of(keys, pd->owner);
	struct key_past *to = &r->v[r->n++ % KEYS_PAST];

	*to = *p;
	to->pdn = pd->number;
	to->prog = pd->prog;
	r->last = p->at;
}

static const struct key_past *ring_find(const struct key_ring *r, uint32_t key)
{
	for (uint64_t i = r->n; i && r->n - i < KEYS_PAST; i--)
		if (r->v[(i - 1) % KEYS_PAST].key == key)
			return &r->v[(i - 1) % KEYS_PAST];
	return NULL;
}

const struct key_past *key_past(const struct keys *keys, uint32_t owner, uint32_t key)
{
	for (unsigned i = 0; i < KEYS_USERS; i++)
		if (keys->past[i].n && keys->past[i].owner == owner)
			return ring_find(&keys->past[i], key);
	return NULL;
}

bool key_maybe(const struct keys *keys, uint32_t key)
{
	for (unsigned i = 0; i < KEYS_USERS; i++)
		if (keys->past[i].n > KEYS_PAST || ring_find(&keys->past[i], key))
			return true;
	return keys->past_lost;
}

/* ---- the end --------------------------------------------------------------- */

int mr_dereg(struct keys *keys, uint32_t key, mono_t now)
{
	struct mr *mr = places_get(&keys->mr, key >> 8);

	if (!mr || mr->key != key)
		return EINVAL;
	if (mr->windows)
		return EBUSY;
	key_ended(keys, mr->owner,
		  &(struct key_past){ .key = key, .end = KEY_DEREG, .at = now, .base = mr->iova, .len = mr->len });
	mr->owner->users--;
	places_del(&keys->mr, key >> 8);
	free(mr);
	return 0;
}

int mr_rereg(struct keys *keys, uint32_t key, struct pd *pd, const struct mr_attr *a)
{
	struct mr *mr = places_get(&keys->mr, key >> 8);

	if (!mr || mr->key != key || !pd || attr_check(a))
		return EINVAL;
	if (mr->windows)
		return EBUSY;
	mr->owner->users--;
	fill(mr, key, pd, a);
	return 0;
}

bool mr_span(const struct keys *keys, uint32_t key, const struct pd *pd, uint32_t need, uint64_t va, uint64_t len,
	     struct span *s)
{
	const struct mr *mr = places_get(&keys->mr, key >> 8);

	if (!mr || mr->key != key || mr->pd != pd || (mr->access & need) != need)
		return false;
	if (va < mr->iova || va - mr->iova > mr->len || len > mr->len - (va - mr->iova))
		return false;
	*s = (struct span){ .region = mr->region, .addr = mr->addr + (va - mr->iova), .len = (uint32_t)len };
	return true;
}

int sge_list_spans(const struct keys *keys, const struct sge *sge, unsigned n, const struct pd *pd, uint32_t need,
		   uint64_t off, uint64_t len, struct span *s)
{
	int k = 0;

	for (unsigned i = 0; i < n && len; i++) {
		uint64_t part;

		if (off >= sge[i].len) {
			off -= sge[i].len;
			continue;
		}
		part = sge[i].len - off < len ? sge[i].len - off : len;
		if (!sge_span(keys, &sge[i], pd, need, off, part, &s[k]))
			return -1;
		k++;
		len -= part;
		off = 0;
	}
	return k;
}
