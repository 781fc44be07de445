/* SPDX-License-Identifier: MIT */
/* find.h - what a check has found in one file: breaches of rules, shown as they come or kept for JSON. */
#ifndef CTL_FIND_H
#define CTL_FIND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "../proto/mono.h"
#include "frame.h"

enum path_bit { PATH_LOSS = 1, PATH_DUP = 2, PATH_REORDER = 4 };

enum check_row {
#define CHECK(id, name, excuse, text) CHECK_##id,
#include "check.def"
#undef CHECK
	CHECKS
};

const char *check_name(enum check_row);
const char *check_text(enum check_row);

struct find {
	const char *file;
	unsigned path; /* PATH_ bits: what the path may have done */
	bool has_from;
	uint8_t from[16];  /* only packets of this sender are judged; findings on others become notes */
	bool verbose;      /* notes are shown */
	json_t *json;      /* an array; NULL: text on stdout */
	uint64_t begin_ns; /* of the first frame */
	uint64_t findings, notes;
};

/* A breach of a rule by the packet with these BTH fields in this frame; what: one line, without the end. */
struct find_at {
	const struct frame *frame;
	const char *op; /* of the packet; NULL: not known */
	uint32_t qpn, psn;
};
void find_breach(struct find *, const struct find_at *, enum check_row, const char *what, ...)
	__attribute__((format(printf, 4, 5)));
/* Worth knowing, but not a breach. */
void find_note(struct find *, const struct find_at *, const char *what, ...) __attribute__((format(printf, 3, 4)));

#endif
