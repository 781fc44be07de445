/* SPDX-License-Identifier: MIT */
/*
 * captures.h - one capture, or those of several hosts as if they were one: frames in the order of their times.
 *
 * Hosts have clocks of their own.  All files are looked through for packets that another one has, too: what went there and
 * back tells how far the clocks are apart (clocks.h), and times are put right by that much.
 */
#ifndef CTL_CAPTURES_H
#define CTL_CAPTURES_H

#include <stdbool.h>
#include <stdint.h>

#include "clocks.h"
#include "source.h"

struct captures {
	struct source source[CAPTURES_MAX];
	struct clocks clocks; /* of several, or if they were looked through */
	struct {
		struct pcapng_item item;
		enum source_what what;
		bool taken; /* the next one is to be read */
		uint64_t n; /* packets read */
	} head[CAPTURES_MAX];
	unsigned n;
	bool broken; /* a file ended with an error, and not one packet of it was read */
};

/* Opens them; look: the time of the last packet is wanted (of several files it is known anyway).  False: said why. */
bool captures_open(struct captures *, char *const *names, unsigned n, bool look);
void captures_close(struct captures *);

struct capture_frame {
	const struct source *source;
	struct pcapng_item *item; /* its time is that of the first file's clock */
	enum capture_dir dir;
};
/* The next frame in time; false: there is none.  A file that is bad from some place on is told of there. */
bool captures_next(struct captures *, struct capture_frame *);

#endif
