/* SPDX-License-Identifier: MIT */
/*
 * captures.h - one capture, or those of several hosts as if they were one: frames in the order of their times.
 *
 * Hosts have clocks of their own.  All files but the first are looked through for packets that the first has, too: what
 * went there and back tells how far the clocks are apart, and the times of the file are put right by that much.
 */
#ifndef CTL_CAPTURES_H
#define CTL_CAPTURES_H

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"
#include "source.h"

#define CAPTURES_MAX 16u

/* Packets from one GID to another that both files have. */
struct capture_way {
	uint8_t sgid[16], dgid[16];
	int64_t least, most; /* ns between the two times of a packet */
	bool arrives;        /* in this file: it left in the first one */
};

/* The clock of a file, against that of the first. */
struct capture_clock {
	int64_t ahead_ns;  /* what its times are too great by */
	int64_t within_ns; /* the error of that, at most; below 0: one clock runs faster by so much */
	uint32_t packets;  /* that both files have; 0: nothing is known of the clock */
	bool one_way; /* ahead_ns 0: it may be the same clock; else all of them went in one direction: their time on the way is taken for 0 */
	struct capture_way *way;
	unsigned ways;
};

struct captures {
	struct source source[CAPTURES_MAX];
	struct capture_clock clock[CAPTURES_MAX];
	struct {
		struct pcapng_item item;
		enum source_what what;
		bool taken; /* the next one is to be read */
	} head[CAPTURES_MAX];
	unsigned n;
	uint64_t first, last; /* times of the first and the last RoCE packet, if they were looked through */
	bool broken;          /* a file ended with an error */
};

/* Opens them; look: first and last are wanted (for several files they are known anyway).  False: said why. */
bool captures_open(struct captures *, char *const *names, unsigned n, bool look);
void captures_close(struct captures *);

enum capture_dir { CAPTURE_ANYWHERE, CAPTURE_LEAVES, CAPTURE_ARRIVES };

struct capture_frame {
	const struct source *source;
	struct pcapng_item *item; /* its time is that of the first file's clock */
	enum capture_dir dir;
};
/* The next frame in time; false: there is none.  A file that is bad from some place on is told of there. */
bool captures_next(struct captures *, struct capture_frame *);

#endif
