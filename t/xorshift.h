/* SPDX-License-Identifier: MIT */
/* xorshift.h - chance for tests that throw many dice: xorshift64.  The state is the seed at first, and not 0. */
#ifndef T_XORSHIFT_H
#define T_XORSHIFT_H

#include <stdint.h>

static inline uint64_t xorshift(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
