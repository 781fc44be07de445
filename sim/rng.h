/* SPDX-License-Identifier: MIT */
/* rng.h - the only source of chance of a simulation, so that a seed is a run. */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lab/splitmix.h"

struct rng {
	uint64_t s;
};

static inline uint64_t rng_next(struct rng *r) { return splitmix(&r->s); }

/* 0 .. n-1; 0 if n is 0 */
static inline uint32_t rng_below(struct rng *r, uint32_t n) { return n ? (uint32_t)(rng_next(r) % n) : 0; }
static inline uint32_t rng_range(struct rng *r, uint32_t lo, uint32_t hi) { return lo + rng_below(r, hi - lo + 1); }
static inline uint64_t rng_ns(struct rng *r, uint64_t n) { return n ? rng_next(r) % n : 0; } /* a time below n */
static inline bool rng_ppm(struct rng *r, uint32_t ppm) { return ppm && rng_below(r, 1000000) < ppm; }
static inline bool rng_one_in(struct rng *r, uint32_t n) { return rng_below(r, n) == 0; }

static inline void rng_fill(struct rng *r, uint8_t *p, size_t n)
{
	for (; n >= 8; p += 8, n -= 8) {
		uint64_t v = rng_next(r);

		memcpy(p, &v, 8);
	}
	if (n) {
		uint64_t v = rng_next(r);

		memcpy(p, &v, n);
	}
}

#endif
