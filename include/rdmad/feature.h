/* SPDX-License-Identifier: MIT */
/*
 * feature.h - sets of the features of feature.def: a bit for each that a device is without.
 *
 * The daemon refuses verbs by them, the library what it does itself: posting, and what a device says it can do.
 */
#ifndef RDMAD_FEATURE_H
#define RDMAD_FEATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmad/abi.h>

enum feature_id {
#define FEATURE(name, word, types, ops, verb, text) FEATURE_##name,
#include <rdmad/feature.def>
#undef FEATURE
	FEATURES
};

_Static_assert(FEATURES <= 64, "a bit for each");

#define NO(name) (UINT64_C(1) << FEATURE_##name)

struct feature_row {
	const char *word, *text;
	uint32_t types, ops; /* bit per enum qp_type, per enum wr_op */
};

static inline const struct feature_row *feature_row(unsigned s)
{
#define TYPE(type) (1u << QPT_##type)
#define OP(op)     (1u << WR_##op)
	static const struct feature_row rows[FEATURES] = {
#define FEATURE(name, word, types, ops, verb, text) { word, text, types, ops },
#include <rdmad/feature.def>
#undef FEATURE
	};
#undef TYPE
#undef OP
	return &rows[s];
}

/* The feature without which there is no such work request, or queue pair (op or type: a bit); FEATURES: none is missing. */
static inline unsigned feature_missing(uint64_t no, uint32_t type, uint32_t op)
{
	for (unsigned s = 0; no && s < FEATURES; s++)
		if (no >> s & 1 && (feature_row(s)->types & type || feature_row(s)->ops & op))
			return s;
	return FEATURES;
}

/* FEATURES: no such word. */
static inline unsigned feature_find(const char *word)
{
	unsigned s = 0;

	while (s < FEATURES && strcmp(feature_row(s)->word, word) != 0)
		s++;
	return s;
}

#endif
