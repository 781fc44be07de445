/* SPDX-License-Identifier: MIT */
/* mono.h - a moment of a monotonic clock that somebody else reads; the core has none. */
#ifndef PROTO_MONO_H
#define PROTO_MONO_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
	uint64_t ns;
} mono_t;

#define MONO_NEVER ((mono_t){ UINT64_MAX })

static inline mono_t mono_add(mono_t t, uint64_t ns)
{
	return t.ns > UINT64_MAX - ns ? MONO_NEVER : (mono_t){ t.ns + ns };
}

/*
 * From then to now; 0 if that is still to come: what two threads, or two hosts, have noted may be in either order.  No time is
 * subtracted from another elsewhere.
 */
static inline uint64_t ns_since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }
static inline uint64_t mono_since(mono_t now, mono_t then) { return ns_since(now.ns, then.ns); }

static inline bool mono_before(mono_t a, mono_t b) { return a.ns < b.ns; }
static inline bool mono_reached(mono_t now, mono_t t) { return now.ns >= t.ns; }
static inline bool mono_is_never(mono_t t) { return t.ns == UINT64_MAX; }
static inline mono_t mono_max(mono_t a, mono_t b) { return a.ns > b.ns ? a : b; }
static inline mono_t mono_min(mono_t a, mono_t b) { return a.ns < b.ns ? a : b; }

#endif
