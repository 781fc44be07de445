/* SPDX-License-Identifier: MIT */
/* seed.h - seeds on the command line, and the seed of rules as it stands in JSON. */
#ifndef RDMAD_SEED_H
#define RDMAD_SEED_H

#include <inttypes.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* JSON's integers have a sign: seeds beyond them are text.  The caller's reference. */
static inline json_t *seed_json(uint64_t seed)
{
	char text[24];

	if (seed <= INT64_MAX)
		return json_integer((json_int_t)seed);
	snprintf(text, sizeof(text), "%" PRIu64, seed);
	return json_string(text);
}

#define SEED_WORDS "a seed is a whole number, 0 to 2^64 - 1"

#endif
