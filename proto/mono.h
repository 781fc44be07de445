/* SPDX-License-Identifier: MIT */
/* mono.h - a moment of a monotonic clock that somebody else reads; the core has none. */
#ifndef PROTO_MONO_H
#define PROTO_MONO_H

#include <stdbool.h>
#include <stdint.h>

typedef struct { uint64_t ns; } mono_t;

#define MONO_NEVER	((mono_t){ UINT64_MAX })

static inline mono_t mono_add(mono_t t, uint64_t ns)
{
	return t.ns > UINT64_MAX - ns ? MONO_NEVER : (mono_t){ t.ns + ns };
}

static inline bool mono_before(mono_t a, mono_t b) { return a.ns < b.ns; }
static inline bool mono_reached(mono_t now, mono_t t) { return now.ns >= t.ns; }
static inline bool mono_is_never(mono_t t) { return t.ns == UINT64_MAX; }
static inline mono_t mono_min(mono_t a, mono_t b) { return a.ns < b.ns ? a : b; }

#endif
