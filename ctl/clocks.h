/* SPDX-License-Identifier: MIT */
/*
 * clocks.h - clocks of hosts that have captured the same packets, each its end of them.
 *
 *	clocks_see() of each packet --clocks_settle()--> clocks_right(), clocks_dir()
 *
 * Each capture but the first is held against another one that has packets of it, so that all lead to the first.
 */
#ifndef CTL_CLOCKS_H
#define CTL_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

#define CAPTURES_MAX 16u
#define CLOCK_WAYS   64u /* from one GID to another: packets of others are not compared */

enum capture_dir { CAPTURE_ANYWHERE, CAPTURE_LEAVES, CAPTURE_ARRIVES, CAPTURE_BETWEEN };

enum clock_link {
	CLOCK_NONE,    /* of the first; or nothing is known */
	CLOCK_SAME,    /* another piece of the same capture */
	CLOCK_PACKETS, /* by packets that both have */
};

struct clock {
	enum clock_link link;
	unsigned against;  /* this capture */
	int64_t ahead_ns;  /* its times are too great by so much at ref_ns of its own time, */
	double rate;       /* and by so much more for each ns after that */
	uint64_t ref_ns;   /* a packet that both have */
	int64_t within_ns; /* the error of that, at most; below 0: no even clocks explain all packets, by so much */
	uint32_t packets;  /* that both have */
	bool one_way;      /* all of them went in one direction: their time on the way is taken for 0 */
};

struct seen;
struct clocks {
	unsigned n; /* captures */
	struct clock clock[CAPTURES_MAX];
	struct {
		uint64_t first, last; /* times of its packets, as they stand there */
		uint64_t packets;
	} span[CAPTURES_MAX];
	struct {
		uint8_t sgid[16], dgid[16];
	} way[CLOCK_WAYS];
	unsigned ways;
	uint8_t dir[CAPTURES_MAX][CLOCK_WAYS]; /* enum capture_dir */
	struct seen *seen;
	size_t seen_n, seen_room;
	unsigned thin; /* ids that end in so many zeros are compared */
	bool no_memory;
};

/* A frame, and packets in it, by frame_id(). */
void clocks_frame(struct clocks *, unsigned capture, uint64_t ns);
void clocks_see(struct clocks *, unsigned capture, const struct frame *, uint32_t index, uint64_t id, uint64_t ns);
void clocks_settle(struct clocks *);
/* This time of a capture, by the clock of the first. */
uint64_t clocks_right(const struct clocks *, unsigned capture, uint64_t ns);
/* The time of the last packet of all, by the clock of the first. */
uint64_t clocks_last(const struct clocks *);
/* A packet may arrive so many ns before it left; 0: none does. */
uint64_t clocks_uneven(const struct clocks *);
/* The direction in which packets between these pass the capture, as far as the others tell. */
enum capture_dir clocks_dir(const struct clocks *, unsigned capture, const uint8_t sgid[16], const uint8_t dgid[16]);
void clocks_free(struct clocks *);

#endif
