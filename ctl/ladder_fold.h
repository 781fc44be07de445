/* SPDX-License-Identifier: MIT */
/*
 * ladder_fold.h - the rows of the picture, as page/model.js has them for the page: one row each for a train, a quiet stretch,
 * and a request that is repeated to a receiver which is not ready.
 */
#ifndef CTL_LADDER_FOLD_H
#define CTL_LADDER_FOLD_H

#include "ladder.h"

enum row_kind { ROW_RUNG, ROW_TRAIN, ROW_QUIET, ROW_CYCLES };

struct row {
	enum row_kind kind;
	uint32_t first, last; /* rungs */
	uint32_t packets;
	uint64_t bytes;
	uint32_t cycles; /* ROW_CYCLES: so many RNR NAKs */
	double y, h;
	uint64_t gap; /* silence before it that is worth a row; 0: none */
};

struct rows {
	struct row *v;
	uint32_t n;
	double height;
};

bool rows_fold(struct rows *, const struct ladder *, bool unfold); /* false: no memory */
/* Where a time is, between the rows. */
double rows_y(const struct rows *, const struct ladder *, uint64_t ns);

/* Of both: pixels; macros, since they are reckoned with in floating point. */
#define ROW_HEIGHT  27
#define SLOPE       10
#define COLUMN      560
#define RAIL_AT     104
#define MARGIN_LEFT 96
#define MARGIN_TOP  18
#define GAP_HEIGHT  34

#endif
