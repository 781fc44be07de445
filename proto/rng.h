/* SPDX-License-Identifier: MIT */
/* rng.h - numbers out of a seed (splitmix64): key bytes and the first QPN.  Not for secrets, which the seed is to bring. */
#ifndef PROTO_RNG_H
#define PROTO_RNG_H

#include <stdint.h>

struct rng {
	uint64_t s;
};

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = (r->s += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

#endif
