/* SPDX-License-Identifier: MIT */
/* dice.h - what becomes of a frame on a wire as bad as a text says; the same seed and the same frames, the same fate. */
#ifndef T_INTEROP_DICE_H
#define T_INTEROP_DICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../daemon/control/impair_spec.h"

struct dice {
	uint64_t state;
};

struct fate {
	bool lost, twice;
	int flip; /* the bit to turn over; -1: none */
	uint64_t delay_ns;
};

void dice_init(struct dice *, uint64_t seed, unsigned way);
struct fate dice_throw(struct dice *, const struct impair_spec *, size_t len);

#endif
